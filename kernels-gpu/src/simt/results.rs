//! Stores a thread's results from registers to a matrix in global memory.

use super::element::{CHUNK, SimtElement};
use super::product::Accumulator;

/// One thread's rows or columns of the block's tile: chunks of 4, `spacing` apart, from `first` to
/// the end of the tile.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    /// First row or column of the tile, in the matrix; below `extent`.
    pub(crate) tile_start: u32,
    /// First row or column of the thread, in the tile.
    pub(crate) first: u32,
    /// Distance between the thread's chunks.
    pub(crate) spacing: u32,
    /// Extent of the matrix.
    pub(crate) extent: u32,
}

impl Lines {
    /// Row or column, in the matrix, of the thread's `idx`-th.
    #[inline(always)]
    pub(crate) fn at(&self, idx: usize) -> u32 {
        let (chunk_idx, idx_in_chunk) = ((idx / CHUNK) as u32, (idx % CHUNK) as u32);
        self.tile_start + self.first + chunk_idx * self.spacing + idx_in_chunk
    }

    /// Whether the tile, of which each thread has `count` rows or columns, is inside the matrix.
    #[inline(always)]
    fn tile_is_inside(&self, count: usize) -> bool {
        self.extent - self.tile_start >= self.spacing * (count / CHUNK) as u32
    }
}

/// The rows and columns of a matrix that a thread's accumulators belong to.
///
/// If the block's tile is inside the matrix and aligned, stores move chunks of 4, otherwise single
/// elements. The choice is the same for all threads of a block.
#[derive(Clone, Copy)]
pub(crate) struct Results {
    pub(crate) rows: Lines,
    pub(crate) columns: Lines,
}

impl Results {
    /// Stores the accumulators, rounded, to the matrix at `base` with `ld` elements between rows.
    ///
    /// # Safety
    /// Elements within the extents can be written; no other thread has the same.
    #[inline(always)]
    pub(crate) unsafe fn write<E: SimtElement, const ROWS: usize, const COLUMNS: usize>(
        &self,
        acc: &Accumulator<ROWS, COLUMNS>,
        base: *mut E,
        ld: i64,
    ) {
        if self.moves_chunks::<E, ROWS, COLUMNS>(base, ld) {
            self.for_each_chunk::<E, ROWS, COLUMNS>(base, ld, |row, column, at, _| {
                let values = chunk_of(acc, row, column);
                // SAFETY: the caller's promise; the tile is inside and aligned.
                unsafe { at.cast_mut().cast::<E::Chunk>().write(E::narrow(values)) }
            });
        } else {
            self.for_each_chunk::<E, ROWS, COLUMNS>(base, ld, |row, column, at, inside| {
                for idx in 0..CHUNK {
                    if (idx as u32) < inside {
                        let value = E::from_f32(acc[row][column + idx]);
                        // SAFETY: the caller's promise: the element is within the extents.
                        unsafe { at.cast_mut().wrapping_add(idx).write(value) }
                    }
                }
            });
        }
    }

    #[inline(always)]
    fn moves_chunks<E: SimtElement, const ROWS: usize, const COLUMNS: usize>(
        &self,
        base: *const E,
        ld: i64,
    ) -> bool {
        let inside = self.rows.tile_is_inside(ROWS) && self.columns.tile_is_inside(COLUMNS);
        let aligned = base.addr().is_multiple_of(size_of::<E::Chunk>()) && ld % CHUNK as i64 == 0;
        inside && aligned
    }

    /// Calls `visit` with row and first column in the accumulator, the address in the matrix, and
    /// how many of the chunk's elements are inside the matrix.
    #[inline(always)]
    fn for_each_chunk<E, const ROWS: usize, const COLUMNS: usize>(
        &self,
        base: *const E,
        ld: i64,
        mut visit: impl FnMut(usize, usize, *const E, u32),
    ) {
        for row in 0..ROWS {
            let matrix_row = self.rows.at(row);
            let row_base = base.wrapping_offset((i64::from(matrix_row) * ld) as isize);
            for chunk_idx in 0..COLUMNS / CHUNK {
                let column = chunk_idx * CHUNK;
                let matrix_column = self.columns.at(column);
                let inside = if matrix_row < self.rows.extent {
                    self.columns.extent.saturating_sub(matrix_column)
                } else {
                    0
                };
                let at = row_base.wrapping_add(matrix_column as usize);
                visit(row, column, at, inside);
            }
        }
    }
}

/// Four neighbours of an accumulator's row.
#[inline(always)]
fn chunk_of<const ROWS: usize, const COLUMNS: usize>(
    acc: &Accumulator<ROWS, COLUMNS>,
    row: usize,
    column: usize,
) -> [f32; CHUNK] {
    let line = &acc[row];
    [
        line[column],
        line[column + 1],
        line[column + 2],
        line[column + 3],
    ]
}
