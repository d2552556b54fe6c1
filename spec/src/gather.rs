//! Selection along an axis by indices: `y[a.., j.., b..] = x[a.., indices[j..], b..]`.
//!
//! | entry | parameters |
//! |---|---|
//! | `take_b<8, 16, 32, 64, 128>` | `(x: *const u8, indices: *const u8, y: *mut u8, params: TakeParams)` |
//!
//! A launch walks over the elements of y as copies do ([`WalkParams`]): x has stride 0 along the
//! dimensions of the indices, and the indices along all others. Elements are wide ones: as many
//! neighbours as y and x have side by side, up to 16 bytes.

use crate::elementwise::WalkParams;

/// Parameters of a launch, of at least one element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Bytes of an index, which is signed: 4 or 8.
    pub index_bytes: u64,
}

/// Threads of a block.
pub const THREADS: u32 = crate::elementwise::THREADS;

/// One kernel; displays as its entry name: `take_b128`, for elements of 1, 2, 4, 8 or 16 bytes of
/// any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TakeEntry {
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl TakeEntry {
    /// The sizes of elements that there are kernels for, largest first.
    pub const SIZES: [usize; 5] = [16, 8, 4, 2, 1];

    /// Elements a thread. All their indices are loaded before the first element, and all elements
    /// before the first is stored.
    pub const fn per_thread(self) -> u32 {
        if self.size_bytes == 16 { 4 } else { 8 }
    }
}

impl core::fmt::Display for TakeEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "take_b{}", self.size_bytes * 8)
    }
}
