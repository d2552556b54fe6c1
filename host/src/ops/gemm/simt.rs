//! The portable SIMT kernels, which compute every GEMM on every device.
//!
//! They exist for f32. Operands of other dtypes are converted first, which is exact. Outputs of
//! other dtypes, and split-K, use partial results in f32 and the kernel that reduces them.

use super::call::Call;
use super::candidates::{Candidate, Entry, Reads, splits};
use super::desc::GemmDesc;
use super::splits::KSplits;
use crate::ops::plan::{Machine, Work};
use crate::{DType, LaunchConfig, Result};
use abi::gemm::{SIMT_LARGE, SimtEntry, TileConfig};

/// Resident blocks per SM.
const LARGE_BLOCKS: u32 = 2;
const SMALL_BLOCKS: u32 = 3;

/// Split-K factors that are considered, and the least k of a part.
const SPLITS: (&[u32], u32) = (&[1, 2, 4, 8, 16, 32], 256);

/// Offers both tiles, with and without split-K.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    for entry in SimtEntry::of((desc.a.transpose, desc.b.transpose)) {
        for split_k in splits(desc, machine, entry.tile.tiles(desc.m, desc.n), SPLITS) {
            candidate(desc, machine, entry, split_k).map(&mut *offer);
        }
    }
}

fn candidate(
    desc: &GemmDesc,
    machine: &Machine,
    entry: SimtEntry,
    split_k: u32,
) -> Option<Candidate> {
    let (tile, costs) = (entry.tile, &machine.model.gemm.simt);
    let splits = KSplits::of(desc.k, split_k);
    let is_direct = desc.d.dtype == DType::F32 && splits.count == 1;
    // The batch of the launch: batch times parts of equal length; `None` if it exceeds a grid.
    let grid = tile.grid(desc.m, desc.n, desc.batch.checked_mul(splits.whole)?)?;
    let (flops_per_cycle, blocks_per_multiprocessor) = match tile {
        SIMT_LARGE => (costs.large_flops, LARGE_BLOCKS),
        _ => (costs.small_flops, SMALL_BLOCKS),
    };
    let mut extra_ns = 0.0;
    if !is_direct {
        extra_ns += desc.partials_ns(&splits, machine);
    }
    let is_converted = desc.a.dtype != DType::F32;
    if is_converted {
        // The operands are read, then written and read again as f32.
        let growth = 8.0 / desc.a.dtype.size_bytes() as f64;
        let bytes = (1.0 + growth) * desc.bytes();
        extra_ns += 2.0 * machine.model.launch_ns + bytes / machine.bytes_per_ns;
    }
    let work = Work {
        blocks_per_multiprocessor,
        flops_per_cycle,
        alone: costs.alone,
        overhead_ns: costs.overhead_ns,
        extra_ns,
        ..desc.work(&splits, [tile.tile_m, tile.tile_n, tile.tile_k])
    };
    Some(Candidate {
        split_k,
        reads: match is_converted {
            true => Reads::Converted(DType::F32),
            false => Reads::InPlace,
        },
        partials: (!is_direct).then_some(splits),
        estimated_ns: machine.estimate_ns(&work),
        ..Candidate::direct(
            Entry::Simt(entry),
            [tile.tile_m, tile.tile_n, tile.tile_k],
            config(&tile, grid),
        )
    })
}

fn config(tile: &TileConfig, grid: [u32; 3]) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [tile.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}

/// Enqueues one main kernel.
pub(super) fn launch(entry: SimtEntry, call: &Call<'_>) -> Result<()> {
    let desc = &call.desc;
    let grid = entry.tile.grid(desc.m, desc.n, desc.batch);
    let config = grid.map(|grid| config(&entry.tile, grid));
    call.launch_by_pointers(entry, config, |params, epilogue| (params, epilogue))
}
