//! Which tiles a block computes, in which order, and which keys each of them visits.
//!
//! The loading thread alone knows: it goes the [`Walk`], and hands out [`Ticket`]s through shared memory.
//! Those who compute have no registers to spare for it, and any other order (dynamic, of a list) is a
//! matter of the walk alone.

use cuda_std::atomic::{Order, Scope, atom_add, atom_exch};
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_shared_v4_u32, st_shared_v4_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::warp::uniform;
use spec::attention::sm90::divided;
use spec::attention::sm90::{FwdLaunch, TICKET_BYTES, TICKETS, TileIndex, TileOrder};
use spec::attention::{FlashFwdLengths, FlashFwdParams, Mask, Positions, Sequence};
use spec::gemm::sm90::MMA_M;

use super::load::is_leader;
use super::packed_order::Count;
use super::rows::RowMap;
use crate::attention::lengths::sequence;

/// A tile of queries, as the loader sees it.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) sequence: Sequence,
    /// Of those that tiles are counted by ([`RowMap`]).
    pub(super) head: u32,
    /// Its first query, in the sequence.
    pub(super) row: u32,
    /// Which part of the keys.
    pub(super) split: u32,
    /// Blocks of keys that it visits, from the last to the first: `first..end`, at least one.
    pub(super) first: u32,
    pub(super) end: u32,
}

/// A block's way through the tiles: its own one first, then whichever is next when it asks.
pub(super) struct Walk<'a, R> {
    rows: R,
    params: &'a FlashFwdParams,
    lengths: &'a FlashFwdLengths,
    launch: FwdLaunch,
    /// Where sequences differ in queries: [`Count::through`].
    through: u32,
    /// What the counter said when it was asked, which is while the tile before is loaded: nobody looks
    /// at the answer, and waits for it, until then.
    turn: u32,
}

impl<'a, R: RowMap> Walk<'a, R> {
    /// # Safety
    /// The block's first warp calls it, converged; the lengths are a launch's.
    #[inline(always)]
    pub(super) unsafe fn new<const TILE_M: u32>(
        params: &'a FlashFwdParams,
        lengths: &'a FlashFwdLengths,
        launch: FwdLaunch,
        rows: R,
    ) -> Self {
        let turn = thread::block_idx_x().wrapping_sub(thread::grid_dim_x());
        let mut walk = Self {
            rows,
            params,
            lengths,
            launch,
            through: 0,
            turn,
        };
        let counted = walk.counted::<TILE_M>();
        if counted.is_needed() {
            // SAFETY: the caller's.
            walk.through = unsafe { counted.through() };
        }
        walk
    }

