//! The order in which the blocks of a persistent launch take its tiles.

use super::raster::{Raster, hilbert};
use crate::division::Division;
use crate::kernel_param;

/// Coordinates of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileIndex {
    /// Index in the batch.
    pub batch: u32,
    /// Row, in tiles.
    pub m: u32,
    /// Column, in tiles.
    pub n: u32,
}

kernel_param! {
    /// The tiles of a launch, in the order in which they are computed.
    ///
    /// The host fills it in, with multipliers that replace the divisions of an index into a tile's
    /// coordinates. Five divisions by numbers that are not constants take a warp 1,400 cycles,
    /// longer than the `wgmma`s that could hide them.
    #[derive(Debug, PartialEq, Eq)]
    pub struct TileOrder {
        m_tiles: u32,
        n_tiles: u32,
        /// Rows of a band, but for the last one.
        group: u32,
        /// Number of tiles.
        pub count: u32,
        /// By the tiles of a matrix, and of a band of it.
        of_matrix: Division,
        of_band: Division,
        /// By the rows of a band, and of the last band.
        of_group: Division,
        of_last_group: Division,
    }
}

impl TileOrder {
    /// The `m_tiles` × `n_tiles` tiles of each of `batch` matrices, fewer than 2^31 in all, by
    /// bands of
    /// `group` rows where the [`Raster`] has bands.
    pub const fn new((m_tiles, n_tiles): (u32, u32), batch: u32, group: u32) -> Self {
        let group = if group < m_tiles { group } else { m_tiles };
        let rest = match m_tiles.checked_rem(group) {
            Some(rest) if rest > 0 => rest,
            _ => group,
        };
        Self {
            m_tiles,
            n_tiles,
            group,
            count: m_tiles * n_tiles * batch,
            of_matrix: Division::new(m_tiles * n_tiles),
            of_band: Division::new(group * n_tiles),
            of_group: Division::new(group),
            of_last_group: Division::new(rest),
        }
    }

    /// The tile of number `index`, which is less than `count`.
    #[inline(always)]
    pub const fn at(&self, raster: Raster, index: u32) -> TileIndex {
        let (batch, of_matrix) = self.of_matrix.div_rem(index);
        let (m, n) = match raster {
            Raster::Grouped => self.back_and_forth(of_matrix),
            Raster::Hilbert => hilbert(of_matrix, self.m_tiles, self.n_tiles),
        };
        TileIndex { batch, m, n }
    }

    /// Row and column of the tile of number `index` of a matrix: see [`Raster::Grouped`].
    #[inline(always)]
    const fn back_and_forth(&self, index: u32) -> (u32, u32) {
        let (band, within) = self.of_band.div_rem(index);
        let first_row = band * self.group;
        let rows = if self.m_tiles - first_row < self.group {
            self.of_last_group
        } else {
            self.of_group
        };
        let (column, row) = rows.div_rem(within);
        let column = if band % 2 == 0 {
            column
        } else {
            self.n_tiles - 1 - column
        };
        (first_row + row, column)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::super::raster::grouped;
    use super::*;

    #[test]
    fn the_order_has_every_tile_once() {
        for tiles in [(1, 1), (3, 5), (16, 16), (17, 9), (1, 40), (40, 1)] {
            for (batch, group) in [(1, 1), (2, 2), (3, 8), (1, 100)] {
                for raster in [Raster::Grouped, Raster::Hilbert] {
                    let order = TileOrder::new(tiles, batch, group);
                    let at = |index| {
                        let TileIndex { batch, m, n } = order.at(raster, index);
                        (batch, m, n)
                    };
                    let seen: HashSet<_> = (0..order.count).map(at).collect();
                    assert_eq!(seen.len() as u32, tiles.0 * tiles.1 * batch);
                    let is_inside =
                        |&(at_batch, m, n)| at_batch < batch && m < tiles.0 && n < tiles.1;
                    assert!(seen.iter().all(is_inside), "{tiles:?} by {group}");
                }
            }
        }
    }

    #[test]
    fn every_other_band_runs_backwards() {
        let (m_tiles, n_tiles, group) = (10, 7, 4);
        let order = TileOrder::new((m_tiles, n_tiles), 1, group);
        for index in 0..order.count {
            let (m, n) = grouped(index, m_tiles, n_tiles, group);
            let n = if m / group % 2 == 1 {
                n_tiles - 1 - n
            } else {
                n
            };
            assert_eq!(
                order.at(Raster::Grouped, index),
                TileIndex { batch: 0, m, n }
            );
        }
    }

    #[test]
    fn nothing_has_no_tiles() {
        assert_eq!(TileOrder::new((0, 0), 1, 8).count, 0);
        assert_eq!(TileOrder::new((3, 4), 0, 8).count, 0);
    }
}
