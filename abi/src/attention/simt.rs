//! The portable kernels, without tensor cores.
//!
//! Entries: `flash_fwd_simt_d<head_dim cap>`; [`SimtEntry::ALL`] has all. Each takes the arguments of every forward entry and then `dtype: u32`, the
//! [`OutputDType::code`](super::OutputDType::code) of the inputs' type, and the
//! [`FlashFwdPages`](super::FlashFwdPages). It serves any head_dim and head_dim_v up to its cap, runs
//! with the threads of its [`SimtEntry::tile`] on the grid of [`FlashFwdParams::grid`], and needs no
//! dynamic shared memory. Pointers need the alignment of one element only.

use super::{FlashFwdLengths, FlashFwdPages, FlashFwdParams};
use crate::DType;
use crate::entry::{Parts, entries};

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

/// Most blocks in the second and third dimension of a grid.
const GRID_YZ_MAX: u64 = 65_535;

/// Most blocks in the first dimension of a grid.
const GRID_X_MAX: u32 = i32::MAX as u32;

/// One portable kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtEntry {
    name: &'static str,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
}

impl SimtEntry {
    /// The entry of a name `flash_fwd_simt_d<head_dim cap>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("flash_fwd_simt");
        let head_dim_cap = parts.number("d");
        parts.end();
        Self { name, head_dim_cap }
    }

    /// The entry of the smallest cap that serves both extents; `None` if one exceeds all caps.
    pub fn of(head_dim: u32, head_dim_v: u32) -> Option<Self> {
        Self::find(|entry| head_dim.max(head_dim_v) <= entry.head_dim_cap)
    }

    /// Its tile.
    pub const fn tile(&self) -> TileConfig {
        if self.head_dim_cap <= 128 {
            SIMT_TILE
        } else {
            SIMT_WIDE_TILE
        }
    }
}

entries! { $ SimtEntry((FlashFwdLengths, FlashFwdParams, u32, FlashFwdPages)) {
    /// Blocks of an SM, which the registers for o and scores limit. The smallest cap comes first.
    flash_fwd_simt {
        flash_fwd_simt_d64(2);
        flash_fwd_simt_d128(2);
        flash_fwd_simt_d256(1);
    }
} }

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
        let name = |head_dim, head_dim_v| {
            SimtEntry::of(head_dim, head_dim_v).map(|entry| entry.to_string())
        };
        assert_eq!(name(64, 1).as_deref(), Some("flash_fwd_simt_d64"));
        assert_eq!(name(64, 65).as_deref(), Some("flash_fwd_simt_d128"));
        assert_eq!(name(0, 256).as_deref(), Some("flash_fwd_simt_d256"));
        assert_eq!(name(257, 64), None);
    }
}
