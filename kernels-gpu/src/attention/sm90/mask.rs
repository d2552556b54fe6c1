//! Masks a warpgroup's scores. Only blocks of keys at the edges of the mask need it.

use core::hint::cold_path;

use abi::attention::sm90::divided;
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::uniform;

use super::kernel::Config;
use super::rows::RowMap;
use super::softmax::ROWS;
use super::ticket::{Ticket, Visible};

/// The mask as the rows of one warpgroup see it.
#[derive(Clone, Copy)]
pub(super) struct RowMask {
    ticket: Ticket,
    /// All rows see all keys of the blocks `first..end`.
    first: u32,
    /// See `first`.
    end: u32,
}

impl RowMask {
    /// The mask of a warpgroup's rows, whose first query is `query_of_tile` of the ticket's tile,
    /// in blocks of keys.
    ///
    /// # Safety
    /// The ticket is one of a tile, and is not overwritten while the mask is used. The warp calls
    /// it, converged.
    #[inline(always)]
    pub(super) unsafe fn new<C: Config>(ticket: Ticket, rows: C::Rows, query_of_tile: u32) -> Self {
        // SAFETY: the caller's promise.
        let visible = unsafe { ticket.visible() };
        let first = visible.first(query_of_tile + rows.queries() - 1);
        let end = visible.end(query_of_tile);
        // SAFETY: the caller's promise.
        unsafe {
            let first = uniform(first.max(0) as u32);
            let end = uniform(end.max(0) as u32);
            Self {
                ticket,
                first: divided(first + C::TILE.tile_n - 1, C::TILE.tile_n).0,
                end: divided(end, C::TILE.tile_n).0,
            }
        }
    }

    /// Whether all rows see all keys of the block.
    #[inline(always)]
    pub(super) const fn is_whole(&self, block: u32) -> bool {
        block >= self.first && block < self.end
    }

    /// Sets the masked scores of a block of keys to -inf.
    ///
    /// # Safety
    /// `rows` and `query_of_tile` are what the mask was made for.
    #[inline(always)]
    pub(super) unsafe fn apply<C: Config>(
        &self,
        rows: C::Rows,
        query_of_tile: u32,
        s: &mut [f32],
        block: u32,
    ) {
        if !self.is_whole(block) {
            cold_path();
            // SAFETY: the ticket has not been overwritten.
            let visible = unsafe { self.ticket.visible() };
            let is_bounded = block < self.first;
            apply_by_row(
                &visible,
                is_bounded,
                (rows, query_of_tile),
                s,
                block * C::TILE.tile_n,
            );
        }
    }
}

/// `is_bounded` is set if some row may not see the block's first keys.
#[inline(always)]
fn apply_by_row<R: RowMap>(
    visible: &Visible,
    is_bounded: bool,
    (rows, query_of_tile): (R, u32),
    s: &mut [f32],
    first_key: u32,
) {
    // Opaque, so that what depends only on the thread is not kept in registers across blocks.
    let thread = opaque(thread::thread_idx_x());
    let (warp, lane) = (thread % 128 / 32, thread % 32);
    let first_row = rows.first(query_of_tile, [16 * warp, lane / 4]);
    // The thread's first column; its other columns are at constant distances.
    let column = (first_key + lane % 4 * 2) as i32;
    let mut i = 0;
    while i < ROWS {
        let query = rows.row(first_row, 8 * i as u32).query;
        let end = visible.end(query) - column;
        let mut first = 0;
        if is_bounded {
            cold_path();
            first = visible.first(query) - column;
        }
        let mut word = 0;
        while word * WORD < s.len() / ROWS {
            let before = (word * 4 * WORD) as i32;
            let seen = below(end - before) & !below(first - before);
            let mut bit = 0;
            while bit < WORD && word * WORD + bit < s.len() / ROWS {
                let at = word * WORD + bit;
                if seen & (1 << bit) == 0 {
                    s[at / 2 * 4 + 2 * i + at % 2] = f32::NEG_INFINITY;
                }
                bit += 1;
            }
            word += 1;
        }
        i += 1;
    }
}

/// Scores of a thread's row that one word of visibility bits covers.
const WORD: usize = 32;

/// Bits of the thread's scores in columns before `column`; a thread has two of every eight columns.
#[inline(always)]
pub(crate) fn below(column: i32) -> u32 {
    let column = if column < 0 { 0 } else { column as u32 };
    let of_eight = if column % 8 < 2 { column % 8 } else { 2 };
    let bits = column / 8 * 2 + of_eight;
    if bits < WORD as u32 {
        (1 << bits) - 1
    } else {
        u32::MAX
    }
}
