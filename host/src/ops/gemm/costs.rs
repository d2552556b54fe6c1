//! Constants of the cost model that were fitted to measurements.

use crate::ops::plan::costs;

costs! {
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
        /// The same of a copy of rows that are not aligned to 8 bytes, on an H200: random products.
        copy_apart: f64 = 0.35,
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
        /// Rows that begin anywhere: time of a stage, and more of it for each row of the tile.
        stage_ns: f64 = 430.0,
        stage_row_ns: f64 = 15.6,
        /// Rows that begin anywhere: time of a meeting for each block that shares k.
        split_ns: f64 = 900.0,
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
