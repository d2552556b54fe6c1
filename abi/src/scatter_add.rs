//! Addition of rows to the rows that indices name: `y[a.., indices[j..], b..] += src[a.., j.., b..]`;
//! also their products and extremes ([`ScatterOp`]).
//!
//! | entry | parameters |
//! |---|---|
//! | `scatter_add_count` | `(indices: *const u8, pairs: *mut u64, counts: *mut u32, longs: *mut u32, params: OrderParams)` |
//! | `scatter_add_sort` | `(indices: *const u8, from: *const u64, to: *mut u64, counts: *const u32, begins: *mut u32, longs: *mut u32, params: OrderParams)` |
//! | `scatter_add_<f32, f16, bf16>`, `scatter_add_any` | `(pairs: *const u64, begins: *const u32, src: *const u8, y: *mut u8, parts: *mut u8, params: AddParams)` |
//! | `scatter_reduce_any_vector`, `scatter_reduce_any` | as `scatter_add_any` |
//! | `scatter_add_finish`, `scatter_reduce_finish` | `(pairs: *const u64, longs: *const u32, y: *mut u8, parts: *const u8, params: AddParams)` |
//! | `scatter_add_few` | `(indices: *const u8, src: *const u8, y: *mut u8, params: AddParams, index_bytes: u32)` |
//!
//! Up to [`FEW`] indices may take one launch, where rows are added by vectors of 16 bytes. A warp of
//! `scatter_add_few` has an index and 32 columns of its row, and adds the segment of which its index is the
//! first. The block has all indices in shared memory, so nothing is sorted; and it has a warp for each
//! part that a segment can have.
//!
//! Otherwise the indices are sorted first. A *pair* is an index above its position j, which has 32
//! bits; an index out of range counts as the extent of the axis. Behind the last pair are [`PAD`]
//! that are none: all bits are set. One block of `scatter_add_sort` sorts up to [`TILE`] indices in
//! one launch. More are sorted by a digit of [`DIGIT_BITS`] bits at a time, the least significant
//! one first. `scatter_add_count` counts how many of a block's pairs have each digit; for the first
//! digit, it also makes the pairs. `scatter_add_sort` puts each pair behind those with smaller
//! digits and those before it. Pairs with equal indices, which are neighbours then, are a
//! *segment*. A bit for each pair, `begins`, marks where parts of segments begin. `longs` lists the
//! first pairs of the segments that have several parts, in any order, behind its length. One more
//! launch of `scatter_add_sort` writes both, without a digit, or the one block itself.
//!
//! Then `scatter_add_<dtype>` adds rows by vectors of 16 bytes, or `scatter_add_any` element by element.
//! The order of additions depends on nothing but the segment:
//! 1. A segment is cut into parts of [`PART`] rows, which are added one after the other.
//! 2. Groups of [`GROUP`] parts are added one after the other, and then the sums of groups.
//! 3. The sum is added to the element of y, and rounded once.
//!
//! Segments of one part are done with that; the parts of others are left in `parts`, and
//! `scatter_add_finish` adds them. Sums are numbers of f32 (of floats of up to 32 bits), f64 (of f64) or i64
//! (of integers, wrapping). The entries of `scatter_reduce` do the same with another operation in place of
//! sums, which the launch says.

use crate::DType;
use crate::division::Division;
use crate::elementwise::WalkParams;
use crate::entry::{Parts, entries};
use crate::kernel_param;

pub use crate::single::{
    SCATTER_ADD_COUNT, SCATTER_ADD_FEW, SCATTER_ADD_FINISH, SCATTER_ADD_SORT, SCATTER_REDUCE_FINISH,
};
pub use crate::sort::{DIGIT_BITS, DIGITS};

/// How rows are combined with the row that their index names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterOp {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The maximum; NaN if any is NaN.
    Max,
    /// The minimum; NaN if any is NaN.
    Min,
}

impl ScatterOp {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Prod, Self::Max, Self::Min];

    /// Name in plans.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// Its code in [`AddParams::kind`].
    pub const fn kind(self) -> u32 {
        match self {
            Self::Sum => crate::reduce::KIND_SUM,
            Self::Prod => crate::reduce::KIND_PRODUCT,
            Self::Max => crate::reduce::KIND_LARGEST,
            Self::Min => crate::reduce::KIND_SMALLEST,
        }
    }

    /// The bits of a number that changes no other that it is combined with, for a dtype: -0 of sums
    /// of floats.
    pub const fn nothing(self, dtype: DType) -> u64 {
        let [wide, single, integer] = match self {
            Self::Sum => [(-0.0_f64).to_bits(), (-0.0_f32).to_bits() as u64, 0],
            Self::Prod => [1_f64.to_bits(), 1_f32.to_bits() as u64, 1],
            Self::Max => [
                f64::NEG_INFINITY.to_bits(),
                f32::NEG_INFINITY.to_bits() as u64,
                i64::MIN as u64,
            ],
            Self::Min => [
                f64::INFINITY.to_bits(),
                f32::INFINITY.to_bits() as u64,
                i64::MAX as u64,
            ],
        };
        match dtype {
            DType::F64 => wide,
            DType::I32 | DType::I64 => integer,
            _ => single,
        }
    }
}

