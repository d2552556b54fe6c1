//! Stores a block's results from its accumulators, through shared memory, to D.
//!
//! Threads own 4×4 chunks all over the tile, but global stores should be whole rows. So the tile
//! goes through shared memory, as many rows at a time as fit. Each thread writes its results of
//! these rows; after a barrier, threads take chunks of four neighbours in row order, apply the
//! epilogue and store them. So the code of the epilogue exists once, in a loop, and not once for
//! each accumulator.

use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::{thread, warp};

use crate::simt::element::{CHUNK, F32x4};
use crate::simt::operand::pitch;
use crate::simt::product::Accumulator;
use crate::simt::results::Results;

/// D, and where this block's tile is in it.
pub(super) struct Destination<Out> {
    /// Element (0, 0) of D in this matrix of the batch.
    pub(super) base: *mut Out,
    pub(super) ld: i64,
    pub(super) batch: u64,
    pub(super) results: Results,
}

/// Address of the chunk at `column` of a staged row. The swizzle xors the column with 8 in every
/// other group of eight rows, so that the stores of a warp have no bank conflicts.
#[inline(always)]
fn staged(smem: *mut f32, row: u32, column: u32, pitch: u32) -> *mut F32x4 {
    let swizzled = column ^ ((row / 8) % 2 * 8);
    smem.wrapping_add((row * pitch + swizzled) as usize).cast()
}

/// Swaps the elements of each pair of neighbours.
///
/// NOTE(perf): results are staged in this order for the sake of the mainloop's register banks.
/// ptxas keeps accumulators in the registers that the final 16-byte store wants, and fragments in
/// those that their 16-byte load fills. In the unswapped order, an accumulator and its element of B
/// are both in even registers or both in odd ones. Then a multiply-add reads one bank twice (291
/// times of 1,024; swapped it is 135, docs/decisions/0013).
#[inline(always)]
fn swapped([a, b, c, d]: [f32; CHUNK]) -> [f32; CHUNK] {
    [b, a, d, c]
}

impl<Out: Element> Destination<Out> {
    /// Stores the block's results after `epilogue`. `ROWS` rows of the tile fit into `smem` at the
    /// row pitch of staged operands.
    ///
    /// # Safety
    /// Elements of D within the extents can be written, and `epilogue` can be called for them; no
    /// other block has the same elements. All threads of the block call it, and nobody reads `smem`
    /// for another reason any more.
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
        // Equals `ROWS`. It is computed from the number of threads, which the compiler does not
        // know, so that it neither unrolls the loop nor repeats the epilogue.
        let rows_step = threads / (TILE * TILE / DOWN / ACROSS / ROWS) as u32;
        let rows_left = self.results.rows.extent - self.results.rows.tile_start;
        let mut first_row = 0;
        while first_row < TILE as u32 && first_row < rows_left {
            thread::sync_threads(); // everyone has read what was staged before
            // SAFETY: the caller's promise; the rows fit.
            unsafe { self.stage::<TILE, DOWN, ACROSS, ROWS>(acc, smem, first_row) };
            thread::sync_threads(); // the rows are staged
            let mut chunk_idx = thread::thread_idx_x();
            while chunk_idx < (ROWS * TILE / CHUNK) as u32 {
                let row = chunk_idx / (TILE / CHUNK) as u32;
                let column = chunk_idx % (TILE / CHUNK) as u32 * CHUNK as u32;
                // SAFETY: staged before the barrier.
                let values = unsafe { staged(smem, row, column, pitch(TILE) as u32).read() }.0;
                // SAFETY: the caller's promise.
                unsafe { self.finish(first_row + row, column, swapped(values), epilogue) };
                // SAFETY: whole warps run the loop. The barrier keeps LLVM from unrolling it.
                unsafe { warp::bar_warp_sync(warp::FULL_MASK) };
                chunk_idx += threads;
            }
            first_row += rows_step;
        }
    }

    /// Writes this thread's results that lie in the `ROWS` rows from `first_row` on.
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
                        let coord =
                            staged(smem, inside + row_idx as u32, column, pitch(TILE) as u32);
                        let line = &acc[CHUNK * row_chunk + row_idx];
                        let first = CHUNK * column_chunk;
                        let values = [
                            line[first],
                            line[first + 1],
                            line[first + 2],
                            line[first + 3],
                        ];
                        // SAFETY: the caller's promise; the rows fit, pitch and column are
                        // multiples of 4.
                        unsafe { coord.write(F32x4(swapped(values))) }
                    }
                }
            }
        }
    }

    /// Applies the epilogue to four neighbours of the tile and stores those that lie inside D.
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
        let coord = |idx: usize| Coord {
            batch: self.batch,
            row,
            column: (column + idx as u32).min(last),
        };
        epilogue.apply_all(coord, &mut values);
        let offset = i64::from(row) * self.ld + i64::from(column);
        let d = self.base.wrapping_offset(offset as isize);
        if columns.extent - column >= CHUNK as u32 && Out::is_vector_aligned(d) {
            // SAFETY: the caller's promise: four elements inside D, aligned.
            unsafe { Out::store4(d, values) }
        } else {
            for idx in 0..CHUNK {
                if column + (idx as u32) < columns.extent {
                    // SAFETY: the caller's promise: inside D.
                    unsafe { Out::store(d.wrapping_add(idx), values[idx]) }
                }
            }
        }
    }
}
