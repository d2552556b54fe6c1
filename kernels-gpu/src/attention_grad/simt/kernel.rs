//! One block's work; see the [module](super).

use abi::attention::{BshStrides, Mask, Sequence};
use abi::attention_grad::AttentionGradParams;
use cuda_std::hint::opaque;
use cuda_std::thread;

use super::accumulate::accumulate;
use super::band::Band;
use super::pairs::differentiate;
use super::products::products;
use super::results::{self, Destination};
use super::thread_tile::{TILE, ThreadTile, write_pairs};
use super::vectors::Vectors;
use crate::attention::score::Place;
use crate::attention::simt::elements::ElementType;
use crate::attention::sparse::{Line, is_sparse};
use crate::simt::element::CHUNK;
use crate::simt::product::Accumulator;

/// A launch's pointers and parameters.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) q: *const u8,
    pub(super) k: *const u8,
    pub(super) v: *const u8,
    pub(super) d_o: *const u8,
    pub(super) lse: *const f32,
    pub(super) delta: *const f32,
    /// dq, or dk, and its strides.
    pub(super) first: *mut u8,
    pub(super) strides: BshStrides,
    /// dv, if the block owns keys.
    pub(super) second: *mut u8,
    pub(super) params: &'a AttentionGradParams,
}

/// What a block owns.
pub(super) struct Owned {
    pub(super) sequence: Sequence,
    /// Whether its rows are keys of a key head; else queries of a query head.
    pub(super) keys: bool,
    /// That head.
    pub(super) head_idx: u32,
    /// Its first row.
    pub(super) start: u32,
}

/// What is constant throughout a block's work.
struct Block<'a> {
    launch: &'a Launch<'a>,
    owned: Owned,
    thread_tile: ThreadTile,
    element: ElementType,
    /// Rows are its queries, whatever they are of the launch.
    mask: Mask,
    /// Vectors of the rows: for the scores, and for dP.
    rows: [Vectors; 2],
}

/// The results of a block: the second is that of P, which there is only if it owns keys.
struct Results<const COLUMNS: usize> {
    of_ds: Accumulator<CHUNK, COLUMNS>,
    of_p: Accumulator<CHUNK, COLUMNS>,
}

