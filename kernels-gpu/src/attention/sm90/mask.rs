//! The mask on a warpgroup's scores: only the blocks of keys at its edges need it.

use core::hint::cold_path;

use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::uniform;
use spec::gemm::sm90::MMA_M;

use super::schedule::{Queries, Ticket};
use super::softmax::ROWS;

/// The mask as the rows of one warpgroup see it.
#[derive(Clone, Copy)]
pub(super) struct RowMask {
    ticket: Ticket,
    /// Every row sees the keys from here..
    full_first: u32,
    /// ..to here.
    full_end: u32,
}

impl RowMask {
    /// Of the 64 queries of the ticket's tile from `row_of_tile` on.
    ///
    /// # Safety
    /// The ticket is a tile's, and stays until the mask is not used any more. The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn new(ticket: Ticket, row_of_tile: u32) -> Self {
        // SAFETY: the caller's.
        let Queries { mask, row } = unsafe { ticket.queries() };
        let row = row + row_of_tile;
        // SAFETY: the caller's.
        unsafe {
            Self {
                ticket,
                full_first: uniform(mask.visible_keys(row + MMA_M - 1).first),
                full_end: uniform(mask.visible_keys(row).end),
            }
        }
    }

    /// Makes the scores that are not to be seen, of the `TILE_N` keys from `first_key` on, -inf.
    ///
    /// # Safety
    /// `row_of_tile` is what the mask was made for.
    #[inline(always)]
    pub(super) unsafe fn apply<const TILE_N: u32>(
        &self,
        row_of_tile: u32,
        s: &mut [f32],
        first_key: u32,
    ) {
        if first_key < self.full_first || first_key + TILE_N > self.full_end {
            cold_path();
            // SAFETY: the ticket is still there.
            let queries = unsafe { self.ticket.queries() };
            apply_by_row(&queries, row_of_tile, s, first_key);
        }
    }
}

#[inline(always)]
fn apply_by_row(queries: &Queries, row_of_tile: u32, s: &mut [f32], first_key: u32) {
    // What depends on the thread alone is not to be kept in registers from block to block.
    let thread = opaque(thread::thread_idx_x());
    let (warp, lane) = (thread % 128 / 32, thread % 32);
    let row = queries.row + row_of_tile + 16 * warp + lane / 4;
    // The thread's first column: the others are a constant further on.
    let column = (first_key + lane % 4 * 2) as i32;
    let mut first = [0; ROWS];
    let mut end = [0; ROWS];
    let mut i = 0;
    while i < ROWS {
        let keys = queries.mask.visible_keys(row + 8 * i as u32);
        first[i] = keys.first as i32 - column;
        end[i] = keys.end as i32 - column;
        i += 1;
    }
    let mut i = 0;
    while i < s.len() {
        let column = (i / 4 * 8 + i % 2) as i32;
        let row = i / 2 % ROWS;
        if column < first[row] || column >= end[row] {
            s[i] = f32::NEG_INFINITY;
        }
        i += 1;
    }
}
