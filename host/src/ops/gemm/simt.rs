//! The portable kernels: every product on every device.

use super::call::Call;
use super::candidates::{Candidate, Entry, Machine, Work};
use super::desc::GemmDesc;
use crate::{LaunchConfig, Result};
use spec::gemm::{SIMT_DTYPES, SIMT_LARGE, SIMT_SMALL, SimtEntry, TileConfig};

/// Multiply-adds, counted as two, that a multiprocessor does in a cycle: 128 lanes, less what
/// loads take (docs/gemm-simt.md).
const LARGE_FLOPS_PER_CYCLE: f64 = 0.8 * 256.0;
const SMALL_FLOPS_PER_CYCLE: f64 = 0.5 * 256.0;
/// Blocks of a multiprocessor.
const LARGE_BLOCKS: u32 = 2;
const SMALL_BLOCKS: u32 = 4;
/// First loads of a block, and its stores.
const OVERHEAD_NS: f64 = 2_000.0;

/// Adds the tiles that have a kernel for the element types and fit a grid.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let is_built = SIMT_DTYPES.contains(&(desc.a.dtype, desc.d.dtype));
    let is_one_type = desc.a.dtype == desc.b.dtype;
    let only_c = GemmDesc { c: None, ..*desc }.is_plain();
    if !is_built || !is_one_type || !only_c || desc.split_k > 1 {
        return;
    }
    for (tile, flops_per_cycle, blocks_per_multiprocessor) in [
        (SIMT_LARGE, LARGE_FLOPS_PER_CYCLE, LARGE_BLOCKS),
        (SIMT_SMALL, SMALL_FLOPS_PER_CYCLE, SMALL_BLOCKS),
    ] {
        let Some(grid) = tile.grid(desc.m, desc.n, desc.batch) else {
            continue;
        };
        let blocks = tile.tiles(desc.m, desc.n) as f64 * f64::from(desc.batch);
        let work = Work {
            blocks,
            blocks_per_multiprocessor,
            flops_per_block: block_flops(&tile, desc.k),
            flops_per_cycle,
            alone: 0.6,
            overhead_ns: OVERHEAD_NS,
            bytes: desc.bytes(),
            extra_ns: 0.0,
        };
        offer(Candidate {
            entry: Entry::Simt(SimtEntry {
                input: desc.a.dtype,
                output: desc.d.dtype,
                trans_a: desc.a.transpose,
                trans_b: desc.b.transpose,
                tile,
            }),
            tile: [tile.tile_m, tile.tile_n, tile.tile_k],
            split_k: 1,
            swapped: false,
            config: LaunchConfig {
                grid,
                block: [tile.threads, 1, 1],
                shared_bytes: 0,
                cluster: None,
            },
            estimated_ns: machine.estimate_ns(&work),
        });
    }
}

fn block_flops(tile: &TileConfig, k: u32) -> f64 {
    let k = f64::from(k.next_multiple_of(tile.tile_k));
    2.0 * f64::from(tile.tile_m) * f64::from(tile.tile_n) * k
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: SimtEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let params = call.params();
    let (a, b, c, d) = (&call.a, &call.b, call.c.as_ref(), &call.d);
    // SAFETY: extents and strides are those of the call's memory, whose layouts lie inside of
    // their storage; d is injective and overlaps neither a nor b, and c only where it is c; null
    // stands for a c that is not read.
    unsafe { call.launch(entry, candidate.config, &[&a, &b, &c, &d, &params]) }
}