/// One block's work. `CAP` is the head_dim cap, `COLUMNS` a sixteenth of it.
///
/// # Safety
/// As the launch's: parameters describe what the pointers point to, and `owned` is the block's own.
/// `smem` is static shared memory of [`smem_elements`](super::thread_tile::smem_elements).
#[inline(always)]
pub(super) unsafe fn run<const CAP: usize, const COLUMNS: usize>(
    launch: &Launch<'_>,
    owned: Owned,
    smem: *mut f32,
) {
    let fwd = &launch.params.fwd;
    let block = Block::new(launch, owned, ThreadTile::new(smem));
    let (start, end) = (block.owned.start, block.owned.start + TILE as u32);
    let mut tiles = block.mask.key_blocks(start, end, TILE as u32);
    if is_sparse() && !block.owned.keys {
        let line = block.line::<false>(block.owned.head_idx);
        (tiles.first, tiles.end) = line.visited(tiles.first, tiles.end);
    }
    let mut results = Results {
        of_ds: [[0.0; COLUMNS]; CHUNK],
        of_p: [[0.0; COLUMNS]; CHUNK],
    };
    let (mut head_idx, heads) = if block.owned.keys {
        let group = fwd.heads_per_kv();
        (block.owned.head_idx * group, group)
    } else {
        (block.owned.head_idx, 1)
    };
    let end_head = head_idx + heads;
    while head_idx < end_head {
        let columns = block.columns(head_idx);
        let mut tile_idx = tiles.first;
        while tile_idx < tiles.end {
            if is_sparse() {
                tile_idx = block.visited_from(head_idx, tile_idx);
                if tile_idx >= tiles.end {
                    break;
                }
            }
            let tile = (tile_idx * TILE as u32, tiles.is_masked(tile_idx));
            // SAFETY: the caller's promise; the tiles are within the columns.
            unsafe { block.add::<CAP, COLUMNS>(&mut results, &columns, head_idx, tile) }
            tile_idx += 1;
        }
        head_idx += 1;
    }
    // SAFETY: the caller's promise; lse is in shared memory if there was a tile.
    unsafe { block.write(&mut results, !tiles.is_empty()) }
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn new(launch: &'a Launch<'a>, owned: Owned, thread_tile: ThreadTile) -> Self {
        let params = launch.params;
        let mask = params.fwd.mask(&owned.sequence);
        let mut block = Self {
            launch,
            thread_tile,
            element: ElementType(params.fwd.o_dtype),
            mask: if owned.keys { mask.transposed() } else { mask },
            rows: [Vectors::NONE; 2],
            owned,
        };
        block.rows = block.vectors(block.owned.keys, block.owned.head_idx);
        block
    }

    /// The line of tiles of the block's rows, for a query head.
    #[inline(always)]
    fn line<const KEYS: bool>(&self, head: u32) -> Line<KEYS> {
        Line {
            batch: self.owned.sequence.batch_idx,
            head,
            row: self.owned.start,
            extent: TILE as u32,
        }
    }

    /// The first tile from `tile` on that a block mask shows.
    #[inline(always)]
    fn visited_from(&self, head: u32, tile: u32) -> u32 {
        match self.owned.keys {
            true => self.line::<true>(head).behind(tile).0,
            false => self.line::<false>(head).behind(tile).0,
        }
    }

    /// The vectors of the tiles' columns for a query head.
    #[inline(always)]
    fn columns(&self, head_idx: u32) -> [Vectors; 2] {
        let fwd = &self.launch.params.fwd;
        let head_idx = if self.owned.keys {
            head_idx
        } else {
            fwd.head_kv_idx(head_idx)
        };
        self.vectors(!self.owned.keys, head_idx)
    }

    /// k and v of a key head, or q and d_o of a query head.
    #[inline(always)]
    fn vectors(&self, of_keys: bool, head_idx: u32) -> [Vectors; 2] {
        let (launch, params) = (self.launch, self.launch.params);
        let (fwd, sequence) = (&params.fwd, &self.owned.sequence);
        let vectors =
            |of_query: (*const u8, BshStrides), of_key: (*const u8, BshStrides), extent| {
                let (base, strides) = if of_keys { of_key } else { of_query };
                let positions = if of_keys { sequence.k } else { sequence.q };
                let offset = strides.offset(sequence.batch_idx, positions.first, head_idx);
                let from = (base, self.element);
                Vectors::new(from, &strides, offset, (positions.len, extent))
            };
        [
            vectors((launch.q, fwd.q), (launch.k, fwd.k), fwd.head_dim),
            vectors((launch.d_o, params.d_o), (launch.v, fwd.v), fwd.head_dim_v),
        ]
    }

    /// Adds the tile of columns from `start` on.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together. Unless `masked`, every row shows
    /// the whole tile.
    #[inline(always)]
    unsafe fn add<const CAP: usize, const COLUMNS: usize>(
        &self,
        results: &mut Results<COLUMNS>,
        columns: &[Vectors; 2],
        head_idx: u32,
        (start, masked): (u32, bool),
    ) {
        let (thread_tile, element) = (&self.thread_tile, self.element);
        let band = Band::of_tile(&self.mask, self.owned.start, start);
        // What was read of the tile before is behind a barrier.
        // SAFETY: the caller's promise; barriers follow before it is read.
        unsafe { self.stage_queries(head_idx, start) };
        let (mut s, mut dp) = ([[0.0; CHUNK]; CHUNK], [[0.0; CHUNK]; CHUNK]);
        // A loop over the two cases has their code once: what the first gives moves on.
        let mut case = 0;
        while case < opaque(2) {
            let of = (
                Vectors::select(&self.rows, case == 1),
                Vectors::select(columns, case == 1),
            );
            s = dp;
            // SAFETY: the caller's promise.
            dp = unsafe { products(thread_tile, of, (self.owned.start, start), element) };
            case += 1;
        }
        // SAFETY: lse and delta were written before the barriers of the products.
        unsafe {
            let tile = (&band, masked, self.owned.keys);
            let place = Place {
                batch: self.owned.sequence.batch_idx,
                head: head_idx,
                seqlen_q: self.owned.sequence.q.len,
                seqlen_k: self.owned.sequence.k.len,
            };
            let place = (place, [self.owned.start, start]);
            differentiate(
                (&mut s, &mut dp),
                thread_tile,
                tile,
                place,
                self.launch.params,
            );
        }
        // Not a loop whose results change places: moving those takes registers, of which there are
        // none. SAFETY: the pairs before were read before a barrier; the caller's promise.
        unsafe {
            let tile = (&band, masked);
            if self.owned.keys {
                write_pairs(thread_tile, &s);
                let of = (columns[1], start);
                accumulate::<CAP, COLUMNS>(&mut results.of_p, thread_tile, of, tile, element);
            }
            write_pairs(thread_tile, &dp);
            let of = (columns[0], start);
            accumulate::<CAP, COLUMNS>(&mut results.of_ds, thread_tile, of, tile, element);
        }
    }

    /// Writes lse and delta of the tile's queries to shared memory. If the block owns keys, the
    /// queries are the columns from `start` on, otherwise the rows.
    ///
    /// # Safety
    /// The launch's; no thread reads them before the next barrier.
    #[inline(always)]
    unsafe fn stage_queries(&self, head_idx: u32, start: u32) {
        let (launch, sequence) = (self.launch, &self.owned.sequence);
        let idx = thread::thread_idx_x();
        if idx >= TILE as u32 {
            return;
        }
        let first = if self.owned.keys {
            start
        } else {
            self.owned.start
        };
        let (mut lse_log2, mut delta) = (f32::INFINITY, 0.0);
        if first + idx < sequence.q.len {
            let at = launch.params.fwd.lse_offset(sequence, head_idx) as usize;
            let at = at.wrapping_add((first + idx) as usize);
            // SAFETY: the caller's promise: there is one for each query and head.
            let lse = unsafe { launch.lse.wrapping_add(at).read() };
            if lse != f32::NEG_INFINITY {
                lse_log2 = lse * core::f32::consts::LOG2_E;
            }
            // SAFETY: as above.
            delta = unsafe { launch.delta.wrapping_add(at).read() };
        }
        let query = self.thread_tile.query(idx);
        // SAFETY: within the shared memory; no other thread has this query.
        unsafe {
            query.write(lse_log2);
            query.wrapping_add(TILE).write(delta);
        }
    }

    /// The block's rows of a gradient.
    #[inline(always)]
    fn destination(&self, base: *mut u8, strides: &BshStrides, extent: u32) -> Destination {
        let owned = &self.owned;
        let positions = if owned.keys {
            owned.sequence.k
        } else {
            owned.sequence.q
        };
        let position = positions.first.wrapping_add(owned.start);
        let offset = strides.offset(owned.sequence.batch_idx, position, owned.head_idx);
        let size_bytes = self.element.size_bytes() as i64;
        Destination {
            base: base.wrapping_offset((offset * size_bytes) as isize),
            ld_bytes: strides.seq * size_bytes,
            rows: positions.len - owned.start,
            extent,
        }
    }

    /// Writes the results.
    ///
    /// # Safety
    /// The launch's. lse is in shared memory, if `has_tiles`.
    #[inline(always)]
    unsafe fn write<const COLUMNS: usize>(&self, results: &mut Results<COLUMNS>, has_tiles: bool) {
        let (launch, params, owned) = (self.launch, self.launch.params, &self.owned);
        // SAFETY: the caller's promise.
        unsafe {
            if owned.keys {
                let to = self.destination(launch.second, &params.dv, params.fwd.head_dim_v);
                results::write(
                    &mut results.of_p,
                    &self.thread_tile,
                    &to,
                    (1.0, false),
                    self.element,
                );
            }
            let to = self.destination(launch.first, &launch.strides, params.fwd.head_dim);
            let of_ds = (params.softmax_scale, has_tiles && !owned.keys);
            results::write(
                &mut results.of_ds,
                &self.thread_tile,
                &to,
                of_ds,
                self.element,
            );
        }
    }
}
