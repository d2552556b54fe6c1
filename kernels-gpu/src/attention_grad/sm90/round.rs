//! Turns sums into a gradient: times a factor, rounded, in the rows of the tensor.

use abi::attention::sm90::{divided, tiles_of};
use abi::attention::{FlashFwdLengths, FlashFwdParams, OutputDType, Positions, Sequence};
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm90::{CHUNK, Sm90GradTile};
use abi::attention_grad::sums::Rounding;
use abi::gemm::sm90::{MMA_M, WARPGROUP};
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::grid::griddepcontrol_wait;
use cuda_std::mem::ld_v4_f32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use super::store::OutputRows;
use crate::attention::packed_order::Count;
use crate::attention::sparse::{Line, is_sparse};

/// Registers of an accumulator of 64 × 64.
const REGISTERS: usize = (CHUNK / WARPGROUP) as usize;

/// One block: a chunk of the sums.
///
/// # Safety
/// Launched as [`abi::attention_grad::sums`] says; `via` is the block's own shared memory.
#[inline(always)]
pub(super) unsafe fn round(
    (sums, gradient): (*const f32, *mut u16),
    (lengths, params): (&FlashFwdLengths, &AttentionGradParams),
    rounding: &Rounding,
    via: SharedAddr,
) {
    let chunks = rounding.chunks();
    let (slot, chunk) = divided(thread::block_idx_x(), chunks);
    let (block, column) = divided(chunk, rounding.panels);
    let head = thread::block_idx_y();
    let at = u64::from(head) * u64::from(rounding.slots) + u64::from(slot);
    let at = at * u64::from(chunks);
    let at = rounding.first + (at + u64::from(chunk)) * u64::from(CHUNK);
    let from = sums.wrapping_add(at as usize);
    let thread = thread::thread_idx_x() as usize;
    let mut of_thread = [0.0; REGISTERS];
    // SAFETY: the launch before this one wrote all sums of keys, and those of the tiles of queries
    // that some block of keys visits. The lengths are those of that launch.
    let (sequence, tile_idx) = unsafe {
        griddepcontrol_wait();
        let Some((sequence, tile_idx)) = find(lengths, &params.fwd, rounding, slot) else {
            return;
        };
        let place = (&sequence, [head, tile_idx]);
        if rounding.is_dq == 0 || is_visited(params, rounding.tile, place) {
            let mut i = 0;
            while i < REGISTERS / 4 {
                let four = ld_v4_f32(from.add(4 * (i * WARPGROUP as usize + thread)));
                of_thread[4 * i..4 * i + 4].copy_from_slice(&four);
                i += 1;
            }
        }
        (sequence, tile_idx)
    };
    let row = tile_idx * rounding.tile + block * MMA_M;
    let column = column * MMA_M;
    let positions = positions(rounding, &sequence);
    let position = positions.first + row;
    let offset = (rounding.strides).offset(sequence.batch_idx, position, head) + i64::from(column);
    let rows = OutputRows {
        to: gradient.wrapping_offset(offset as isize),
        stride: rounding.strides.seq,
        rows: positions.len.saturating_sub(row),
        columns: rounding.columns.saturating_sub(column),
    };
    let is_f16 = params.fwd.o_dtype == OutputDType::F16.code();
    let pair = |low, high| match is_f16 {
        true => f32x2_to_f16x2_cvt(low, high),
        false => f32x2_to_bf16x2_cvt(low, high),
    };
    // SAFETY: the warpgroup is the block; rows and columns of the gradient that there are.
    unsafe { rows.store(via, &of_thread, rounding.factor, pair) };
}

/// The sequence of a tile, and the tile's index in it; `None` if there is no such tile.
///
/// # Safety
/// All threads of the block call it; the lengths are those of a launch.
#[inline(always)]
unsafe fn find(
    lengths: &FlashFwdLengths,
    params: &FlashFwdParams,
    rounding: &Rounding,
    slot: u32,
) -> Option<(Sequence, u32)> {
    let tiles = |sequence: &Sequence| tiles_of(positions(rounding, sequence).len, rounding.tile);
    let count = Count {
        lengths,
        params,
        tiles,
    };
    if *lengths == FlashFwdLengths::NONE {
        // SAFETY: there are no arrays.
        let of = |batch_idx| unsafe { count.of(batch_idx) };
        let (batch_idx, tile_idx) = divided(slot, tiles(&of(0)));
        return Some((of(batch_idx), tile_idx));
    }
    // SAFETY: the caller's promise; each warp finds it.
    unsafe {
        let through = count.through();
        if slot >= count.all(through) {
            return None;
        }
        let found = count.find(through, slot);
        let sequence = count.of(found.batch_idx);
        // As in `write_place`: a sequence that has no place for all of its queries has no dq.
        let end = u64::from(slot - found.index) + u64::from(tiles(&sequence));
        let is_left_out = rounding.is_dq != 0 && end > u64::from(rounding.slots);
        (!is_left_out).then_some((sequence, found.index))
    }
}

/// The positions of a sequence that have the gradient.
#[inline(always)]
fn positions(rounding: &Rounding, sequence: &Sequence) -> Positions {
    match rounding.is_dq {
        0 => sequence.k,
        _ => sequence.q,
    }
}

/// Whether some block of keys visits a tile of `tile_m` queries.
#[inline(always)]
fn is_visited(
    params: &AttentionGradParams,
    tile_m: u32,
    (sequence, [head, query_tile]): (&Sequence, [u32; 2]),
) -> bool {
    // Its head_dim has no part in this.
    let tile = Sm90GradTile {
        head_dim: 0,
        tile_m,
    };
    let order = tile.order(params.fwd.mask(sequence));
    let mut blocks = order.key_blocks(query_tile);
    if is_sparse() {
        let line = Line::<false> {
            batch: sequence.batch_idx,
            head,
            row: query_tile * tile_m,
            extent: order.tile_n,
        };
        (blocks.first, blocks.end) = line.visited(blocks.first, blocks.end);
    }
    !blocks.is_empty()
}
