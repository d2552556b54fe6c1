//! The time that a launch of these kernels is expected to take: what the cost model knows about them.

use super::super::candidates::{LAUNCH_NS, Machine, Work};
use super::super::desc::GemmDesc;
use super::super::parts::Parts;
use super::Way;
use crate::DType;
use abi::gemm::Transpose;
use abi::gemm::sm90::{EpilogueKind, SPAN_BYTES, Schedule, Sm90Tile};
use abi::gemm::stream_k::Cut;

/// Flops per cycle of an SM by tile, for 16-bit operands. Fitted to GEMMs that fill the device,
/// interleaved with cuBLASLt's, without the waves that are not full: few rows on an H200, others on
/// an H100 (34 GEMMs by up to five tiles each, of which the model takes the fastest within 1 %),
/// 128 x 128 on an H200 again, since L2 promotion is of 128 bytes.
fn flops_per_cycle(tile: &Sm90Tile, desc: &GemmDesc, epilogue: EpilogueKind) -> f64 {
    let trans_a = matches!(desc.a.transpose, Transpose::T);
    match (tile.tile_m, tile.tile_n) {
        // Bound by what L2 gives to a multiprocessor: 1024 x 1024 x 1024 to 4096.
        (..=64, _) => 2950.0,
        // Bound by shared memory, and by L2 where each block reads all of A.
        (_, ..=48) => 1850.0,
        (_, ..=80) => 2170.0,
        // The fewest wgmma cycles between two promotions of the sums.
        (_, ..=128) if epilogue.is_promoted() => 2900.0,
        // 0.94 and 0.95 of cuBLASLt at 8192, where wider tiles have 1.00 to 1.02 with such an A.
        (_, ..=128) if trans_a => 2990.0,
        // Where memory binds: 128 x 28672 x 8192.
        (_, 193..=224) => 3140.0,
        _ if epilogue.is_promoted() => 3108.0,
        _ if !holds_results(tile, desc, epilogue) && tile.tile_n > 224 => 3245.0,
        _ => 3108.0,
    }
}

/// Whether a tile is stored under the next one. Of tf32, the kernel writes f32, whatever D is; promoted
/// sums leave no registers for results, and the epilogues of i8 are too long for it.
fn holds_results(tile: &Sm90Tile, desc: &GemmDesc, epilogue: EpilogueKind) -> bool {
    let is_held = tile.holds_results(desc.d.dtype.size_bytes() as u32);
    let is_short = !matches!(desc.a.dtype, DType::F32 | DType::I8);
    is_held && is_short && !epilogue.is_promoted()
}