/// Threads of a block that sorts.
pub const THREADS: u32 = 1024;

/// Pairs of a thread of a tile.
pub const ITEMS: usize = 4;

/// Pairs that a block sorts at a time.
pub const TILE: u32 = THREADS * ITEMS as u32;

/// What follows the last pair, so that nobody has to ask whether a pair has a neighbour.
pub const PAD: u32 = 2;

/// Rows of a part.
pub const PART: u32 = 64;

/// Parts of a group, and warps of a block of `scatter_add_finish`.
pub const GROUP: u32 = 16;

/// Pairs of a word of `begins`, and most whose parts a warp of `scatter_add` adds.
pub const CHUNK: u32 = 32;

/// Threads of a block of `scatter_add`.
pub const ADD_THREADS: u32 = 128;

/// Threads of a block of `scatter_add_finish`.
pub const FINISH_THREADS: u32 = 32 * GROUP;

/// Most indices of a launch.
pub const MAX_LEN: u64 = 1 << 30;

/// Most indices of a launch of `scatter_add_few`: those of one group, and a word of 32 for each lane.
pub const FEW: u32 = PART * GROUP;

/// Largest extent of the axis.
pub const MAX_EXTENT: u64 = u32::MAX as u64 - 1;

kernel_param! {
    /// Parameters of the kernels that sort.
    #[derive(Debug, PartialEq)]
    pub struct OrderParams {
        /// The walk over the indices in their order; its third tensor is the indices. Strides are bytes.
        pub positions: WalkParams,
        /// What is added to a negative index: 0, or the extent.
        pub wrap: u64,
        /// Extent of the axis.
        pub extent: u32,
        /// Bytes of an index, which is signed: 4 or 8.
        pub index_bytes: u32,
        /// Bits of all digits.
        pub bits: u32,
        /// First bit of the digit, where there are several blocks; `bits` if none is left.
        pub shift: u32,
        /// Pairs of a block: a multiple of [`TILE`].
        pub per_block: u32,
        /// Blocks. If there is one, it sorts by all digits.
        pub blocks: u32,
    }
}

kernel_param! {
    /// Parameters of the kernels that add.
    #[derive(Debug, PartialEq)]
    pub struct AddParams {
        /// The walk over the elements of y and of src, at index 0 of the axis and at the first
        /// index. Elements are those of y, or vectors of 16 bytes of them. Strides are bytes.
        pub columns: WalkParams,
        /// The walk over the indices in their order; its second tensor is src. Strides are bytes.
        pub positions: WalkParams,
        /// Stride of the axis in y, in bytes.
        pub y_stride: i64,
        /// Numbers of a part in `parts`: elements of y in a row of `columns`.
        pub numbers: u64,
        /// Extent of the axis.
        pub extent: u32,
        /// Log2 of the elements of y of an element of `columns`: 0 for `scatter_add_any`.
        pub lanes_log2: u32,
        /// Log2 of the bytes of an element of y.
        pub size_log2: u32,
        /// The dtype: [`code`].
        pub code: u32,
        /// Pairs whose parts a warp of `scatter_add` adds: a power of two up to [`CHUNK`].
        pub chunk: u32,
        /// Warps that have one row in `scatter_add` and `scatter_add_few`: each has 32 elements of
        /// `columns`, the last one fewer. Also the steps of a block of `scatter_add_finish` for one
        /// row, 32 elements of y each.
        pub warps: Division,
        /// The bits of a number that changes no other: [`ScatterOp::nothing`].
        pub nothing: u64,
        /// The operation of `scatter_reduce`: [`ScatterOp::kind`].
        pub kind: u32,
        /// Of `scatter_add_few`, what is added to a negative index: 0, or the extent.
        pub wrap: u32,
    }
}

/// Codes of dtypes.
pub mod codes {
    /// f32.
    pub const F32: u32 = 0;
    /// f16.
    pub const F16: u32 = 1;
    /// bf16.
    pub const BF16: u32 = 2;
    /// f64.
    pub const F64: u32 = 3;
    /// i32.
    pub const I32: u32 = 4;
    /// i64.
    pub const I64: u32 = 5;
}

/// The code of a dtype, one of [`DTYPES`].
pub const fn code(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => codes::F16,
        DType::Bf16 => codes::BF16,
        DType::F64 => codes::F64,
        DType::I32 => codes::I32,
        DType::I64 => codes::I64,
        _ => codes::F32,
    }
}

