//! Rows put to the places that indices name: `y[a.., indices[j..], b..] = src[a.., j.., b..]`. The
//! opposite of [`gather`](crate::gather).
//!
//! | entry | parameters |
//! |---|---|
//! | `scatter_few_b<8, 16, 32, 64, 128>` | `(src: *const u8, indices: *const u8, y: *mut u8, params: ScatterFewParams)` |
//! | `scatter_last` | `(indices: *const u8, last: *mut u32, params: ScatterParams)` |
//! | `scatter_b<8, 16, 32, 64, 128>` | `(src: *const u8, indices: *const u8, y: *mut u8, last: *const u32, params: ScatterParams)` |
//!
//! Elements are wide ones: as many neighbours as y and src have side by side, up to 16 bytes.
//!
//! Of several rows that are put to one place the last one stays: that of the largest j, the *position*
//! of the index. A block of `scatter_few` has a position, and looks itself whether a later one has its
//! index. So each block reads the indices behind its own, of which there are at most [`FEW`]. Of more,
//! `scatter_last` writes the largest position of each place of the axis, and one more, into a table that
//! was 0. Then `scatter` moves the rows whose positions are there.

use crate::division::Division;
use crate::elementwise::WalkParams;
use crate::entry::{Parts, entries};
use crate::kernel_param;

pub use crate::gather::{SIZES, THREADS};
pub use crate::single::SCATTER_LAST;

/// Most indices of a launch of `scatter_few`.
pub const FEW: u32 = 1024;

/// Most indices of all launches: a position and one more has 32 bits.
pub const MAX_LEN: u64 = u32::MAX as u64;

kernel_param! {
    /// Parameters of `scatter_last` and `scatter`.
    #[derive(Debug, PartialEq)]
    pub struct ScatterParams {
        /// Of `scatter_last`, the walk over the indices in their order; its third tensor is the indices. Of
        /// `scatter`, the walk over src, y at index 0 of the axis, the indices and their positions, in elements of
        /// the entry's size. Strides are bytes, and positions.
        pub walk: WalkParams,
        /// The position of the walk's first element.
        pub first: u64,
        /// Extent of the axis: an index that is not below it is that of no row.
        pub count: u64,
        /// Stride of the axis in y, in bytes.
        pub stride: i64,
        /// What is added to a negative index: 0, or the extent.
        pub wrap: i64,
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u64,
    }
}

kernel_param! {
    /// Parameters of `scatter_few`.
    #[derive(Debug, PartialEq)]
    pub struct ScatterFewParams {
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
        /// What is added to a negative index: 0, or the extent.
        pub wrap: i64,
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u32,
        /// Blocks that have one row: [`ScatterFewEntry::PER_THREAD`] elements of `columns` a thread.
        pub blocks: Division,
    }
}

/// A kernel that puts rows of last positions; displays as its entry name, such as `scatter_b128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterEntry {
    name: &'static str,
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub size_bytes: usize,
}

impl ScatterEntry {
    /// The entry of a name `scatter_b<bits>`.
    pub const fn read(name: &'static str) -> Self {
        let size_bytes = size_bytes("scatter", name);
        Self { name, size_bytes }
    }

    /// The entry for elements of this size, if there is one.
    pub fn of(size_bytes: usize) -> Option<Self> {
        Self::find(|entry| entry.size_bytes == size_bytes)
    }

    /// Elements a thread, a block apart. All are loaded before the first is stored.
    pub const fn per_thread(self) -> u32 {
        if self.size_bytes == 16 { 4 } else { 2 }
    }
}

entries! { $ ScatterEntry(ScatterParams) {
    /// An integer type of the element's size.
    scatter_rows {
        scatter_b8(u8);
        scatter_b16(u16);
        scatter_b32(u32);
        scatter_b64(u64);
        scatter_b128([u32; 4]);
    }
} }

/// A kernel that puts rows of few indices; displays as its entry name, such as `scatter_few_b128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterFewEntry {
    name: &'static str,
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub size_bytes: usize,
}

impl ScatterFewEntry {
    /// Elements a thread, a block apart. All are loaded before the first is stored.
    pub const PER_THREAD: u32 = 2;

    /// The entry of a name `scatter_few_b<bits>`.
    pub const fn read(name: &'static str) -> Self {
        let size_bytes = size_bytes("scatter_few", name);
        Self { name, size_bytes }
    }

    /// The entry for elements of this size, if there is one.
    pub fn of(size_bytes: usize) -> Option<Self> {
        Self::find(|entry| entry.size_bytes == size_bytes)
    }
}

entries! { $ ScatterFewEntry(ScatterFewParams) {
    /// An integer type of the element's size.
    scatter_few {
        scatter_few_b8(u8);
        scatter_few_b16(u16);
        scatter_few_b32(u32);
        scatter_few_b64(u64);
        scatter_few_b128([u32; 4]);
    }
} }

/// The bytes of an element, of a name `<first>_b<bits>`.
const fn size_bytes(first: &str, name: &'static str) -> usize {
    let mut parts = Parts::of(name);
    parts.expect(first);
    let bits = parts.number("b");
    parts.end();
    bits as usize / 8
}