/// Cost per element of a tile, with the cooperative schedule, of storing a tile while the tensor
/// cores have less to do. It counts where a block has more than one tile.
const STORE_NS: f64 = 3_600.0 / (128.0 * 256.0);
/// Cost of rounding a tile whose results are held; and how much earlier such launches end than the
/// number of waves predicts, at most a twentieth of a short GEMM.
const ROUND_NS: f64 = 450.0;
const AHEAD_NS: f64 = 5_000.0;
/// Cost of storing the only tile of a block of 128 x 256, with nothing left to multiply; and the flops
/// per cycle of a launch of such blocks. Fitted to 2048 x 2048 x k, where 128 x 128 is 0.8 us faster
/// with a k of 256 and 0.1 us slower with 1024, and to 1024 x 4096 x 4096, where it is 3 us slower.
const STORE_OF_ONE_256_NS: f64 = 1_400.0;
const FLOPS_OF_ONE_256: f64 = 3245.0;
/// Cost of the start of the next tile, with the ping-pong schedule: a batch of 64 x 512 x 512 x 512
/// takes 36.7 us with six tiles per block, and 38.5 with eight.
const TURN_NS: f64 = 450.0;
/// Cost of scratch memory and of the kernel that reduces partial results, beyond its bytes.
const PARTIALS_NS: f64 = 10_000.0;
/// With stream-K, cost per element of a tile of handing over partial sums, and of adding those of
/// one other block. Fitted to eight GEMMs with 128 rows on an H200, with tiles of 64 and 128
/// columns.
const HAND_OVER_NS: f64 = 7_500.0 / (128.0 * 128.0);
const ADD_NS: f64 = 1_000.0 / (128.0 * 128.0);
/// L2 bandwidth, in bytes per nanosecond, for blocks that are at different k and so share no reads:
/// at 4096 x 4096 x 4096 and 1024 x 8192 x 8192; and with one row of tiles, where they share A.
const L2_BYTES_PER_NS: f64 = 6_500.0;
const L2_ONE_ROW_BYTES_PER_NS: f64 = 10_500.0;
/// Relative time of reading weights where all blocks read the same rows of A, compared with tiles
/// that are so wide that few blocks do: 128 x 14336 x 4096 and 128 x 28672 x 8192.
const SAME_ROWS: f64 = 1.05;
/// The work of a candidate with whole tiles, for the cost model.
pub(super) fn work(
    desc: &GemmDesc,
    machine: &Machine,
    tile: &Sm90Tile,
    parts: &Parts,
    way: Way,
) -> Work {
    let (rows, columns) = tile.grid_tiles(desc.m, desc.n);
    let tiles = f64::from(rows) * f64::from(columns);
    let slower = match tile.tile_n {
        _ if desc.m > tile.tile_m => 1.0,
        224 => 1.0,
        _ => SAME_ROWS,
    };
    let size_bytes = desc.a.dtype.size_bytes() as u32;
    let k = f64::from(parts.k.next_multiple_of(SPAN_BYTES / size_bytes));
    let (tile_m, tile_n) = (f64::from(tile.tile_m), f64::from(tile.tile_n));
    let extra_ns = if way.is_direct() {
        0.0
    } else {
        // Partial results are written and read.
        LAUNCH_NS + PARTIALS_NS + 2.0 * desc.partial_bytes(parts.count) / machine.bytes_per_ns
    };
    let blocks = tiles * f64::from(desc.batch) * f64::from(parts.count);
    let multiprocessors = f64::from(machine.multiprocessors);
    let is_one_wave = blocks <= multiprocessors;
    let is_one_256 = is_one_wave && (tile.tile_m, tile.tile_n) == (128, 256);
    let flops_per_cycle = if is_one_256 {
        FLOPS_OF_ONE_256
    } else {
        flops_per_cycle(tile, desc, way.epilogue())
    };
    // Elements of half the size have twice the throughput.
    let flops_per_cycle = flops_per_cycle * 2.0 / f64::from(size_bytes);
    let flops_per_block = 2.0 * tile_m * tile_n * k;
    let ahead_ns = if holds_results(tile, desc, way.epilogue()) && !is_one_wave {
        let busy_ns =
            blocks * flops_per_block / (flops_per_cycle * machine.clock_ghz * multiprocessors);
        AHEAD_NS.min(0.05 * busy_ns)
    } else {
        0.0
    };
    Work {
        blocks,
        blocks_per_multiprocessor: 1,
        flops_per_block,
        flops_per_cycle,
        alone: 1.0,
        overhead_ns: match tile.schedule {
            _ if is_one_256 => STORE_OF_ONE_256_NS,
            _ if is_one_wave => 0.0,
            Schedule::Cooperative if holds_results(tile, desc, way.epilogue()) => ROUND_NS,
            Schedule::Cooperative => STORE_NS * tile_m * tile_n,
            Schedule::Pingpong => TURN_NS,
        },
        bytes: desc.bytes() * slower,
        extra_ns: extra_ns - ahead_ns,
    }
}

/// The same with stream-K.
pub(super) fn shared_work(
    whole: Work,
    desc: &GemmDesc,
    tile: &Sm90Tile,
    cut: Cut,
    machine: &Machine,
) -> Work {
    let (sharers, shared) = (f64::from(cut.sharers), f64::from(cut.shared));
    let size_bytes = desc.a.dtype.size_bytes() as f64;
    let (tile_m, tile_n) = (f64::from(tile.tile_m), f64::from(tile.tile_n));
    let parts_of_others = (sharers / shared - 1.0).ceil().max(1.0);
    let hand_over_ns = (HAND_OVER_NS + ADD_NS * parts_of_others) * tile_m * tile_n;
    if whole.blocks > shared {
        // Whole waves, and then parts of tiles.
        let flops_per_ns = whole.flops_per_cycle * machine.clock_ghz;
        let part_ns = whole.flops_per_block * shared / sharers / flops_per_ns;
        return Work {
            blocks: whole.blocks - shared,
            extra_ns: whole.extra_ns + part_ns + hand_over_ns,
            ..whole
        };
    }
    let flops = whole.blocks * whole.flops_per_block;
    // Each k of a tile is 2 * tile_m * tile_n flops, and tile_m + tile_n elements.
    let of_l2 = flops * (tile_m + tile_n) * size_bytes / (2.0 * tile_m * tile_n);
    let l2_bytes_per_ns = if desc.m <= tile.tile_m {
        L2_ONE_ROW_BYTES_PER_NS
    } else {
        L2_BYTES_PER_NS
    };
    let bytes = if cut.is_even() {
        whole.bytes
    } else {
        whole
            .bytes
            .max(of_l2 * machine.bytes_per_ns / l2_bytes_per_ns)
    };
    Work {
        blocks: sharers,
        flops_per_block: flops / sharers,
        bytes,
        extra_ns: hand_over_ns,
        ..whole
    }
}
