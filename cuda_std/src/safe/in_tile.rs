//! Elements of a block's tile.

use super::{Index2, Shape2, Witness};

/// An element of the block's tile of `ROWS` times `COLUMNS`, held by one thread of the block. The
/// tile's own place is that of the block in a two-dimensional grid: y and x.
#[derive(Debug)]
pub struct InTile<const ROWS: usize, const COLUMNS: usize> {
    /// Where the tile begins.
    first: Index2,
    in_tile: (usize, usize),
}

impl<const ROWS: usize, const COLUMNS: usize> InTile<ROWS, COLUMNS> {
    /// The element in this place of the tile that begins at this row and column.
    #[inline(always)]
    pub(super) fn new((row, column): (usize, usize), in_tile: (usize, usize)) -> Self {
        Self {
            first: Index2::new(row, column),
            in_tile,
        }
    }

    /// The row.
    #[inline(always)]
    pub fn row(&self) -> usize {
        self.first.row() + self.in_tile.0
    }

    /// The column.
    #[inline(always)]
    pub fn column(&self) -> usize {
        self.first.column() + self.in_tile.1
    }

    /// Row and column in the tile: below `ROWS` and `COLUMNS`, which the compiler knows.
    #[inline(always)]
    pub fn in_tile(&self) -> (usize, usize) {
        self.in_tile
    }
}

// SAFETY: each thread of a block has its own elements of the tile, and each block its own tile.
unsafe impl<const ROWS: usize, const COLUMNS: usize> Witness for InTile<ROWS, COLUMNS> {
    type Shape = Shape2;

    #[inline(always)]
    unsafe fn element<T>(&self, pointer: *const T, shape: &Shape2) -> Option<*const T> {
        // SAFETY: passed on to the caller.
        unsafe { shape.element(pointer, self.row(), self.column()) }
    }

    #[inline(always)]
    #[track_caller]
    fn out_of_bounds(&self, shape: &Shape2) -> ! {
        shape.out_of_bounds(self.row(), self.column())
    }
}
