//! Host memory for what grows with a launch: where the host has none, the launch ends with an error
//! instead of the process.

use std::alloc::Layout;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Types of which a value is all zero bits.
///
/// # Safety
/// All zero bits are a valid value.
pub(crate) unsafe trait Zero {}

// SAFETY: 0 is a valid `u32`.
unsafe impl Zero for u32 {}
// SAFETY: it has the same bits as a `u32`.
unsafe impl Zero for AtomicU32 {}
// SAFETY: it has the same bits as a `u64`, for which 0 is valid.
unsafe impl Zero for AtomicU64 {}

/// Zeroed items, which take host memory only when they are touched; `None` if the host has none.
pub(crate) fn zeroed<T: Zero>(len: u64) -> Option<Box<[T]>> {
    let len = usize::try_from(len).ok()?;
    if len == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<T>(len).ok()?;
    // SAFETY: the layout's size is not zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    let items = std::ptr::slice_from_raw_parts_mut(start.cast::<T>(), len);
    // SAFETY: `items` was just allocated by the global allocator with the layout of such a slice.
    // All of it is zero, which is a valid `T`, and nothing else owns it.
    Some(unsafe { Box::from_raw(items) })
}

/// Host memory that a launch needed and did not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// What it is for.
    pub(crate) what: &'static str,
    pub(crate) bytes: u64,
}

/// The first shortage of a launch. What needed the memory goes on without; the launch ends with an
/// error as soon as one of its clusters looks.
pub(crate) type Starved = OnceLock<Shortage>;

/// Makes room for `more` items, and records in `starved` if the host has none.
#[must_use]
pub(crate) fn has_room<T>(
    items: &mut Vec<T>,
    more: usize,
    starved: &Starved,
    what: &'static str,
) -> bool {
    if items.try_reserve(more).is_ok() {
        return true;
    }
    // A `Vec` grows to twice its size.
    let items = (2 * items.capacity()).max(items.len() + more);
    lacks(starved, what, (items * size_of::<T>()) as u64);
    false
}

/// Records a shortage; the first stays.
#[cold]
pub(crate) fn lacks(starved: &Starved, what: &'static str, bytes: u64) {
    let _ = starved.set(Shortage { what, bytes });
}
