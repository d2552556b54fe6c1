//! Which keys of a tile a thread's rows see.

use spec::attention::{SIMT_TILE, SimtFwdParams};

use crate::simt::results::Lines;

/// Two numbers say it for all rows: seen keys start at the first, so a row sees those of the tile
/// that are below the diagonal, which moves on by one each row.
pub(super) struct Mask<'a> {
    rows: &'a Lines,
    /// Keys of the tile.
    keys: i32,
    /// Keys from the tile's first on that the thread's first row sees, before it is cut to those
    /// there are; negative where even later rows see none.
    diagonal: i32,
}

impl<'a> Mask<'a> {
    /// For the tile of keys that starts at `n_start`.
    #[inline(always)]
    pub(super) fn of_tile(params: &SimtFwdParams, rows: &'a Lines, n_start: u32) -> Self {
        const TILE_N: i64 = SIMT_TILE.tile_n as i64;
        const TILE_M: i64 = SIMT_TILE.tile_m as i64;
        let diagonal = i64::from(rows.at(0)) + params.diagonal() - i64::from(n_start);
        let keys = i64::from(params.seqlen_k) - i64::from(n_start);
        Self {
            rows,
            keys: keys.min(TILE_N) as i32,
            // Beyond these bounds every row sees none, or all.
            diagonal: diagonal.clamp(-TILE_M, TILE_N) as i32,
        }
    }

    /// True where row `row` sees the `key_idx`-th key of the tile, if there is one.
    #[inline(always)]
    pub(super) fn sees(&self, row: usize, key_idx: u32) -> bool {
        let rows_down = self.rows.at(row) - self.rows.at(0);
        key_idx as i32 - (rows_down as i32) < self.diagonal
    }

    /// Scores of keys that are not seen become -inf. Columns are keys from `first_key` on.
    #[inline(always)]
    pub(super) fn apply<const ROWS: usize, const COLUMNS: usize>(
        &self,
        s: &mut [[f32; COLUMNS]; ROWS],
        first_key: u32,
    ) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let key_idx = first_key + column as u32;
                if !self.sees(row, key_idx) || key_idx as i32 >= self.keys {
                    s[row][column] = f32::NEG_INFINITY;
                }
            }
        }
    }
}
