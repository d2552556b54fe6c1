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

entries! { $ TakeEntry {
    /// An integer type of the element's size.
    take_elements {
        take_b8(u8);
        take_b16(u16);
        take_b32(u32);
        take_b64(u64);
        take_b128([u32; 4]);
    }
} }

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

/// What a kernel that puts rows does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Put {
    /// Puts rows of few indices.
    Few,
    /// Finds the last position that names each place.
    Last,
    /// Puts rows of last positions.
    Rows,
}

/// A kernel that puts rows; displays as its entry name, such as `put_few_b128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PutEntry {
    name: &'static str,
    /// What it does.
    pub put: Put,
    /// Bytes of an element: 1, 2, 4, 8 or 16. Of [`Put::Last`] those of a position.
    pub size_bytes: usize,
}

impl PutEntry {
    /// The entry of a name `put[_few]_b<bits>` or `put_last`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("put");
        let put = if parts.take("last") {
            Put::Last
        } else if parts.take("few") {
            Put::Few
        } else {
            Put::Rows
        };
        let size_bytes = match put {
            Put::Last => 4,
            Put::Few | Put::Rows => parts.number("b") as usize / 8,
        };
        parts.end();
        Self {
            name,
            put,
            size_bytes,
        }
    }

    /// The entry that does this for elements of this size, if there is one.
    pub fn of(put: Put, size_bytes: usize) -> Option<Self> {
        Self::find(|entry| entry.put == put && entry.size_bytes == size_bytes)
    }

    /// Elements a thread, a block apart; positions of [`Put::Last`]. All are loaded before the first
    /// is stored.
    pub const fn per_thread(self) -> u32 {
        match (self.put, self.size_bytes) {
            (Put::Last, _) => 1,
            (Put::Rows, 16) => 4,
            (Put::Few | Put::Rows, _) => 2,
        }
    }
}

entries! { $ PutEntry {
    /// An integer type of the element's size.
    put_few {
        put_few_b8(u8);
        put_few_b16(u16);
        put_few_b32(u32);
        put_few_b64(u64);
        put_few_b128([u32; 4]);
    }
    /// The same.
    put_rows {
        put_b8(u8);
        put_b16(u16);
        put_b32(u32);
        put_b64(u64);
        put_b128([u32; 4]);
    }
    /// Last positions.
    put_positions {
        put_last;
    }
} }
