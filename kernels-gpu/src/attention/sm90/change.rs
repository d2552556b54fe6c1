//! What fills the holes of a block of scores or probabilities.

use abi::gemm::sm90::WARPGROUP;
use cuda_std::hint::opaque;
use cuda_std::thread;

use super::kernel::{Config, Forward};
use super::rows::{First, RowMap};
use super::softmax::ROWS;
use super::ticket::Ticket;
use crate::attention::dropout::{self, is_dropped};
use crate::attention::score::{self, Place};

impl<C: Config> Forward<'_, C> {
    /// Zeros the probabilities that are dropped; otherwise as [`change`](Self::change).
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn drop(
        &self,
        p: &mut [f32],
        ticket: Ticket,
        query_of_tile: u32,
        block: u32,
    ) {
        if is_dropped() {
            // SAFETY: passed on to the caller.
            let (place, [first_query, before]) = unsafe { ticket.place() };
            let first_key = before + block * C::TILE.tile_n;
            let rows = (self.call.rows, query_of_tile);
            let (row, column) = first_of_thread::<C>(rows, first_key);
            let row = self.call.rows.row(row, 0);
            let at = Place {
                head: place.head + row.head,
                ..place
            };
            let mut i = 0;
            while i < p.len() {
                let eight = [
                    p[i],
                    p[i + 1],
                    p[i + 2],
                    p[i + 3],
                    p[i + 4],
                    p[i + 5],
                    p[i + 6],
                    p[i + 7],
                ];
                let key = column + 8 * (i / 4) as u32;
                let eight = dropout::keep_of_keys(eight, at, first_query + row.query, key);
                let mut of_eight = 0;
                while of_eight < 8 {
                    p[i + of_eight] = eight[of_eight];
                    of_eight += 1;
                }
                i += 8;
            }
        }
    }

    /// Makes of scores what the call wants. They are those of a warpgroup's rows and a block of keys. The
    /// rows' first query is `query_of_tile` of the ticket's tile.
    ///
    /// # Safety
    /// The ticket is one of a tile, and has not been overwritten.
    #[inline(always)]
    pub(super) unsafe fn change(
        &self,
        scores: &mut [f32],
        ticket: Ticket,
        query_of_tile: u32,
        block: u32,
    ) {
        // SAFETY: passed on to the caller.
        let (place, [first_query, before]) = unsafe { ticket.place() };
        change::<C>(
            scores,
            (self.call.rows, query_of_tile),
            (place, first_query),
            before + block * C::TILE.tile_n,
        );
    }
}

/// A thread's first row, and its first column of a block of keys.
#[inline(always)]
fn first_of_thread<C: Config>(
    (rows, query_of_tile): (C::Rows, u32),
    first_key: u32,
) -> (First, u32) {
    // Opaque, so that what depends only on the thread is not kept in registers across blocks.
    let thread = opaque(thread::thread_idx_x());
    let (warp, lane) = (thread % WARPGROUP / 32, thread % 32);
    let first_row = rows.first(query_of_tile, [16 * warp, lane / 4]);
    (first_row, first_key + lane % 4 * 2)
}

/// Makes of scores what the call wants.
#[inline(always)]
fn change<C: Config>(
    s: &mut [f32],
    (rows, query_of_tile): (C::Rows, u32),
    (place, first_query): (Place, u32),
    first_key: u32,
) {
    let (first_row, column) = first_of_thread::<C>((rows, query_of_tile), first_key);
    let mut i = 0;
    while i < s.len() {
        let row = rows.row(first_row, 8 * (i / 2 % ROWS) as u32);
        let at = Place {
            head: place.head + row.head,
            ..place
        };
        let key = column + 8 * (i / 4) as u32;
        let pair = [s[i], s[i + 1]];
        let [first, second] = score::of_keys(pair, at, first_query + row.query, key);
        (s[i], s[i + 1]) = (first, second);
        i += 2;
    }
}
