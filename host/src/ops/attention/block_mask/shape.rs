//! Extents of block masks.

use crate::{Error, Result};
use abi::attention::blocks::CELL;

/// Most positions of a sequence: blocks are numbered in 31 bits, shifted.
const MOST_POSITIONS: usize = 1 << 26;
/// First number of cells that is too large.
const CELLS_END: u64 = 1 << 31;

/// Extents of a [`BlockMask`](crate::BlockMask): queries, keys, batches and heads, and those of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockMaskShape {
    pub(in crate::ops::attention) batch: usize,
    pub(in crate::ops::attention) heads: usize,
    pub(in crate::ops::attention) seqlen_q: usize,
    pub(in crate::ops::attention) seqlen_k: usize,
    pub(in crate::ops::attention) block: [usize; 2],
}

impl BlockMaskShape {
    /// One mask for all batches and heads, of this many queries and keys (of the longest sequence), in
    /// blocks of 128.
    pub const fn new(seqlen_q: usize, seqlen_k: usize) -> Self {
        Self {
            batch: 1,
            heads: 1,
            seqlen_q,
            seqlen_k,
            block: [128; 2],
        }
    }

    /// Sets the number of batches: 1, or that of the attention.
    pub const fn batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// Sets the number of heads: 1, or the query heads of the attention.
    pub const fn heads(self, heads: usize) -> Self {
        Self { heads, ..self }
    }

    /// Sets the queries and keys of a block, multiples of 64.
    pub const fn blocks(self, queries: usize, keys: usize) -> Self {
        Self {
            block: [queries, keys],
            ..self
        }
    }

    /// Number of blocks of queries.
    pub const fn q_blocks(&self) -> usize {
        self.seqlen_q.div_ceil(self.block[0])
    }

    /// Number of blocks of keys.
    pub const fn k_blocks(&self) -> usize {
        self.seqlen_k.div_ceil(self.block[1])
    }

    pub(super) fn check(&self) -> Result<()> {
        let cell = CELL as usize;
        for (what, extent) in [("block of queries", 0), ("block of keys", 1)] {
            let got = self.block[extent];
            if got == 0 || !got.is_multiple_of(cell) || got > MOST_POSITIONS {
                let want = "a multiple of 64, at least 64";
                return Err(Error::value(what, got.to_string(), want));
            }
        }
        for (what, got) in [("seqlen_q", self.seqlen_q), ("seqlen_k", self.seqlen_k)] {
            if got > MOST_POSITIONS {
                let limit = MOST_POSITIONS as u64 + 1;
                return Err(Error::out_of_bounds(what, got as u64, limit));
            }
        }
        let matrices = (self.batch as u64).saturating_mul(self.heads as u64);
        let cells = matrices.saturating_mul((self.rows() * self.pitch()) as u64);
        match cells >= CELLS_END {
            true => Err(Error::out_of_bounds("cells", cells, CELLS_END)),
            false => Ok(()),
        }
    }

    /// Masks of a batch and a head.
    pub(super) const fn matrices(&self) -> usize {
        self.batch * self.heads
    }

    /// Rows of cells; at least one, so that there is memory.
    pub(in crate::ops::attention) const fn rows(&self) -> usize {
        let rows = self.seqlen_q.div_ceil(CELL as usize);
        if rows == 0 { 1 } else { rows }
    }

    /// Columns of cells.
    pub(in crate::ops::attention) const fn columns(&self) -> usize {
        let columns = self.seqlen_k.div_ceil(CELL as usize);
        if columns == 0 { 1 } else { columns }
    }

    /// Bytes of a row of cells.
    pub(in crate::ops::attention) const fn pitch(&self) -> usize {
        self.columns().next_multiple_of(4)
    }

    /// Queries of a row of cells.
    pub(super) fn queries_of(&self, row: usize) -> usize {
        let cell = CELL as usize;
        self.seqlen_q.saturating_sub(row * cell).min(cell)
    }

    /// Keys of a column of cells.
    pub(super) fn keys_of(&self, column: usize) -> usize {
        let cell = CELL as usize;
        self.seqlen_k.saturating_sub(column * cell).min(cell)
    }

    /// Log2 of the queries and keys of lines and their blocks, the finer first. The first are the
    /// largest powers of two that divide blocks; the second, for larger tiles, are at least 128.
    pub(super) fn levels(&self) -> Vec<[u32; 2]> {
        let fine = self.block.map(|extent| extent.trailing_zeros());
        let coarse = fine.map(|log2| log2.max(7));
        match fine == coarse {
            true => vec![fine],
            false => vec![fine, coarse],
        }
    }
}
