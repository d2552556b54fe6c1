//! The parameters of a launch.

use super::{Family, ROWS_ANY, ReduceOp, ReducePlan, ReduceView, wide_code};
use crate::DType;
use crate::kernel_param;

/// [`ReduceParams::kind`]: sums.
pub const KIND_SUM: u32 = 0;
/// [`ReduceParams::kind`]: products.
pub const KIND_PRODUCT: u32 = 1;
/// [`ReduceParams::kind`]: the largest.
pub const KIND_LARGEST: u32 = 2;
/// [`ScanParams::kind`](crate::scan::ScanParams::kind): the smallest.
pub const KIND_SMALLEST: u32 = 4;
/// [`ScanParams::kind`](crate::scan::ScanParams::kind): logarithms of sums of exponentials.
pub const KIND_LOG_SUM: u32 = 5;
/// [`ReduceParams::kind`]: sums of squares, of which [`FINISH_ROOT`] takes the root.
pub const KIND_NORM: u32 = 3;

/// [`ReduceParams::map`]: elements as they are.
pub const MAP_NONE: u32 = 0;
/// Order reversed: -x for floats, !x for integers; the result is reversed back.
pub const MAP_NEGATE: u32 = 1;
/// |x|; integers wrap.
pub const MAP_ABS: u32 = 2;

/// [`ReduceParams::finish`]: the result as it is.
pub const FINISH_NONE: u32 = 0;
/// Divided by [`ReduceParams::divisor`].
pub const FINISH_DIVIDE: u32 = 1;
/// The root of a sum of squares.
pub const FINISH_ROOT: u32 = 2;
/// Divided, then the square root.
pub const FINISH_DIVIDE_ROOT: u32 = 3;
/// 1 if a count is above 0, else 0.
pub const FINISH_ANY: u32 = 4;
/// 1 if all elements were counted, else 0.
pub const FINISH_ALL: u32 = 5;

kernel_param! {
    /// Extents, strides and options of one launch.
    #[derive(Debug, PartialEq)]
    pub struct ReduceParams {
        /// Where the elements are.
        pub view: ReduceView,
        /// Chunks of a segment.
        pub chunks: u64,
        /// Elements of the axis in a chunk (a segment's last may be shorter).
        pub chunk_len: u64,
        /// [`ReducePlan::section`], which long rows are told of.
        pub section: u64,
        /// Log2 of the threads of an item along the axis.
        pub along_log2: u32,
        /// Log2 of the threads of an item along `inner`.
        pub across_log2: u32,
        /// 1 if the lanes of a vector lie along `inner`, 0 if along the axis.
        pub is_across: u32,
        /// `KIND_..`, for [`Family::Value`].
        pub kind: u32,
        /// `MAP_..`.
        pub map: u32,
        /// `FINISH_..`.
        pub finish: u32,
        /// 1 if elements are multiplied by those of a second tensor, [`ReduceParams::to_y`] away.
        pub is_pair: u32,
        /// [`ReducePlan::rows`]; [`ROWS_ANY`] if `is_pair`.
        pub rows: u32,
        /// The divisor of sums.
        pub divisor: f64,
        /// Bytes from an element of x to that of y (dot).
        pub to_y: i64,
        /// Bits that are tested, for entries that read bits; else [`wide_code`].
        pub mask: u64,
        /// Address of an array like `out` for the means (moments), or 0.
        pub means: u64,
        /// 1 if `out` has the dtype of 16-bit elements instead of
        /// [`ReduceEntry::out`](super::ReduceEntry::out): results are rounded to it.
        pub is_rounded: u64,
    }
}

impl ReduceParams {
    /// The parameters of a plan, for an operation on one tensor.
    pub const fn new(op: ReduceOp, view: ReduceView, plan: &ReducePlan, dtype: DType) -> Self {
        let is_float = matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16);
        let bits = 8 * dtype.size_bytes() as u32;
        let mask = match op.family() {
            // A float is zero whatever its sign.
            Family::Count => u64::MAX >> (64 - bits + is_float as u32),
            _ => wide_code(dtype) as u64,
        };
        Self {
            view,
            chunks: plan.chunks,
            chunk_len: plan.chunk_len,
            section: plan.section,
            along_log2: plan.along.trailing_zeros(),
            across_log2: plan.across.trailing_zeros(),
            is_across: plan.is_across as u32,
            kind: op.kind(),
            map: op.map(),
            finish: op.finish(),
            is_pair: matches!(op, ReduceOp::Dot) as u32,
            rows: match op {
                ReduceOp::Dot => ROWS_ANY,
                _ => plan.rows,
            },
            divisor: view.len() as f64,
            to_y: 0,
            mask,
            means: 0,
            is_rounded: 0,
        }
    }
}
