//! The portable SIMT kernels, which compute every GEMM on every device.
//!
//! They exist for f32. Operands of other dtypes are converted first, which is exact. Outputs of
//! other dtypes, and split-K, use partial results in f32 and the kernel that reduces them.

use super::call::Call;
use super::candidates::{Candidate, Entry, LAUNCH_NS, Machine, Work};
use super::desc::GemmDesc;
use super::parts::{Parts, in_parts};
use crate::{DType, LaunchConfig, Result};
use abi::gemm::{SIMT_LARGE, SimtEntry, TileConfig};

/// Flops per cycle of an SM, a multiply-add counted as two: 128 lanes, less the share of the loads
/// (docs/gemm-simt.md).
const LARGE_FLOPS_PER_CYCLE: f64 = 0.8 * 256.0;
const SMALL_FLOPS_PER_CYCLE: f64 = 0.5 * 256.0;
/// Resident blocks per SM.
const LARGE_BLOCKS: u32 = 2;
const SMALL_BLOCKS: u32 = 3;
/// [`Work::alone`].
const ALONE: f64 = 0.6;
/// Time of the first loads of a block, and of its stores.
const OVERHEAD_NS: f64 = 2_000.0;

/// Split-K factors that are considered.
const SPLITS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Least k of a part, unless the caller requests more parts.
const LEAST_K: u32 = 256;

/// Offers both tiles, with and without split-K.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let is_chosen = desc.split_k > 0;
    let chosen = [desc.split_k];
    let splits: &[u32] = if is_chosen { &chosen } else { &SPLITS };
    for entry in SimtEntry::of((desc.a.transpose, desc.b.transpose)) {
        for &split_k in splits {
            let is_long = split_k == 1 || desc.k / split_k >= LEAST_K;
            let blocks = entry
                .tile
                .tiles(desc.m, desc.n)
                .saturating_mul(u64::from(desc.batch));
            let leaves_room = split_k == 1 || blocks < 2 * u64::from(machine.multiprocessors);
            if (is_chosen || (is_long && leaves_room))
                && let Some(candidate) = candidate(desc, machine, entry, split_k)
            {
                offer(candidate);
            }
        }
    }
}

fn candidate(
    desc: &GemmDesc,
    machine: &Machine,
    entry: SimtEntry,
    split_k: u32,
) -> Option<Candidate> {
    let tile = entry.tile;
    let parts = Parts::of(desc.k, split_k);
    let is_direct = desc.d.dtype == DType::F32 && parts.count == 1;
    // The batch of the launch: batch times parts of equal length; `None` if it exceeds a grid.
    let grid = tile.grid(desc.m, desc.n, desc.batch.checked_mul(parts.whole)?)?;
    let (flops_per_cycle, blocks_per_multiprocessor) = match tile {
        SIMT_LARGE => (LARGE_FLOPS_PER_CYCLE, LARGE_BLOCKS),
        _ => (SMALL_FLOPS_PER_CYCLE, SMALL_BLOCKS),
    };
    let k = f64::from(parts.k.next_multiple_of(tile.tile_k));
    let products = f64::from(desc.batch) * f64::from(parts.count);
    let mut extra_ns = 0.0;
    if !is_direct {
        // Partial results are written and read.
        extra_ns += LAUNCH_NS + 2.0 * desc.partial_bytes(parts.count) / machine.bytes_per_ns;
    }
    if desc.a.dtype != DType::F32 {
        // The operands are read, then written and read again as f32.
        let growth = 8.0 / desc.a.dtype.size_bytes() as f64;
        extra_ns += 2.0 * LAUNCH_NS + (1.0 + growth) * desc.bytes() / machine.bytes_per_ns;
    }
    let work = Work {
        blocks: tile.tiles(desc.m, desc.n) as f64 * products,
        blocks_per_multiprocessor,
        flops_per_block: 2.0 * f64::from(tile.tile_m) * f64::from(tile.tile_n) * k,
        flops_per_cycle,
        alone: ALONE,
        overhead_ns: OVERHEAD_NS,
        bytes: desc.bytes(),
        extra_ns,
    };
    Some(Candidate {
        entry: Entry::Simt(entry),
        tile: [tile.tile_m, tile.tile_n, tile.tile_k],
        split_k,
        stream_k: false,
        band: 0,
        k_major: false,
        config: config(&tile, grid),
        estimated_ns: machine.estimate_ns(&work),
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

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: SimtEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let types = (DType::F32, DType::F32);
    in_parts(call, types, candidate.split_k, &|call| product(entry, call))
}

/// Enqueues one main kernel.
fn product(entry: SimtEntry, call: &Call<'_>) -> Result<()> {
    let desc = &call.desc;
    let grid = entry.tile.grid(desc.m, desc.n, desc.batch);
    call.launch_by_pointers(entry, grid.map(|grid| config(&entry.tile, grid)))
}
