//! Kernels for few queries (decoding), by `mma.sync`, for sm_80 and everything newer.
//!
//! Entries: `flash_decode_sm<architecture>_<dtype>_d<head_dim cap>_m<rows>`; [`DecodeEntry::ALL`]
//! has all. The dtype is that of keys and values: f16 or bf16, as of queries, or e4m3. Each takes the arguments of every forward entry, a [`FwdPacking`] of the tile's rows and the
//! [`FlashFwdPages`], whose page size is a multiple of [`WARP_KEYS`]. The last argument, `split_blocks`,
//! is 0 if the splits share the blocks of keys that a tile sees equally. Else split i has the blocks from
//! i times [`blocks_of_split`] on. It runs on the grid of [`DecodeTile::grid`], with [`THREADS`] threads a block and
//! [`DecodeTile::smem_bytes`] of dynamic shared memory. head_dim and head_dim_v are multiples of 8
//! up to the cap, of 16 with e4m3. Rows of q, k, v and o are aligned to [`ALIGN_BYTES`].
//! softmax_scale_log2 is at least [`LEAST_SCALE`](super::sm80::LEAST_SCALE).
//!
//! Entries for e4m3 have one more argument, [`DecodeScales`]. Products are in f16: queries in bf16 are
//! multiplied by a power of two for each row, so that the largest is in [2^14, 2^15), and rounded.
//!
//! Entries of [`WIDE_ROWS`] rows are for wide heads, on sm_90a alone: head_dim up to 576, head_dim_v up to
//! 512, with [`WIDE_THREADS`] threads, of any page size. Where k and v are the same memory with the same
//! strides, values are the first elements of keys, which are read once.
//!
//! With several splits of the keys, o is that of the parts ([`merge`](super::merge)), in f32, lse is
//! written, and there is no sink.

use super::sm90::tiles_of;
use super::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, FwdPacking, MOST_SPLITS};
use crate::DType;
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// Threads of a block.
pub const THREADS: u32 = 128;

/// Threads of a block of a kernel for wide heads.
pub const WIDE_THREADS: u32 = 256;

/// The most rows of a tile: queries of packed heads.
pub const MOST_ROWS: u32 = 32;

/// Rows of a tile of a kernel for wide heads.
pub const WIDE_ROWS: u32 = 64;

/// Head dimensions that other kernels compute.
pub const WIDE_FROM: u32 = 128;

/// The largest head_dim_v of a kernel for wide heads.
const WIDE_HEAD_DIM_V: u32 = 512;

/// Keys that a warp has of each block of keys.
pub const WARP_KEYS: u32 = 16;

/// Bytes of an element of keys and values, times the blocks of keys that are in shared memory or on
/// their way there.
const STAGES_BYTES: u32 = 6;

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
    /// Bytes of an element of keys and values: 2, or 1.
    pub element_bytes: u32,
}

impl DecodeTile {
    /// Keys of a block of keys.
    pub const TILE_N: u32 = WARPS * WARP_KEYS;

    /// Blocks of keys that are in shared memory or on their way there.
    pub const fn stages(self) -> u32 {
        STAGES_BYTES / self.element_bytes
    }

    /// Bytes of a warp's keys of one block, and of their values.
    pub const fn stage_bytes(self) -> u32 {
        2 * WARP_KEYS * self.head_dim_cap * self.element_bytes
    }

    /// Offset of the warps' maxima and sums in shared memory: `[rows][WARPS]` pairs of f32.
    pub const fn moments_offset(self) -> u32 {
        WARPS * self.stages() * self.stage_bytes()
    }

    /// Whether the kernel is one for wide heads.
    pub const fn is_wide(self) -> bool {
        self.rows == WIDE_ROWS
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        if self.is_wide() {
            WIDE_THREADS
        } else {
            THREADS
        }
    }

    /// The largest head_dim_v.
    pub const fn head_dim_v_cap(self) -> u32 {
        if self.is_wide() {
            WIDE_HEAD_DIM_V
        } else {
            self.head_dim_cap
        }
    }

