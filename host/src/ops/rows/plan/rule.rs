//! The rule by which the rows of a launch are held.

use super::RowDesc;
use super::limits::{RowCosts, RowLimits};
use crate::DeviceInfo;
use crate::ops::plan::MachineModel;
use abi::DType;
use abi::rows::{
    Alignment, FEW_BLOCKS, FEW_THREADS, MAX_THREADS, RowEntry, RowOp, RowPlan, RowShape, Strategy,
    Variant,
};

/// Lanes of a warp.
pub(super) const LANES: u32 = 32;

/// Shared memory of an SM beyond what one block can have; the hardware also reserves as much for
/// each block.
pub(super) const RESERVED_BYTES: u32 = 1 << 10;

/// Largest static shared memory of these kernels, in bytes.
const STATIC_BYTES: u32 = 1024;

/// The compute capability of the kernels that read vectors.
const HOPPER: (u32, u32) = (9, 0);

/// What the choice depends on: the rows, the device, and the limits.
pub(super) struct Rule<'a> {
    op: RowOp,
    dtype: DType,
    pub(super) rows: u64,
    pub(super) shape: RowShape,
    pub(super) costs: &'a RowCosts,
    arch: (u32, u32),
    /// Most dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
}

impl<'a> Rule<'a> {
    pub(super) fn new(desc: &RowDesc, device: &DeviceInfo, model: &'a MachineModel) -> Self {
        let shared_bytes = device.max_shared_bytes_per_block;
        Self {
            op: desc.op,
            dtype: desc.dtype,
            rows: desc.rows,
            shape: desc.shape,
            costs: &model.rows,
            arch: device.arch,
            shared_bytes: shared_bytes.saturating_sub(STATIC_BYTES),
        }
    }

