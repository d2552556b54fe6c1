//! Portable kernels without tensor cores (SIMT).
//!
//! Entries are named `gemm_simt_f32_<layout>_<tile>`, for example `gemm_simt_f32_nt_128x128x8`;
//! [`SimtEntry::ALL`] has all. Each takes `a: *const f32, b: *const f32` and the arguments of [a
//! fused epilogue](super::epilogue) of f32, runs with [`TileConfig::threads`] threads a block on
//! the grid of [`TileConfig::grid`], and needs no dynamic shared memory.
//!
//! Every element of D has one f32 accumulator, to which the products are added by fused
//! multiply-add in the order of k. So the bits do not depend on the tile, and a host may choose it
//! freely. Pointers need the alignment of one element only. `c` may be null if `beta` is 0, `a` and
//! `b` if `k` is 0; `c` and `residual` may be `d` if their strides agree.

use core::fmt;

use super::raster::grouped;
use super::{EpilogueParams, GemmParams, Transpose};
use crate::entry::{Parts, entries};

/// Tile of one thread block, and its number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileConfig {
    /// Rows of D a block computes.
    pub tile_m: u32,
    /// Columns of D a block computes.
    pub tile_n: u32,
    /// Elements of k in one stage of shared memory.
    pub tile_k: u32,
    /// Threads of the block.
    pub threads: u32,
}

/// For large GEMMs: 8×16 results a thread.
pub const SIMT_LARGE: TileConfig = TileConfig {
    tile_m: 128,
    tile_n: 128,
    tile_k: 8,
    threads: 128,
};

/// For small GEMMs, of which large tiles would leave SMs idle: 4×4 results a thread.
pub const SIMT_SMALL: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: 16,
    threads: 256,
};

/// Most blocks in the second (and third) dimension of a grid.
pub const GRID_Y_MAX: u32 = 65_535;

/// Most tiles in the first dimension of a grid.
const GRID_X_MAX: u64 = i32::MAX as u64;

/// Rows of tiles in a band. Blocks with neighbouring indices are in one band and read the same few
/// rows of A and columns of B, which then stay in L2.
const RASTER_TILES: u32 = 8;

/// Padding of a row of a staged tile, in elements: a multiple of 4 keeps 16-byte loads aligned, and
/// an odd multiple of 4 spreads transposed stores over the banks.
const SMEM_PAD: u32 = 4;

impl TileConfig {
    /// The one of `tiles` whose extents stand in a name, as `128x128x8`.
    pub(super) const fn of_name(parts: &mut Parts, tiles: &[Self]) -> Self {
        let [m, n, k] = parts.numbers("");
        let mut i = 0;
        while i < tiles.len() {
            if tiles[i].tile_m == m && tiles[i].tile_n == n && tiles[i].tile_k == k {
                return tiles[i];
            }
            i += 1;
        }
        panic!("an entry's name has a tile that there is not");
    }

    /// Tiles that cover `m`×`n` results.
    pub const fn tiles(&self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.tile_m) as u64 * n.div_ceil(self.tile_n) as u64
    }

    /// Grid of a launch over `batch` matrices of `m`×`n` results: x = tiles, y and z = batches, see
    /// [`batch_idx`]. `None` if there is nothing to launch (an extent is 0) or if there are more
    /// tiles or matrices than a grid can hold.
    pub const fn grid(&self, m: u32, n: u32, batch: u32) -> Option<[u32; 3]> {
        grid(self.tiles(m, n), batch)
    }

    /// Row and column, in tiles, of the tile that block `block_idx_x` computes.
    ///
    /// Blocks run down bands of eight rows of tiles, so that those that run at the same time share
    /// operands.
    pub const fn tile_coordinates(&self, block_idx_x: u32, m: u32, n: u32) -> (u32, u32) {
        let m_tiles = m.div_ceil(self.tile_m);
        let n_tiles = n.div_ceil(self.tile_n);
        grouped(block_idx_x, m_tiles, n_tiles, RASTER_TILES)
    }

    /// f32 elements between rows of a staged operand, each one k and `tile_mn` wide.
    pub const fn smem_pitch(tile_mn: u32) -> u32 {
        tile_mn + SMEM_PAD
    }

    /// f32 elements of static shared memory: two stages of both operands.
    pub const fn smem_elements(&self) -> u32 {
        2 * self.tile_k * (Self::smem_pitch(self.tile_m) + Self::smem_pitch(self.tile_n))
    }
}