/// Bytes of a number of the sums of a dtype.
pub const fn number_bytes(dtype: DType) -> u64 {
    match dtype {
        DType::F64 | DType::I32 | DType::I64 => 8,
        _ => 4,
    }
}

/// Digits that an index has, where one that is out of range counts as the extent.
pub const fn digits(extent: u32) -> u32 {
    (u32::BITS - extent.leading_zeros()).div_ceil(DIGIT_BITS)
}

/// Words of the list of segments of several parts, where there are `len` pairs.
pub const fn longs(len: u32) -> u32 {
    1 + len / (PART + 1)
}

/// Sums of parts that there is room for where there are `len` pairs: of each [`PART`] of them, one
/// part that begins a segment, and one that does not.
pub const fn parts(len: u32) -> u64 {
    2 * len.div_ceil(PART) as u64
}

/// Warps of a block of `scatter_add_few` for `len` indices: one for each part of a segment of all
/// of them, and one for two indices of each lane. An even number, since words are compared by four.
pub const fn few_warps(len: u32) -> u32 {
    let pairs = len.div_ceil(2 * PART);
    2 * if pairs > 2 { pairs } else { 2 }
}

/// Most roundings on a row's way into the sum of a segment of `rows` rows and an element of y. They
/// happen within its part, over the parts of its group, over groups, and once for y.
pub const fn additions(rows: u64) -> u64 {
    let parts = rows.div_ceil(PART as u64);
    let groups = parts.div_ceil(GROUP as u64);
    let rows = if rows < PART as u64 {
        rows
    } else {
        PART as u64
    };
    let parts = if parts < GROUP as u64 {
        parts
    } else {
        GROUP as u64
    };
    (rows + parts + groups).saturating_sub(2)
}

/// A kernel that adds rows of many indices; displays as its entry name: `scatter_add_bf16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterAddEntry {
    name: &'static str,
    /// The element type of one that adds vectors.
    pub dtype: Option<DType>,
    /// Whether it combines vectors.
    pub by_vectors: bool,
    /// Whether it adds; others do what [`AddParams::kind`] says.
    pub is_sum: bool,
}

impl ScatterAddEntry {
    /// The entry of a name `scatter_add_<dtype>` or `scatter_reduce_any_vector`, for [`VECTORS`] by
    /// vectors, or `scatter_<add, reduce>_any`, for any dtype by elements.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("scatter");
        let is_sum = parts.take("add");
        if !is_sum {
            parts.expect("reduce");
        }
        let dtype = parts.dtype();
        if dtype.is_none() {
            parts.expect("any");
        }
        let by_vectors = dtype.is_some() || parts.take("vector");
        parts.end();
        Self {
            name,
            dtype,
            by_vectors,
            is_sum,
        }
    }

    /// The entry for an operation: for this dtype by vectors, or for any.
    pub fn of(op: ScatterOp, dtype: Option<DType>) -> Option<Self> {
        let is_sum = matches!(op, ScatterOp::Sum);
        let of_entry = dtype.filter(|_| is_sum);
        let wanted = (of_entry, dtype.is_some(), is_sum);
        Self::find(|entry| (entry.dtype, entry.by_vectors, entry.is_sum) == wanted)
    }
}

entries! { $ ScatterAddEntry(AddParams) {
    /// By vectors: the element type.
    scatter_add_vectors {
        scatter_add_f32(f32);
        scatter_add_f16(f16);
        scatter_add_bf16(bf16);
    }
    /// By elements.
    scatter_add_elements {
        scatter_add_any;
    }
    /// Other operations than sums, by vectors.
    scatter_reduce_vectors {
        scatter_reduce_any_vector;
    }
    /// Other operations than sums, by elements.
    scatter_reduce_elements {
        scatter_reduce_any;
    }
} }

/// Dtypes whose rows are added by vectors.
pub const VECTORS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Dtypes of rows.
pub const DTYPES: [DType; 6] = crate::reduce::DTYPES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_indices_have_two_lanes_of_a_block_and_a_warp_for_each_part() {
        for len in 1..=FEW {
            let warps = few_warps(len);
            assert!(warps <= GROUP && warps.is_multiple_of(2));
            assert!(64 * warps >= len && warps >= len.div_ceil(PART));
        }
    }

    #[test]
    fn indices_have_as_many_digits_as_the_extent() {
        assert_eq!([1, 255, 256, 65535, 65536].map(digits), [1, 1, 2, 2, 3]);
        assert_eq!(digits(MAX_EXTENT as u32), 4);
    }

    #[test]
    fn additions_grow_by_rows_then_parts_then_groups() {
        // One row is added to y; two are added to each other first.
        assert_eq!([0, 1, 2, 64].map(additions), [0, 1, 2, 64]);
        assert_eq!(additions(65), 63 + 1 + 1);
        assert_eq!(additions(64 * 16 + 1), 63 + 15 + 1 + 1);
        assert_eq!(additions(1 << 20), 63 + 15 + 1023 + 1);
    }
}
