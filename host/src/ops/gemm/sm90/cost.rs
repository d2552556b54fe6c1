//! The time that a launch of these kernels is expected to take: what the cost model knows about
//! them.

use super::super::desc::{GemmDesc, Side};
use super::super::splits::KSplits;
use super::Variant;
use crate::DType;
use crate::ops::gemm::costs::Sm90Costs;
use crate::ops::plan::{Machine, Work};
use abi::gemm::Transpose;
use abi::gemm::sm90::{EpilogueKind, SPAN_BYTES, Schedule, Sm90Tile};
use abi::gemm::stream_k::Cut;

/// Speed of a tile, for 16-bit operands.
fn flops_per_cycle(
    tile: &Sm90Tile,
    desc: &GemmDesc,
    epilogue: EpilogueKind,
    costs: &Sm90Costs,
) -> f64 {
    let trans_a = matches!(desc.a.transpose, Transpose::T);
    match (tile.tile_m, tile.tile_n) {
        (..=64, _) => costs.rows_64_flops,
        (_, 81..=96) => costs.columns_96_flops,
        (_, ..=48) => costs.columns_48_flops,
        (_, ..=80) => costs.columns_80_flops,
        (_, ..=128) if epilogue.is_promoted() => costs.promoted_128_flops,
        (_, ..=128) if trans_a => costs.transposed_128_flops,
        (_, 193..=224) => costs.columns_224_flops,
        _ if epilogue.is_promoted() => costs.flops,
        _ if !holds_results(tile, desc, epilogue) && tile.tile_n > 224 => costs.columns_256_flops,
        _ => costs.flops,
    }
}

/// Time in which a block copies a byte of k of its share of a tile's rows of A and columns of B.
fn copied_ns(desc: &GemmDesc, tile: &Sm90Tile, costs: &Sm90Costs) -> f64 {
    let of_side = |side: Side, lines: u32| {
        let bytes_per_ns = match desc.operand(side).row_align_bytes() {
            0..32 => costs.unaligned_bytes_per_ns,
            32..128 => costs.aligned_32_bytes_per_ns,
            _ => costs.aligned_bytes_per_ns,
        };
        f64::from(lines) / bytes_per_ns
    };
    let [rows, columns] = tile.loaded();
    of_side(Side::A, rows) + of_side(Side::B, columns)
}

/// Whether a tile is stored under the next one. Of tf32, the kernel writes f32, whatever D is;
/// promoted sums leave no registers for results, and the epilogues of i8 are too long for it.
fn holds_results(tile: &Sm90Tile, desc: &GemmDesc, epilogue: EpilogueKind) -> bool {
    let is_held = tile.holds_results(desc.d.dtype.size_bytes() as u32);
    let is_short = !matches!(desc.a.dtype, DType::F32 | DType::I8);
    is_held && is_short && !epilogue.is_promoted()
}

/// The work of a candidate with whole tiles, for the cost model.
pub(super) fn work(
    desc: &GemmDesc,
    machine: &Machine,
    tile: &Sm90Tile,
    splits: &KSplits,
    variant: Variant,
) -> Work {
    let costs = &machine.model.gemm.sm90;
    let (rows, columns) = tile.grid_tiles(desc.m, desc.n);
    let tiles = f64::from(rows) * f64::from(columns);
    let slower = match tile.tile_n {
        _ if desc.m > tile.tile_m => 1.0,
        224 => 1.0,
        _ => costs.same_rows,
    };
    let size_bytes = desc.a.dtype.size_bytes() as u32;
    let k = f64::from(splits.k.next_multiple_of(SPAN_BYTES / size_bytes));
    let (tile_m, tile_n) = (f64::from(tile.tile_m), f64::from(tile.tile_n));
    let extra_ns = if variant.is_direct() {
        0.0
    } else {
        let bytes = 2.0 * desc.partial_bytes(splits.count); // written and read
        machine.model.launch_ns + costs.partials_ns + bytes / machine.bytes_per_ns
    };
    let cluster_ns = match tile.cluster.blocks() {
        1 => 0.0,
        _ => costs.cluster_ns,
    };
    let blocks = tiles * f64::from(desc.batch) * f64::from(splits.count);
    let multiprocessors = f64::from(machine.multiprocessors);
    let is_one_wave = blocks <= multiprocessors;
    let is_one_256 = is_one_wave && (tile.tile_m, tile.tile_n) == (128, 256);
    let flops_per_cycle = if is_one_256 {
        costs.one_256_flops
    } else {
        flops_per_cycle(tile, desc, variant.epilogue(), costs)
    };
    // Elements of half the size have twice the throughput.
    let flops_per_cycle = flops_per_cycle * 2.0 / f64::from(size_bytes);
    let flops_per_block = 2.0 * tile_m * tile_n * k;
    let multiplied_ns = flops_per_block / (flops_per_cycle * machine.clock_ghz);
    let copied_ns = copied_ns(desc, tile, costs) * k * f64::from(size_bytes);
    let flops_per_cycle = flops_per_cycle * (multiplied_ns / copied_ns).min(1.0);
    let ahead_ns = if holds_results(tile, desc, variant.epilogue()) && !is_one_wave {
        let busy_ns =
            blocks * flops_per_block / (flops_per_cycle * machine.clock_ghz * multiprocessors);
        costs.ahead_ns.min(costs.ahead_share * busy_ns)
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
            _ if is_one_256 => costs.one_256_store_ns,
            _ if is_one_wave => 0.0,
            Schedule::Cooperative if holds_results(tile, desc, variant.epilogue()) => {
                costs.round_ns
            }
            Schedule::Cooperative => {
                let size_bytes = variant.output(desc).size_bytes() as f64;
                costs.store_ns_per_byte * tile_m * tile_n * size_bytes
            }
            Schedule::Pingpong => costs.turn_ns,
        },
        bytes: desc.bytes() * slower,
        extra_ns: extra_ns + cluster_ns - ahead_ns,
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
    let costs = &machine.model.gemm.sm90;
    let (sharers, shared) = (f64::from(cut.sharers), f64::from(cut.shared));
    let size_bytes = desc.a.dtype.size_bytes() as f64;
    let (tile_m, tile_n) = (f64::from(tile.tile_m), f64::from(tile.tile_n));
    let splits_of_others = (sharers / shared - 1.0).ceil().max(1.0);
    let hand_over_ns = (costs.hand_over_ns + costs.add_ns * splits_of_others) * tile_m * tile_n;
    if whole.blocks > shared {
        // Whole waves, and then parts of tiles.
        let flops_per_ns = whole.flops_per_cycle * machine.clock_ghz;
        let split_ns = whole.flops_per_block * shared / sharers / flops_per_ns;
        return Work {
            blocks: whole.blocks - shared,
            extra_ns: whole.extra_ns + split_ns + hand_over_ns,
            ..whole
        };
    }
    let flops = whole.blocks * whole.flops_per_block;
    // Each k of a tile is 2 * tile_m * tile_n flops, and tile_m + tile_n elements.
    let of_l2 = flops * (tile_m + tile_n) * size_bytes / (2.0 * tile_m * tile_n);
    let l2_bytes_per_ns = if desc.m <= tile.tile_m {
        costs.l2_one_row_bytes_per_ns
    } else {
        costs.l2_bytes_per_ns
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
