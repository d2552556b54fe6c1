//! `q @ k^T` of one tile, through two stages of shared memory: as [`crate::simt::staged`].

use cuda_std::thread;

use super::elements::Chunk;
use super::operand::Operand;
use crate::simt::operand::tile_elements;
use crate::simt::product::{Accumulator, outer_product, read_fragment};

/// Both operands on their way into shared memory, and where this thread reads them there. Tiles of
/// both are `WIDTH` positions, of which each thread moves one chunk.
pub(super) struct Scores<const WIDTH: usize, const TILE_D: usize> {
    pub(super) q: Operand<true, WIDTH, TILE_D, 1>,
    pub(super) k: Operand<true, WIDTH, TILE_D, 1>,
    /// Shared memory of [`smem_elements`], aligned to 16 bytes.
    pub(super) smem: *mut f32,
    /// This thread's first query and first key of a tile, multiples of 4.
    pub(super) first: (u32, u32),
}

/// f32 elements of shared memory: two stages of both operands.
pub(super) const fn smem_elements(width: usize, tile_d: usize) -> usize {
    4 * tile_elements(width, tile_d)
}

impl<const WIDTH: usize, const TILE_D: usize> Scores<WIDTH, TILE_D> {
    /// Element (0, 0) of q's tile of a stage; that of k's follows.
    #[inline(always)]
    fn smem_q(&self, stage_idx: usize) -> *mut f32 {
        self.smem
            .wrapping_add(stage_idx * 2 * tile_elements(WIDTH, TILE_D))
    }

    #[inline(always)]
    fn smem_k(&self, stage_idx: usize) -> *mut f32 {
        self.smem_q(stage_idx)
            .wrapping_add(tile_elements(WIDTH, TILE_D))
    }

    /// # Safety
    /// All elements of the operands can be read.
    #[inline(always)]
    unsafe fn fetch(&mut self) -> ([Chunk; 1], [Chunk; 1]) {
        // SAFETY: the caller's.
        unsafe { (self.q.fetch(), self.k.fetch()) }
    }

    /// # Safety
    /// No thread reads the stage before the next barrier.
    #[inline(always)]
    unsafe fn stage(&self, (q, k): ([Chunk; 1], [Chunk; 1]), stage_idx: usize) {
        // SAFETY: the caller's; `smem` holds two stages of both tiles.
        unsafe {
            self.q.stage(q, self.smem_q(stage_idx));
            self.k.stage(k, self.smem_k(stage_idx));
        }
    }

    /// Row `d_idx` of this thread's fragments of a staged tile.
    ///
    /// # Safety
    /// The tile is staged.
    #[inline(always)]
    unsafe fn fragments<const ROWS: usize, const COLUMNS: usize>(
        &self,
        stage_idx: usize,
        d_idx: usize,
    ) -> ([f32; ROWS], [f32; COLUMNS]) {
        let q = self.smem_q(stage_idx).wrapping_add(self.first.0 as usize);
        let k = self.smem_k(stage_idx).wrapping_add(self.first.1 as usize);
        // SAFETY: the caller's; `first` is within the tiles and a multiple of 4.
        unsafe {
            (
                read_fragment::<WIDTH, ROWS>(q, d_idx),
                read_fragment::<WIDTH, COLUMNS>(k, d_idx),
            )
        }
    }

    /// `Σ_d q[i][d] * k[j][d]` over all `d`, ascending, by fused multiply-adds from +0.
    ///
    /// # Safety
    /// All elements of the operands can be read. All threads of the block call it together, and
    /// none touches `smem` before it, since the last barrier, or after it, until the next.
    #[inline(always)]
    pub(super) unsafe fn accumulate<const ROWS: usize, const COLUMNS: usize>(
        mut self,
        head_dim: u32,
    ) -> Accumulator<ROWS, COLUMNS> {
        let mut acc = [[0.0; COLUMNS]; ROWS];
        let mut stage_idx = 0;
        // SAFETY: the caller's; nothing was staged before.
        unsafe {
            let first = self.fetch();
            self.stage(first, stage_idx);
        }
        thread::sync_threads(); // tile 0 is staged

        // SAFETY: tile 0 is staged.
        let (mut frag_q, mut frag_k) = unsafe { self.fragments(stage_idx, 0) };
        for _ in 0..head_dim.div_ceil(TILE_D as u32) {
            // SAFETY: the caller's.
            let next = unsafe { self.fetch() };
            for d_idx in 0..TILE_D {
                if d_idx == TILE_D - 1 {
                    stage_idx = 1 - stage_idx;
                    // SAFETY: the last fragments of that stage were read before the last barrier.
                    unsafe { self.stage(next, stage_idx) };
                    thread::sync_threads(); // the next tile is staged
                }
                // SAFETY: the row is staged: of this tile, or the first of the next.
                let (next_q, next_k) = unsafe { self.fragments(stage_idx, (d_idx + 1) % TILE_D) };
                outer_product(&mut acc, &frag_q, &frag_k);
                (frag_q, frag_k) = (next_q, next_k);
            }
        }
        acc
    }
}
