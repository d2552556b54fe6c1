//! Selection along an axis by indices: `y[a.., j.., b..] = x[a.., indices[j..], b..]`. Its opposite is
//! [`scatter`](crate::scatter).
//!
//! | entry | parameters |
//! |---|---|
//! | `take_b<8, 16, 32, 64, 128>` | `(x: *const u8, indices: *const u8, y: *mut u8, params: TakeParams)` |
//!
//! A launch walks over the elements of y as copies do ([`WalkParams`]): x has stride 0 along the
//! dimensions of the indices, and the indices along all others. Elements are wide ones: as many
//! neighbours as y and x have side by side, up to 16 bytes.

use crate::elementwise::WalkParams;
use crate::entry::{Parts, entries};
use crate::kernel_param;

kernel_param! {
    /// Parameters of a launch, of at least one element.
    #[derive(Debug, PartialEq)]
    pub struct TakeParams {
        /// The walk over y, x and the indices, in this order, in elements of the entry's size (indices in
        /// elements of their own).
        pub walk: WalkParams,
        /// Extent of the axis: an index that is not below it selects nothing.
        pub count: u64,
        /// Stride of the axis in x, in elements of the entry's size.
        pub stride: i64,
        /// What is written where an index selects nothing: elements of y side by side.
        pub fill: u64,
        /// What is added to a negative index: 0, or the extent.
        pub wrap: i64,
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u64,
    }
}

/// Threads of a block.
pub const THREADS: u32 = crate::elementwise::THREADS;

/// The sizes of elements that kernels move, in bytes, largest first.
pub const SIZES: [usize; 5] = [16, 8, 4, 2, 1];

/// One kernel; displays as its entry name: `take_b128`, for elements of 1, 2, 4, 8 or 16 bytes of
/// any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TakeEntry {
    name: &'static str,
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl TakeEntry {
    /// The entry of a name `take_b<bits>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("take");
        let size_bytes = parts.number("b") as usize / 8;
        parts.end();
        Self { name, size_bytes }
    }

    /// The entry for elements of this size, if there is one.
    pub fn of(size_bytes: usize) -> Option<Self> {
        Self::find(|entry| entry.size_bytes == size_bytes)
    }

    /// Elements a thread. All their indices are loaded before the first element, and all elements
    /// before the first is stored.
    pub const fn per_thread(self) -> u32 {
        if self.size_bytes == 16 { 4 } else { 8 }
    }
}

entries! { $ TakeEntry(TakeParams) {
    /// An integer type of the element's size.
    take_elements {
        take_b8(u8);
        take_b16(u16);
        take_b32(u32);
        take_b64(u64);
        take_b128([u32; 4]);
    }
} }
