//! The mask of a tile of keys for a thread's rows.

use abi::attention;

use crate::simt::results::Lines;

/// [`attention::Mask`] relative to a tile of keys: the row `rows_down` below the thread's first
/// sees the keys of the tile for which `low <= key_idx - rows_down < high`.
pub(crate) struct Mask<'a> {
    rows: &'a Lines,
    /// Keys of the tile.
    keys: i32,
    low: i32,
    high: i32,
}

impl<'a> Mask<'a> {
    /// For the tile of `tile_n` keys that starts at `n_start`.
    #[inline(always)]
    pub(crate) fn of_tile(
        mask: &attention::Mask,
        rows: &'a Lines,
        n_start: u32,
        tile_n: u32,
    ) -> Self {
        // More than any difference of key and row within a tile.
        const FAR: i64 = 1 << 16;
        let below = i64::from(rows.at(0)) - i64::from(n_start);
        let keys = i64::from(mask.seqlen_k) - i64::from(n_start);
        Self {
            rows,
            keys: keys.min(i64::from(tile_n)) as i32,
            low: (below + i64::from(mask.first)).clamp(-FAR, FAR) as i32,
            high: (below + i64::from(mask.end)).clamp(-FAR, FAR) as i32,
        }
    }

    /// Whether row `row` sees the `key_idx`-th key of the tile, if that key exists.
    #[inline(always)]
    pub(crate) fn sees(&self, row: usize, key_idx: u32) -> bool {
        let rows_down = self.rows.at(row) - self.rows.at(0);
        let diagonal = key_idx as i32 - rows_down as i32;
        self.low <= diagonal && diagonal < self.high
    }

    /// Whether row `row` sees the `key_idx`-th key of the tile, and there is such a key.
    #[inline(always)]
    pub(crate) fn shows(&self, row: usize, key_idx: u32) -> bool {
        self.sees(row, key_idx) && (key_idx as i32) < self.keys
    }

    /// Sets masked scores to -inf. Columns are keys from `first_key` on.
    #[inline(always)]
    pub(crate) fn apply<const ROWS: usize, const COLUMNS: usize>(
        &self,
        s: &mut [[f32; COLUMNS]; ROWS],
        first_key: u32,
    ) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let key_idx = first_key + column as u32;
                if !self.shows(row, key_idx) {
                    s[row][column] = f32::NEG_INFINITY;
                }
            }
        }
    }
}
