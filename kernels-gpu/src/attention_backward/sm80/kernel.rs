//! One block's work; see the [module](super).

use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_group};
use cuda_std::hint::opaque;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, sync_threads};
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::sm80::{Part, Sm80BwdTile};
use spec::attention::{BshStrides, FlashFwdLengths, KeyBlocks, Mask, Sequence};

use super::moments::{Moments, Source};
use super::pairs::{cap_and_hide, centre, differentiate};
use super::products::{Factors, accumulate, both_scores, scores};
use super::results::{self, Destination};
use super::vectors::{self, Target};
use crate::attention::lengths::sequence;
use crate::attention::sm80::element::Half;
use crate::attention::sm80::kernel::first_row;
use crate::attention::sm80::softmax::Accumulator;

/// A launch's arguments.
pub(super) struct Arguments<'a> {
    pub(super) q: *const u8,
    pub(super) k: *const u8,
    pub(super) v: *const u8,
    pub(super) d_o: *const u8,
    pub(super) lse: *const f32,
    pub(super) delta: *const f32,
    pub(super) of_ds: *mut u8,
    pub(super) of_p: *mut u8,
    pub(super) lengths: &'a FlashFwdLengths,
    pub(super) params: &'a FlashBwdParams,
}

/// What an entry computes.
pub(super) trait Gradients {
    const PART: Part;
    /// Whether rows are keys; else they are queries.
    const KEYS: bool = Self::PART.owns_keys();
    /// Whether there is a product with dS.
    const DS: bool = Self::PART.of_ds();
    /// Whether there is a product with P.
    const P: bool = Self::PART.of_p();
}

/// A thread's part of the results.
struct Results<const M: usize, const D: usize> {
    of_ds: Accumulator<M, D>,
    of_p: Accumulator<M, D>,
}

/// A tile of columns: of a query head.
#[derive(Clone, Copy)]
struct Tile {
    head_idx: u32,
    idx: u32,
}

/// What is constant throughout a block's work.
struct Block<'a> {
    arguments: &'a Arguments<'a>,
    tile: Sm80BwdTile,
    sequence: Sequence,
    /// The head that the block owns rows of.
    head_idx: u32,
    /// Its first row.
    start: u32,
    /// Rows are its queries, whatever they are of the launch.
    mask: Mask,
    smem: SharedAddr,
}

/// One block's work. `ROWS` and `COLUMNS` are those of the tile; a warp has `M` × 16 rows, works on
/// `N` × 8 = `K` × 16 columns at a time, and its results have `D` × 8.
///
/// # Safety
/// As the launch's: see [`spec::attention::backward::sm80`].
#[inline(always)]
pub(super) unsafe fn run<
    E: Half,
    G: Gradients,
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const M: usize,
    const N: usize,
    const K: usize,
    const D: usize,
>(
    arguments: &Arguments<'_>,
) {
    let fwd = &arguments.params.fwd;
    let (head_idx, batch_idx) = arguments.params.owner(
        G::KEYS,
        [thread::block_idx_y(), thread::block_idx_z()],
        thread::grid_dim_y(),
    );
    if batch_idx >= fwd.batch {
        return;
    }
    // SAFETY: the caller's promise.
    let sequence = unsafe { sequence(arguments.lengths, fwd, batch_idx) };
    // The last queries see the most keys, the first keys are seen by the most queries: they start first,
    // so that no long block is left at the end.
    let tile_idx = if G::KEYS {
        thread::block_idx_x()
    } else {
        thread::grid_dim_x() - 1 - thread::block_idx_x()
    };
    let start = tile_idx * ROWS as u32;
    let owned = if G::KEYS { sequence.k } else { sequence.q };
    if start >= owned.len {
        return;
    }
    let mask = fwd.mask(&sequence);
    let block = Block {
        arguments,
        tile: Sm80BwdTile::of(CAP as u32, G::PART),
        sequence,
        head_idx,
        start,
        mask: if G::KEYS { mask.transposed() } else { mask },
        // SAFETY: dynamic shared memory, the block's own.
        smem: unsafe { SharedAddr::of(dynamic_base()) },
    };
    let tiles = block
        .mask
        .key_blocks(start, start + ROWS as u32, COLUMNS as u32);
    let mut results = Results::<M, D> {
        of_ds: [[[0.0; 4]; D]; M],
        of_p: [[[0.0; 4]; D]; M],
    };
    // SAFETY: the caller's promise: all threads are here.
    unsafe {
        block.visit::<E, G, CAP, ROWS, COLUMNS, M, N, K, D>(&mut results, &tiles);
        block.write::<E, G, M, D>(&mut results, !tiles.is_empty());
    }
}

