//! Kernels for few queries (decoding), by `mma.sync`, for sm_80 and everything newer.
//!
//! Entries: `flash_decode_<dtype>_d<head_dim cap>_m<rows>`, f16 and bf16; [`DecodeEntry`] prints the
//! name. Each takes the arguments of every forward entry, a [`FwdPacking`] of the tile's rows and the
//! [`FlashFwdPages`](super::FlashFwdPages), whose page size is a multiple of [`WARP_KEYS`]. It runs on the grid of [`DecodeTile::grid`], with [`THREADS`] threads a block and
//! [`DecodeTile::smem_bytes`] of dynamic shared memory. head_dim and head_dim_v are multiples of 8
//! up to the cap. Rows of q, k, v and o are aligned to [`ALIGN_BYTES`]. softmax_scale_log2 is at
//! least [`LEAST_SCALE`](super::sm80::LEAST_SCALE).
//!
//! With several splits of the keys, o is that of the parts ([`merge`](super::merge)), in f32, lse is
//! written, and there is no sink.

use core::fmt;

use super::packing::FwdPacking;
use super::sm90::tiles_of;
use crate::DType;

/// Threads of a block.
pub const THREADS: u32 = 128;

/// The numbers of rows that tiles have: queries of packed heads.
pub const ROWS: [u32; 2] = [16, 32];

/// Keys that a warp has of each block of keys.
pub const WARP_KEYS: u32 = 16;

/// Blocks of keys that are in shared memory or on their way there.
pub const STAGES: u32 = 3;

/// Alignment of every row of q, k, v and o.
pub const ALIGN_BYTES: u32 = 16;

/// The head_dim caps for which there are kernels.
pub const HEAD_DIMS: [u32; 2] = [64, 128];

/// Element types.
pub const DTYPES: [DType; 2] = [DType::F16, DType::Bf16];

const WARPS: u32 = THREADS / 32;
/// The largest grid in y and in z.
const GRID_YZ_MAX: u32 = 65_535;
/// The largest grid in x.
const GRID_X_MAX: u64 = (1 << 31) - 1;

/// Work of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeTile {
    /// One of [`ROWS`].
    pub rows: u32,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
}

impl DecodeTile {
    /// Keys of a block of keys.
    pub const TILE_N: u32 = WARPS * WARP_KEYS;

    /// Bytes of a warp's keys of one block, and of their values.
    pub const fn stage_bytes(self) -> u32 {
        2 * WARP_KEYS * self.head_dim_cap * 2
    }

    /// Offset of the warps' maxima and sums in shared memory: `[rows][WARPS]` pairs of f32.
    pub const fn moments_offset(self) -> u32 {
        WARPS * STAGES * self.stage_bytes()
    }

    /// Bytes of dynamic shared memory.
    pub const fn smem_bytes(self) -> u32 {
        self.moments_offset() + self.rows * WARPS * 8
    }

    /// Grid: x = splits of the tiles of a sequence, y = packed heads, z = sequences. `None` if there
    /// is nothing to launch, or more than a grid can hold.
    pub const fn grid(
        batch: u32,
        seqlen_q: u32,
        heads_q: u32,
        packing: &FwdPacking,
    ) -> Option<[u32; 3]> {
        let tiles = tiles_of(seqlen_q, packing.queries) as u64 * packing.splits as u64;
        let Some(heads) = heads_q.checked_div(packing.heads) else {
            return None;
        };
        let is_empty = tiles == 0 || heads == 0 || batch == 0;
        if is_empty || tiles > GRID_X_MAX || heads > GRID_YZ_MAX || batch > GRID_YZ_MAX {
            return None;
        }
        Some([tiles as u32, heads, batch])
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeEntry {
    /// Element type of q, k and v.
    pub dtype: DType,
    /// Its tile.
    pub tile: DecodeTile,
}

impl DecodeEntry {
    /// The kernel of the smallest cap that serves both head dimensions, with the fewest rows that
    /// have room for `rows`; `None` if there is none.
    pub const fn of(dtype: DType, head_dim: u32, head_dim_v: u32, rows: u32) -> Option<Self> {
        let is_built = matches!(dtype, DType::F16 | DType::Bf16);
        if !is_built || !head_dim.is_multiple_of(8) || !head_dim_v.is_multiple_of(8) {
            return None;
        }
        let largest = if head_dim > head_dim_v {
            head_dim
        } else {
            head_dim_v
        };
        let (Some(rows), Some(head_dim_cap)) = (
            first_with_room(&ROWS, rows),
            first_with_room(&HEAD_DIMS, largest),
        ) else {
            return None;
        };
        let tile = DecodeTile { rows, head_dim_cap };
        Some(Self { dtype, tile })
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let tiles = HEAD_DIMS
            .into_iter()
            .flat_map(|head_dim_cap| ROWS.map(|rows| DecodeTile { rows, head_dim_cap }));
        tiles.flat_map(|tile| DTYPES.map(|dtype| Self { dtype, tile }))
    }
}

/// The first of ascending `sizes` that is not less than `size`.
const fn first_with_room(sizes: &[u32], size: u32) -> Option<u32> {
    let mut i = 0;
    while i < sizes.len() {
        if size <= sizes[i] {
            return Some(sizes[i]);
        }
        i += 1;
    }
    None
}

impl fmt::Display for DecodeEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeTile { rows, head_dim_cap } = self.tile;
        write!(f, "flash_decode_{}_d{head_dim_cap}_m{rows}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entries_are_named_as_documented_and_take_multiples_of_8() {
        let entry = DecodeEntry::of(DType::Bf16, 64, 72, 17).expect("there is one");
        assert_eq!(entry.to_string(), "flash_decode_bf16_d128_m32");
        assert_eq!(DecodeEntry::of(DType::F32, 64, 64, 1), None);
        assert_eq!(DecodeEntry::of(DType::F16, 64, 66, 1), None);
        assert_eq!(DecodeEntry::of(DType::F16, 136, 64, 1), None);
        assert_eq!(DecodeEntry::of(DType::F16, 64, 64, 33), None);
        assert_eq!(DecodeEntry::all().count(), 8);
    }

    #[test]
    fn a_grid_has_a_block_for_each_split_of_each_tile() {
        let mut packing = FwdPacking::new(8, 16).expect("they have room");
        packing.splits = 5;
        assert_eq!(DecodeTile::grid(3, 1, 64, &packing), Some([5, 8, 3]));
        assert_eq!(DecodeTile::grid(3, 5, 64, &packing), Some([15, 8, 3]));
        assert_eq!(DecodeTile::grid(0, 1, 64, &packing), None);
        assert_eq!(DecodeTile::grid(65_536, 1, 64, &packing), None);
    }

    #[test]
    fn two_blocks_share_a_multiprocessor_of_an_h200_and_one_fits_any() {
        let tile = DecodeTile {
            rows: 32,
            head_dim_cap: 128,
        };
        assert!(2 * (tile.smem_bytes() + 1024) <= 228 << 10);
        assert!(tile.smem_bytes() <= 99 << 10);
    }
}
