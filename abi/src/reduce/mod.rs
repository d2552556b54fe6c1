//! Reductions over everything, one axis or several, in one launch.
//!
//! A tensor is viewed as kept extents `[outer, inner]` and reduced extents `[segments, n]`
//! ([`ReduceView`]). [`ReducePlan`] cuts that into items, each a part of the axis of some outputs,
//! and says how the threads of a block share items. If there are few outputs, their axis is split
//! into chunks, and the items of an output leave partial results. The item that comes last merges
//! them in an order that the plan fixes. So results have the same bits every time.
//!
//! | entry | parameters |
//! |---|---|
//! | `reduce_<family>_<dtype>`, and `.._<variant>` for the special [`Variant`]s | `(x: *const T, partials: *mut u32, tickets: *mut u32, out: *mut Out, params: ReduceParams)` |
//!
//! [`Family`] lists the families: one entry serves several operations, which [`ReduceParams`]
//! distinguishes. `<dtype>` is f32, f16, bf16 (computed in f32), f64 (in f64), i32, i64 (in i64).
//! `wide` stands for any of them computed in f64; b8, b16, b32, b64 for entries that only test
//! bits. `out` is contiguous `[outer, inner]`, of the dtype [`ReduceEntry::out`], or of the
//! elements' where [`ReduceParams::is_rounded`] says so. `partials` ([`ReducePlan::partials`] times
//! [`ReduceEntry::partial_words`], aligned to 16) and `tickets` ([`ReducePlan::tickets`]) may be
//! null if there is one part; tickets are 0 before and after a launch.
//!
//! # Accuracy
//! A thread adds eight elements of a lane of its vectors at a time by a tree (of 16-bit elements in
//! rows, 64 of all lanes). It adds the result to a pair of numbers that loses nothing (Knuth's
//! two-sum). The pairs are then added in a tree. The longest chain of roundings is
//! [`ReducePlan::additions`], which does not grow with the extents beyond the tree's depth.

mod entry;
mod params;
mod plan;
mod view;

pub use entry::ReduceEntry;
pub use params::{
    FINISH_ALL, FINISH_ANY, FINISH_DIVIDE, FINISH_DIVIDE_ROOT, FINISH_NONE, FINISH_ROOT,
    KIND_LARGEST, KIND_LOG_SUM, KIND_NORM, KIND_PRODUCT, KIND_SMALLEST, KIND_SUM, MAP_ABS,
    MAP_NEGATE, MAP_NONE, ReduceParams,
};
pub use plan::{
    COLUMNS_ACROSS, ROWS_ANY, ROWS_WHOLE, ReducePlan, SHORT_ROWS, SHORT_ROWS_OF_THREAD,
    SHORT_VECTORS, SMALL_VECTORS_OF_THREAD,
};
pub use view::ReduceView;

use crate::DType;
use crate::entry::Parts;

/// Element types of reductions and scans.
pub const DTYPES: [DType; 6] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::F64,
    DType::I32,
    DType::I64,
];

/// Threads of a block of every entry, but for [`Variant::Small`]: [`ReducePlan::threads`].
pub const THREADS: u32 = 256;

/// Vectors of 16 bytes that a thread loads before it uses the first.
pub const BATCH: u32 = 8;

/// Most parts of a row in one cluster; no GPU has clusters of more blocks.
pub const CLUSTER_PARTS: usize = 16;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Σx.
    Sum,
    /// Σx / n.
    Mean,
    /// Πx.
    Prod,
    /// Maximum; NaN if any element is NaN.
    Max,
    /// Minimum; NaN if any element is NaN.
    Min,
    /// Lowest index of the maximum; NaN counts as greater than all numbers.
    Argmax,
    /// Lowest index of the minimum; NaN counts as less than all numbers.
    Argmin,
    /// 1 if any element is nonzero, else 0; NaN is nonzero.
    Any,
    /// 1 if all elements are nonzero, else 0.
    All,
    /// Number of nonzero elements.
    CountNonzero,
    /// Σ|x|.
    Norm1,
    /// √Σx².
    Norm2,
    /// Largest |x|; NaN if any element is NaN.
    NormInf,
    /// ln Σ exp(x).
    Logsumexp,
    /// Σ(x - mean)² / (n - ddof).
    Variance,
    /// Square root of the variance.
    Std,
    /// Dot product Σxy of two tensors.
    Dot,
}

