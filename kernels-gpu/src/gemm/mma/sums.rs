//! Stores results of sums in i32, whose type a launch says.

use abi::gemm::{EpilogueParams, GemmParams, MmaTile};
use cuda_std::epilogue::Coord;
use cuda_std::mem::ld_v4_f32;
use cuda_std::thread;
use half::bf16;

use super::either::Either;
use super::product::Block;
use super::results::{Ending, Target};
use crate::gemm::fused::Pointers;
use crate::gemm::integer::{self, WIDTH};

/// The epilogue of sums whose bits stand where other types have f32. Where they are staged and what
/// `Out` says are as in [`Either`].
pub(super) struct Sums<'a>(integer::Ending<'a>);

impl<'a> Sums<'a> {
    /// # Safety
    /// As for [`integer::Ending::new`].
    #[inline(always)]
    pub(super) unsafe fn new(
        pointers: Pointers<u8>,
        params: &'a GemmParams,
        epilogue: &'a EpilogueParams,
    ) -> Self {
        // SAFETY: passed on to the caller.
        Self(unsafe { integer::Ending::new(pointers, params, epilogue) })
    }
}

impl Ending for Sums<'_> {
    type Out = bf16;
    const IS_OUT: bool = false;

    #[inline(always)]
    fn offset(&self, d: *mut bf16, elements: i64) -> *mut bf16 {
        self.0.offset(d.cast(), elements).cast()
    }

    #[inline(always)]
    fn only_factor(&self) -> Option<f32> {
        None
    }

    #[inline(always)]
    unsafe fn stage<const M: usize, const N: usize>(
        tile: &MmaTile,
        acc: &[[Block; N]; M],
        smem: *mut f32,
        first: (u32, u32),
    ) {
        // SAFETY: passed on to the caller.
        unsafe { Either::<bf16>::stage(tile, acc, smem, first) }
    }

    #[inline(always)]
    unsafe fn store(
        &self,
        tile: &MmaTile,
        smem: *const f32,
        target: &Target<bf16>,
        params: &GemmParams,
    ) {
        let fours = tile.tile_n / WIDTH as u32;
        let thread = thread::thread_idx_x();
        let column_in_tile = thread % fours * WIDTH as u32;
        let column = target.first_column + column_in_tile;
        if column >= params.n {
            return;
        }
        let count = (params.n - column).min(WIDTH as u32);
        let rows = (params.m - target.first_row).min(tile.tile_m);
        let mut row_in_tile = thread / fours;
        while row_in_tile < rows {
            let staged = tile.either_offset(row_in_tile, column_in_tile);
            let coord = Coord {
                batch: target.batch,
                row: target.first_row + row_in_tile,
                column,
            };
            // SAFETY: in shared memory, at a multiple of 16 bytes; in D.
            unsafe {
                let x = ld_v4_f32(smem.add(staged as usize));
                let sums = x.map(|x| x.to_bits() as i32);
                self.0.store(target.d.cast(), coord, sums, count);
            }
            row_in_tile += tile.threads() / fours;
        }
    }
}
