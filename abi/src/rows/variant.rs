//! Where rows are held: the variants of kernels, and which of them a plan uses.
//!
//! `v0 v1 ..` are the vectors of 16 bytes of a row, `t0 t1 ..` are threads.
//!
//! **registers** (`registers`, `registers_more`, `registers_weights`): thread `t` of `T` has the
//! vectors `t`, `t + T`, ..; they go through no memory. `registers_weights` has the weights beside
//! them.
//! ```text
//! row    | v0 | v1 | .. | vT-1 | vT | vT+1 | ..
//!          t0   t1   ..   tT-1   t0   t1     ..     one block has one row, or several short ones
//! ```
//! `registers_any` takes rows that begin anywhere: `t0 t1 ..` also have one element each of what is
//! ahead of the whole vectors and behind them.
//! ```text
//! row    | e e | v0 | v1 | .. | vL-1 | e |
//!          t0 t1  t0   t1   ..         t2
//! ```
//! **cluster** (`cluster`, `cluster_any`, `cluster_ahead`, `cluster_pairs`): each block of a cluster has a slice in
//! its shared memory, and the blocks exchange their sums. `cluster_ahead` loads weights while they do.
//! `cluster_pairs` has slices of two rows. `cluster_any` is to `cluster` as `registers_any` is to
//! `registers`.
//! ```text
//! row    | slice 0     | slice 1     | ..    | slice C-1   |
//!          smem, CTA 0   smem, CTA 1           smem, CTA C-1      <- sums ->
//! ```
//! **smem_ring** (`smem_ring`, `smem_ring_wide`): persistent blocks or clusters. Rows come one after
//! the other into the stages of a ring in shared memory; each warp has a part of each row.
//! ```text
//! smem   | row i     | row i + 1 | row i + 2 |      <- bulk copies of row i + 3 into the first
//!          computed    landing     landing
//! ```
//! `smem_ring_any` takes rows that begin anywhere. A thread has single elements instead of vectors:
//! those `t`, `t + 32`, .. of its warp's part.
//!
//! **smem_ring_short**: the same with a ring for each warp, whose stage holds 1, 2 or 4 short rows.
//! ```text
//! smem   | warp 0: rows a, b | warp 0: rows c, d | .. | warp 1: rows e, f | ..
//! ```
//! `smem_ring_short_any` is to it as `smem_ring_any` is to `smem_ring`. Rows follow each other without
//! gaps, so that one copy brings those of a stage.
//!
//! **streaming** (`streaming`): threads go through the row element by element, for rows that no other
//! variant takes and for other GPUs. The row is in shared memory if it fits there; otherwise it
//! is read again for the result.
//! ```text
//! row    | e0 | e1 | .. | eT-1 | eT | ..
//!          t0   t1   ..   tT-1   t0   ..
//! ```
//! **columns** does not hold rows: its kernel adds up columns for the gradients of weights.

use super::{Ahead, RowParams, RowPlan, RowShape, Stages, Strategy, WIDE_VECTORS};
use crate::SingleEntry;
use crate::entry::Parts;
use crate::single::{
    CROSS_ENTROPY_TOTAL, CROSS_ENTROPY_TOTAL_EARLY, CROSS_ENTROPY_WEIGHT,
    CROSS_ENTROPY_WEIGHT_EARLY,
};

/// Where a kernel holds a row between its read and its write, as the last part of an entry's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// In registers of a block's threads; sm_90a.
    Registers,
    /// The same, with more vectors in each thread; bf16; sm_90a.
    RegistersMore,
    /// As [`Variant::Registers`], with weights in registers too, for launches whose blocks all run
    /// at once; norms of 16-bit types; sm_90a.
    RegistersWeights,
    /// As [`Variant::Registers`], for rows that begin anywhere; softmax and norms; sm_90a.
    RegistersAny,
    /// In slices, in shared memory of the blocks of a cluster, or of one block; sm_90a.
    Cluster,
    /// The same for rows that begin anywhere; sm_90a.
    ClusterAny,
    /// The same, with weights loaded ahead; sm_90a.
    ClusterAhead,
    /// The same for two rows at a time, with a bias; sm_90a.
    ClusterPairs,
    /// In a ring in shared memory of persistent blocks or clusters; sm_90a.
    SmemRing,
    /// The same, with more of a row in each thread; bf16; sm_90a.
    SmemRingWide,
    /// As [`Variant::SmemRing`], for rows that begin anywhere; sm_90a.
    SmemRingAny,
    /// In a ring of each warp, one row or several at a time; bf16; sm_90a.
    SmemRingShort,
    /// As [`Variant::SmemRingShort`], for rows that begin anywhere, without gaps; sm_90a.
    SmemRingShortAny,
    /// Element by element, in shared memory if the row fits there; every GPU.
    Streaming,
    /// Nowhere: adds up the columns of rows, for the gradients of weights; every GPU.
    Columns,
}

