//! Hopper's grouped GEMM: the rows of A belong to groups, each of which has its own B.
//!
//! Each [`RaggedEntry`] takes tensor maps of A, B and D by value, and then `(d: *mut dtype, ends:
//! *const i32, params: GemmParams, launch: RaggedLaunch)`. The maps are those of [`super::sm90`]:
//! of A and D as of one matrix, of B as of a batch of one matrix a group. `params.batch` is the
//! number of groups,
//! `params.batch_stride_a` is 0.
//!
//! `ends` has one number for each group. Group `g` has the rows of A and D from the largest of 0
//! and `ends[..g]` to the largest of 0 and `ends[..=g]`, both at most m. The rows behind the last
//! group are a group without a B, whose results are 0.
//!
//! **Tiles.** Each group has tiles of its own, which begin with its first row. A tile's rows behind
//! the end of its group are computed, of whatever stands there, and not stored. Tiles are numbered
//! group by group, and within a group by [`BAND`]s of rows: those of a column are neighbours.
//!
//! **Boxes of A** have as many rows as a tile, or, where groups have few, [`FEW_ROWS`]: then only
//! as many are loaded as the group's rows take. Otherwise tiles of one row would read from L2 as
//! much of A, and all of them the same lines, as they read of B from memory.

use super::sm90::Sm90Tile;
use super::{GemmParams, Transpose};
use crate::DType;
use crate::division::Division;
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// Most groups of a launch: as many as a block has threads.
pub const GROUPS_MAX: u32 = super::sm90::THREADS;

/// Rows of a box of A where groups have few.
pub const FEW_ROWS: u32 = 16;

/// Rows of tiles in a band, a power of two.
pub const BAND: u32 = 8;

/// The table of groups is in shared memory behind the barriers of the tile. First there are so many
/// u32 in which warps give each other what they have.
pub const SCRATCH: usize = 32;

/// Then there are two columns of so many u32: one of each group, of the rows behind all groups, and
/// of their end.
pub const COLUMN: usize = GROUPS_MAX as usize + 2;

/// The tile of all entries: as [`TILE_128X128`](super::sm90::TILE_128X128), with a stage less, for
/// the table of groups.
pub const TILE: Sm90Tile = Sm90Tile {
    stages: 5,
    ..super::sm90::TILE_128X128
};

/// Dynamic shared memory of a launch.
pub const fn smem_bytes() -> u32 {
    let bytes = TILE.smem_bytes() + 4 * (SCRATCH + 2 * COLUMN) as u32;
    assert!(
        bytes <= super::sm90::SMEM_MAX_BYTES,
        "the table does not fit"
    );
    bytes
}

kernel_param! {
    /// What the host tells the kernel about a launch.
    #[derive(Debug, PartialEq, Eq)]
    pub struct RaggedLaunch {
        /// By the tiles of a row of D, and of a band.
        pub of_row: Division,
        of_band: Division,
        /// Steps of the search for a group: ⌈log2 (groups + 1)⌉.
        pub steps: u32,
        /// Rows of a box of A.
        pub box_rows: u32,
    }
}

impl RaggedLaunch {
    /// For `m` rows in `groups` groups, at most [`GROUPS_MAX`], and `n` columns.
    pub const fn new(m: u32, n: u32, groups: u32) -> Self {
        // As the host does not know the groups, it takes them to be of one size.
        let has_few = (m as u64) < groups as u64 * (TILE.tile_m / 2) as u64;
        let columns = n.div_ceil(TILE.tile_n);
        Self {
            of_row: Division::new(columns),
            of_band: Division::new(columns * BAND),
            steps: (groups + 1).next_power_of_two().trailing_zeros(),
            box_rows: if has_few { FEW_ROWS } else { TILE.tile_m },
        }
    }

    /// Tiles of a row of D.
    pub const fn columns(&self) -> u32 {
        self.of_row.divisor
    }