    pub(super) fn limits(&self) -> &'a RowLimits {
        self.costs.of(self.op)
    }

    /// The entry of this variant for the rows, if there is one.
    pub(super) fn entry(&self, variant: Variant) -> Option<RowEntry> {
        RowEntry::of(self.op.by(variant), self.dtype, variant)
    }

    /// Bytes of a row of an input.
    pub(super) fn row_bytes(&self) -> u64 {
        let element_bytes = u64::from(self.shape.element_bytes);
        self.shape.n.saturating_mul(element_bytes)
    }

    /// All plans, the first choice first.
    ///
    /// | rows | strategy |
    /// |---|---|
    /// | aligned, on compute capability 9.0, of gradients of norms of bf16, up to [`SHORT_VECTORS`](abi::rows::SHORT_VECTORS) for each lane of a warp (1,024 elements) | [`Strategy::Short`] |
    /// | the same, of all operations, as far as they fit the threads of a [`Holding`](abi::rows::Holding), where that is fastest. In elements of bf16: up to 2,048 of cross-entropy, 12,288 of softmax, 4,608 of its gradient, 10,240 of RMS norms, 4,608 and around 6,144 of layer norms. Norms up to 21,504 with a residual, up to 16,384 with weights in f32; gradients of norms of f16 up to 512 | [`Strategy::Registers`], by as few threads as hold the row, in powers of two or whole warps |
    /// | the same, longer, of norms without a residual, up to the vectors of [`AHEAD`](abi::rows::AHEAD), or of [`PAIRS`](abi::rows::PAIRS) with a bias, for each of [`AHEAD_THREADS`](abi::rows::AHEAD_THREADS) of 16 blocks. These are 131,072 elements of 16 bits with a bias, else 262,144 | [`Strategy::Ahead`] |
    /// | the same, longer, of norms of bf16 with a bias, up to [`WIDE_VECTORS`](abi::rows::WIDE_VECTORS) for each of [`WIDE_THREADS`](abi::rows::WIDE_THREADS) of [`RowCosts::wide_cluster`] blocks (262,144 elements) | [`Strategy::Ring`] |
    /// | the same, longer, of norms and their gradients, up to the ring's vectors for each of 512 threads of 16 blocks | [`Strategy::Ring`] |
    /// | the same, longer, of all but gradients of norms, up to what the shared memory of 16 blocks has room for | [`Strategy::Slices`] |
    /// | not aligned, but those that are read together lie alike, of softmax and norms, where that is fastest | [`Strategy::Registers`], by [`Variant::RegistersAny`] |
    /// | the same, of all operations that have [`Variant::ClusterAny`] for them | [`Strategy::Slices`] |
    /// | the same, and those that do not lie alike, of norms and their gradients, of [`ANY_ELEMENTS`](abi::rows::ANY_ELEMENTS) for each lane of a warp at most (512 elements), without gaps between rows | [`Strategy::Short`] |
    /// | the same, as far as they fit [`ANY_ELEMENTS`](abi::rows::ANY_ELEMENTS) for each of 512 threads of 16 blocks (131,072 elements) | [`Strategy::Ring`] |
    /// | any other that fits a block's shared memory | [`Strategy::Shared`] |
    /// | any other | [`Strategy::Passes`] |
    pub(super) fn plans(&self) -> Vec<RowPlan> {
        let loose = [self.shared(), Some(self.loose(Strategy::Passes))];
        let loose = loose.into_iter().flatten();
        if self.arch != HOPPER {
            return loose.collect();
        }
        let is_apart = self.shape.alignment == Alignment::Apart;
        let (fast, slower) = (!is_apart).then(|| self.held()).unzip();
        let (fast, slower) = (fast.flatten(), slower.into_iter().flatten());
        if self.shape.is_any() {
            let slices = self.slices().filter(|_| !is_apart);
            let rings = [self.short(), self.ring()].map(|plan| Some(self.shared_out(plan?)));
            let ways = [fast, slices].into_iter().chain(rings).flatten();
            return ways.chain(loose).chain(slower).collect();
        }
        let ways = [
            self.short(),
            fast,
            self.ahead(),
            self.wide(),
            self.ring(),
            self.slices(),
        ];
        let plans = ways.into_iter().flatten().chain(loose).chain(slower);
        plans.map(|plan| self.shared_out(plan)).collect()
    }

    /// In shared memory, element by element, if a row fits.
    fn shared(&self) -> Option<RowPlan> {
        let plan = self.loose(Strategy::Shared);
        let rows = u64::from(self.shape.inputs * plan.rows_per_block());
        let bytes = self.row_bytes().checked_mul(rows)?;
        (bytes <= u64::from(self.shared_bytes)).then_some(plan)
    }

    /// Element by element.
    fn loose(&self, strategy: Strategy) -> RowPlan {
        let threads = match self.shape.n {
            n if n <= self.costs.one_warp_n => LANES,
            n if n <= self.costs.eight_warps_n => 8 * LANES,
            _ => MAX_THREADS,
        };
        RowPlan {
            strategy,
            threads,
            cluster: 1,
        }
    }

    /// The entries that run this plan, the first choice first. They give the same bits. With few
    /// rows in registers, weights are loaded with the rows, because no other block hides this
    /// latency.
    pub(super) fn entries(&self, plan: &RowPlan) -> [Option<RowEntry>; 2] {
        let variant = plan.variant(&self.shape);
        let plain = self.entry(variant);
        if variant != Variant::Registers || plan.block_threads() > FEW_THREADS {
            return [plain, None];
        }
        let at_once = FEW_BLOCKS * self.costs.multiprocessors;
        let all_at_once = plan
            .blocks(self.rows)
            .is_some_and(|blocks| blocks <= at_once);
        match (self.entry(Variant::RegistersWeights), all_at_once) {
            (Some(weights), true) => [Some(weights), plain],
            (weights, _) => [plain, weights],
        }
    }
}

/// The smallest power of two that is at least `n`, and at least `least`.
pub(super) fn power(n: u64, least: u32) -> u32 {
    let n = n.next_power_of_two();
    if n > u64::from(least) {
        n as u32
    } else {
        least
    }
}
