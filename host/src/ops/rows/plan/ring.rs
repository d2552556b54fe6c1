//! Rows that come through a ring of persistent blocks: how many stages, blocks and rows at a time.

use super::limits::Ringing;
use super::rule::{LANES, RESERVED_BYTES, Rule, power};
use abi::rows::{
    GRAD_BLOCKS, MAX_CLUSTER, RING_STAGES, RING_WARPS, RingLayout, RowPlan, SHORT_BLOCKS,
    SHORT_THREADS, ShortLayout, Stages, Strategy, VECTOR_BYTES, Variant,
};

/// Fewest lanes of a short row: shared memory is read in phases of eight lanes, which then have
/// neighbouring vectors.
const LEAST_LANES: u32 = 8;

impl Rule<'_> {
    /// A ring, if blocks have room for at least two rows.
    pub(super) fn ring(&self) -> Option<RowPlan> {
        let limits = self.limits();
        match self.shape.is_any() {
            false => self.ring_by(Variant::SmemRing, limits.ring.as_ref()?),
            true => self.ring_by(Variant::SmemRingAny, limits.any_ring.as_ref()?),
        }
    }

    /// A ring with more of a row in each thread, for one input with a bias.
    pub(super) fn wide(&self) -> Option<RowPlan> {
        if self.shape.inputs > 1 || !self.shape.has_bias || self.shape.is_any() {
            return None;
        }
        let wide = self.ring_by(Variant::SmemRingWide, self.limits().wide.as_ref()?)?;
        (wide.cluster <= self.costs.wide_cluster).then_some(wide)
    }

    fn ring_by(&self, variant: Variant, ringing: &Ringing) -> Option<RowPlan> {
        let (vectors, shape) = (self.entry(variant)?.ring_vectors(), &self.shape);
        let of_warp = LANES * vectors * VECTOR_BYTES;
        let cluster = self.ring_cluster(ringing, of_warp)?;
        let warps = shape.slice_vectors(cluster).div_ceil(LANES * vectors);
        // As many blocks on an SM as it has registers for, but with room for two rows in each.
        let is_group = cluster == 1 && ringing.group_warps.is_multiple_of(warps);
        let rows = if is_group {
            ringing.group_warps / warps
        } else {
            1
        };
        let of_block = warps * rows;
        let part_bytes = RingLayout::part_bytes(vectors, shape.is_any());
        let of_stage = of_block * part_bytes * shape.inputs;
        let before = RingLayout::new(0, shape.inputs, 0, of_block, cluster).bytes();
        let most = ringing.resident_warps / of_block;
        let fits = |&blocks: &u32| self.stages(blocks, before, of_stage) >= 2;
        let blocks = (1..=most).rev().find(fits)?;
        let of_use = self.costs.warp_stages / (of_block * blocks);
        let stages = self.stages(blocks, before, of_stage).min(of_use);
        (stages >= 2).then_some(RowPlan {
            strategy: Strategy::Ring(Stages {
                vectors,
                stages,
                blocks,
                rows,
            }),
            threads: warps * LANES,
            cluster,
        })
    }

    /// Blocks of a row whose warps have `of_warp` bytes each; `None` of rows that are too long, or of
    /// several inputs that clusters are too small for.
    fn ring_cluster(&self, ringing: &Ringing, of_warp: u32) -> Option<u32> {
        let bytes = self.row_bytes();
        if bytes > u64::from(MAX_CLUSTER * RING_WARPS * of_warp) {
            return None;
        }
        let blocks = |warps: u32| power(bytes.div_ceil(u64::from(warps * of_warp)), 1);
        let cluster = match blocks(ringing.warps) {
            _ if bytes <= u64::from(ringing.alone_warps * of_warp) => 1,
            least if least <= ringing.cluster => least,
            _ => blocks(ringing.most_warps).min(MAX_CLUSTER),
        };
        let is_joined = self.shape.inputs > 1;
        (!is_joined || cluster >= ringing.joined_cluster).then_some(cluster)
    }

    /// Stages of `stage_bytes`, after `before_bytes`, that fit each of `blocks` blocks on an SM.
    fn stages(&self, blocks: u32, before_bytes: u32, stage_bytes: u32) -> u32 {
        let room = (self.shared_bytes + RESERVED_BYTES) / blocks;
        let stages = room.saturating_sub(RESERVED_BYTES + before_bytes) / stage_bytes;
        stages.min(RING_STAGES)
    }

    /// Short rows, if the lanes of a warp hold one: a warp has one, two or four at a time.
    pub(super) fn short(&self) -> Option<RowPlan> {
        let variant = match (self.shape.is_any(), self.shape.is_dense) {
            (false, _) => Variant::SmemRingShort,
            (true, true) => Variant::SmemRingShortAny,
            (true, false) => return None,
        };
        let of_lane = self.entry(variant)?.ring_vectors();
        let vectors = self.row_bytes().div_ceil(u64::from(VECTOR_BYTES));
        if vectors > u64::from(LANES * of_lane) {
            return None;
        }
        let lanes = power(vectors.div_ceil(u64::from(of_lane)), LEAST_LANES);
        let room =
            ((self.shared_bytes + RESERVED_BYTES) / SHORT_BLOCKS).checked_sub(RESERVED_BYTES)?;
        let bytes = |stages| {
            ShortLayout::new(
                self.shape.inputs,
                stages,
                SHORT_THREADS / LANES,
                self.shape.is_any(),
            )
            .bytes()
        };
        let fits = |&stages: &u32| bytes(stages) <= room;
        Some(RowPlan {
            strategy: Strategy::Short(Stages {
                vectors: of_lane,
                stages: (2..=self.costs.short_stages).rev().find(fits)?,
                blocks: SHORT_BLOCKS,
                rows: SHORT_THREADS / lanes,
            }),
            threads: lanes,
            cluster: 1,
        })
    }

    /// The plan for the number of rows: blocks have several rows at a time only where there are enough
    /// rows for all SMs.
    pub(super) fn shared_out(&self, plan: RowPlan) -> RowPlan {
        let few = |ring: Stages, least: u32| {
            let of_all = |rows: u32| u64::from(2 * self.costs.multiprocessors * rows);
            let mut rows = ring.rows;
            while rows > least && self.rows < of_all(rows) {
                rows /= 2;
            }
            Stages { rows, ..ring }
        };
        let strategy = match plan.strategy {
            Strategy::Ring(ring) => Strategy::Ring(few(ring, 1)),
            Strategy::Short(ring) => Strategy::Short(few(ring, LANES / plan.threads)),
            other => other,
        };
        RowPlan { strategy, ..plan }
    }

    /// Blocks of a launch with persistent blocks. They do not depend on the device.
    pub(super) fn persistent_blocks(&self, plan: &RowPlan) -> u32 {
        let most = match plan.strategy {
            Strategy::Ring(ring) | Strategy::Short(ring) => {
                self.resident_blocks(ring.blocks, plan.cluster)
            }
            _ => self.costs.multiprocessors * GRAD_BLOCKS,
        };
        plan.blocks(self.rows)
            .map_or(most, |blocks| blocks.min(most))
    }

    /// Blocks that run at the same time on an H200, with `of_one` on an SM. Larger clusters leave some
    /// SMs without a block.
    fn resident_blocks(&self, of_one: u32, cluster: u32) -> u32 {
        let clusters = match cluster {
            1 | 2 => self.costs.multiprocessors / cluster * of_one,
            // 30, 62, 92, 124 clusters: some are made up of what two SMs have left.
            4 => 31 * of_one / 2 * 2,
            8 => 15 * of_one,
            _ => 7 * of_one,
        };
        clusters * cluster
    }
}