    /// The most tiles that `m` rows in `groups` groups can have; `None` if that is not below 2^31.
    pub const fn tiles_max(&self, m: u32, groups: u32) -> Option<u32> {
        let rows = m as u64 / TILE.tile_m as u64 + groups as u64 + 1;
        let tiles = rows * self.columns() as u64;
        if tiles < 1 << 31 {
            Some(tiles as u32)
        } else {
            None
        }
    }

    /// Row and column, in tiles, of the tile of number `index` of a group of `rows` rows of tiles.
    #[inline(always)]
    pub const fn within(&self, index: u32, rows: u32) -> (u32, u32) {
        let (band, index) = self.of_band.div_rem(index);
        let first = band * BAND;
        let rows = if rows - first < BAND {
            rows - first
        } else {
            BAND
        };
        (first + index % rows, index / rows)
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaggedEntry {
    name: &'static str,
    /// Element type of A, B and D.
    pub dtype: DType,
    /// How B is stored. A is row-major.
    pub trans_b: Transpose,
}

impl RaggedEntry {
    /// The entry of a name `gemm_grouped_sm90_<dtype>_<layout>_<tile>`; the tile is [`TILE`].
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_grouped_sm90");
        let dtype = parts.expect_dtype();
        let [_, trans_b] = Transpose::of_layout(&mut parts);
        parts.expect("128x128_s5_pp");
        parts.end();
        Self {
            name,
            dtype,
            trans_b,
        }
    }
}

entries! { $ RaggedEntry((GemmParams, RaggedLaunch)) {
    /// The `wgmma` type and the Rust type of the elements.
    gemm_grouped_sm90 {
        gemm_grouped_sm90_bf16_nt_128x128_s5_pp(bf16);
        gemm_grouped_sm90_bf16_nn_128x128_s5_pp(bf16);
        gemm_grouped_sm90_f16_nt_128x128_s5_pp(f16);
        gemm_grouped_sm90_f16_nn_128x128_s5_pp(f16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_tile_of_a_group_has_one_coordinate() {
        for columns in [1, 2, 7, 40] {
            let launch = RaggedLaunch::new(9, columns * TILE.tile_n - 3, 5);
            assert_eq!(launch.columns(), columns);
            for rows in [1, 2, 7, 8, 9, 16, 33] {
                let coords = (0..rows * columns).map(|index| launch.within(index, rows));
                let coords: HashSet<_> = coords.collect();
                assert_eq!(coords.len() as u32, rows * columns);
                assert!(
                    coords
                        .iter()
                        .all(|&(row, column)| row < rows && column < columns)
                );
            }
        }
    }

    #[test]
    fn rows_of_a_column_are_neighbours() {
        let launch = RaggedLaunch::new(9, 300, 1);
        let coords: [_; 4] = core::array::from_fn(|index| launch.within(index as u32, 2));
        assert_eq!(coords, [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn the_search_reaches_every_group() {
        for (groups, steps) in [(1, 1), (2, 2), (3, 2), (4, 3), (GROUPS_MAX, 9)] {
            assert_eq!(RaggedLaunch::new(9, 1, groups).steps, steps, "{groups}");
        }
    }

    #[test]
    fn boxes_are_small_where_groups_are() {
        for (m, groups, rows) in [
            (64, 1, 128),
            (63, 1, 16),
            (1 << 30, GROUPS_MAX, 128),
            (0, 1, 16),
        ] {
            assert_eq!(
                RaggedLaunch::new(m, 1, groups).box_rows,
                rows,
                "{m} in {groups}"
            );
        }
    }

    #[test]
    fn launches_are_bounded() {
        let launch = RaggedLaunch::new(9, 256, 3);
        assert_eq!(launch.tiles_max(1280, 3), Some(28));
        assert_eq!(launch.tiles_max(u32::MAX, 3), Some((33_554_431 + 4) * 2));
        assert_eq!(
            RaggedLaunch::new(9, 1 << 14, 3).tiles_max(u32::MAX, 3),
            None
        );
    }
}
