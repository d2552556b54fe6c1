//! Kernels of which there is one of a kind. A line is the constant that has the entry, the name of
//! the kernel function, and the parameter blocks of a launch.

use crate::attention::blocks::{BlockMarkParams, LineParams, ShowParams};
use crate::attention::merge::MergeParams;
use crate::attention::{FlashFwdLengths, FlashFwdParams, FwdPacking};
use crate::attention_grad::AttentionGradParams;
use crate::attention_grad::sums::Rounding;
use crate::entry::{Blocks, Entry, Table};
use crate::gemm::{EpilogueParams, GemmParams, GroupedParams};
use crate::rows::RowParams;
use crate::scan::MarkParams;
use crate::scatter::ScatterParams;
use crate::scatter_add::{AddParams, OrderParams};
use core::marker::PhantomData;

/// A kernel that is the only one of its kind, launched with the blocks `P`; displays as its entry
/// name.
#[derive(Debug)]
pub struct SingleEntry<P> {
    name: &'static str,
    params: PhantomData<fn(P)>,
}

impl<P> SingleEntry<P> {
    /// The name by which the kernel is loaded.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<P> Clone for SingleEntry<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for SingleEntry<P> {}

impl<P: Blocks> Entry for SingleEntry<P> {
    type Params = P;

    fn name(&self) -> &'static str {
        self.name
    }
}

impl<P> core::fmt::Display for SingleEntry<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! singles {
    ($($(#[$doc:meta])* $entry:ident: $name:ident($params:ty);)*) => {
        $(
            $(#[$doc])*
            pub const $entry: SingleEntry<$params> = SingleEntry {
                name: stringify!($name),
                params: PhantomData,
            };
        )*

        /// A table for each entry.
        pub(crate) const TABLES: &[Table] = &[$(Table {
            entry: stringify!($entry),
            module: module_path!(),
            lists: &[],
            names: &[stringify!($name)],
            params: stringify!($params),
        }),*];
    };
}

singles! {
    /// 1 over the number of targets that count: [`rows`](crate::rows).
    CROSS_ENTROPY_WEIGHT: cross_entropy_weight(RowParams);
    /// The same, by PDL.
    CROSS_ENTROPY_WEIGHT_EARLY: cross_entropy_weight_early(RowParams);
    /// The sum of losses: [`rows`](crate::rows).
    CROSS_ENTROPY_TOTAL: cross_entropy_total(RowParams);
    /// The same, by PDL.
    CROSS_ENTROPY_TOTAL_EARLY: cross_entropy_total_early(RowParams);
    /// Adds up the gradients of norms' weights: [`rows`](crate::rows).
    NORM_GRAD_FINISH: norm_grad_finish(RowParams);
    /// Merges two calls' results: [`merge`](crate::attention::merge).
    MERGE_ENTRY: attention_merge(MergeParams);
    /// Merges the parts of one call: [`merge`](crate::attention::merge).
    SPLITS_ENTRY: attention_merge_splits((FlashFwdLengths, FlashFwdParams, FwdPacking));
    /// Marks blocks by their indices: [`blocks`](crate::attention::blocks).
    BLOCKS_MARK: attention_blocks_mark(BlockMarkParams);
    /// Marks blocks by a mask: [`blocks`](crate::attention::blocks).
    BLOCKS_SHOW: attention_blocks_show(ShowParams);
    /// Writes lines of blocks: [`blocks`](crate::attention::blocks).
    BLOCKS_LINES: attention_blocks_lines(LineParams);
    /// Writes delta: [`attention_grad`](crate::attention_grad).
    DELTA_ENTRY: attention_grad_simt_delta((FlashFwdLengths, AttentionGradParams));
    /// Writes the sinks' gradients: [`sink`](crate::attention_grad::sink).
    SINK_ENTRY: attention_grad_simt_sink((FlashFwdLengths, FlashFwdParams));
    /// Rounds sums to gradients: [`sums`](crate::attention_grad::sums).
    ROUND_ENTRY: attention_grad_sm90_round((FlashFwdLengths, AttentionGradParams, Rounding));
    /// The portable kernel of grouped GEMMs: [`GroupedParams`].
    GROUPED_ENTRY: gemm_grouped_simt_f32_64x64x16(GroupedParams);
    /// The portable kernel of products of i8: [`integer`](crate::gemm::integer).
    INTEGER_ENTRY: gemm_simt_i8_64x64x32((GemmParams, EpilogueParams, u32));
    /// Marks where running extremes are reached: [`scan`](crate::scan).
    SCAN_MARKS: scan_marks(MarkParams);
    /// Finds the last position that names each place: [`scatter`](crate::scatter).
    SCATTER_LAST: scatter_last(ScatterParams);
    /// Counts the digits of indices: [`scatter_add`](crate::scatter_add).
    SCATTER_ADD_COUNT: scatter_add_count(OrderParams);
    /// Sorts indices by a digit, or by all: [`scatter_add`](crate::scatter_add).
    SCATTER_ADD_SORT: scatter_add_sort(OrderParams);
    /// Adds the parts of segments: [`scatter_add`](crate::scatter_add).
    SCATTER_ADD_FINISH: scatter_add_finish(AddParams);
    /// Combines the parts of segments: [`scatter_add`](crate::scatter_add).
    SCATTER_REDUCE_FINISH: scatter_reduce_finish(AddParams);
    /// Adds rows by few indices: [`scatter_add`](crate::scatter_add).
    SCATTER_ADD_FEW: scatter_add_few((AddParams, u32));
}
