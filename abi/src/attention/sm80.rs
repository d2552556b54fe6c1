//! Kernels by `mma.sync` for sm_80 and everything newer.
//!
//! Entries: `flash_fwd_sm80_<dtype>_d<head_dim cap>`, f16 and bf16; [`Sm80Entry::ALL`] has all.
//! Each takes the arguments of every forward entry and runs on the grid of
//! [`FlashFwdParams::grid`](super::FlashFwdParams::grid), with [`THREADS`] threads a block and
//! [`Sm80Tile::smem_bytes`] of dynamic shared memory. head_dim and head_dim_v are multiples of 8 up
//! to the cap. Rows of q, k and v are aligned to 16 bytes, those of o to [`O_ALIGN_BYTES`].
//! softmax_scale_log2 is at least [`LEAST_SCALE`].

use super::{FlashFwdLengths, FlashFwdParams};
use crate::DType;
use crate::entry::{Parts, entries};

/// Threads of a block.
pub const THREADS: u32 = 128;

/// Bytes of shared memory for the addresses of the first key and the first value.
pub const BASES_BYTES: u32 = 16;

/// Whether the kernels of this head dimension take block masks. Those of 128 have no registers left
/// for them.
#[inline(always)]
pub const fn takes_block_masks(head_dim_cap: u32) -> bool {
    head_dim_cap != 128
}

/// Bytes of shared memory for what is told of keys to what changes scores.
pub const SCORED_KEYS_BYTES: u32 = 8;

/// Alignment of the rows of o: what a thread stores at once.
pub const O_ALIGN_BYTES: u32 = 8;

/// The smallest softmax_scale_log2: row maxima are taken before it is applied.
pub const LEAST_SCALE: f32 = 1e-10;

/// Tile of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80Tile {
    /// Queries of a tile.
    pub tile_m: u32,
    /// Keys of a block of keys.
    pub tile_n: u32,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
}

impl Sm80Tile {
    /// The tile of a cap.
    pub const fn of(head_dim_cap: u32) -> Self {
        Self {
            // A warp's scores and o have to fit in its registers.
            tile_m: if head_dim_cap <= 128 { 128 } else { 64 },
            tile_n: if head_dim_cap <= 64 { 128 } else { 64 },
            head_dim_cap,
        }
    }

    /// Bytes of dynamic shared memory: queries, a block of keys, a block of values, the addresses of
    /// the first key and value, and what scores are told of keys.
    pub const fn smem_bytes(&self) -> u32 {
        let blocks = (self.tile_m + 2 * self.tile_n) * self.head_dim_cap * 2;
        blocks + BASES_BYTES + SCORED_KEYS_BYTES
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm80Entry {
    name: &'static str,
    /// Element type of q, k and v.
    pub dtype: DType,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
}

impl Sm80Entry {
    /// The entry of a name `flash_fwd_sm80_<dtype>_d<head_dim cap>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("flash_fwd_sm80");
        let dtype = parts.expect_dtype();
        let head_dim_cap = parts.number("d");
        parts.end();
        Self {
            name,
            dtype,
            head_dim_cap,
        }
    }

    /// The kernel of the smallest cap that serves both head dimensions; `None` if there is none.
    pub fn of(dtype: DType, head_dim: u32, head_dim_v: u32) -> Option<Self> {
        let is_whole = head_dim.is_multiple_of(8) && head_dim_v.is_multiple_of(8);
        let has_room = |entry: &Self| head_dim.max(head_dim_v) <= entry.head_dim_cap;
        Self::find(|entry| entry.dtype == dtype && is_whole && has_room(entry))
    }

    /// Its tile.
    pub const fn tile(&self) -> Sm80Tile {
        Sm80Tile::of(self.head_dim_cap)
    }
}

entries! { $ Sm80Entry((FlashFwdLengths, FlashFwdParams)) {
    /// The element type. The smallest cap comes first.
    flash_fwd_sm80 {
        flash_fwd_sm80_bf16_d64(bf16);
        flash_fwd_sm80_bf16_d128(bf16);
        flash_fwd_sm80_bf16_d256(bf16);
        flash_fwd_sm80_f16_d64(f16);
        flash_fwd_sm80_f16_d128(f16);
        flash_fwd_sm80_f16_d256(f16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entries_are_named_as_documented_and_take_multiples_of_8() {
        let entry = Sm80Entry::of(DType::Bf16, 64, 72).expect("there is one");
        assert_eq!(entry.to_string(), "flash_fwd_sm80_bf16_d128");
        assert_eq!(Sm80Entry::of(DType::F32, 64, 64), None);
        assert_eq!(Sm80Entry::of(DType::F16, 64, 66), None);
        assert_eq!(Sm80Entry::of(DType::F16, 264, 64), None);
    }

    #[test]
    fn two_blocks_share_a_multiprocessor_up_to_128_and_one_fits_any() {
        assert!(2 * Sm80Tile::of(128).smem_bytes() <= 163 << 10);
        assert!(Sm80Tile::of(256).smem_bytes() <= 99 << 10);
    }
}