    /// All tiles, of all parts of keys.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn count<const TILE_M: u32>(&self) -> u32 {
        let params = self.params;
        let tiles = if self.counted::<TILE_M>().is_needed() {
            // SAFETY: the caller's.
            unsafe { Count::all(self.through) }
        } else {
            self.order::<TILE_M>(params.batch, params.seqlen_q).count
        };
        tiles * self.rows.splits()
    }

    /// Queries of a tile.
    #[inline(always)]
    fn queries<const TILE_M: u32>(&self) -> u32 {
        TILE_M / MMA_M * self.rows.queries()
    }

    #[inline(always)]
    fn counted<const TILE_M: u32>(&self) -> Count<'a> {
        Count {
            lengths: self.lengths,
            params: self.params,
            queries: self.queries::<TILE_M>(),
            heads: self.rows.tile_heads(self.params),
        }
    }

    /// Of sequences with as many queries. Opaque: what follows is not to be kept in registers from tile
    /// to tile.
    #[inline(always)]
    fn order<const TILE_M: u32>(&self, batch: u32, queries: u32) -> TileOrder {
        let heads = self.rows.tile_heads(self.params);
        let tile_m = self.queries::<TILE_M>();
        TileOrder::new(tile_m, batch, heads, opaque(queries), self.launch.section)
    }

    /// The next tile; every one has queries.
    ///
    /// # Safety
    /// As for [`new`](Self::new). The counter is a launch's; it is not called again after `None`.
    #[inline(always)]
    pub(super) unsafe fn next<const TILE_M: u32, const TILE_N: u32>(&mut self) -> Option<Tile> {
        let (params, rows) = (self.params, self.rows);
        let counter = self.launch.counter;
        // SAFETY: the caller's. Nothing but the counter's value counts.
        unsafe {
            let count = self.count::<TILE_M>();
            let turn = uniform(self.turn);
            let index = turn.wrapping_add(thread::grid_dim_x());
            let asks = is_leader() && !counter.is_null();
            if asks && turn == count.wrapping_sub(1) {
                // As many have asked as there are tiles, so nobody will; the next launch begins
                // anew.
                atom_exch(counter, 0, Order::Relaxed, Scope::Gpu);
            }
            if index >= count {
                return None;
            }
            self.turn = index;
            if asks {
                self.turn = atom_add(counter, 1, Order::Relaxed, Scope::Gpu);
            }
            let (tile_index, split) = divided(index, rows.splits());
            let at = self.at::<TILE_M>(tile_index);
            let mut sequence = sequence(self.lengths, params, at.batch);
            sequence.q = in_all_lanes(sequence.q);
            sequence.k = in_all_lanes(sequence.k);
            let queries = self.queries::<TILE_M>();
            let row = at.m * queries;
            let mask = params.mask(&sequence);
            let blocks = key_blocks::<TILE_N>(&mask, row, row + queries);
            let (first, end) = part(blocks, split, rows.splits());
            Some(Tile {
                sequence,
                head: at.head,
                row,
                split,
                first,
                end,
            })
        }
    }

    /// The tile at an index.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn at<const TILE_M: u32>(&self, index: u32) -> TileIndex {
        let counted = self.counted::<TILE_M>();
        if !counted.is_needed() {
            let order = self.order::<TILE_M>(self.params.batch, self.params.seqlen_q);
            return order.at(index);
        }
        // SAFETY: the caller's.
        let found = unsafe { counted.find(self.through, index) };
        TileIndex {
            batch: found.batch_idx,
            ..self.order::<TILE_M>(1, found.queries).at(found.index)
        }
    }
}

/// The same, where ptxas sees that they are in all lanes.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn in_all_lanes(positions: Positions) -> Positions {
    // SAFETY: passed on to the caller.
    unsafe {
        Positions {
            first: uniform(positions.first),
            len: uniform(positions.len),
        }
    }
}

/// The blocks of keys of which some query of `first_row..end_row` sees a key; one if there is none, all
/// of it masked, so that what is computed has one form.
#[inline(always)]
fn key_blocks<const TILE_N: u32>(mask: &Mask, first_row: u32, end_row: u32) -> (u32, u32) {
    let end_row = if end_row < mask.seqlen_q {
        end_row
    } else {
        mask.seqlen_q
    };
    let (first, _) = divided(mask.visible_keys(first_row).first, TILE_N);
    let end_key = mask.visible_keys(end_row.wrapping_sub(1)).end;
    let (end, _) = divided(end_key.wrapping_add(TILE_N - 1), TILE_N);
    if first < end {
        (first, end)
    } else {
        (first, first + 1)
    }
}

/// Part `split` of `splits` of blocks of keys; where there are fewer blocks than that, one behind them of
/// which no query sees anything.
#[inline(always)]
fn part((first, end): (u32, u32), split: u32, splits: u32) -> (u32, u32) {
    if splits == 1 {
        return (first, end);
    }
    let (each, _) = divided(end - first + splits - 1, splits);
    let part = first + split * each;
    if part >= end {
        return (end, end + 1);
    }
    let part_end = part + each;
    (part, if part_end < end { part_end } else { end })
}

/// The ring of tickets. A ticket is written before its tile's queries are announced as being on their
/// way, and read after they landed; it stays until that many tiles later.
#[derive(Clone, Copy)]
pub(super) struct Tickets {
    base: SharedAddr,
    next: u32,
}

/// A ticket's place.
#[derive(Clone, Copy)]
pub(super) struct Ticket(SharedAddr);

impl Tickets {
    /// The ring at `base`, a multiple of 16.
    #[inline(always)]
    pub(super) const fn at(base: SharedAddr) -> Self {
        Self { base, next: 0 }
    }

