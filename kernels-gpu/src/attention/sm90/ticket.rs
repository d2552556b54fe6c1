//! Tickets: what a tile is, written by the scheduler to shared memory for the loader and the
//! consumers, who have no registers to spare for computing it.

use abi::attention::sm90::{TICKET_BYTES, TICKETS};
use abi::attention::{FlashFwdParams, Mask};
use cuda_std::mem::{ld_shared_v4_u32, st_shared_v4_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::warp::uniform;

use super::kernel::Config;
use super::load::is_leader;
use super::rows::RowMap;
use super::schedule::Tile;
use crate::attention::score::{Place, is_scored};
use crate::attention::sparse::{Line, is_sparse};

/// Where a ticket has what only scores and block masks need.
const PLACE: u32 = 80;
const _: () = assert!(PLACE + 16 <= TICKET_BYTES);

/// The ring of tickets. The scheduler writes a ticket before it tells the loader, the loader then
/// announces the loads of the tile's queries, and consumers read the ticket after these have
/// landed. A ticket is overwritten `TICKETS` tiles later.
#[derive(Clone, Copy)]
pub(super) struct Tickets {
    base: SharedAddr,
    next: u32,
}

/// The address of a ticket.
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

/// The blocks of keys that a consumer visits; empty if there are no more tiles.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) first: u32,
    pub(super) end: u32,
    /// Rows of the last block that are keys of the sequence, up to the last that some query sees; the
    /// others may hold anything.
    pub(super) rows: u32,
}

/// What to load. Positions are `[position, head, batch]` in the tensor map.
#[derive(Clone, Copy)]
pub(super) struct Loads {
    /// Blocks of keys; empty if there are no more tiles.
    pub(super) first: u32,
    pub(super) end: u32,
    /// The sequence's first key.
    pub(super) keys: [u32; 3],
    /// The tile's first query; the head is as tiles count heads.
    pub(super) queries: [u32; 3],
}

/// The keys that a tile's queries see: a range that moves by one key from query to query, clipped
/// to the sequence.
#[derive(Clone, Copy)]
pub(super) struct Visible {
    /// First and end of the range of the tile's first query, clamped between
    /// [`BEFORE`](Self::BEFORE) and the sequence's length.
    bounds: [i32; 2],
    seqlen_k: i32,
}

impl Visible {
    /// So far before the first key that it is so for every query of a tile.
    const BEFORE: i32 = -1024;

    #[inline(always)]
    fn new(mask: &Mask, row: u32) -> Self {
        let (least, most) = (i64::from(Self::BEFORE), i64::from(mask.seqlen_k));
        let bound = |of: i32| (i64::from(row) + i64::from(of)).clamp(least, most) as i32;
        Self {
            bounds: [bound(mask.first), bound(mask.end)],
            seqlen_k: mask.seqlen_k as i32,
        }
    }

    /// First key of the tile's query `further`; negative if it sees all keys from the first on.
    #[inline(always)]
    pub(super) const fn first(&self, further: u32) -> i32 {
        self.bound(0, further as i32)
    }

    /// End of the keys of the tile's query `further`; negative if it sees none.
    #[inline(always)]
    pub(super) const fn end(&self, further: u32) -> i32 {
        self.bound(1, further as i32)
    }

    /// A sum that cannot overflow: no more than the sequence's keys.
    #[inline(always)]
    const fn bound(&self, at: usize, further: i32) -> i32 {
        let most = self.seqlen_k - further;
        let bound = self.bounds[at];
        further + if bound < most { bound } else { most }
    }
}

/// Where a tile's results go.
#[derive(Clone, Copy)]
pub(super) struct OutputTile {
    pub(super) head: u32,
    /// The tile's first query.
    pub(super) row: u32,
    /// Number of queries of the sequence.
    pub(super) seqlen_q: u32,
    /// Offset in o of the sequence's first query, in elements.
    pub(super) o: i64,
    /// Offset in lse of the same.
    pub(super) lse: u64,
}

