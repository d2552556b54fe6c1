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

    /// Constants of the kernels of products.
    GemmCosts {
        /// Portable kernels for f32.
        simt: SimtCosts = SimtCosts::H200,
        /// Portable kernel for i8.
        integer: IntegerCosts = IntegerCosts::H200,
        /// Kernels for f64.
        double: DoubleCosts = DoubleCosts::H200,
        /// Kernels by `mma.sync`.
        mma: MmaCosts = MmaCosts::H200,
        /// Kernels by `wgmma`.
        sm90: Sm90Costs = Sm90Costs::H200,
        /// Kernels for few rows from Ampere on.
        decode: DecodeCosts = DecodeCosts::H200,
        /// Kernels for few rows on Hopper.
        sm90_decode: Sm90DecodeCosts = Sm90DecodeCosts::H200,
        /// Time of a copy of an operand beyond its bytes and its launch: 512 x 512 of f32, and of 8
        /// bits, on an H100.
        copy_ns: f64 = 2_145.0,
        /// Share of the memory bandwidth that a transposition reaches. L2 keeps a part of it for
        /// the kernel that follows: 4096 x 4096 of f32 takes 31 to 38 us on an H100.
        copy_of_bandwidth: f64 = 1.08,
    }

    /// Products in f32 by multiply-adds (docs/gemm-simt.md).
    SimtCosts {
        /// Speed of the large tile: 128 lanes, less the share of the loads.
        large_flops: f64 = 0.8 * 256.0,
        /// Speed of the small tile.
        small_flops: f64 = 0.5 * 256.0,
        /// [`Work::alone`].
        alone: f64 = 0.6,
        /// Time of the first loads of a block, and of its stores.
        overhead_ns: f64 = 2_000.0,
    }

    /// Products in i8 by `dp4a`; not measured.
    IntegerCosts {
        /// Speed: 64 lanes of `dp4a`, less the share of the loads.
        flops: f64 = 0.5 * 512.0,
        /// Factor of the speed where an operand is gathered byte by byte.
        by_bytes: f64 = 0.6,
        /// [`Work::alone`].
        alone: f64 = 0.6,
        /// Time of the first loads of a block, and of its stores.
        overhead_ns: f64 = 2_000.0,
    }

    /// Products in f64.
    DoubleCosts {
        /// Share of the peak that multiply-adds reach; not measured.
        simt_efficiency: f64 = 0.6,
        /// Share of the peak that Hopper's tensor cores reach with large tiles (4096, 8192).
        hopper_large_efficiency: f64 = 0.68,
        /// The same with small tiles.
        hopper_small_efficiency: f64 = 0.72,
        /// Share of the peak that other tensor cores reach with large tiles; not measured.
        mma_large_efficiency: f64 = 0.9,
        /// The same with small tiles; not measured.
        mma_small_efficiency: f64 = 0.8,
        /// Factor of the speed of Hopper's tensor cores by the instruction of Ampere; not measured.
        older_instruction: f64 = 0.5,
        /// Factor of the speed where an operand is copied element by element; not measured.
        unaligned: f64 = 0.9,
        /// [`Work::alone`] where blocks share a multiprocessor.
        alone: f64 = 0.5,
        /// Time of the first loads of a block, and of its stores.
        overhead_ns: f64 = 2_500.0,
    }

    /// Products by `mma.sync`.
    MmaCosts {
        /// Share of the peak that the large tile reaches: 454 TFLOP/s of bf16 at 8192³ on an H200,
        /// whose `mma.sync` reaches about 620.
        large_efficiency: f64 = 0.73,
        /// The same of the small tiles.
        small_efficiency: f64 = 0.70,
        /// The same on Turing, where copies pass through registers; not measured.
        turing_efficiency: f64 = 0.5,
        /// Factor of the speed where rows are aligned to 8 bytes, which copies then have.
        aligned_8: f64 = 0.55,
        /// The same with 4 bytes.
        aligned_4: f64 = 0.28,
        /// The same with fewer, where loads are synchronous.
        aligned_less: f64 = 0.15,
        /// [`Work::alone`].
        alone: f64 = 0.65,
        /// Time of the first loads of a block, and of its stores.
        overhead_ns: f64 = 2_500.0,
    }

    /// Products by `wgmma`. Speeds are of 16-bit operands. They were fitted to GEMMs that fill the
    /// device, interleaved with cuBLASLt's, without the waves that are not full. Few rows were
    /// measured on an H200, others on an H100: 34 GEMMs by up to five tiles each, of which the
    /// model takes the fastest within 1 %. 128 x 128 was measured on an H200 again, with L2
    /// promotion of 128 bytes.
    Sm90Costs {
        /// Speed of tiles of 64 rows, bound by what L2 gives to a multiprocessor: random products.
        rows_64_flops: f64 = 2_300.0,
        /// Speed of tiles of 81 to 96 columns, which read fewer bytes for each product.
        columns_96_flops: f64 = 2_655.0,
        /// Speed of tiles of up to 48 columns, bound by shared memory, and by L2 where each block
        /// reads all of A.
        columns_48_flops: f64 = 1_665.0,
        /// The same of up to 80 columns.
        columns_80_flops: f64 = 1_936.0,
        /// Speed of promoted tiles of up to 128 columns: the fewest wgmma cycles between two
        /// promotions of the sums.
        promoted_128_flops: f64 = 2_900.0,
        /// Speed of tiles of up to 128 columns with a transposed A: 0.94 and 0.95 of cuBLASLt at 8192,
        /// where wider tiles have 1.00 to 1.02.
        transposed_128_flops: f64 = 2990.0,
        /// Speed of tiles of 193 to 224 columns, where memory binds: 128 x 28672 x 8192.
        columns_224_flops: f64 = 3140.0,
        /// Speed of tiles of 256 columns that are not stored under the next tile.
        columns_256_flops: f64 = 3245.0,
        /// Speed of all other tiles.
        flops: f64 = 3108.0,
        /// Bytes per nanosecond that the tensor copies of one SM read of rows that are not aligned
        /// to 32 bytes. Over 29 random products by 6 tiles each, with and without clusters, it is
        /// 48 to 56.
        unaligned_bytes_per_ns: f64 = 52.0,
        /// The same of rows that are aligned to 32 bytes but not to a line of L2.
        aligned_32_bytes_per_ns: f64 = 110.0,
        /// The same of rows that are aligned to a line of L2: no product reached more.
        aligned_bytes_per_ns: f64 = 120.0,
        /// Speed of a launch with one tile of 128 x 256 per block. Fitted to 2048 x 2048 x k, where
        /// 128 x 128 is 0.8 us faster with a k of 256 and 0.1 us slower with 1024. Also fitted to
        /// 1024 x 4096 x 4096, where it is 3 us slower.
        one_256_flops: f64 = 3_894.0,
        /// Time of storing the only tile of a block of 128 x 256, with nothing left to multiply.
        one_256_store_ns: f64 = 2_002.0,
        /// Time per byte of a tile of D, with the cooperative schedule, of storing it while the tensor
        /// cores have less to do. It counts where a block has more than one tile.
        store_ns_per_byte: f64 = 0.02,
        /// Bytes per nanosecond that a block gets of device memory beside few others.
        block_bytes_per_ns: f64 = 33.0,
        /// Time of the start and of the end of clusters.
        cluster_ns: f64 = 750.0,
        /// Time of rounding a tile whose results are held.
        round_ns: f64 = 450.0,
        /// How much earlier launches whose results are held end than the number of waves predicts.
        ahead_ns: f64 = 5_000.0,
        /// Most of that, as a share of the time of a short GEMM.
        ahead_share: f64 = 0.05,
        /// Time of the start of the next tile, with the ping-pong schedule. A batch of 64 x 512 x
        /// 512 x 512 takes 36.7 us with six tiles per block, and 38.5 with eight.
        turn_ns: f64 = 450.0,
        /// Time of scratch memory and of the kernel that reduces partial results, beyond its bytes.
        partials_ns: f64 = 5_600.0,
        /// With stream-K, time per element of a tile of handing over partial sums. Fitted to eight
        /// GEMMs with 128 rows on an H200, with tiles of 64 and 128 columns.
        hand_over_ns: f64 = 7_500.0 / (128.0 * 128.0),
        /// The same of adding the sums of one other block.
        add_ns: f64 = 1_000.0 / (128.0 * 128.0),
        /// L2 bandwidth for blocks that are at different k and so share no reads: at 4096 x 4096 x
        /// 4096 and 1024 x 8192 x 8192.
        l2_bytes_per_ns: f64 = 8_938.0,
        /// The same with one row of tiles, where blocks share A.
        l2_one_row_bytes_per_ns: f64 = 9_072.0,
        /// Relative time of reading weights where all blocks read the same rows of A, compared with
        /// tiles that are so wide that few blocks do. Measured with 128 x 14336 x 4096 and 128 x
        /// 28672 x 8192.
        same_rows: f64 = 1.05,
        /// Waves from which on blocks of promoted tiles are expected to have drifted apart.
        drift_after_waves: f64 = 32.0,
        /// Further waves after which drift doubles the time: 8192 x 16,384 and 16,384, by 128 x 176,
        /// promoted, on an H100.
        drift_doubles_after_waves: f64 = 390.0,
        /// Share of the time that blocks lose within bands all the same: 16,384 by 128 x 176 takes
        /// 6 % more than by 128 x 256, which multiplies as much.
        lost_in_bands: f64 = 0.05,
    }

    /// Products of 1 to 64 rows, bound by reading B.
    DecodeCosts {
        /// Speed of `mma.sync`.
        flops: f64 = 3_272.0,
        /// [`Work::alone`]; small, because all blocks wait for memory.
        alone: f64 = 0.2,
        /// Time of the first loads of a block, and of its stores.
        overhead_ns: f64 = 839.8,
        /// Time of a launch beyond that of its bytes.
        beside_ns: f64 = 3_359.0,
        /// Additional time where blocks that share k meet.
        tickets_ns: f64 = 839.8,
        /// Blocks per SM that suffice for the full bandwidth.
        enough_blocks: f64 = 0.336,
    }

    /// Products of 1 to 128 rows on Hopper, bound by reading B.
    Sm90DecodeCosts {
        /// Bytes of weights per nanosecond that an SM gets from device memory when all SMs read, on a
        /// device with [`full_bytes_per_ns`](Self::full_bytes_per_ns).
        bytes_per_ns: f64 = 40.62,
        /// Bytes of weights and tokens per nanosecond that an SM gets from L2 where there are several
        /// rows of tiles.
        l2_bytes_per_ns: f64 = 59.4,
        /// Bandwidth of the device that the others are compared with.
        full_bytes_per_ns: f64 = 4_300.0,
        /// Tiles of up to 64 rows: time per byte of A (tokens), from L2, relative to the time per byte
        /// of B (weights).
        tokens_64: f64 = 0.054,
        /// Tiles of up to 64 rows. The factor makes estimates comparable with those of other
        /// families, which assume the full memory bandwidth although they do not reach it with few
        /// rows.
        as_others_64: f64 = 0.85,
        /// As [`tokens_64`](Self::tokens_64), of 128 rows.
        tokens_128: f64 = 0.154,
        /// As [`as_others_64`](Self::as_others_64), of 128 rows.
        as_others_128: f64 = 0.96,
        /// Tiles of up to 64 rows: time per partial sum that a block sends to others.
        sum_64_ns: f64 = 0.0486,
        /// The same of 128 rows.
        sum_128_ns: f64 = 0.0876,
        /// Share of the time of a byte of A that is saved where another block multicasts it.
        multicast: f64 = 0.413,
        /// Relative time per byte of rows that are aligned to 32 bytes but not to a line of L2.
        touched_32: f64 = 1.05,
        /// The same of rows that are not aligned to 32 bytes.
        touched_16: f64 = 1.19,
        /// Time before the first bytes arrive, and after the last.
        start_ns: f64 = 1_700.0,
        /// Time per thread for the epilogue of a tile, for every four results.
        ending_ns: f64 = 74.65,
        /// Relative time of the waves after the first: their blocks start while others still copy.
        later_waves: f64 = 1.681,
        /// Time of the meeting of blocks that share k, per wave.
        meeting_ns: f64 = 924.0,
        /// Time of each further block that shares k or A.
        neighbour_ns: f64 = 104.0,
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