    /// Bytes of dynamic shared memory. For wide heads: three matrices of 64 rows, from a multiple of 1024
    /// on.
    pub const fn smem_bytes(self) -> u32 {
        if self.is_wide() {
            return 3 * WIDE_ROWS * self.head_dim_cap * self.element_bytes + 1024;
        }
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

kernel_param! {
    /// Factors of keys and values in e4m3, and the dtype of the queries.
    #[derive(Debug, PartialEq)]
    pub struct DecodeScales {
        /// Factors of the keys; null for 1.
        pub k: *const f32,
        /// Factors of the values; null for 1.
        pub v: *const f32,
        /// Strides of `k`, in elements: between sequences, and between key heads.
        pub k_strides: [i64; 2],
        /// Strides of `v`.
        pub v_strides: [i64; 2],
        /// [`OutputDType::code`](super::OutputDType::code) of q: f16 or bf16.
        pub q_dtype: u32,
        /// 0.
        pub reserved: u32,
    }
}

impl DecodeScales {
    /// Those of kernels that have none.
    pub const NONE: Self = Self {
        k: core::ptr::null(),
        v: core::ptr::null(),
        k_strides: [0; 2],
        v_strides: [0; 2],
        q_dtype: 0,
        reserved: 0,
    };

    /// Place of the factors of a sequence's key head, for k and for v.
    #[inline(always)]
    pub const fn offsets(&self, batch_idx: u32, head_kv_idx: u32) -> [i64; 2] {
        let (batch, head) = (batch_idx as i64, head_kv_idx as i64);
        let ([k_batch, k_head], [v_batch, v_head]) = (self.k_strides, self.v_strides);
        [
            batch
                .wrapping_mul(k_batch)
                .wrapping_add(head.wrapping_mul(k_head)),
            batch
                .wrapping_mul(v_batch)
                .wrapping_add(head.wrapping_mul(v_head)),
        ]
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeEntry {
    name: &'static str,
    /// Element type of k and v.
    pub dtype: DType,
    /// The oldest architecture that has its instructions, such as 80.
    pub arch: u32,
    /// Its tile.
    pub tile: DecodeTile,
}

impl DecodeEntry {
    /// The entry of a name `flash_decode_sm<architecture>_<dtype>_d<head_dim cap>_m<rows>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("flash_decode");
        let arch = parts.number("sm");
        let dtype = parts.expect_dtype();
        let head_dim_cap = parts.number("d");
        let rows = parts.number("m");
        parts.end();
        assert!(rows <= MOST_ROWS || rows == WIDE_ROWS);
        let tile = DecodeTile {
            rows,
            head_dim_cap,
            element_bytes: dtype.size_bytes() as u32,
        };
        Self {
            name,
            dtype,
            arch,
            tile,
        }
    }

    /// The kernel for keys of this dtype on an architecture, such as 90; `None` if there is none. It has
    /// the smallest cap that serves both head dimensions, and the fewest rows that have room for `rows`.
    pub fn of(
        dtype: DType,
        arch: u32,
        [head_dim, head_dim_v]: [u32; 2],
        rows: u32,
    ) -> Option<Self> {
        let of_chunk = ALIGN_BYTES / dtype.size_bytes() as u32;
        let is_whole = head_dim.is_multiple_of(of_chunk) && head_dim_v.is_multiple_of(of_chunk);
        let has_room = |tile: DecodeTile| {
            head_dim <= tile.head_dim_cap
                && head_dim_v <= tile.head_dim_v_cap()
                && rows <= tile.rows
        };
        // Others compute what has room in their tiles; wide ones have instructions of one architecture.
        let suits = |entry: &Self| match entry.tile.is_wide() {
            true => entry.arch == arch && head_dim.max(head_dim_v) > WIDE_FROM,
            false => entry.arch <= arch,
        };
        let suits = |entry: &Self| entry.dtype == dtype && suits(entry);
        Self::find(|entry| suits(entry) && is_whole && has_room(entry.tile))
    }
}

entries! { $ DecodeEntry((FlashFwdLengths, FlashFwdParams, FwdPacking, FlashFwdPages, u32, Option<DecodeScales>)) {
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
    /// Wide heads, by `wgmma`.
    flash_decode_wide {
        flash_decode_sm90_bf16_d576_m64(Bf16);
        flash_decode_sm90_f16_d576_m64(F16);
    }
    /// Keys and values in e4m3, by the conversions of sm_89.
    flash_decode_sm89 {
        flash_decode_sm89_e4m3_d64_m16(ByInstruction);
        flash_decode_sm89_e4m3_d128_m16(ByInstruction);
        flash_decode_sm89_e4m3_d128_m32(ByInstruction);
    }
    /// The same by integer operations.
    flash_decode_integers {
        flash_decode_sm80_e4m3_d128_m32(ByIntegers);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entries_are_named_as_documented_and_take_multiples_of_8() {
        let entry = DecodeEntry::of(DType::Bf16, 90, [64, 72], 17).expect("there is one");
        assert_eq!(entry.to_string(), "flash_decode_sm80_bf16_d128_m32");
        for (dtype, dims, rows) in [
            (DType::F32, [64, 64], 1),
            (DType::F16, [64, 66], 1),
            (DType::F16, [136, 64], 1),
            (DType::F16, [64, 64], 33),
            (DType::E4m3, [64, 72], 1),
        ] {
            assert_eq!(DecodeEntry::of(dtype, 80, dims, rows), None);
        }
        for (arch, name) in [
            (80, "flash_decode_sm80_e4m3_d128_m32"),
            (89, "flash_decode_sm89_e4m3_d64_m16"),
        ] {
            let entry = DecodeEntry::of(DType::E4m3, arch, [64, 48], 3).expect("there is one");
            assert_eq!(entry.to_string(), name);
        }
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
            element_bytes: 2,
        };
        assert!(2 * (tile.smem_bytes() + 1024) <= 228 << 10);
        assert!(tile.smem_bytes() <= 99 << 10);
    }
}