    /// The next ticket.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Ticket {
        let at = self.next;
        self.next = (at + 1) % TICKETS;
        Ticket(self.base.add_bytes(at * TICKET_BYTES))
    }
}

/// Which blocks of keys to visit: none at the end of all.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) first: u32,
    pub(super) end: u32,
    /// Rows of the last block that are keys of the sequence, where others may be anything.
    pub(super) rows: u32,
}

/// Which queries a tile has, and the mask.
#[derive(Clone, Copy)]
pub(super) struct Queries {
    pub(super) mask: Mask,
    /// The tile's first query.
    pub(super) row: u32,
}

/// Where the results of a tile go.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) head: u32,
    /// The tile's first query.
    pub(super) row: u32,
    /// Queries of the sequence.
    pub(super) seqlen_q: u32,
    /// Elements from the first of o to those of the sequence's first query.
    pub(super) o: i64,
    /// From the first of lse.
    pub(super) lse: u64,
}

impl Ticket {
    /// # Safety
    /// Nobody reads the ticket that was here.
    #[inline(always)]
    pub(super) unsafe fn write<R: RowMap, const TILE_N: u32>(
        self,
        params: &FlashFwdParams,
        rows: R,
        tile: &Tile,
    ) {
        let head = rows.first_head(tile.head);
        let (o_behind, lse_behind) = rows.results_of(tile.split);
        let mask = params.mask(&tile.sequence);
        let bounds = [tile.first, tile.end, mask.first as u32, mask.end as u32];
        let o = tile.sequence.offset_q(&params.o, head) + o_behind;
        let lse = params.lse_offset(&tile.sequence, head) + lse_behind;
        let before = (tile.end - 1) * TILE_N;
        let rows = tile.sequence.k.len.saturating_sub(before);
        let rows = if rows < TILE_N { rows } else { TILE_N };
        // SAFETY: the caller's.
        unsafe {
            st_shared_v4_u32(self.0, bounds);
            st_shared_v4_u32(
                self.0.add_bytes(16),
                [mask.seqlen_q, mask.seqlen_k, tile.row, head],
            );
            st_shared_v4_u32(
                self.0.add_bytes(32),
                [o as u32, (o >> 32) as u32, lse as u32, (lse >> 32) as u32],
            );
            st_shared_v4_u32(self.0.add_bytes(48), [rows; 4]);
        }
    }

    /// Says that there are no more tiles.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[inline(always)]
    pub(super) unsafe fn write_end(self) {
        // SAFETY: the caller's.
        unsafe {
            st_shared_v4_u32(self.0, [0; 4]);
            st_shared_v4_u32(self.0.add_bytes(48), [0; 4]);
        }
    }

    /// # Safety
    /// The ticket has been written. The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn blocks(self) -> Blocks {
        // SAFETY: the caller's.
        unsafe {
            let [first, end, ..] = ld_shared_v4_u32(self.0);
            let [rows, ..] = ld_shared_v4_u32(self.0.add_bytes(48));
            Blocks {
                first: uniform(first),
                end: uniform(end),
                rows: uniform(rows),
            }
        }
    }

    /// # Safety
    /// As for [`blocks`](Self::blocks), of a tile.
    #[inline(always)]
    pub(super) unsafe fn queries(self) -> Queries {
        // SAFETY: the caller's.
        unsafe {
            let [_, _, first, end] = ld_shared_v4_u32(self.0);
            let [seqlen_q, seqlen_k, row, _] = ld_shared_v4_u32(self.0.add_bytes(16));
            Queries {
                mask: Mask {
                    seqlen_q,
                    seqlen_k,
                    first: first as i32,
                    end: end as i32,
                },
                row,
            }
        }
    }

    /// # Safety
    /// As for [`queries`](Self::queries).
    #[inline(always)]
    pub(super) unsafe fn place(self) -> Place {
        // SAFETY: the caller's.
        unsafe {
            let [seqlen_q, _, row, head] = ld_shared_v4_u32(self.0.add_bytes(16));
            let [o, o_high, lse, lse_high] = ld_shared_v4_u32(self.0.add_bytes(32));
            Place {
                head,
                row,
                seqlen_q,
                o: joined(o, o_high) as i64,
                lse: joined(lse, lse_high),
            }
        }
    }
}

#[inline(always)]
fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
