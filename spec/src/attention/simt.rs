//! The portable kernels, without tensor cores.
//!
//! Entries: `flash_fwd_simt_d<head_dim cap>` with caps [`SIMT_HEAD_DIMS`]; [`SimtEntry`] prints the
//! name. Each takes the arguments of every forward entry and then `dtype: u32`, the
//! [`OutputDType::code`](super::OutputDType::code) of the inputs' type, and the
//! [`FlashFwdPages`](super::FlashFwdPages). It serves any head_dim and head_dim_v up to its cap, runs
//! with the threads of its [`SimtEntry::tile`] on the grid of [`FlashFwdParams::grid`], and needs no
//! dynamic shared memory. Pointers need the alignment of one element only.

use core::fmt;

use super::FlashFwdParams;
use crate::DType;

/// The head_dim caps that the portable kernels are built for.
pub const SIMT_HEAD_DIMS: [u32; 3] = [64, 128, 256];

/// Element types of the portable kernels.
pub const SIMT_DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Tile of one thread block, and how it is staged in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileConfig {
    /// Queries a block computes.
    pub tile_m: u32,
    /// Keys of a block of keys.
    pub tile_n: u32,
    /// Elements of head_dim staged in shared memory at once.
    pub tile_k: u32,
    /// Threads of the block.
    pub threads: u32,
}

/// The tile for caps up to 128.
pub const SIMT_TILE: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: 8,
    threads: 128,
};

/// The tile for larger caps: twice the threads, so that o fits in their registers.
pub const SIMT_WIDE_TILE: TileConfig = TileConfig {
    tile_k: 16,
    threads: 256,
    ..SIMT_TILE
};

/// The tile of the portable kernels for a head_dim cap.
pub const fn simt_tile(head_dim_cap: u32) -> TileConfig {
    if head_dim_cap <= 128 {
        SIMT_TILE
    } else {
        SIMT_WIDE_TILE
    }
}

/// Most blocks in the second and third dimension of a grid.
const GRID_YZ_MAX: u64 = 65_535;

/// Most blocks in the first dimension of a grid.
const GRID_X_MAX: u32 = i32::MAX as u32;

/// The smallest cap that serves both extents; `None` if one exceeds all caps.
pub const fn simt_head_dim_cap(head_dim: u32, head_dim_v: u32) -> Option<u32> {
    let mut cap_idx = 0;
    while cap_idx < SIMT_HEAD_DIMS.len() {
        let cap = SIMT_HEAD_DIMS[cap_idx];
        if head_dim <= cap && head_dim_v <= cap {
            return Some(cap);
        }
        cap_idx += 1;
    }
    None
}

/// One portable kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtEntry {
    /// One of [`SIMT_HEAD_DIMS`].
    pub head_dim_cap: u32,
}

impl SimtEntry {
    /// Its tile.
    pub const fn tile(&self) -> TileConfig {
        simt_tile(self.head_dim_cap)
    }
}

impl fmt::Display for SimtEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flash_fwd_simt_d{}", self.head_dim_cap)
    }
}

impl FlashFwdParams {
    /// Grid of a launch whose blocks compute `tile_m` queries each: x = query tiles of the longest
    /// sequence, y and z = heads of all batches, see [`head_and_batch`](Self::head_and_batch).
    /// `None` if there is nothing to launch (no query) or more than a grid can hold.
    pub const fn grid(batch: u32, seqlen_q: u32, heads_q: u32, tile_m: u32) -> Option<[u32; 3]> {
        let Some(whole_tiles) = seqlen_q.checked_div(tile_m) else {
            return None;
        };
        let tiles = whole_tiles + (whole_tiles * tile_m < seqlen_q) as u32;
        let heads = heads_q as u64 * batch as u64;
        if tiles == 0 || heads == 0 || tiles > GRID_X_MAX {
            return None;
        }
        let y = if heads < GRID_YZ_MAX {
            heads
        } else {
            GRID_YZ_MAX
        };
        let z = heads.div_ceil(y);
        if z > GRID_YZ_MAX {
            return None;
        }
        Some([tiles, y as u32, z as u32])
    }

    /// Query head and batch that block (`block_idx_y`, `block_idx_z`) works on, in a grid
    /// `grid_dim_y` high. The last layer of a grid may hold blocks beyond the last batch, which do
    /// nothing.
    pub const fn head_and_batch(
        &self,
        block_idx_y: u32,
        block_idx_z: u32,
        grid_dim_y: u32,
    ) -> (u32, u32) {
        let idx = block_idx_z
            .wrapping_mul(grid_dim_y)
            .wrapping_add(block_idx_y);
        match idx.checked_div(self.heads_q) {
            Some(batch_idx) => (idx - batch_idx * self.heads_q, batch_idx),
            None => (0, self.batch),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn grid_covers_all_queries_and_is_none_without_any() {
        assert_eq!(
            FlashFwdParams::grid(70_000, 65, 3, 64),
            Some([2, 65_535, 4])
        );
        assert_eq!(FlashFwdParams::grid(70_000, 0, 3, 64), None);
    }

    #[test]
    fn the_smallest_cap_that_fits_is_chosen() {
        assert_eq!(simt_head_dim_cap(64, 1), Some(64));
        assert_eq!(simt_head_dim_cap(64, 65), Some(128));
        assert_eq!(simt_head_dim_cap(0, 256), Some(256));
        assert_eq!(simt_head_dim_cap(257, 64), None);
    }

    #[test]
    fn entry_names_are_as_documented() {
        let entry = SimtEntry { head_dim_cap: 128 };
        assert_eq!(entry.to_string(), "flash_fwd_simt_d128");
    }
}
