//! The cost model: the constants that were fitted to measurements, and the time of work in waves.
//!
//! # Waves
//! Work consists of blocks of equal duration ([`Work`]). The blocks that are resident at the same
//! time form a wave, and a wave takes as long as the SM with the most blocks:
//!
//! ```text
//! wave      = multiprocessors * blocks_per_multiprocessor
//! full      = blocks / wave, rounded down
//! last      = the remaining blocks of the fullest multiprocessor
//! block_ns  = flops_per_block / (flops_per_ns of a full multiprocessor / blocks_per_multiprocessor)
//! compute   = full * (block_ns + overhead_ns)
//!           + (last > 0) * (block_ns * max(last / blocks_per_multiprocessor, alone) + overhead_ns)
//! memory    = bytes / bandwidth
//! estimate  = launch_ns + max(compute, memory) + extra_ns
//! ```
//!
//! `alone` is the fraction of `block_ns` that a block takes when it has an SM to itself. It is 1 if
//! the block is bound by latency, less if it speeds up without other blocks. Padding counts, since
//! a block computes its whole tile. `autotune` measures what the model does not know: power,
//! caches, alignment.

use crate::DeviceInfo;
use crate::ops::attention::AttentionCosts;
use crate::ops::attention_grad::AttentionGradCosts;
use crate::ops::elementwise::ElementwiseCosts;
use crate::ops::gemm::GemmCosts;
use crate::ops::reduce::ReduceCosts;
use crate::ops::rotary::RotaryCosts;
use crate::ops::rows::{RowCosts, SortCosts, TopKCosts};
use crate::ops::scan::ScanCosts;
use crate::ops::scatter_add::ScatterAddCosts;

/// Declares structs of constants, and their values on an H200. The files of operations use it too.
macro_rules! costs {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $value:expr,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $name {
            /// The values of an H200.
            pub const H200: Self = Self {
                $($field: $value,)*
            };
        }
    )*};
}
pub(in crate::ops) use costs;

costs! {
    /// All constants of the cost models that were fitted to measurements. Times are in nanoseconds,
    /// speeds in flops a cycle of a multiprocessor (a multiply-add counts as two) or in bytes a
    /// nanosecond.
    MachineModel {
        /// Time from the end of one kernel to the first block of the next.
        launch_ns: f64 = 2_000.0,
        /// Products.
        gemm: GemmCosts = GemmCosts::H200,
        /// Attention.
        attention: AttentionCosts = AttentionCosts::H200,
        /// Gradients of attention.
        attention_grad: AttentionGradCosts = AttentionGradCosts::H200,
        /// Operations on rows.
        rows: RowCosts = RowCosts::H200,
        /// Sorts.
        sort: SortCosts = SortCosts::H200,
        /// The first elements of rows.
        topk: TopKCosts = TopKCosts::H200,
        /// Elementwise operations.
        elementwise: ElementwiseCosts = ElementwiseCosts::H200,
        /// Reductions.
        reduce: ReduceCosts = ReduceCosts::H200,
        /// Scans.
        scan: ScanCosts = ScanCosts::H200,
        /// Rotations.
        rotary: RotaryCosts = RotaryCosts::H200,
        /// Additions of rows.
        scatter_add: ScatterAddCosts = ScatterAddCosts::H200,
    }
}

impl MachineModel {
    /// The model of a device. There is one, which [`Machine`] scales.
    pub(in crate::ops) fn of(_device: &DeviceInfo) -> &'static Self {
        &Self::H200
    }
}

/// A device as the cost model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops) struct Machine {
    /// Compute capability.
    pub(in crate::ops) arch: (u32, u32),
    pub(in crate::ops) multiprocessors: u32,
    /// Largest shared memory of a block.
    pub(in crate::ops) shared_bytes: u32,
    /// Bandwidth of device memory, in bytes per nanosecond.
    pub(in crate::ops) bytes_per_ns: f64,
    /// Clock of the SMs under load, in cycles per nanosecond.
    pub(in crate::ops) clock_ghz: f64,
    pub(in crate::ops) model: MachineModel,
}

impl Machine {
    /// Bandwidth and clock by architecture: the vendor's numbers for a typical data-centre or
    /// desktop part. Only their ratios matter.
    pub(in crate::ops) fn of(device: &DeviceInfo, model: &MachineModel) -> Self {
        const LARGE_HOPPER_BYTES: u64 = 100 << 30;
        let (bytes_per_ns, clock_ghz) = match device.arch {
            (..=7, _) => (300.0, 1.5),
            (8, 0) => (1_500.0, 1.4),
            (8, _) => (800.0, 1.8),
            (9, _) if device.memory_bytes > LARGE_HOPPER_BYTES => (4_300.0, 1.7),
            (9, _) => (3_000.0, 1.7),
            _ => (7_000.0, 1.8),
        };
        Self {
            arch: device.arch,
            multiprocessors: device.multiprocessors.max(1),
            shared_bytes: device.max_shared_bytes_per_block,
            bytes_per_ns,
            clock_ghz,
            model: *model,
        }
    }

