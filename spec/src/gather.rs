//! Selection along an axis by indices, `y[a.., j.., b..] = x[a.., indices[j..], b..]`, and its opposite,
//! which puts rows to where indices say: `y[a.., indices[j..], b..] = src[a.., j.., b..]`.
//!
//! | entry | parameters |
//! |---|---|
//! | `take_b<8, 16, 32, 64, 128>` | `(x: *const u8, indices: *const u8, y: *mut u8, params: TakeParams)` |
//! | `put_few_b<8, 16, 32, 64, 128>` | `(src: *const u8, indices: *const u8, y: *mut u8, params: PutFewParams)` |
//! | `put_last` | `(indices: *const u8, last: *mut u32, params: PutParams)` |
//! | `put_b<8, 16, 32, 64, 128>` | `(src: *const u8, indices: *const u8, y: *mut u8, last: *const u32, params: PutParams)` |
//!
//! A launch walks over the elements of y as copies do ([`WalkParams`]): x has stride 0 along the
//! dimensions of the indices, and the indices along all others. Elements are wide ones: as many
//! neighbours as y and x have side by side, up to 16 bytes.
//!
//! Of several rows that are put to one place the last one stays: that of the largest j, the *position*
//! of the index. A block of `put_few` has a position, and looks itself whether a later one has its index;
//! so each block reads the indices behind its own, of which there are at most [`FEW`]. Of more,
//! `put_last` writes the largest position of each place of the axis, and one more, into a table that was
//! 0, and `put` moves the rows whose positions are there.

use crate::division::Division;
use crate::elementwise::WalkParams;
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
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u64,
    }
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

/// Most indices of a launch of `put_few`.
pub const FEW: u32 = 1024;

/// Most indices of all launches: a position and one more has 32 bits.
pub const MAX_LEN: u64 = u32::MAX as u64;

kernel_param! {
    /// Parameters of `put_last` and `put`.
    #[derive(Debug, PartialEq)]
    pub struct PutParams {
        /// Of `put_last`, the walk over the indices in their order; its third tensor is the indices. Of
        /// `put`, the walk over src, y at index 0 of the axis, the indices and their positions, in elements of
        /// the entry's size. Strides are bytes, and positions.
        pub walk: WalkParams,
        /// The position of the walk's first element.
        pub first: u64,
        /// Extent of the axis: an index that is not below it is that of no row.
        pub count: u64,
        /// Stride of the axis in y, in bytes.
        pub stride: i64,
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u64,
    }
}

kernel_param! {
    /// Parameters of `put_few`.
    #[derive(Debug, PartialEq)]
    pub struct PutFewParams {
        /// The walk over the elements of y and of src at index 0 of the axis and at the first index, in
        /// elements of the entry's size. Strides are bytes.
        pub columns: WalkParams,
        /// The walk over the indices in their order; its second tensor is src, its third the indices.
        /// Strides are bytes.
        pub positions: WalkParams,
        /// Extent of the axis: an index that is not below it is that of no row.
        pub count: u64,
        /// Stride of the axis in y, in bytes.
        pub stride: i64,
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u32,
        /// Blocks that have one row: [`PutEntry::per_thread`] elements of `columns` a thread.
        pub blocks: Division,
    }
}

/// A kernel that puts rows; displays as its entry name, such as `put_few_b128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PutEntry {
    /// Rows of few indices, in elements of 1, 2, 4, 8 or 16 bytes.
    Few(usize),
    /// Which position is the last to name a place.
    Last,
    /// Rows of last positions, in elements of 1, 2, 4, 8 or 16 bytes.
    Rows(usize),
}

impl PutEntry {
    /// All entries.
    pub fn all() -> impl Iterator<Item = Self> {
        let sizes = TakeEntry::SIZES.into_iter();
        let of_size = sizes.flat_map(|size| [Self::Few(size), Self::Rows(size)]);
        of_size.chain([Self::Last])
    }

    /// Elements a thread, a block apart; positions of `put_last`. All are loaded before the first is
    /// stored.
    pub const fn per_thread(self) -> u32 {
        match self {
            Self::Last => 1,
            Self::Rows(16) => 4,
            Self::Few(_) | Self::Rows(_) => 2,
        }
    }
}

impl core::fmt::Display for PutEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Few(size_bytes) => write!(f, "put_few_b{}", size_bytes * 8),
            Self::Last => f.write_str("put_last"),
            Self::Rows(size_bytes) => write!(f, "put_b{}", size_bytes * 8),
        }
    }
}
