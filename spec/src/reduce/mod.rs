//! Reductions over everything, one axis or several, in one launch.
//!
//! A tensor is viewed as kept extents `[outer, inner]` and reduced extents `[segments, n]`
//! ([`ReduceView`]). [`ReducePlan`] cuts that into items, each a part of the axis of some outputs,
//! and says how the threads of a block share items. If there are so few outputs that their axis is
//! split into chunks, the items of an output leave partial results, and whichever item comes last
//! merges them in an order that the plan fixes: results have the same bits every time.
//!
//! | entry | parameters |
//! |---|---|
//! | `reduce_<family>_<dtype>`, and `.._<form>` for the special [`Form`]s | `(x: *const T, partials: *mut u32, tickets: *mut u32, out: *mut Out, params: ReduceParams)` |
//!
//! [`Family`] lists the families: one entry serves several operations, which [`ReduceParams`]
//! distinguishes. `<dtype>` is f32, f16, bf16 (computed in f32), f64 (in f64), i32, i64 (in i64);
//! `wide` for any of them computed in f64; b16, b32, b64 for entries that only test bits. `out` is
//! contiguous `[outer, inner]`, of the dtype [`ReduceEntry::out`], or of the elements' where
//! [`ReduceParams::is_rounded`] says so. `partials` ([`ReducePlan::partials`] times
//! [`ReduceEntry::partial_words`], aligned to 16) and `tickets` ([`ReducePlan::tickets`]) may be null
//! if there is one part; tickets are 0 before and after a launch.
//!
//! # Accuracy
//! A thread adds eight elements of a lane of its vectors at a time by a tree (of 16-bit elements in
//! rows, 64 of all lanes), and adds the result to a pair of numbers that loses nothing (Knuth's
//! two-sum). The pairs are then added in a tree. The longest chain of roundings is
//! [`ReducePlan::additions`], which does not grow with the extents beyond the tree's depth.

mod params;
mod plan;
mod view;

pub use params::{
    FINISH_ALL, FINISH_ANY, FINISH_DIVIDE, FINISH_DIVIDE_ROOT, FINISH_NONE, FINISH_ROOT,
    KIND_LARGEST, KIND_PRODUCT, KIND_SUM, MAP_ABS, MAP_NEGATE, MAP_NONE, MAP_SQUARE, ReduceParams,
};
pub use plan::{ROWS_ANY, ROWS_WHOLE, ReducePlan, SHORT_ROWS_OF_THREAD, SMALL_VECTORS_OF_THREAD};
pub use view::ReduceView;

use crate::DType;

/// Element types of reductions and scans.
pub const DTYPES: [DType; 6] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::F64,
    DType::I32,
    DType::I64,
];

/// Threads of a block of every entry, but for [`Form::Small`]: [`ReducePlan::threads`].
pub const THREADS: u32 = 256;

/// Vectors of 16 bytes that a thread loads before it uses the first.
pub const BATCH: u32 = 8;

/// Most blocks of a grid; with more items, they loop.
pub const MAX_BLOCKS: u32 = 16_384;

/// Most tickets that a launch uses.
pub const TICKETS: usize = 16_384;

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
            _ => KIND_SUM,
        }
    }

    /// What is applied to every element: [`ReduceParams::map`].
    pub const fn map(self) -> u32 {
        match self {
            Self::Min | Self::Argmin => MAP_NEGATE,
            Self::Norm1 | Self::NormInf => MAP_ABS,
            Self::Norm2 => MAP_SQUARE,
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
    /// Extremes of bf16, two elements at a time. Plans are those of [`Family::Value`]: see
    /// [`ReduceEntry::in_pairs`].
    Extreme,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 6] = [
        Self::Value,
        Self::Arg,
        Self::Count,
        Self::Lse,
        Self::Moments,
        Self::Extreme,
    ];

    /// Name in entry names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Arg => "arg",
            Self::Count => "count",
            Self::Lse => "lse",
            Self::Moments => "moments",
            Self::Extreme => "extreme",
        }
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

/// The shape an entry is made for. All forms but the general one take only whole vectors of 16
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
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
    /// A single row, of which each block of one cluster has a part. Plans say [`Form::Long`]: see
    /// [`ReduceEntry::in_cluster`].
    Cluster,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 6] = [
        Self::General,
        Self::Short,
        Self::Small,
        Self::Long,
        Self::Columns,
        Self::Cluster,
    ];

    /// The suffix of entry names.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::General => "",
            Self::Short => "_short",
            Self::Small => "_small",
            Self::Long => "_long",
            Self::Columns => "_columns",
            Self::Cluster => "_cluster",
        }
    }
}

/// One kernel; displays as its entry name: `reduce_value_f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceEntry {
    /// The family.
    pub family: Family,
    /// What it reads.
    pub reads: Reads,
    /// The form.
    pub form: Form,
}

