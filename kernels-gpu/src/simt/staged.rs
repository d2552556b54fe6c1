//! The matrix product of two operands in global memory, through two stages of shared memory.

use cuda_std::thread;

use super::operand::tile_elements;
use super::product::{Accumulator, Fragment, read_fragment};

/// One thread's part in moving an operand's tiles from global to shared memory.
pub(crate) trait StagedOperand {
    /// What a thread holds in registers between load and store.
    type Fetched: Copy;

    /// Loads this thread's part of the next tile; zeros beyond the last.
    ///
    /// # Safety
    /// All elements of the operand within its width and k can be read, and nothing writes them
    /// while the kernel runs.
    unsafe fn fetch(&mut self) -> Self::Fetched;

    /// Stores what [`fetch`](Self::fetch) loaded into the staged tile at `smem`.
    ///
    /// # Safety
    /// `smem` holds [`tile_elements`], aligned to 16 bytes, that no thread reads before the next
    /// barrier.
    unsafe fn stage(&self, fetched: Self::Fetched, smem: *mut f32);
}

/// Both operands, which are moved to shared memory, and where this thread reads them there. Tiles
/// are `WIDTH_A` rows of A and `WIDTH_B` columns of B, by `TILE_K`.
pub(crate) struct StagedProduct<
    A,
    B,
    const WIDTH_A: usize,
    const WIDTH_B: usize,
    const TILE_K: usize,
> {
    pub(crate) a: A,
    pub(crate) b: B,
    /// Shared memory of [`smem_elements`], aligned to 16 bytes, which nothing else uses.
    pub(crate) smem: *mut f32,
    /// This thread's first row of A's tiles and first column of B's, multiples of 4.
    pub(crate) first: (u32, u32),
}

/// f32 elements of shared memory for two stages of both operands.
pub(crate) const fn smem_elements(width_a: usize, width_b: usize, tile_k: usize) -> usize {
    2 * (tile_elements(width_a, tile_k) + tile_elements(width_b, tile_k))
}

impl<
    A: StagedOperand,
    B: StagedOperand,
    const WIDTH_A: usize,
    const WIDTH_B: usize,
    const TILE_K: usize,
> StagedProduct<A, B, WIDTH_A, WIDTH_B, TILE_K>
{
    /// Element (k 0, width 0) of A's tile in a stage.
    #[inline(always)]
    fn smem_a(&self, stage_idx: usize) -> *mut f32 {
        let stage = smem_elements(WIDTH_A, WIDTH_B, TILE_K) / 2;
        self.smem.wrapping_add(stage_idx * stage)
    }

    /// The same of B's tile, which follows A's.
    #[inline(always)]
    fn smem_b(&self, stage_idx: usize) -> *mut f32 {
        self.smem_a(stage_idx)
            .wrapping_add(tile_elements(WIDTH_A, TILE_K))
    }

    /// # Safety
    /// All elements of the operands can be read.
    #[inline(always)]
    unsafe fn fetch(&mut self) -> (A::Fetched, B::Fetched) {
        // SAFETY: the caller's promise.
        unsafe { (self.a.fetch(), self.b.fetch()) }
    }

    /// # Safety
    /// No thread reads the stage before the next barrier.
    #[inline(always)]
    unsafe fn stage(&self, (a, b): (A::Fetched, B::Fetched), stage_idx: usize) {
        // SAFETY: the caller's promise; `smem` holds two stages of both tiles.
        unsafe {
            self.a.stage(a, self.smem_a(stage_idx));
            self.b.stage(b, self.smem_b(stage_idx));
        }
    }

    /// Row `k_idx` of this thread's fragments of a staged tile.
    ///
    /// # Safety
    /// The tile is staged.
    #[inline(always)]
    unsafe fn fragments<const ROWS: usize, const COLUMNS: usize>(
        &self,
        stage_idx: usize,
        k_idx: usize,
    ) -> ([f32; ROWS], [f32; COLUMNS]) {
        let a = self.smem_a(stage_idx).wrapping_add(self.first.0 as usize);
        let b = self.smem_b(stage_idx).wrapping_add(self.first.1 as usize);
        // SAFETY: the caller's promise; `first` is within the tiles and a multiple of 4.
        unsafe {
            (
                read_fragment::<WIDTH_A, ROWS>(a, k_idx),
                read_fragment::<WIDTH_B, COLUMNS>(b, k_idx),
            )
        }
    }

    /// `Σ_k a[k][i] * b[k][j]` over all `k`, ascending, by fused multiply-adds from +0;
    /// `outer_product` does them for one k.
    ///
    /// Global loads of the next tile are issued before this tile's multiply-adds. `STAGE_AHEAD` k
    /// before the last one, the next tile is stored to its stage. Before the last one, its first
    /// fragments are read. So there is work to cover the barrier and the latency of shared memory.
    /// Beyond the last tile there are zeros. `order` is called with the fragments of the next
    /// multiply-adds, once the loads of the fragments after them have been issued.
    ///
    /// # Safety
    /// All elements of the operands can be read. All threads of the block call it together, and
    /// none touches `smem` between the last barrier before the call and the first one after it.
    #[inline(always)]
    pub(crate) unsafe fn accumulate<
        const ROWS: usize,
        const COLUMNS: usize,
        const STAGE_AHEAD: usize,
    >(
        mut self,
        k: u32,
        order: impl Fn(&mut Fragment<ROWS>, &mut Fragment<COLUMNS>),
        outer_product: impl Fn(&mut Accumulator<ROWS, COLUMNS>, &Fragment<ROWS>, &Fragment<COLUMNS>),
    ) -> Accumulator<ROWS, COLUMNS> {
        let mut acc = [[0.0; COLUMNS]; ROWS];
        let mut stage_idx = 0;
        // SAFETY: the caller's promise; nothing was staged before.
        unsafe {
            let first = self.fetch();
            self.stage(first, stage_idx);
        }
        thread::sync_threads(); // tile 0 is staged

        // SAFETY: tile 0 is staged.
        let (mut frag_a, mut frag_b) = unsafe { self.fragments(stage_idx, 0) };
        for _ in 0..k.div_ceil(TILE_K as u32) {
            // SAFETY: the caller's promise.
            let next = unsafe { self.fetch() };
            for k_idx in 0..TILE_K {
                if k_idx + STAGE_AHEAD == TILE_K - 1 {
                    // SAFETY: the last fragments of that stage were read before the last barrier.
                    unsafe { self.stage(next, 1 - stage_idx) };
                }
                if k_idx == TILE_K - 1 {
                    stage_idx = 1 - stage_idx;
                    thread::sync_threads(); // the next tile is staged
                }
                // SAFETY: the row is staged: of this tile, or the first of the next.
                let (next_a, next_b) = unsafe { self.fragments(stage_idx, (k_idx + 1) % TILE_K) };
                order(&mut frag_a, &mut frag_b);
                outer_product(&mut acc, &frag_a, &frag_b);
                (frag_a, frag_b) = (next_a, next_b);
            }
        }
        acc
    }
}
