//! Launches of the candidates of [`offer`](super::offer): tensor maps, grid, and the stream-K
//! workspace.

use super::super::call::Call;
use super::super::desc::Side;
use super::{has_map_of_d, raster_group};
use crate::ops::maps::MapValue;
use crate::ops::plan::blocks_at_once;
use crate::ops::workspaces::{Purpose, Workspace};
use crate::{Error, L2Promotion, LaunchConfig, Result, Stream};
use abi::gemm::sm90::{
    SPAN_BYTES, STORE_ROWS, Sm90Entry, Sm90Launch, Sm90Tile, THREADS, TILE_128X128,
};
use abi::gemm::stream_k::{BLOCKS_MAX, Cut, FLAGS, workspace_bytes};

/// The configuration for `grid` blocks with this tile.
pub(super) fn config(tile: &Sm90Tile, grid: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [grid, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: (tile.cluster.blocks() > 1).then_some([tile.cluster.blocks(), 1, 1]),
    }
}

/// Where blocks that share tiles on `stream` hand sums over.
fn workspace(stream: &Stream) -> Workspace {
    /// Results of the largest tile that is cut.
    const RESULTS_MAX: u32 = {
        assert!(TILE_128X128.takes_stream_k());
        TILE_128X128.tile_m * TILE_128X128.tile_n
    };
    let multiprocessors = stream.device().info().multiprocessors;
    Workspace {
        purpose: Purpose::StreamK,
        bytes: workspace_bytes(multiprocessors.clamp(1, BLOCKS_MAX), RESULTS_MAX),
        words: FLAGS as usize,
    }
}

/// Enqueues one main kernel, whose blocks share tiles as `cut` says.
pub(in crate::ops::gemm) fn launch(
    entry: Sm90Entry,
    cut: Option<Cut>,
    call: &Call<'_>,
) -> Result<()> {
    let (desc, tile) = (&call.desc, &entry.tile);
    let multiprocessors = call.stream.device().info().multiprocessors.max(1);
    let at_once = blocks_at_once(multiprocessors, tile.cluster.blocks());
    let grid = tile.grid(desc.m, desc.n, desc.batch, at_once);
    let grid = cut.map_or(grid, |cut| Some(cut.blocks));
    let grid = grid.ok_or(Error::Bug("a product was offered that fits no grid"))?;
    let config = config(tile, grid);
    let [rows_a, columns_b] = tile.loaded();
    let map_a = operand_map(call, Side::A, rows_a)?;
    let map_b = operand_map(call, Side::B, columns_b)?;
    let has_map_of_d = has_map_of_d(desc);
    // The kernel takes a map of D in any case; without one, pass another map that it ignores.
    let map_d = if has_map_of_d {
        d_map(call, tile)?
    } else {
        map_a
    };
    let launch = Sm90Launch {
        order: tile.order(desc.m, desc.n, desc.batch, raster_group(tile)),
        flags: if has_map_of_d {
            0
        } else {
            Sm90Launch::NO_MAP_OF_D
        },
        shared_tiles: cut.map_or(0, |cut| cut.shared),
        sharers: cut.map_or(0, |cut| cut.sharers),
    };
    call.uses()?;
    // SAFETY: the maps describe the call's memory, whose layouts lie inside of their storage, with
    // the boxes of the tile. d is injective and overlaps neither a nor b, and c and residual only
    // where it is them. Absent operands are null.
    let enqueue = |address: u64| unsafe {
        if entry.epilogue.is_fused() {
            let operands = (&map_a, &map_b, &map_d, address);
            call.launch_fused(entry, config, operands, |params, epilogue| {
                (params, Some(epilogue), launch)
            })
        } else {
            let (of_a, of_b) = (call.row_scale.as_ref(), call.column_scale.as_ref());
            let alpha = call.device_alpha.as_ref();
            let memory = (&map_a, &map_b, &map_d, of_a, of_b, alpha, address);
            call.launch(entry, config, memory, &(call.params(), None, launch))
        }
    };
    let workspace = cut.map(|_| workspace(call.stream));
    let workspaces = call.stream.device().workspaces();
    workspaces.lend(workspace, call.stream, enqueue)
}

/// The tensor map of an operand, of which a block loads so many rows at a time: see [`abi::gemm::sm90`].
fn operand_map(call: &Call<'_>, side: Side, rows: u32) -> Result<MapValue> {
    let desc = &call.desc;
    let (memory, matrix, extent) = (call.operand(side), desc.operand(side), desc.lines(side));
    let span = SPAN_BYTES / matrix.dtype.size_bytes() as u32;
    let (extents, box_rows) = if matrix.transpose == side.k_major() {
        ([extent, desc.k], rows)
    } else {
        ([desc.k, extent], span)
    };
    let box_dims = [span, box_rows, 1];
    // With promotion to 256 bytes, the two halves of L2 exchange half as much again.
    call.tensor_map((memory, matrix), extents, box_dims, L2Promotion::B128)
}

/// The tensor map of D.
fn d_map(call: &Call<'_>, tile: &Sm90Tile) -> Result<MapValue> {
    let desc = &call.desc;
    let size_bytes = desc.d.dtype.size_bytes() as u32;
    let span = tile.store_span_bytes(size_bytes) / size_bytes;
    let box_dims = [span, STORE_ROWS, 1];
    call.tensor_map(
        (&call.d, &desc.d),
        [desc.m, desc.n],
        box_dims,
        L2Promotion::B256,
    )
}
