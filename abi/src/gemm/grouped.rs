//! The portable kernel of grouped GEMMs: rows of A in groups, each multiplied by a matrix of its own.
//!
//! [`GROUPED_ENTRY`] takes `a: *const f32, b: *const f32, ends: *const i32, d: *mut f32` and
//! [`GroupedParams`], runs with [`TileConfig::threads`] of [`GROUPED_TILE`] threads a block on the
//! grid of [`grouped_grid`], and needs no dynamic shared memory. Pointers need the alignment of one
//! element only; `a` and `b` may be null if `k` is 0, `ends` and `b` if there are no groups.
//!
//! Group `g` has the rows from `max(0, ends[0..g])` to `max(0, ends[0..=g])`, both at most `m`,
//! whatever `ends` holds. The rows behind are of no group, and become 0. Each element of D has one
//! f32 accumulator, to which products are added by fused multiply-add in the order of k, as in the
//! portable GEMM.

use super::simt::{self, SIMT_SMALL, TileConfig};
use crate::kernel_param;
pub use crate::single::GROUPED_ENTRY;

/// Its tile.
pub const GROUPED_TILE: TileConfig = SIMT_SMALL;

kernel_param! {
    /// Scalars and strides of one launch.
    #[derive(Debug, PartialEq)]
    pub struct GroupedParams {
        /// Rows of A and D.
        pub m: u32,
        /// Columns of D.
        pub n: u32,
        /// Reduction length.
        pub k: u32,
        /// Number of groups.
        pub groups: u32,
        /// Rows of tiles in the grid: [`grouped_row_tiles`].
        pub row_tiles: u32,
        /// 1 if k is the contiguous extent of A, 0 if m is.
        pub a_by_k: u32,
        /// 1 if k is the contiguous extent of B, 0 if n is.
        pub b_by_k: u32,
        /// Factor of the products.
        pub alpha: f32,
        /// Elements between the lines of A that are contiguous.
        pub lda: i64,
        /// Elements between the lines of B that are contiguous.
        pub ldb: i64,
        /// Elements between consecutive matrices of B.
        pub group_stride_b: i64,
        /// Elements between consecutive rows of D.
        pub ldd: i64,
    }
}

/// The most tiles of `tile_m` rows that `m` rows in so many groups, and the rows of no group, can
/// have: each group that has rows begins a tile.
pub const fn grouped_row_tiles(m: u32, groups: u32, tile_m: u32) -> u32 {
    let begun = if groups < m { groups + 1 } else { m };
    begun + (m - begun) / tile_m
}

/// Grid of a launch: `None` if there is nothing to launch or if there are more tiles than a grid can
/// hold.
pub const fn grouped_grid(m: u32, n: u32, groups: u32) -> Option<[u32; 3]> {
    let rows = grouped_row_tiles(m, groups, GROUPED_TILE.tile_m);
    let tiles = rows as u64 * n.div_ceil(GROUPED_TILE.tile_n) as u64;
    simt::grid(tiles, 1)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// Tiles that groups with rows up to these ends have, and the rows behind them.
    fn tiles(m: u32, ends: &[u32], tile_m: u32) -> u32 {
        let (mut count, mut start) = (0, 0);
        for end in ends.iter().copied().chain([m]) {
            let end = end.clamp(start, m);
            count += (end - start).div_ceil(tile_m);
            start = end;
        }
        count
    }

    #[test]
    fn the_name_says_the_tile() {
        let name = std::format!("gemm_grouped_simt_f32_{GROUPED_TILE}");
        assert_eq!(GROUPED_ENTRY.name(), name);
    }

    #[test]
    fn no_groups_have_more_tiles_than_the_grid() {
        for m in 0..9 {
            for (x, y) in (0..10).flat_map(|x| (0..10).map(move |y| (x, y))) {
                for ends in [&[x, y][..], &[x], &[]] {
                    let most = grouped_row_tiles(m, ends.len() as u32, 3);
                    assert!(tiles(m, ends, 3) <= most, "{m} rows, {ends:?}");
                }
            }
        }
    }

    #[test]
    fn the_bound_of_row_tiles_is_reached() {
        assert_eq!(grouped_row_tiles(0, 5, 64), 0);
        assert_eq!(grouped_row_tiles(1, 5, 64), tiles(1, &[1], 64));
        assert_eq!(grouped_row_tiles(66, 2, 64), tiles(66, &[1, 2], 64));
        assert_eq!(grouped_row_tiles(67, 2, 64), tiles(67, &[1, 2], 64));
        assert_eq!(grouped_row_tiles(16, 128, 64), 16);
        let most = u32::MAX - 1024;
        assert_eq!(grouped_row_tiles(most, most, 64), most);
    }

    #[test]
    fn grids_that_are_too_large_or_empty_are_none() {
        assert_eq!(grouped_grid(0, 5, 1), None);
        assert_eq!(grouped_grid(5, 0, 1), None);
        assert_eq!(grouped_grid(u32::MAX - 1024, u32::MAX - 1024, 9), None);
        assert_eq!(grouped_grid(64, 65, 0), Some([2, 1, 1]));
    }
}