impl Block<'_> {
    /// The query heads whose tiles the block visits: the first, and one beyond the last.
    #[inline(always)]
    fn heads<G: Gradients>(&self) -> (u32, u32) {
        if G::KEYS {
            let group = self.arguments.params.fwd.heads_per_kv();
            (self.head_idx * group, self.head_idx * group + group)
        } else {
            (self.head_idx, self.head_idx + 1)
        }
    }

    /// Adds all columns that the block's rows see to the results.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together.
    #[inline(always)]
    unsafe fn visit<
        E: Half,
        G: Gradients,
        const CAP: usize,
        const ROWS: usize,
        const COLUMNS: usize,
        const M: usize,
        const N: usize,
        const K: usize,
        const D: usize,
    >(
        &self,
        results: &mut Results<M, D>,
        tiles: &KeyBlocks,
    ) {
        let (head_idx, end_head) = self.heads::<G>();
        let mut next = Tile {
            head_idx: if tiles.is_empty() { end_head } else { head_idx },
            idx: tiles.first,
        };
        let (mut at, mut stage, mut is_there) = (next, 1, 0);
        // SAFETY: the caller's promise; a stage is started when all threads have read what it held.
        unsafe {
            if next.head_idx < end_head {
                self.start_rows::<E, G, CAP, ROWS>();
            }
            // A pass starts the copies of a tile and adds the one before: so that is in the code once.
            loop {
                if next.head_idx < end_head {
                    self.start_columns::<E, G, CAP, COLUMNS>(next, stage ^ 1);
                }
                cp_async_commit_group();
                if opaque(is_there) != 0 {
                    let tile = (at.idx * COLUMNS as u32, tiles.is_masked(at.idx));
                    self.add::<E, G, CAP, M, N, K, D>(results, stage, tile);
                }
                if next.head_idx >= end_head {
                    break;
                }
                cp_async_wait_group::<0>();
                sync_threads(); // the stage has landed; the other is no longer read
                (at, is_there) = (next, 1);
                stage ^= 1;
                next.idx += 1;
                if next.idx == tiles.end {
                    next.idx = tiles.first;
                    next.head_idx += 1;
                }
            }
        }
    }

    /// Where the first and the second vectors of a stage lie.
    #[inline(always)]
    fn columns_at(&self, stage: u32) -> [SharedAddr; 2] {
        let tile = &self.tile;
        let at = tile.stages_at() + stage * 2 * tile.columns_bytes();
        let first = self.smem.add_bytes(at);
        [first, first.add_bytes(tile.columns_bytes())]
    }

    /// lse and delta: those of a stage if columns are queries.
    #[inline(always)]
    fn moments<G: Gradients>(&self, stage: u32) -> Moments {
        let of_stages = Moments::at(self.smem.add_bytes(self.tile.moments_at()));
        if G::KEYS {
            of_stages.from(stage * self.tile.columns)
        } else {
            of_stages
        }
    }

    /// lse and delta of queries of a head in global memory.
    #[inline(always)]
    fn source(&self, head_idx: u32, first: u32) -> Source {
        let (arguments, fwd) = (self.arguments, &self.arguments.params.fwd);
        let at = fwd
            .lse_offset(&self.sequence, head_idx)
            .wrapping_add(first.into()) as usize;
        Source {
            lse: arguments.lse.wrapping_add(at),
            delta: arguments.delta.wrapping_add(at),
        }
    }

    /// Starts the copies of the rows.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn start_rows<E: Half, G: Gradients, const CAP: usize, const ROWS: usize>(&self) {
        let of = (&self.sequence, self.head_idx);
        let start = self.start;
        // SAFETY: the caller's promise; nothing has been written there yet.
        unsafe {
            let to = Target {
                first: self.smem,
                second: self.smem.add_bytes(self.tile.rows_bytes()),
                kinds: if G::DS { 2 } else { 1 },
            };
            vectors::start::<E, CAP, ROWS>(self.arguments, of, G::KEYS, start, to);
            if !G::KEYS {
                let source = self.source(self.head_idx, start);
                let left = self.sequence.q.len - start;
                self.moments::<G>(0).start(self.tile.rows, &source, left);
            }
        }
    }

    /// Starts the copies of a tile of columns.
    ///
    /// # Safety
    /// The launch's; nobody uses the stage before the copies have been waited for.
    #[inline(always)]
    unsafe fn start_columns<E: Half, G: Gradients, const CAP: usize, const COLUMNS: usize>(
        &self,
        tile: Tile,
        stage: u32,
    ) {
        let start = tile.idx * COLUMNS as u32;
        let head_idx = if G::KEYS {
            tile.head_idx
        } else {
            self.arguments.params.fwd.head_kv_idx(tile.head_idx)
        };
        let of = (&self.sequence, head_idx);
        // SAFETY: the caller's promise.
        unsafe {
            let [first, second] = self.columns_at(stage);
            let to = Target {
                first,
                second,
                kinds: 2,
            };
            vectors::start::<E, CAP, COLUMNS>(self.arguments, of, !G::KEYS, start, to);
            if G::KEYS {
                let source = self.source(head_idx, start);
                let left = self.sequence.q.len - start;
                self.moments::<G>(stage)
                    .start(self.tile.columns, &source, left);
            }
        }
    }

    /// Adds the tile of columns from `start` on, which is in a stage. Unless `masked`, every row shows
    /// all of it.
    ///
    /// # Safety
    /// All lanes of a warp call it together; rows and stage have landed.
    #[inline(always)]
    unsafe fn add<
        E: Half,
        G: Gradients,
        const CAP: usize,
        const M: usize,
        const N: usize,
        const K: usize,
        const D: usize,
    >(
        &self,
        results: &mut Results<M, D>,
        stage: u32,
        (start, masked): (u32, bool),
    ) {
        let (tile, params) = (&self.tile, self.arguments.params);
        let mut column = 0;
        while column < opaque(tile.columns) {
            let down = column * tile.row_bytes();
            let [first, second] = self.columns_at(stage).map(|at| at.add_bytes(down));
            let row = first_row(16 * M as u32);
            let in_quad = opaque(thread::thread_idx_x()) % 4 * 2;
            let moments = self.moments::<G>(stage);
            let moments = moments.from(if G::KEYS { column + in_quad } else { row });
            // SAFETY: the caller's promise.
            unsafe {
                let factors = [
                    (self.smem, first),
                    (self.smem.add_bytes(tile.rows_bytes()), second),
                ];
                let factors = factors.map(|(rows, columns)| Factors { rows, columns });
                let [mut s, mut dp] = if G::DS {
                    both_scores::<E, CAP, M, N>(factors)
                } else {
                    [scores::<E, CAP, M, N>(factors[0]), [[[0.0; 4]; N]; M]]
                };
                if G::DS {
                    centre::<G, M, N>(&mut dp, moments);
                }
                let softcap_scale = params.fwd.softcap_scale;
                if masked || softcap_scale != 0.0 {
                    let mask = if masked { Some(&self.mask) } else { None };
                    let first = [self.start + row, start + column + in_quad];
                    cap_and_hide::<G, M, N>(&mut s, &mut dp, softcap_scale, mask, first);
                }
                let (mut p, mut ds) =
                    differentiate::<E, G, M, N, K>(&mut s, &mut dp, moments, params);
                if G::P {
                    accumulate::<E, CAP, M, K, D>(&mut results.of_p, &mut p, second);
                }
                if G::DS {
                    accumulate::<E, CAP, M, K, D>(&mut results.of_ds, &mut ds, first);
                }
            }
            column += tile.at_once;
        }
    }

    /// The block's rows of a gradient.
    #[inline(always)]
    fn destination<G: Gradients>(
        &self,
        base: *mut u8,
        strides: &BshStrides,
        extent: u32,
    ) -> Destination {
        let positions = if G::KEYS {
            self.sequence.k
        } else {
            self.sequence.q
        };
        let position = positions.first.wrapping_add(self.start);
        let batch_idx = self.sequence.batch_idx;
        // Found again, by the inverse of `owner`: in the loop over tiles there is no register for it.
        let fwd = &self.arguments.params.fwd;
        let heads = if G::KEYS { fwd.heads_kv } else { fwd.heads_q };
        let layers = opaque(thread::block_idx_z()) * thread::grid_dim_y();
        let head_idx = layers + thread::block_idx_y() - batch_idx * heads;
        let offset = 2 * strides.offset(batch_idx, position, head_idx);
        Destination {
            base: base.wrapping_offset(offset as isize),
            ld: strides.seq,
            rows: positions.len - self.start,
            extent,
        }
    }

    /// Writes the results. If the block `has_tiles`, lse of its queries is in shared memory.
    ///
    /// # Safety
    /// The launch's; a warp calls it, converged.
    #[inline(always)]
    unsafe fn write<E: Half, G: Gradients, const M: usize, const D: usize>(
        &self,
        results: &mut Results<M, D>,
        has_tiles: bool,
    ) {
        let (arguments, params) = (self.arguments, self.arguments.params);
        let row = first_row(16 * M as u32);
        // SAFETY: the caller's promise.
        unsafe {
            if G::P {
                let extent = params.fwd.head_dim_v;
                let to = self.destination::<G>(arguments.of_p, &params.dv, extent);
                results::write::<E, M, D>(&mut results.of_p, &to, row, 1.0, |_, _| true);
            }
            if G::DS {
                let strides = if G::KEYS { &params.dk } else { &params.dq };
                let to = self.destination::<G>(arguments.of_ds, strides, params.fwd.head_dim);
                // A query that saw no key has a dq of 0, also beside keys that are not finite.
                let keeps = |i: usize, half: usize| {
                    let query = row + (16 * i + 8 * half) as u32;
                    G::KEYS
                        || !has_tiles
                        || self.moments::<G>(0).from(query).one()[0] != f32::NEG_INFINITY
                };
                let factor = params.softmax_scale;
                results::write::<E, M, D>(&mut results.of_ds, &to, row, factor, keeps);
            }
        }
    }
}
