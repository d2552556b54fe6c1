//! The mask of a tile.

use abi::attention::Mask;

use super::thread_tile::TILE;

/// [`Mask`] relative to a tile: row i shows column j if `low <= j - i < high` and there is such a
/// column.
#[derive(Clone, Copy)]
pub(super) struct Band {
    low: i32,
    high: i32,
    /// Columns of the tile.
    pub(super) columns: u32,
}

impl Band {
    /// That of the tile whose first row and column are these. The mask's queries are the rows.
    #[inline(always)]
    pub(super) fn of_tile(mask: &Mask, row_start: u32, column_start: u32) -> Self {
        // More than any difference of column and row within a tile.
        const FAR: i64 = 1 << 16;
        let below = i64::from(row_start) - i64::from(column_start);
        Self {
            low: (below + i64::from(mask.first)).clamp(-FAR, FAR) as i32,
            high: (below + i64::from(mask.end)).clamp(-FAR, FAR) as i32,
            columns: (mask.seqlen_k - column_start).min(TILE as u32),
        }
    }

    /// Whether the tile's row shows its column.
    #[inline(always)]
    pub(super) fn shows(&self, row: u32, column: u32) -> bool {
        let diagonal = column as i32 - row as i32;
        self.low <= diagonal && diagonal < self.high && column < self.columns
    }
}