/// Grid of `tiles` by `batch`: `None` if there is nothing to launch, or more tiles or matrices than a
/// grid can hold.
pub(super) const fn grid(tiles: u64, batch: u32) -> Option<[u32; 3]> {
    if tiles == 0 || batch == 0 || tiles > GRID_X_MAX {
        return None;
    }
    let y = if batch < GRID_Y_MAX {
        batch
    } else {
        GRID_Y_MAX
    };
    let z = batch.div_ceil(y);
    if z > GRID_Y_MAX {
        return None;
    }
    Some([tiles as u32, y, z])
}

/// Index in the batch of the matrix that block (`block_idx_y`, `block_idx_z`) works on, in a grid
/// `grid_dim_y` high. The last layer of a grid may hold blocks beyond the batch, which do nothing.
pub const fn batch_idx(block_idx_y: u32, block_idx_z: u32, grid_dim_y: u32) -> u64 {
    block_idx_z as u64 * grid_dim_y as u64 + block_idx_y as u64
}

impl fmt::Display for TileConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.tile_m, self.tile_n, self.tile_k)
    }
}

/// One portable kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtEntry {
    name: &'static str,
    /// How A is stored.
    pub trans_a: Transpose,
    /// How B is stored.
    pub trans_b: Transpose,
    /// [`SIMT_LARGE`] or [`SIMT_SMALL`].
    pub tile: TileConfig,
}

impl SimtEntry {
    /// The entry of a name `gemm_simt_f32_<layout>_<m>x<n>x<k>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_simt_f32");
        let [trans_a, trans_b] = Transpose::of_layout(&mut parts);
        let tile = TileConfig::of_name(&mut parts, &[SIMT_LARGE, SIMT_SMALL]);
        parts.end();
        Self {
            name,
            trans_a,
            trans_b,
            tile,
        }
    }

    /// The entries for this layout, that of the larger tile first.
    pub fn of(layout: (Transpose, Transpose)) -> impl Iterator<Item = Self> {
        let is_of = move |entry: &Self| (entry.trans_a, entry.trans_b) == layout;
        Self::ALL.iter().copied().filter(is_of)
    }
}

entries! { $ SimtEntry((GemmParams, EpilogueParams)) {
    /// Results of a thread, down and across.
    gemm_simt {
        gemm_simt_f32_nn_128x128x8(8, 16);
        gemm_simt_f32_nt_128x128x8(8, 16);
        gemm_simt_f32_tn_128x128x8(8, 16);
        gemm_simt_f32_tt_128x128x8(8, 16);
        gemm_simt_f32_nn_64x64x16(4, 4);
        gemm_simt_f32_nt_64x64x16(4, 4);
        gemm_simt_f32_tn_64x64x16(4, 4);
        gemm_simt_f32_tt_64x64x16(4, 4);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{collections::HashSet, vec::Vec};

    use super::*;

    #[test]
    fn every_block_computes_a_tile_of_its_own() {
        for m in [1, 64, 65, 128, 1000, 1025, 2200] {
            for n in [1, 63, 129, 640, 1100] {
                for tile in [SIMT_LARGE, SIMT_SMALL] {
                    let blocks = tile.tiles(m, n) as u32;
                    let seen: HashSet<_> = (0..blocks)
                        .map(|b| tile.tile_coordinates(b, m, n))
                        .collect();
                    assert_eq!(seen.len(), blocks as usize, "m {m}, n {n}");
                    for (m_tile_idx, n_tile_idx) in seen {
                        assert!(m_tile_idx * tile.tile_m < m, "m {m}, n {n}");
                        assert!(n_tile_idx * tile.tile_n < n, "m {m}, n {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn grid_is_none_where_nothing_can_be_launched() {
        assert_eq!(SIMT_LARGE.grid(0, 5, 1), None);
        assert_eq!(SIMT_LARGE.grid(5, 0, 1), None);
        assert_eq!(SIMT_LARGE.grid(5, 5, 0), None);
        assert_eq!(SIMT_SMALL.grid(u32::MAX, u32::MAX, 1), None);
        assert_eq!(SIMT_SMALL.grid(65, 64, 70_000), Some([2, GRID_Y_MAX, 2]));
        let most = GRID_Y_MAX * GRID_Y_MAX;
        assert_eq!(
            SIMT_SMALL.grid(1, 1, most),
            Some([1, GRID_Y_MAX, GRID_Y_MAX])
        );
        assert_eq!(SIMT_SMALL.grid(1, 1, most + 1), None);
    }

    #[test]
    fn shared_memory_fits_without_asking_for_more() {
        const STATIC_SMEM_MAX_BYTES: u32 = 48 * 1024;
        let bytes: Vec<u32> = [SIMT_LARGE, SIMT_SMALL]
            .iter()
            .map(|t| 4 * t.smem_elements())
            .collect();
        assert!(
            bytes.iter().all(|&b| b <= STATIC_SMEM_MAX_BYTES),
            "{bytes:?}"
        );
    }
}
