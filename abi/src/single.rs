//! Kernels of which there is one of a kind. A line is the constant that has the entry, and the name
//! of the kernel function.

/// A kernel that is the only one of its kind; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SingleEntry {
    name: &'static str,
}

impl SingleEntry {
    /// The name by which the kernel is loaded.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl core::fmt::Display for SingleEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! singles {
    ($($(#[$doc:meta])* $entry:ident: $name:ident;)*) => {
        $(
            $(#[$doc])*
            pub const $entry: SingleEntry = SingleEntry {
                name: stringify!($name),
            };
        )*

        impl SingleEntry {
            /// Every entry, in the order of the table.
            pub const ALL: &[Self] = &[$($entry),*];

            /// The names of all entries, in the same order.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}

singles! {
    /// 1 over the number of targets that count: [`rows`](crate::rows).
    CROSS_ENTROPY_WEIGHT: cross_entropy_weight;
    /// The same, by PDL.
    CROSS_ENTROPY_WEIGHT_EARLY: cross_entropy_weight_early;
    /// The sum of losses: [`rows`](crate::rows).
    CROSS_ENTROPY_TOTAL: cross_entropy_total;
    /// The same, by PDL.
    CROSS_ENTROPY_TOTAL_EARLY: cross_entropy_total_early;
    /// Adds up the gradients of norms' weights: [`rows`](crate::rows).
    NORM_GRAD_FINISH: norm_grad_finish;
    /// Merges two calls' results: [`merge`](crate::attention::merge).
    MERGE_ENTRY: attention_merge;
    /// Merges the parts of one call: [`merge`](crate::attention::merge).
    SPLITS_ENTRY: attention_merge_splits;
    /// Writes delta: [`attention_grad`](crate::attention_grad).
    DELTA_ENTRY: attention_grad_simt_delta;
    /// Writes the sinks' gradients: [`sink`](crate::attention_grad::sink).
    SINK_ENTRY: attention_grad_simt_sink;
    /// Rounds sums to gradients: [`sums`](crate::attention_grad::sums).
    ROUND_ENTRY: attention_grad_sm90_round;
    /// The portable kernel of grouped GEMMs: [`GroupedParams`](crate::gemm::GroupedParams).
    GROUPED_ENTRY: gemm_grouped_simt_f32_64x64x16;
    /// The portable kernel of products of i8: [`integer`](crate::gemm::integer).
    INTEGER_ENTRY: gemm_simt_i8_64x64x32;
}
