//! How wide tiles of columns are, and how many parts columns have.

use super::super::{BATCH, ReduceView, THREADS};
use super::LINE_VECTORS;

/// Most vectors along `inner` of a block of columns, and fewest of a row of columns. The fewest of a
/// block are those of a line.
pub(super) const COLUMNS_ACROSS: u64 = 32;

/// Fewest batches of a thread that has its columns whole.
const LEAST_BATCHES: u64 = 2;

/// Most parts of columns for which tiles are as wide as they may be.
const FEW_PARTS: u64 = 16;

/// Blocks over columns that run at the same time on a large GPU, at two and at three an SM: the
/// number of parts is chosen for these, unless there are more tiles anyway. Two an SM read faster,
/// if there are that many.
const COLUMNS_BLOCKS: [u64; 2] = [264, 396];

/// Fewest blocks over columns if there are more than that, so that those of the last wave wait for
/// nobody.
const COLUMNS_TURNS: u64 = 4 * COLUMNS_BLOCKS[1];

/// Vectors along `inner` of a block of columns: the most that leave columns whole, if there are then
/// two blocks an SM of a large GPU; else the most that leave them few parts, which are merged soon.
pub(super) const fn columns_across(view: &ReduceView, vectors: u64) -> u64 {
    let [two, _] = COLUMNS_BLOCKS;
    let (mut across, mut with_few) = (COLUMNS_ACROSS, 0);
    while across >= LINE_VECTORS {
        let tiles = view.outer.saturating_mul(vectors.div_ceil(across));
        let is_long = view.n >= LEAST_BATCHES * BATCH as u64 * (THREADS as u64 / across);
        if tiles <= two && tiles >= two - two / 10 && is_long {
            return across;
        }
        if with_few == 0 && columns_parts(tiles) <= FEW_PARTS {
            with_few = across;
        }
        across /= 2;
    }
    match with_few {
        0 => LINE_VECTORS,
        across => across,
    }
}

/// Parts that each of `tiles` tiles of columns is split into.
pub(super) const fn columns_parts(tiles: u64) -> u64 {
    let [two, three] = COLUMNS_BLOCKS;
    if tiles > three {
        COLUMNS_TURNS.div_ceil(tiles)
    } else if two % tiles <= two / 10 {
        two / tiles
    } else {
        three / tiles
    }
}
