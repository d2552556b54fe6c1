//! Turns the sums of dq into dq: times softmax_scale, rounded, in the rows of the tensor.

use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::grid::griddepcontrol_wait;
use cuda_std::mem::ld_v4_f32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use spec::attention::OutputDType;
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::sm90::{BwdTile, CHUNK, CHUNKS};
use spec::gemm::sm90::{MMA_M, WARPGROUP};

use super::store::Place;

/// Registers of an accumulator of 64 × 64.
const REGISTERS: usize = (CHUNK / WARPGROUP) as usize;

/// One block: a chunk of the sums. `tile_m` are the queries of a tile.
///
/// # Safety
/// Launched as [`spec::attention::backward::sm90`] says; `via` is the block's own shared memory.
#[inline(always)]
pub(super) unsafe fn convert(
    tile_m: u32,
    (sums, dq): (*const f32, *mut u16),
    params: &FlashBwdParams,
    via: SharedAddr,
) {
    // Its head_dim has no part in this.
    let tile = BwdTile {
        head_dim: 0,
        tile_m,
    };
    let (query_tile, chunk) = (
        thread::block_idx_x() / CHUNKS,
        thread::block_idx_x() % CHUNKS,
    );
    let (head, batch) = (thread::block_idx_y(), thread::block_idx_z());
    let at = tile.query_tile_idx(&params.fwd, [batch, head, query_tile]) as usize;
    let thread = thread::thread_idx_x() as usize;
    let from = sums.wrapping_add((at * CHUNKS as usize + chunk as usize) * CHUNK as usize);
    let mut of_thread = [0.0; REGISTERS];
    // SAFETY: the launch before this one wrote the sums of all tiles that some block of keys
    // visits.
    unsafe {
        griddepcontrol_wait();
        if !tile.order(&params.fwd).key_blocks(query_tile).is_empty() {
            let mut i = 0;
            while i < REGISTERS / 4 {
                let four = ld_v4_f32(from.add(4 * (i * WARPGROUP as usize + thread)));
                of_thread[4 * i..4 * i + 4].copy_from_slice(&four);
                i += 1;
            }
        }
    }
    let first = query_tile * tile_m;
    // Halves of the columns, or of the queries.
    let (row, column) = if tile_m == MMA_M {
        (first, chunk * MMA_M)
    } else {
        (first + chunk * MMA_M, 0)
    };
    let offset = params.dq.offset(batch, row, head) + i64::from(column);
    let place = Place {
        to: dq.wrapping_offset(offset as isize),
        stride: params.dq.seq,
        rows: params.fwd.seqlen_q.saturating_sub(row),
        columns: params.fwd.head_dim.saturating_sub(column),
    };
    let is_f16 = params.fwd.o_dtype == OutputDType::F16.code();
    let pair = |low, high| match is_f16 {
        true => f32x2_to_f16x2_cvt(low, high),
        false => f32x2_to_bf16x2_cvt(low, high),
    };
    // SAFETY: the warpgroup is the block; rows and columns of dq that there are.
    unsafe { place.store(via, &of_thread, params.softmax_scale, pair) };
}
