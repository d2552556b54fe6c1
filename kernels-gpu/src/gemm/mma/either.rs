//! Stores results whose type a launch says, 16 bytes at a time: f32, or else 16 bits. Both go
//! through shared memory in one layout, and through one loop with one copy of the epilogue.

use abi::gemm::{EpilogueParams, GemmParams, MmaTile};
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_v4_f32, st_v2_f32, st_v4_u32};
use cuda_std::thread;

use super::one_by_one::OneByOne;
use super::product::Block;
use super::results::{Ending, Output, Target};
use crate::gemm::fused::{Pointers, Unread};
use crate::gemm::stored::{Fused, Half, Stored};

/// Results to which the epilogue is applied at once.
const CHUNK: u32 = 4;

/// Results of f32 or of `T`, as the launch says.
pub(super) struct Either<T> {
    stored: Stored<T>,
    epilogue: OneByOne<Fused<T>>,
}

impl<T: Half> Either<T> {
    /// # Safety
    /// As for [`Fused::new`](crate::gemm::fused::Fused::new).
    #[inline(always)]
    pub(super) unsafe fn new(
        pointers: Pointers<u8>,
        params: &GemmParams,
        epilogue: &EpilogueParams,
    ) -> Self {
        let stored = Stored::new(epilogue);
        let unread = Unread {
            pointers,
            params,
            epilogue,
        };
        // SAFETY: passed on to the caller.
        let fused = unsafe { stored.read(unread) };
        Self {
            stored,
            epilogue: OneByOne::of(fused, unread.factor_alone()),
        }
    }
}

impl<T: Half + Output> Ending for Either<T> {
    type Out = T;
    const IS_OUT: bool = false;

    #[inline(always)]
    fn offset(&self, d: *mut T, elements: i64) -> *mut T {
        self.stored.at(d.cast(), elements).cast()
    }

    #[inline(always)]
    fn only_factor(&self) -> Option<f32> {
        self.epilogue.only_factor()
    }

    #[inline(always)]
    unsafe fn stage<const M: usize, const N: usize>(
        tile: &MmaTile,
        acc: &[[Block; N]; M],
        smem: *mut f32,
        (first_row, first_column): (u32, u32),
    ) {
        let lane = thread::lane_idx();
        for i in 0..M {
            for j in 0..N {
                for half in 0..2 {
                    let row = first_row + 16 * i as u32 + 8 * half as u32 + lane / 4;
                    let column = first_column + 8 * j as u32 + lane % 4 * 2;
                    let staged = tile.either_offset(row, column);
                    let pair = [acc[i][j][2 * half], acc[i][j][2 * half + 1]];
                    // SAFETY: the caller's memory; pairs lie at multiples of 8 bytes.
                    unsafe { st_v2_f32(smem.add(staged as usize), pair) }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store(
        &self,
        tile: &MmaTile,
        smem: *const f32,
        target: &Target<T>,
        params: &GemmParams,
    ) {
        let d = target.d.cast::<u8>();
        // Results of a store: 4 of f32, 8 of 16 bits.
        let vector_log2 = if self.stored.is_f32() { 2 } else { 3 };
        let vector = 1 << vector_log2;
        let vectors_log2 = tile.tile_n.trailing_zeros() - vector_log2;
        let thread = thread::thread_idx_x();
        let column_in_tile = (thread & ((1 << vectors_log2) - 1)) << vector_log2;
        let first_column = target.first_column + column_in_tile;
        if first_column >= params.n {
            return;
        }
        let rows = (params.m - target.first_row).min(tile.tile_m);
        let is_aligned = self.stored.is_store_aligned(d, params.ldd);
        let is_whole = is_aligned && params.n - first_column >= vector;
        let mut row_in_tile = thread >> vectors_log2;
        while row_in_tile < rows {
            let row = target.first_row + row_in_tile;
            let at = i64::from(row) * params.ldd + i64::from(first_column);
            let mut words = [0; 4];
            let chunks = opaque(vector / CHUNK);
            let mut chunk = 0;
            while chunk < chunks {
                let in_vector = chunk * CHUNK;
                let staged = tile.either_offset(row_in_tile, column_in_tile + in_vector);
                // SAFETY: in shared memory, at a multiple of 16 bytes.
                let mut x = unsafe { ld_v4_f32(smem.add(staged as usize)) };
                let column = first_column + in_vector;
                let coord = |i: usize| Coord {
                    batch: target.batch,
                    row,
                    column: (column + i as u32).min(params.n - 1),
                };
                self.epilogue.apply_all(coord, &mut x);
                if is_whole {
                    words = self.stored.push(words, x);
                } else {
                    let inside = params.n.saturating_sub(column);
                    let to = (d, at + i64::from(in_vector));
                    // SAFETY: in D.
                    unsafe { self.stored.store(to, x, (inside, false)) };
                }
                chunk += 1;
            }
            if is_whole {
                // SAFETY: in D, aligned.
                unsafe { st_v4_u32(self.stored.at(d, at).cast(), words) }
            }
            row_in_tile += tile.threads() >> vectors_log2;
        }
    }
}