impl ReduceOp {
    /// All operations on one tensor: without [`ReduceOp::Dot`].
    pub const ALL: [Self; 16] = [
        Self::Sum,
        Self::Mean,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::Argmax,
        Self::Argmin,
        Self::Any,
        Self::All,
        Self::CountNonzero,
        Self::Norm1,
        Self::Norm2,
        Self::NormInf,
        Self::Logsumexp,
        Self::Variance,
        Self::Std,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Argmax => "argmax",
            Self::Argmin => "argmin",
            Self::Any => "any",
            Self::All => "all",
            Self::CountNonzero => "count_nonzero",
            Self::Norm1 => "norm1",
            Self::Norm2 => "norm2",
            Self::NormInf => "norm_inf",
            Self::Logsumexp => "logsumexp",
            Self::Variance => "variance",
            Self::Std => "std",
            Self::Dot => "dot",
        }
    }

    /// Whether the result is an index, a count or a truth value (i64).
    pub const fn is_index(self) -> bool {
        matches!(self.family(), Family::Arg | Family::Count)
    }

    /// Whether there is no result without elements: nothing is the largest of none.
    pub const fn needs_elements(self) -> bool {
        matches!(self, Self::Max | Self::Min | Self::Argmax | Self::Argmin)
    }

    /// Whether integers have an integer result.
    pub const fn is_of_integers(self) -> bool {
        !matches!(
            self,
            Self::Mean | Self::Norm2 | Self::Logsumexp | Self::Variance | Self::Std
        )
    }

    /// The family of entries that computes it.
    pub const fn family(self) -> Family {
        match self {
            Self::Sum | Self::Mean | Self::Norm1 | Self::Norm2 => Family::Value,
            Self::Prod | Self::Max | Self::Min | Self::NormInf | Self::Dot => Family::Value,
            Self::Argmax | Self::Argmin => Family::Arg,
            Self::Any | Self::All | Self::CountNonzero => Family::Count,
            Self::Logsumexp => Family::Lse,
            Self::Variance | Self::Std => Family::Moments,
        }
    }

    /// How elements are combined: [`ReduceParams::kind`].
    pub const fn kind(self) -> u32 {
        match self {
            Self::Prod => KIND_PRODUCT,
            Self::Max | Self::Min | Self::NormInf => KIND_LARGEST,
            Self::Norm2 => KIND_NORM,
            _ => KIND_SUM,
        }
    }

    /// What is applied to every element: [`ReduceParams::map`].
    pub const fn map(self) -> u32 {
        match self {
            Self::Min | Self::Argmin => MAP_NEGATE,
            Self::Norm1 | Self::NormInf => MAP_ABS,
            _ => MAP_NONE,
        }
    }

    /// What is applied to the result: [`ReduceParams::finish`].
    pub const fn finish(self) -> u32 {
        match self {
            Self::Mean | Self::Variance => FINISH_DIVIDE,
            Self::Norm2 => FINISH_ROOT,
            Self::Std => FINISH_DIVIDE_ROOT,
            Self::Any => FINISH_ANY,
            Self::All => FINISH_ALL,
            _ => FINISH_NONE,
        }
    }
}

/// Families of operations that share entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Sums, products, extremes.
    Value,
    /// Indices of extremes.
    Arg,
    /// Counts of nonzero elements.
    Count,
    /// Logarithms of sums of exponentials.
    Lse,
    /// Means and squared deviations from them (Welford; merged as by Chan et al.).
    Moments,
    /// Extremes of bf16, two elements at a time. Plans and bits are those of [`Family::Value`].
    Extreme,
}

impl Family {
    const fn of_name(parts: &mut Parts) -> Self {
        const NAMES: [(&str, Family); 6] = [
            ("value", Family::Value),
            ("arg", Family::Arg),
            ("count", Family::Count),
            ("lse", Family::Lse),
            ("moments", Family::Moments),
            ("extreme", Family::Extreme),
        ];
        let mut i = 0;
        while i < NAMES.len() {
            if parts.take(NAMES[i].0) {
                return NAMES[i].1;
            }
            i += 1;
        }
        panic!("an entry's name lacks a family");
    }
}

/// What an entry reads, and the type that it computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reads {
    /// f32, f16 and bf16 computed in f32; f64 in f64; i32 and i64 in i64.
    Of(DType),
    /// Any dtype, told by [`ReduceParams::mask`], computed in f64.
    Wide,
    /// Elements of that many bits, of which those in [`ReduceParams::mask`] are tested.
    Bits(u32),
}

impl Reads {
    const fn of_name(parts: &mut Parts) -> Self {
        if parts.take("wide") {
            return Self::Wide;
        }
        match parts.dtype() {
            Some(dtype) => Self::Of(dtype),
            None => Self::Bits(parts.number("b")),
        }
    }
}

/// The shape an entry is made for. All forms but the general one take only whole vectors of 16
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Any view.
    General,
    /// Rows of a few vectors; a thread has one vector of a row.
    Short,
    /// Few rows of up to 16 KiB: a block has one, with as many threads as take four vectors each.
    Small,
    /// Rows of which a block has one, or a part of one.
    Long,
    /// Columns side by side; a block has a tile of them, or a part of a tile.
    Columns,
    /// A single row, of which each block of one cluster has a part: up to [`CLUSTER_PARTS`]. Plans and
    /// bits are those of [`Variant::Long`], but there are neither partial results nor tickets.
    Cluster,
}

impl Variant {
    const fn of_name(parts: &mut Parts) -> Self {
        const NAMES: [(&str, Variant); 5] = [
            ("short", Variant::Short),
            ("small", Variant::Small),
            ("long", Variant::Long),
            ("columns", Variant::Columns),
            ("cluster", Variant::Cluster),
        ];
        let mut i = 0;
        while i < NAMES.len() {
            if parts.take(NAMES[i].0) {
                return NAMES[i].1;
            }
            i += 1;
        }
        Self::General
    }
}

/// [`ReduceParams::mask`] for wide entries.
pub const fn wide_code(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 1,
        DType::Bf16 => 2,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::F64 => 5,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