impl Variant {
    /// Whether launches use PDL: they begin before the preceding ones have ended, and wait for
    /// their writes.
    pub const fn begins_early(self) -> bool {
        !matches!(self, Self::Streaming | Self::Columns)
    }

    /// Whether rows may begin at any element: they need not be aligned to vectors, nor be whole ones.
    pub const fn takes_any(self) -> bool {
        matches!(
            self,
            Self::RegistersAny
                | Self::ClusterAny
                | Self::SmemRingAny
                | Self::SmemRingShortAny
                | Self::Streaming
        )
    }

    pub(super) const fn of_name(parts: &mut Parts) -> Self {
        // A name comes before those that it begins with.
        const NAMES: [(&str, Variant); 15] = [
            ("registers_more", Variant::RegistersMore),
            ("registers_weights", Variant::RegistersWeights),
            ("registers_any", Variant::RegistersAny),
            ("registers", Variant::Registers),
            ("cluster_ahead", Variant::ClusterAhead),
            ("cluster_pairs", Variant::ClusterPairs),
            ("cluster_any", Variant::ClusterAny),
            ("cluster", Variant::Cluster),
            ("smem_ring_wide", Variant::SmemRingWide),
            ("smem_ring_short_any", Variant::SmemRingShortAny),
            ("smem_ring_short", Variant::SmemRingShort),
            ("smem_ring_any", Variant::SmemRingAny),
            ("smem_ring", Variant::SmemRing),
            ("streaming", Variant::Streaming),
            ("columns", Variant::Columns),
        ];
        let mut i = 0;
        while i < NAMES.len() {
            if parts.take(NAMES[i].0) {
                return NAMES[i].1;
            }
            i += 1;
        }
        panic!("an entry's name lacks a variant");
    }

    /// Entry that computes 1 / the number of targets that count, for cross-entropy; it is launched
    /// right before rows of this variant.
    pub const fn weight_entry(self) -> SingleEntry<RowParams> {
        match self.begins_early() {
            true => CROSS_ENTROPY_WEIGHT_EARLY,
            false => CROSS_ENTROPY_WEIGHT,
        }
    }

    /// Entry that sums up cross-entropy's losses, after rows of this variant.
    pub const fn total_entry(self) -> SingleEntry<RowParams> {
        match self.begins_early() {
            true => CROSS_ENTROPY_TOTAL_EARLY,
            false => CROSS_ENTROPY_TOTAL,
        }
    }
}

impl RowPlan {
    /// The variant of the entry for rows of this shape.
    pub const fn variant(&self, shape: &RowShape) -> Variant {
        match self.strategy {
            Strategy::Registers(variant) => variant,
            Strategy::Slices => shape.slices(),
            Strategy::Ahead(Ahead { rows: 1, .. }) => Variant::ClusterAhead,
            Strategy::Ahead(_) => Variant::ClusterPairs,
            Strategy::Ring(_) if shape.is_any() => Variant::SmemRingAny,
            Strategy::Ring(Stages { vectors, .. }) if vectors == WIDE_VECTORS as u32 => {
                Variant::SmemRingWide
            }
            Strategy::Ring(_) => Variant::SmemRing,
            Strategy::Short(_) if shape.is_any() => Variant::SmemRingShortAny,
            Strategy::Short(_) => Variant::SmemRingShort,
            Strategy::Shared | Strategy::Passes => Variant::Streaming,
        }
    }
}