    /// Estimated run time of a launch that moves `bytes` bytes by so many blocks: all of the bandwidth
    /// takes a block on each multiprocessor.
    pub(in crate::ops) fn moving_ns(&self, bytes: f64, blocks: f64) -> f64 {
        let all = f64::from(self.multiprocessors);
        let share = blocks.clamp(1.0, all) / all;
        self.model.launch_ns + bytes / (self.bytes_per_ns * share)
    }

    /// Estimated run time of `work`, in waves.
    pub(in crate::ops) fn estimate_ns(&self, work: &Work) -> f64 {
        let resident = f64::from(work.blocks_per_multiprocessor.max(1));
        let wave = f64::from(self.multiprocessors) * resident;
        let full = (work.blocks / wave).floor();
        let last = ((work.blocks - full * wave) / f64::from(self.multiprocessors)).ceil();
        let flops_per_ns = work.flops_per_cycle * self.clock_ghz / resident;
        let block_ns = work.flops_per_block / flops_per_ns;
        let mut compute = full * (block_ns + work.overhead_ns);
        if last > 0.0 {
            compute += block_ns * (last / resident).max(work.alone) + work.overhead_ns;
        }
        let memory = work.bytes / self.bytes_per_ns;
        self.model.launch_ns + compute.max(memory) + work.extra_ns
    }
}

/// Blocks of a device that run at the same time, one on each SM, in clusters of so many. All blocks of a
/// cluster must be in one group of SMs (GPC): the rest of a group stays idle, and the groups of a
/// device have different sizes.
pub(in crate::ops) fn blocks_at_once(multiprocessors: u32, cluster_blocks: u32) -> u32 {
    /// SMs of a group.
    const GROUP: u32 = 16;
    /// Clusters of more than two blocks that were observed to wait although all groups should be full.
    const LEFT_OUT: u32 = 2;
    if cluster_blocks <= 2 {
        return multiprocessors / cluster_blocks * cluster_blocks;
    }
    let clusters = multiprocessors / GROUP * (GROUP / cluster_blocks);
    clusters.saturating_sub(LEFT_OUT).max(1) * cluster_blocks
}

/// The work of one candidate. Numbers are f64, since products of extents are large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops) struct Work {
    /// Number of blocks: tiles times parts of k times batch.
    pub(in crate::ops) blocks: f64,
    /// Blocks that are resident on an SM at the same time.
    pub(in crate::ops) blocks_per_multiprocessor: u32,
    /// Flops of a whole tile over its part of k; a multiply-add counts as two.
    pub(in crate::ops) flops_per_block: f64,
    /// Flops per cycle that a full SM reaches in the kernel's mainloop.
    pub(in crate::ops) flops_per_cycle: f64,
    /// Time of a block that has an SM to itself, as a fraction of its time on a full SM.
    pub(in crate::ops) alone: f64,
    /// Time of a wave before the first and after the last multiply-add.
    pub(in crate::ops) overhead_ns: f64,
    /// Bytes that at least are moved between device memory and the SMs.
    pub(in crate::ops) bytes: f64,
    /// Time of further launches.
    pub(in crate::ops) extra_ns: f64,
}

impl Work {
    /// The work of products: a tile for each block, over this length of k, with `bytes` bytes moved in
    /// all. The caller fills in the speed.
    pub(in crate::ops) fn of_tiles(
        blocks: f64,
        [tile_m, tile_n, tile_k]: [u32; 3],
        k: u32,
        bytes: f64,
    ) -> Self {
        let k = f64::from(k.next_multiple_of(tile_k));
        Self {
            blocks,
            blocks_per_multiprocessor: 1,
            flops_per_block: 2.0 * f64::from(tile_m) * f64::from(tile_n) * k,
            flops_per_cycle: 0.0,
            alone: 1.0,
            overhead_ns: 0.0,
            bytes,
            extra_ns: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        arch: (9, 0),
        multiprocessors: 100,
        shared_bytes: 227 << 10,
        bytes_per_ns: 4_000.0,
        clock_ghz: 1.0,
        model: MachineModel::H200,
    };

    const LAUNCH_NS: f64 = MachineModel::H200.launch_ns;

    const WORK: Work = Work {
        blocks: 200.0,
        blocks_per_multiprocessor: 2,
        flops_per_block: 1e6,
        flops_per_cycle: 100.0,
        alone: 0.5,
        overhead_ns: 0.0,
        bytes: 0.0,
        extra_ns: 0.0,
    };

    #[test]
    fn a_wave_takes_as_long_as_its_fullest_multiprocessor() {
        let ns = |blocks: f64| MACHINE.estimate_ns(&Work { blocks, ..WORK }) - LAUNCH_NS;
        assert_eq!(ns(200.0), 20_000.0); // one full wave
        assert_eq!(ns(201.0), 30_000.0); // and one block alone, twice as fast
        assert_eq!(ns(300.0), 30_000.0);
        assert_eq!(ns(301.0), 40_000.0);
        assert_eq!(ns(1.0), 10_000.0);
    }

    #[test]
    fn memory_binds_where_there_is_little_to_compute() {
        let work = Work {
            bytes: 4e9,
            extra_ns: 7.0,
            ..WORK
        };
        assert_eq!(MACHINE.estimate_ns(&work), LAUNCH_NS + 1e6 + 7.0);
    }
}