impl ReduceEntry {
    /// The entry for elements of a dtype, computed in f64 if `wide`. `None` if there is none: for
    /// other dtypes, and for integers with real results unless `wide`.
    pub const fn of(family: Family, dtype: DType, wide: bool) -> Option<Self> {
        let is_integer = matches!(dtype, DType::I32 | DType::I64);
        let is_float = matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16);
        if !is_integer && !is_float {
            return None;
        }
        let reads = match family {
            Family::Count => Reads::Bits(8 * dtype.size_bytes() as u32),
            Family::Extreme if wide || !matches!(dtype, DType::Bf16) => return None,
            Family::Arg | Family::Extreme => Reads::Of(dtype),
            _ if matches!(dtype, DType::F64) => Reads::Of(dtype),
            _ if wide => Reads::Wide,
            Family::Lse | Family::Moments if is_integer => return None,
            _ => Reads::Of(dtype),
        };
        Some(Self {
            family,
            reads,
            form: Form::General,
        })
    }

    /// Element type of the results.
    pub const fn out(self) -> DType {
        match (self.family, self.reads) {
            (Family::Arg | Family::Count, _) => DType::I64,
            (_, Reads::Of(DType::I32 | DType::I64)) => DType::I64,
            (_, Reads::Of(DType::F64) | Reads::Wide) => DType::F64,
            _ => DType::F32,
        }
    }

    /// Whether a launch may round results to `dtype`, that of 16-bit elements
    /// ([`ReduceParams::is_rounded`]).
    pub const fn rounds_to(self, dtype: DType) -> bool {
        let is_alike = matches!(
            (self.reads, dtype),
            (Reads::Of(DType::F16), DType::F16) | (Reads::Of(DType::Bf16), DType::Bf16)
        );
        is_alike && matches!(self.out(), DType::F32)
    }

    /// Elements of a vector, which a thread loads at once: 16 bytes, or two wide ones.
    pub const fn lanes(self) -> u64 {
        match self.reads {
            Reads::Of(dtype) => 16 / dtype.size_bytes() as u64,
            Reads::Bits(bits) => 128 / bits as u64,
            Reads::Wide => 2,
        }
    }

    /// The same entry in another form, which exists for the most common operations.
    pub const fn with(self, form: Form) -> Option<Self> {
        let is_common = matches!(self.reads, Reads::Of(DType::F32 | DType::Bf16));
        let is_there = match (form, self.family) {
            (Form::General, _) => !matches!(self.family, Family::Extreme),
            (Form::Long | Form::Columns, Family::Extreme) => true,
            (_, Family::Value) | (Form::Long, Family::Moments) => is_common,
            (Form::Long, Family::Arg) => matches!(self.reads, Reads::Of(DType::F32)),
            _ => false,
        };
        if is_there {
            Some(Self { form, ..self })
        } else {
            None
        }
    }

    /// The entry for a plan that was made for this one.
    pub const fn for_plan(self, plan: &ReducePlan) -> Self {
        Self {
            form: plan.form,
            ..self
        }
    }

    /// The entry for a plan that was made for this one, on a device of compute capability `arch`
    /// that can have all of the plan's parts in one cluster: [`ReducePlan::parts`] blocks, which
    /// need neither partial results nor tickets in global memory. Results have the same bits as
    /// those of [`ReduceEntry::for_plan`].
    pub const fn in_cluster(self, plan: &ReducePlan, arch: (u32, u32)) -> Option<Self> {
        // Others have no more than eight blocks in a cluster.
        let most = match arch.0 {
            ..9 => 0,
            9 | 10 => CLUSTER_PARTS as u64,
            _ => 8,
        };
        let is_one_row = matches!(plan.form, Form::Long) && plan.groups == 1;
        if is_one_row && plan.is_cut() && plan.parts <= most {
            self.with(Form::Cluster)
        } else {
            None
        }
    }

    /// The same entry, or the one that takes elements two at a time: for extremes, on a device of
    /// compute capability `arch`, where it exists in the form. Results have the same bits.
    pub const fn in_pairs(self, op: ReduceOp, arch: (u32, u32)) -> Self {
        let is_extreme = matches!(op, ReduceOp::Max | ReduceOp::Min | ReduceOp::NormInf);
        let pairs = Self {
            family: Family::Extreme,
            ..self
        };
        let is_bf16 = matches!(self.reads, Reads::Of(DType::Bf16));
        match pairs.with(self.form) {
            Some(pairs) if is_extreme && is_bf16 && arch.0 >= 8 => pairs,
            _ => self,
        }
    }

    /// 32-bit words of a partial result.
    pub const fn partial_words(self) -> usize {
        let value = match self.out() {
            DType::F32 => 1,
            _ => 2,
        };
        match self.family {
            Family::Value | Family::Count | Family::Extreme => value,
            Family::Lse => 2 * value,
            Family::Moments => 3 * value,
            Family::Arg => match self.reads {
                Reads::Of(DType::F32 | DType::F16 | DType::Bf16) => 3,
                _ => 4,
            },
        }
    }

    /// All entries.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |family| {
            let plain = DTYPES
                .into_iter()
                .filter_map(move |dtype| Self::of(family, dtype, false));
            // Several dtypes have the same width: the entries for bits follow, once each.
            let plain = plain.filter(|entry| !matches!(entry.reads, Reads::Bits(_)));
            let bits = [16, 32, 64].into_iter().filter_map(move |bits| {
                matches!(family, Family::Count).then_some(Self {
                    family,
                    reads: Reads::Bits(bits),
                    form: Form::General,
                })
            });
            let wide = Self::of(family, DType::F32, true)
                .filter(|entry| matches!(entry.reads, Reads::Wide));
            plain.chain(bits).chain(wide)
        };
        let all = Family::ALL.into_iter().flat_map(of);
        let forms = Form::ALL.into_iter();
        forms.flat_map(move |form| all.clone().filter_map(move |entry| entry.with(form)))
    }
}

impl core::fmt::Display for ReduceEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "reduce_{}_", self.family.name())?;
        match self.reads {
            Reads::Of(dtype) => write!(f, "{dtype}"),
            Reads::Wide => write!(f, "wide"),
            Reads::Bits(bits) => write!(f, "b{bits}"),
        }?;
        f.write_str(self.form.suffix())
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
