//! Kernels for few queries (decoding), by `mma.sync`, for sm_80 and everything newer.
//!
//! Entries: `flash_decode_sm80_<dtype>_d<head_dim cap>_m<rows>`, f16 and bf16; [`DecodeEntry::ALL`]
//! has all. Each takes the arguments of every forward entry, a [`FwdPacking`] of the tile's rows and the
//! [`FlashFwdPages`], whose page size is a multiple of [`WARP_KEYS`]. The last argument, `split_blocks`,
//! is 0 if the splits share the blocks of keys that a tile sees equally. Else split i has the blocks from
//! i times [`blocks_of_split`] on. It runs on the grid of [`DecodeTile::grid`], with [`THREADS`] threads a block and
//! [`DecodeTile::smem_bytes`] of dynamic shared memory. head_dim and head_dim_v are multiples of 8
//! up to the cap. Rows of q, k, v and o are aligned to [`ALIGN_BYTES`]. softmax_scale_log2 is at
//! least [`LEAST_SCALE`](super::sm80::LEAST_SCALE).
//!
//! With several splits of the keys, o is that of the parts ([`merge`](super::merge)), in f32, lse is
//! written, and there is no sink.

use super::sm90::tiles_of;
use super::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, FwdPacking, MOST_SPLITS};
use crate::DType;
use crate::entry::{Parts, entries};

/// Threads of a block.
pub const THREADS: u32 = 128;

/// The most rows of a tile: queries of packed heads.
pub const MOST_ROWS: u32 = 32;

/// Keys that a warp has of each block of keys.
pub const WARP_KEYS: u32 = 16;

/// Blocks of keys that are in shared memory or on their way there.
pub const STAGES: u32 = 3;

/// Alignment of every row of q, k, v and o.
pub const ALIGN_BYTES: u32 = 16;

/// Blocks of a split of a sequence with so many keys, if each has `least` at least: the splits of the
/// longest sequence that there can be are [`MOST_SPLITS`].
#[inline(always)]
pub const fn blocks_of_split(least: u32, seqlen_k: u32) -> u32 {
    let shared = seqlen_k.div_ceil(DecodeTile::TILE_N * MOST_SPLITS);
    if shared > least { shared } else { least }
}

const WARPS: u32 = THREADS / 32;
/// The largest grid in y and in z.
const GRID_YZ_MAX: u32 = 65_535;
/// The largest grid in x.
const GRID_X_MAX: u64 = (1 << 31) - 1;

/// Work of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeTile {
    /// Rows: 16 or [`MOST_ROWS`].
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
    name: &'static str,
    /// Element type of q, k and v.
    pub dtype: DType,
    /// Its tile.
    pub tile: DecodeTile,
}

impl DecodeEntry {
    /// The entry of a name `flash_decode_sm80_<dtype>_d<head_dim cap>_m<rows>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("flash_decode_sm80");
        let dtype = parts.expect_dtype();
        let head_dim_cap = parts.number("d");
        let rows = parts.number("m");
        parts.end();
        assert!(rows <= MOST_ROWS);
        let tile = DecodeTile { rows, head_dim_cap };
        Self { name, dtype, tile }
    }

    /// The kernel of the smallest cap that serves both head dimensions, with the fewest rows that
    /// have room for `rows`; `None` if there is none.
    pub fn of(dtype: DType, head_dim: u32, head_dim_v: u32, rows: u32) -> Option<Self> {
        let is_whole = head_dim.is_multiple_of(8) && head_dim_v.is_multiple_of(8);
        let has_room =
            |tile: DecodeTile| head_dim.max(head_dim_v) <= tile.head_dim_cap && rows <= tile.rows;
        Self::find(|entry| entry.dtype == dtype && is_whole && has_room(entry.tile))
    }
}

entries! { $ DecodeEntry((FlashFwdLengths, FlashFwdParams, FwdPacking, FlashFwdPages, u32)) {
    /// The element type. The smallest cap comes first, and of each the fewest rows.
    flash_decode {
        flash_decode_sm80_bf16_d64_m16(bf16);
        flash_decode_sm80_bf16_d64_m32(bf16);
        flash_decode_sm80_bf16_d128_m16(bf16);
        flash_decode_sm80_bf16_d128_m32(bf16);
        flash_decode_sm80_f16_d64_m16(f16);
        flash_decode_sm80_f16_d64_m32(f16);
        flash_decode_sm80_f16_d128_m16(f16);
        flash_decode_sm80_f16_d128_m32(f16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entries_are_named_as_documented_and_take_multiples_of_8() {
        let entry = DecodeEntry::of(DType::Bf16, 64, 72, 17).expect("there is one");
        assert_eq!(entry.to_string(), "flash_decode_sm80_bf16_d128_m32");
        assert_eq!(DecodeEntry::of(DType::F32, 64, 64, 1), None);
        assert_eq!(DecodeEntry::of(DType::F16, 64, 66, 1), None);
        assert_eq!(DecodeEntry::of(DType::F16, 136, 64, 1), None);
        assert_eq!(DecodeEntry::of(DType::F16, 64, 64, 33), None);
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
