//! Scans (running sums, products and maxima) of rows, in one pass over memory.
//!
//! Rows are cut into tiles, which blocks take in order by a counter. A block scans its tile, publishes
//! the tile's total, and finds what comes before it by looking back (Merrill and Garland, "Single-pass
//! parallel prefix scan with decoupled look-back", 2016), in an association that does not depend on
//! how far it has to look: the totals of the tiles before it in its group of [`GROUP`], by a tree; and
//! the totals of the groups before, one after the other. So results have the same bits every time.
//!
//! | entry | parameters |
//! |---|---|
//! | `scan_<dtype>` | `(x: *const T, y: *mut T, status: *mut u64, params: ScanParams)` |
//!
//! `<dtype>` is f32, f16, bf16 (computed in f32), f64 (in f64), i32 and i64 (in i64, wrapping).
//! `status` is [`ScanPlan::status_words`] words of 0, and may be null where rows have one tile.

use crate::DType;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Vectors of 16 bytes that a thread has of a tile.
pub const VECTORS: usize = 4;

/// Tiles of a group.
pub const GROUP: u64 = 32;

/// Most blocks of a grid; they take tiles until there are none.
pub const MAX_BLOCKS: u64 = 1056;

/// What is accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanOp {
    /// Running sums.
    Sum,
    /// Running products.
    Prod,
    /// The largest so far; NaN from the first NaN on.
    Max,
}

impl ScanOp {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Prod, Self::Max];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
        }
    }

    /// [`ScanParams::kind`].
    pub const fn kind(self) -> u32 {
        match self {
            Self::Sum => crate::reduce::KIND_SUM,
            Self::Prod => crate::reduce::KIND_PRODUCT,
            Self::Max => crate::reduce::KIND_LARGEST,
        }
    }
}

/// Names an entry: `scan_f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanEntry {
    /// Of input and output: one of [`DTYPES`](crate::reduce::DTYPES).
    pub dtype: DType,
}

impl core::fmt::Display for ScanEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "scan_{}", self.dtype)
    }
}

/// How rows are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// Elements of a tile.
    pub tile_len: u64,
    /// Tiles of a row.
    pub tiles: u64,
    /// Groups of tiles of a row.
    pub groups: u64,
    /// Blocks.
    pub blocks: u32,
}

impl ScanPlan {
    /// Of `rows` rows of `n` elements.
    pub const fn new(rows: u64, n: u64, dtype: DType) -> Self {
        let tile_len = THREADS as u64 * VECTORS as u64 * (16 / dtype.size_bytes() as u64);
        let tiles = if n == 0 { 1 } else { n.div_ceil(tile_len) };
        let all = rows.saturating_mul(tiles);
        let blocks = if all > MAX_BLOCKS { MAX_BLOCKS } else { all };
        Self {
            tile_len,
            tiles,
            groups: tiles.div_ceil(GROUP),
            blocks: if blocks == 0 { 1 } else { blocks as u32 },
        }
    }

    /// Words of 64 bits that a number takes among the totals: 32 bits of it each.
    pub const fn words(dtype: DType) -> u64 {
        match dtype {
            DType::F32 | DType::F16 | DType::Bf16 => 1,
            _ => 2,
        }
    }

    /// Words of 64 bits of `status`: the counter, the totals of tiles and those of groups.
    pub const fn status_words(&self, rows: u64, dtype: DType) -> u64 {
        1 + rows * (self.tiles + self.groups) * Self::words(dtype)
    }

    /// Most roundings of any one element's way into a running sum: within a thread, a warp, a tile, a
    /// group, and one for each group before.
    pub const fn additions(&self) -> u64 {
        8 + 6 + 6 + 7 + 3 + self.groups
    }
}

/// Extents and strides of one launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanParams {
    /// Rows.
    pub rows: u64,
    /// Elements of a row, neighbours in memory.
    pub n: u64,
    /// Elements between rows of x.
    pub x_row_stride: i64,
    /// Elements between rows of y.
    pub y_row_stride: i64,
    /// [`ScanPlan::tiles`].
    pub tiles: u64,
    /// [`ScanPlan::groups`].
    pub groups: u64,
    /// `KIND_..` of [`crate::reduce`].
    pub kind: u32,
    /// 1 where an element counts only for those after it.
    pub is_exclusive: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::DTYPES;

    #[test]
    fn tiles_cover_rows() {
        for n in [0, 1, 4096, 4097, 1 << 33] {
            for dtype in DTYPES {
                let plan = ScanPlan::new(3, n, dtype);
                assert!(plan.tiles * plan.tile_len >= n);
                assert!(plan.groups * GROUP >= plan.tiles);
                assert!(plan.blocks >= 1 && u64::from(plan.blocks) <= MAX_BLOCKS);
            }
        }
        assert_eq!(ScanPlan::new(1, 4097, DType::F32).tiles, 2);
        assert_eq!(ScanPlan::new(1, 4097, DType::Bf16).tiles, 1);
    }
}