impl Ticket {
    /// # Safety
    /// Nobody reads the ticket that was here. A warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn write<C: Config>(
        self,
        params: &FlashFwdParams,
        rows: C::Rows,
        tile: &Tile,
    ) {
        let head = rows.first_head(tile.head);
        let (o_behind, lse_behind) = rows.results_of(tile.split);
        let (sequence, mask) = params.seen(&tile.sequence);
        let visible = Visible::new(&mask, tile.row);
        let [first, end] = visible.bounds.map(|bound| bound as u32);
        let o = sequence.offset_q(&params.o, head) + o_behind;
        let lse = params.lse_offset(&sequence, head) + lse_behind;
        let before = (tile.end - 1) * C::TILE.tile_n;
        let rows = sequence.k.len.saturating_sub(before);
        let rows = if rows < C::TILE.tile_n {
            rows
        } else {
            C::TILE.tile_n
        };
        // The map of a packed tensor has a batch of one.
        let batch = |packed: u32| match packed {
            0 => sequence.batch_idx,
            _ => 0,
        };
        let (k, batch_k) = (sequence.k.first, batch(params.total_k));
        let (q, batch_q) = (sequence.q.first + tile.row, batch(params.total_q));
        let words = [
            [tile.first, tile.end, first, end],
            [mask.seqlen_q, mask.seqlen_k, tile.row, head],
            [o as u32, (o >> 32) as u32, lse as u32, (lse >> 32) as u32],
            [rows, k, params.head_kv_idx(head), batch_k],
            [q, tile.head, batch_q, tile.sequence.batch_idx],
        ];
        // SAFETY: the caller's promise.
        unsafe { self.put(0, words) }
        if is_scored() || is_sparse() {
            let before = sequence.k.first.wrapping_sub(tile.sequence.k.first);
            // SAFETY: the caller's promise.
            unsafe { self.put(PLACE, [[before, tile.sequence.k.len, 0, 0]]) }
        }
    }

    /// Writes the ticket that says that there are no more tiles.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[inline(always)]
    pub(super) unsafe fn write_end(self) {
        // SAFETY: the caller's promise.
        unsafe { self.put(0, [[0; 4]; 5]) }
    }

    /// Writes from byte `at` on. All lanes compute the words, so that these are in uniform registers;
    /// one lane writes them.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[inline(always)]
    unsafe fn put<const N: usize>(self, at: u32, words: [[u32; 4]; N]) {
        if is_leader() {
            let mut i = 0;
            while i < words.len() {
                // SAFETY: the caller's promise.
                unsafe { st_shared_v4_u32(self.0.add_bytes(at + 16 * i as u32), words[i]) };
                i += 1;
            }
        }
    }

    /// # Safety
    /// The ticket has been written. The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn loads(self) -> Loads {
        // SAFETY: the caller's promise.
        unsafe {
            let [first, end, ..] = ld_shared_v4_u32(self.0);
            let [_, keys @ ..] = ld_shared_v4_u32(self.0.add_bytes(48));
            let [q, head, batch, _] = ld_shared_v4_u32(self.0.add_bytes(64));
            Loads {
                first: uniform(first),
                end: uniform(end),
                keys: keys.map(|x| uniform(x)),
                queries: [q, head, batch].map(|x| uniform(x)),
            }
        }
    }

    /// # Safety
    /// The ticket has been written. The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn blocks(self) -> Blocks {
        // SAFETY: the caller's promise.
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
    pub(super) unsafe fn visible(self) -> Visible {
        // SAFETY: the caller's promise.
        unsafe {
            let [_, _, first, end] = ld_shared_v4_u32(self.0);
            let [_, seqlen_k, ..] = ld_shared_v4_u32(self.0.add_bytes(16));
            Visible {
                bounds: [first as i32, end as i32],
                seqlen_k: seqlen_k as i32,
            }
        }
    }

    /// # Safety
    /// As for [`visible`](Self::visible).
    #[inline(always)]
    pub(super) unsafe fn output_tile(self) -> OutputTile {
        // SAFETY: the caller's promise.
        unsafe {
            let [seqlen_q, _, row, head] = ld_shared_v4_u32(self.0.add_bytes(16));
            let [o, o_high, lse, lse_high] = ld_shared_v4_u32(self.0.add_bytes(32));
            OutputTile {
                head,
                row,
                seqlen_q,
                o: joined(o, o_high) as i64,
                lse: joined(lse, lse_high),
            }
        }
    }
}

impl Ticket {
    /// Where the scores of the tile's first head are, and the tile's first query and first key:
    /// blocks count keys from the first that some query of the sequence sees.
    ///
    /// # Safety
    /// As for [`visible`](Self::visible).
    #[inline(always)]
    pub(super) unsafe fn place(self) -> (Place, [u32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            let [seqlen_q, _, row, head] = ld_shared_v4_u32(self.0.add_bytes(16));
            let [.., batch] = ld_shared_v4_u32(self.0.add_bytes(64));
            let [before, seqlen_k, ..] = ld_shared_v4_u32(self.0.add_bytes(PLACE));
            let place = Place {
                batch,
                head,
                seqlen_q,
                seqlen_k,
            };
            (place, [row, before])
        }
    }

    /// The line of key blocks of the tile.
    ///
    /// # Safety
    /// As for [`visible`](Self::visible).
    #[inline(always)]
    pub(super) unsafe fn line<C: Config>(self) -> Line<false> {
        // SAFETY: passed on to the caller.
        let (place, [row, _]) = unsafe { self.place() };
        Line {
            batch: place.batch,
            head: place.head,
            row,
            extent: C::TILE.tile_n,
        }
    }
}

#[inline(always)]
fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
