//! One block's work; see the [module](super).

use abi::attention::{BshStrides, FlashFwdLengths, Mask, Sequence};
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm80::{Part, Sm80GradTile};
use cuda_std::hint::opaque;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;

use super::moments::Moments;
use super::results::{self, Destination};
use crate::attention::lengths::sequence;
use crate::attention::sm80::element::Half;
use crate::attention::sm80::kernel::first_row;
use crate::attention::sm80::softmax::Accumulator;
use crate::attention::sparse::{Line, is_sparse};

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
    pub(super) params: &'a AttentionGradParams,
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
pub(super) struct Results<const M: usize, const D: usize> {
    pub(super) of_ds: Accumulator<M, D>,
    pub(super) of_p: Accumulator<M, D>,
}

/// What is constant throughout a block's work.
pub(super) struct Block<'a> {
    pub(super) arguments: &'a Arguments<'a>,
    pub(super) tile: Sm80GradTile,
    pub(super) sequence: Sequence,
    /// The head that the block owns rows of.
    pub(super) head_idx: u32,
    /// Its first row.
    pub(super) start: u32,
    /// Rows are its queries, whatever they are of the launch.
    pub(super) mask: Mask,
    smem: SharedAddr,
}

/// One block's work. `ROWS` and `COLUMNS` are those of the tile; a warp has `M` × 16 rows, works on
/// `N` × 8 = `K` × 16 columns at a time, and its results have `D` × 8.
///
/// # Safety
/// As the launch's: see [`abi::attention_grad::sm80`].
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
    // The last queries see the most keys, the first keys are seen by the most queries: they start
    // first, so that no long block is left at the end.
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
        tile: Sm80GradTile::of(CAP as u32, G::PART),
        sequence,
        head_idx,
        start,
        mask: if G::KEYS { mask.transposed() } else { mask },
        // SAFETY: dynamic shared memory, the block's own.
        smem: unsafe { SharedAddr::of(dynamic_base()) },
    };
    let mut tiles = block
        .mask
        .key_blocks(start, start + ROWS as u32, COLUMNS as u32);
    if is_sparse() && !G::KEYS {
        let line = block.line::<false>(block.head_idx, COLUMNS);
        (tiles.first, tiles.end) = line.visited(tiles.first, tiles.end);
    }
    let mut results = Results::<M, D> {
        of_ds: [[[0.0; 4]; D]; M],
        of_p: [[[0.0; 4]; D]; M],
    };
    // SAFETY: the caller's promise: all threads are here.
    unsafe {
        if block.tile.stages == 1 {
            block.visit_by_stages::<E, G, CAP, ROWS, COLUMNS, M, N, K, D>(&mut results, &tiles);
        } else {
            block.visit::<E, G, CAP, ROWS, COLUMNS, M, N, K, D>(&mut results, &tiles);
        }
        block.write::<E, G, M, D>(&mut results, !tiles.is_empty());
    }
}

impl Block<'_> {
    /// The line of tiles of the block's rows, for a query head.
    #[inline(always)]
    pub(super) fn line<const KEYS: bool>(&self, head: u32, columns: usize) -> Line<KEYS> {
        Line {
            batch: self.sequence.batch_idx,
            head,
            row: self.start,
            extent: columns as u32,
        }
    }

    /// Where the first and the second vectors of the rows lie.
    #[inline(always)]
    pub(super) fn rows_at(&self) -> [SharedAddr; 2] {
        [self.smem, self.smem.add_bytes(self.tile.rows_bytes())]
    }

    /// Where the first and the second vectors of a stage lie.
    #[inline(always)]
    pub(super) fn columns_at(&self, stage: u32) -> [SharedAddr; 2] {
        let tile = &self.tile;
        let at = tile.stages_at() + stage * 2 * tile.columns_bytes();
        let first = self.smem.add_bytes(at);
        [first, first.add_bytes(tile.columns_bytes())]
    }

    /// lse and delta: those of a stage if columns are queries.
    #[inline(always)]
    pub(super) fn moments<G: Gradients>(&self, stage: u32) -> Moments {
        let of_stages = Moments::at(self.smem.add_bytes(self.tile.moments_at()));
        if G::KEYS {
            of_stages.from(stage * self.tile.columns)
        } else {
            of_stages
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
        // Found again, by the inverse of `owner`: in the loop over tiles there is no register for
        // it.
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
