//! The way of a block's results from its accumulators, through shared memory, to D.
//!
//! Threads own 4×4 chunks all over the tile, and memory wants whole rows. So the tile goes through
//! shared memory, as many rows at a time as fit: each thread writes what it owns of them, and after
//! a barrier takes chunks of four neighbours in the order of rows, applies the epilogue and stores
//! them. The epilogue is there once, in a loop, in the place of once for each accumulator.

use cuda_std::element::Element;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::{thread, warp};

use crate::simt::element::{CHUNK, F32x4};
use crate::simt::operand::pitch;
use crate::simt::product::Accumulator;
use crate::simt::results::Results;

/// D, and where this block's tile is in it.
pub(super) struct Destination<Out> {
    /// Element (0, 0) of this product's D.
    pub(super) base: *mut Out,
    pub(super) ld: i64,
    pub(super) batch: u64,
    pub(super) results: Results,
}

/// Where the chunk from `column` on of a staged row is. Chunks of rows eight apart change places, so
/// that the lanes that write at once meet no bank twice.
#[inline(always)]
fn staged(smem: *mut f32, row: u32, column: u32, pitch: u32) -> *mut F32x4 {
    let swizzled = column ^ ((row / 8) % 2 * 8);
    smem.wrapping_add((row * pitch + swizzled) as usize).cast()
}

/// Neighbours in each other's place.
///
/// NOTE(perf): results pass so through shared memory for the sake of the main loop. ptxas keeps them
/// where the last store of four wants them, and factors where a load of four puts them; in the same
/// order both a result and its factor of B are in even registers, or both in odd ones, and a
/// multiply-add reads one bank twice (291 times of 1,024; so it is 135, docs/gemm-simt.md).
#[inline(always)]
fn swapped([a, b, c, d]: [f32; CHUNK]) -> [f32; CHUNK] {
    [b, a, d, c]
}

impl<Out: Element> Destination<Out> {
    /// Stores the block's results after `epilogue`. `ROWS` rows of the tile fit into `smem` with
    /// the pitch of staged operands.
    ///
    /// # Safety
    /// Elements of D within the extents can be written, and `epilogue` be called for them; no other
    /// block has the same. All threads of the block call it, and no thread reads `smem` any more for
    /// another reason once it has.
    #[inline(always)]
    pub(super) unsafe fn store<
        E: Epilogue,
        const TILE: usize,
        const DOWN: usize,
        const ACROSS: usize,
        const ROWS: usize,
    >(
        &self,
        acc: &Accumulator<DOWN, ACROSS>,
        smem: *mut f32,
        epilogue: &E,
    ) {
        const { assert!(TILE.is_multiple_of(ROWS) && ROWS.is_multiple_of(CHUNK)) };
        let threads = thread::block_dim_x();
        // As `ROWS` and the tile's extent, but by a number of threads that the compiler does not
        // know, so that it does not repeat the epilogue.
        let rows_step = threads / (TILE * TILE / DOWN / ACROSS / ROWS) as u32;
        let rows_left = self.results.rows.extent - self.results.rows.tile_start;
        let mut first_row = 0;
        while first_row < TILE as u32 && first_row < rows_left {
            thread::sync_threads(); // everyone has read what was staged before
            // SAFETY: the caller's; the rows fit.
            unsafe { self.stage::<TILE, DOWN, ACROSS, ROWS>(acc, smem, first_row) };
            thread::sync_threads(); // the rows are staged
            let mut chunk_idx = thread::thread_idx_x();
            while chunk_idx < (ROWS * TILE / CHUNK) as u32 {
                let row = chunk_idx / (TILE / CHUNK) as u32;
                let column = chunk_idx % (TILE / CHUNK) as u32 * CHUNK as u32;
                // SAFETY: staged before the barrier.
                let values = unsafe { staged(smem, row, column, pitch(TILE) as u32).read() }.0;
                // SAFETY: the caller's.
                unsafe { self.finish(first_row + row, column, swapped(values), epilogue) };
                // SAFETY: whole warps go through the loop. It keeps the loop a loop.
                unsafe { warp::bar_warp_sync(warp::FULL_MASK) };
                chunk_idx += threads;
            }
            first_row += rows_step;
        }
    }

    /// Writes those of the thread's results that are in `ROWS` rows from `first_row` on.
    ///
    /// # Safety
    /// No thread reads `smem` before the next barrier.
    #[inline(always)]
    unsafe fn stage<
        const TILE: usize,
        const DOWN: usize,
        const ACROSS: usize,
        const ROWS: usize,
    >(
        &self,
        acc: &Accumulator<DOWN, ACROSS>,
        smem: *mut f32,
        first_row: u32,
    ) {
        let Results { rows, columns } = &self.results;
        for row_chunk in 0..DOWN / CHUNK {
            let row = rows.first + row_chunk as u32 * rows.spacing;
            let inside = row.wrapping_sub(first_row);
            if inside < ROWS as u32 {
                for row_idx in 0..CHUNK {
                    for column_chunk in 0..ACROSS / CHUNK {
                        let column = columns.first + column_chunk as u32 * columns.spacing;
                        let place =
                            staged(smem, inside + row_idx as u32, column, pitch(TILE) as u32);
                        let line = &acc[CHUNK * row_chunk + row_idx];
                        let first = CHUNK * column_chunk;
                        let values = [
                            line[first],
                            line[first + 1],
                            line[first + 2],
                            line[first + 3],
                        ];
                        // SAFETY: the caller's; the rows fit, pitch and column are multiples of 4.
                        unsafe { place.write(F32x4(swapped(values))) }
                    }
                }
            }
        }
    }

    /// Applies the epilogue to four neighbours of the tile and stores them, as far as they are
    /// inside of D.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[inline(always)]
    unsafe fn finish<E: Epilogue>(
        &self,
        row: u32,
        column: u32,
        mut values: [f32; CHUNK],
        epilogue: &E,
    ) {
        let (rows, columns) = (&self.results.rows, &self.results.columns);
        let row = rows.tile_start + row;
        let column = columns.tile_start + column;
        if row >= rows.extent || column >= columns.extent {
            return;
        }
        let last = columns.extent - 1;
        let place = |idx: usize| Place {
            batch: self.batch,
            row,
            column: (column + idx as u32).min(last),
        };
        epilogue.apply_all(place, &mut values);
        let offset = i64::from(row) * self.ld + i64::from(column);
        let d = self.base.wrapping_offset(offset as isize);
        if columns.extent - column >= CHUNK as u32 && Out::is_vector_aligned(d) {
            // SAFETY: the caller's: four elements inside of D, aligned.
            unsafe { Out::store4(d, values) }
        } else {
            for idx in 0..CHUNK {
                if column + (idx as u32) < columns.extent {
                    // SAFETY: the caller's: inside of D.
                    unsafe { Out::store(d.wrapping_add(idx), values[idx]) }
                }
            }
        }
    }
}
