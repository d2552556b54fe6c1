//! The portable kernels.
//!
//! Entries: `flash_fwd_simt_<dtype>_d<head_dim cap>` with caps [`SIMT_HEAD_DIMS`]; [`SimtEntry`]
//! prints the name. Each takes `(q: *const T, k: *const T, v: *const T, o: *mut T, lse: *mut f32,
//! params: SimtFwdParams)`, serves any head_dim and head_dim_v up to its cap, runs with as many
//! threads a block as [`SimtEntry::tile`] says, on the grid of [`SimtFwdParams::simt_grid`], and wants
//! no dynamic shared memory. Pointers need the alignment of one element only; `lse` may be null where
//! `write_lse` is 0.

use core::fmt;

use super::BshStrides;
use crate::DType;

/// The head_dim caps that the portable kernels are built for.
pub const SIMT_HEAD_DIMS: [u32; 3] = [64, 128, 256];

/// Element types of the portable kernels.
pub const SIMT_DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Tile of one thread block and how it goes through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileConfig {
    /// Queries a block computes.
    pub tile_m: u32,
    /// Keys it takes at a time.
    pub tile_n: u32,
    /// Depth of head_dim staged in shared memory at once.
    pub tile_k: u32,
    /// Threads of the block.
    pub threads: u32,
}

/// The tile of the portable kernels for caps up to 128.
pub const SIMT_TILE: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: 8,
    threads: 128,
};

/// That for larger caps: twice the threads, so that o fits in their registers.
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

/// Blocks of the second and third grid dimension a device allows.
const GRID_YZ_MAX: u64 = 65_535;

/// Blocks of the first grid dimension a device allows.
const GRID_X_MAX: u32 = i32::MAX as u32;

/// The smallest cap that serves both extents; `None` where they exceed all.
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
    /// Element type of q, k, v and o.
    pub dtype: DType,
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
        write!(f, "flash_fwd_simt_{}_d{}", self.dtype, self.head_dim_cap)
    }
}

/// Extents, strides and scalars of one forward launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimtFwdParams {
    /// Independent sequences.
    pub batch: u32,
    /// Queries a sequence.
    pub seqlen_q: u32,
    /// Keys a sequence.
    pub seqlen_k: u32,
    /// Query heads; a multiple of `heads_kv`.
    pub heads_q: u32,
    /// Key and value heads.
    pub heads_kv: u32,
    /// Extent of a query and a key.
    pub head_dim: u32,
    /// Extent of a value.
    pub head_dim_v: u32,
    /// 1: query i sees keys j <= i + seqlen_k - seqlen_q; 0: all.
    pub causal: u32,
    /// Strides of q.
    pub q: BshStrides,
    /// Strides of k.
    pub k: BshStrides,
    /// Strides of v.
    pub v: BshStrides,
    /// Strides of o.
    pub o: BshStrides,
    /// softmax_scale * log2(e).
    pub softmax_scale_log2: f32,
    /// 1: write lse, `[batch, heads_q, seqlen_q]` contiguous, natural log.
    pub write_lse: u32,
}

impl SimtFwdParams {
    /// Grid of a launch of a portable kernel: x = query tiles, y and z = heads of all batches,
    /// see [`head_and_batch`](Self::head_and_batch). `None` where there is nothing to launch (no
    /// query) or more than a grid can hold.
    pub const fn simt_grid(&self) -> Option<[u32; 3]> {
        let tiles = self.seqlen_q.div_ceil(SIMT_TILE.tile_m);
        let heads = self.heads_q as u64 * self.batch as u64;
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

    /// Query head and batch that block (`block_idx_y`, `block_idx_z`) of a grid `grid_dim_y` high
    /// works on. The last layer of a grid may hold blocks whose batch is beyond the last, which do
    /// nothing.
    pub const fn head_and_batch(
        &self,
        block_idx_y: u32,
        block_idx_z: u32,
        grid_dim_y: u32,
    ) -> (u32, u32) {
        let idx = block_idx_z * grid_dim_y + block_idx_y;
        (idx % self.heads_q, idx / self.heads_q)
    }

    /// Keys that query `query_idx` sees: `0..visible_keys(query_idx)`. Causal is aligned to the
    /// bottom-right corner, so the last query sees all.
    pub const fn visible_keys(&self, query_idx: u32) -> u32 {
        let visible = query_idx as i64 + self.diagonal();
        if visible < 0 {
            0
        } else if visible > self.seqlen_k as i64 {
            self.seqlen_k
        } else {
            visible as u32
        }
    }

    /// Query i sees the keys there are below `i + diagonal()`.
    pub const fn diagonal(&self) -> i64 {
        if self.causal == 0 {
            self.seqlen_k as i64
        } else {
            1 + self.seqlen_k as i64 - self.seqlen_q as i64
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    const NO_STRIDES: BshStrides = BshStrides {
        batch: 0,
        seq: 0,
        head: 0,
    };

    fn params(seqlen_q: u32, seqlen_k: u32, causal: u32) -> SimtFwdParams {
        SimtFwdParams {
            batch: 70_000,
            seqlen_q,
            seqlen_k,
            heads_q: 3,
            heads_kv: 1,
            head_dim: 8,
            head_dim_v: 8,
            causal,
            q: NO_STRIDES,
            k: NO_STRIDES,
            v: NO_STRIDES,
            o: NO_STRIDES,
            softmax_scale_log2: 1.0,
            write_lse: 0,
        }
    }

    #[test]
    fn causal_is_aligned_to_the_bottom_right_corner() {
        let visible = |p: SimtFwdParams| (0..p.seqlen_q).map(move |i| p.visible_keys(i));
        assert!(visible(params(2, 5, 1)).eq([4, 5]));
        assert!(visible(params(5, 2, 1)).eq([0, 0, 0, 1, 2]));
        assert!(visible(params(3, 2, 0)).eq([2, 2, 2]));
        assert!(visible(params(2, 0, 1)).eq([0, 0]));
    }

    #[test]
    fn grid_covers_all_queries_and_is_none_without_any() {
        assert_eq!(params(65, 1, 0).simt_grid(), Some([2, 65_535, 4]));
        assert_eq!(params(0, 1, 0).simt_grid(), None);
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
        let entry = SimtEntry {
            dtype: DType::Bf16,
            head_dim_cap: 128,
        };
        assert_eq!(entry.to_string(), "flash_fwd_simt_bf16_d128");
    }
}
