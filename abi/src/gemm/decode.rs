//! GEMMs with few rows (1 to 64, on Hopper to 128), as in decoding. Each weight is read once and used
//! once for each row, so speed depends on how evenly the weights are read, and on how many bytes are in flight.
//!
//! The operands are swapped: a block multiplies some weights (columns of B) by all rows of A, over
//! its share of k. `splits` blocks split one tile's k and add up their sums in the order of their
//! shares, so that the bits do not depend on which is done first. On Hopper these blocks form a
//! cluster and use distributed shared memory: [`sm90`]. Elsewhere they meet in global memory, and
//! the last one adds up: the rest of this module.
//!
//! Entries are named `gemm_decode_sm80_<in>_<layout>_<tile_m>x<tile_n>x<tile_k>[_anywhere]`, for
//! example `gemm_decode_sm80_bf16_nt_16x64x128`; [`DecodeEntry::ALL`] has all. They run with
//! [`DECODE_THREADS`] threads a block on the grid of [`DecodeConfig::grid`], with
//! [`DecodeConfig::smem_bytes`] of dynamic shared memory. A is row-major (`N`). Rows of A and of B
//! as stored start at multiples of 16 bytes. If the name ends in `anywhere`, they start at any
//! element, and the vectors of 16 bytes in which they begin are readable. Arguments:
//! `a: *const In, b: *const In, partials: *mut f32, tickets: *mut u32`, then those of a fused
//! [`epilogue`](super::epilogue). If `splits` is not 1, `partials` has [`DecodeConfig::partials`]
//! elements, and `tickets` has one for each tile of each matrix, which are 0 before and after the
//! launch.

pub mod sm90;

use core::fmt;

use super::{EpilogueParams, GemmParams, Transpose};
use crate::DType;
use crate::entry::{Parts, entries};

/// Threads of a block.
pub const DECODE_THREADS: u32 = 256;

/// Most rows of A.
pub const DECODE_M_MAX: u32 = 64;

/// Most blocks that split a tile's k.
pub const SPLITS_MAX: u32 = 8;

/// Most matrices of a batch: the limit of a grid's third dimension.
pub const DECODE_BATCH_MAX: u32 = 65_535;

/// Element types of C and D that an entry for `input` takes: each launch says which
/// ([`EpilogueParams::d_dtype`](super::EpilogueParams::d_dtype)).
pub const fn output_dtypes(input: DType) -> [DType; 2] {
    [input, DType::F32]
}

const WARPS: u32 = DECODE_THREADS / 32;
const ELEMENT_BYTES: u32 = 2;
/// Padding of a staged row, in bytes: an odd multiple of 16 spreads the rows that one `ldmatrix`
/// reads over the banks.
const PAD_BYTES: u32 = 16;
/// Padding of a row of partial sums, in f32 elements: it puts the four tokens by eight weights that
/// a warp stores at once into different banks.
const PARTIAL_PAD: u32 = 4;
/// Bytes of one `cp.async`.
const CHUNK_BYTES: u32 = 16;

/// Tile of one block, and how its warps share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeConfig {
    /// Rows of A, at most.
    pub tile_m: u32,
    /// Columns of B.
    pub tile_n: u32,
    /// Depth of k of one stage.
    pub tile_k: u32,
    /// Stages of shared memory.
    pub stages: u32,
    /// Warps along n; the others split k.
    pub warps_n: u32,
}

/// The tiles, by rows of A. Each fits the 99 KB of shared memory of the smallest device. The last two
/// are for rows that begin anywhere. Their fragments take more instructions, so a warp has more
/// weights, and reads those of tokens less often.
pub const DECODE_CONFIGS: [DecodeConfig; 4] = [
    DecodeConfig {
        tile_m: 16,
        tile_n: 64,
        tile_k: 128,
        stages: 4,
        warps_n: 2,
    },
    DecodeConfig {
        tile_m: 64,
        tile_n: 64,
        tile_k: 64,
        stages: 5,
        warps_n: 4,
    },
    DecodeConfig {
        tile_m: 32,
        tile_n: 128,
        tile_k: 64,
        stages: 3,
        warps_n: 4,
    },
    DecodeConfig {
        tile_m: 64,
        tile_n: 128,
        tile_k: 64,
        stages: 3,
        warps_n: 4,
    },
];

/// f32 elements between the rows of the partial sums (each of one row of A) of a tile of `tile_n`
/// columns.
#[inline(always)]
pub const fn partial_pitch(tile_n: u32) -> u32 {
    tile_n + PARTIAL_PAD
}

impl DecodeConfig {
    /// Warps that split the k of a stage.
    pub const fn warps_k(&self) -> u32 {
        WARPS / self.warps_n
    }

    /// Bytes between the rows of A in a stage.
    pub const fn pitch_a_bytes(&self) -> u32 {
        self.tile_k * ELEMENT_BYTES + PAD_BYTES
    }

    /// Rows of B, as stored, in a stage.
    pub const fn rows_b(&self, trans_b: Transpose) -> u32 {
        match trans_b {
            Transpose::N => self.tile_k,
            Transpose::T => self.tile_n,
        }
    }

    /// Elements of a row of B, as stored, in a stage.
    pub const fn columns_b(&self, trans_b: Transpose) -> u32 {
        match trans_b {
            Transpose::N => self.tile_n,
            Transpose::T => self.tile_k,
        }
    }

    /// Bytes between the rows of B in a stage.
    pub const fn pitch_b_bytes(&self, trans_b: Transpose) -> u32 {
        self.columns_b(trans_b) * ELEMENT_BYTES + PAD_BYTES
    }

    /// Copies of 16 bytes for `rows` of `columns` elements.
    pub const fn chunks(rows: u32, columns: u32) -> u32 {
        rows * columns * ELEMENT_BYTES / CHUNK_BYTES
    }

    /// Bytes of a padded stage's A, which comes first.
    pub const fn padded_a_bytes(&self) -> u32 {
        self.tile_m * self.pitch_a_bytes()
    }

    /// Bytes of a stage.
    pub const fn stage_bytes(&self, trans_b: Transpose) -> u32 {
        self.padded_a_bytes() + self.rows_b(trans_b) * self.pitch_b_bytes(trans_b)
    }

    /// Bytes of the partial sums of all warps, which later take the place of the stages.
    pub const fn sums_bytes(&self) -> u32 {
        self.warps_k() * self.tile_m * partial_pitch(self.tile_n) * 4
    }

    /// Bytes of dynamic shared memory.
    pub const fn smem_bytes(&self, trans_b: Transpose) -> u32 {
        let stages = self.stages * self.stage_bytes(trans_b);
        if stages > self.sums_bytes() {
            stages
        } else {
            self.sums_bytes()
        }
    }

    /// Tiles that cover `n` columns.
    pub const fn tiles(&self, n: u32) -> u32 {
        n.div_ceil(self.tile_n)
    }

    /// Blocks that split a tile's k, on a device with so many SMs. The fewest that give five in six
    /// SMs a block, and no more than run at the same time. Bandwidth is the limit, so it does not
    /// matter that blocks are spread unevenly.
    pub const fn choose_splits(&self, n: u32, k: u32, batch: u32, multiprocessors: u32) -> u32 {
        let tiles = self.tiles(n) as u64 * batch as u64;
        let k_tiles = k.div_ceil(self.tile_k);
        let mut splits = 1;
        while splits < SPLITS_MAX
            && splits < k_tiles
            && tiles * (splits as u64) * 6 < multiprocessors as u64 * 5
            && tiles * (splits as u64 + 1) <= multiprocessors as u64
        {
            splits += 1;
        }
        splits
    }

    /// Grid of a launch: x = tiles, y = shares of k, z = matrices. `None` if there is nothing to
    /// launch, or more than a grid can hold.
    pub const fn grid(&self, n: u32, batch: u32, splits: u32) -> Option<[u32; 3]> {
        let tiles = self.tiles(n);
        if tiles == 0 || batch == 0 || batch > DECODE_BATCH_MAX {
            return None;
        }
        Some([tiles, splits, batch])
    }

    /// f32 elements of the partial sums in global memory.
    pub const fn partials(&self, n: u32, batch: u32, splits: u32) -> u64 {
        let blocks = self.tiles(n) as u64 * splits as u64 * batch as u64;
        blocks * (self.tile_m * partial_pitch(self.tile_n)) as u64
    }

    /// The k tiles of share `split_idx` of `splits`: the first, and one past the last.
    pub const fn k_tiles(&self, k: u32, split_idx: u32, splits: u32) -> (u32, u32) {
        let k_tiles = k.div_ceil(self.tile_k) as u64;
        let first = k_tiles * split_idx as u64 / splits as u64;
        let end = k_tiles * (split_idx as u64 + 1) / splits as u64;
        (first as u32, end as u32)
    }
}

impl fmt::Display for DecodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.tile_m, self.tile_n, self.tile_k)
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeEntry {
    name: &'static str,
    /// Element type of A and B.
    pub input: DType,
    /// How B is stored.
    pub trans_b: Transpose,
    /// Its tile.
    pub config: DecodeConfig,
    /// Whether rows may begin at any element.
    pub is_anywhere: bool,
}

impl DecodeEntry {
    /// The entry of a name `gemm_decode_sm80_<in>_<layout>_<m>x<n>x<k>[_anywhere]`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_decode_sm80");
        let input = parts.expect_dtype();
        let trans_b = Transpose::of_b(&mut parts);
        let [m, n, k] = parts.numbers("");
        let is_anywhere = parts.take("anywhere");
        parts.end();
        let mut i = 0;
        while DECODE_CONFIGS[i].tile_m != m || DECODE_CONFIGS[i].tile_n != n {
            i += 1;
        }
        assert!(DECODE_CONFIGS[i].tile_k == k);
        Self {
            name,
            input,
            trans_b,
            config: DECODE_CONFIGS[i],
            is_anywhere,
        }
    }

    /// The entry of the smallest tile that holds `m` rows, of which there are some, for rows that
    /// are aligned to 16 bytes, or begin anywhere.
    pub fn of(input: DType, trans_b: Transpose, m: u32, is_anywhere: bool) -> Option<Self> {
        Self::find(|entry| {
            let holds = m != 0 && m <= entry.config.tile_m;
            let kind = (entry.input, entry.trans_b, entry.is_anywhere);
            kind == (input, trans_b, is_anywhere) && holds
        })
    }
}

entries! { $ DecodeEntry((GemmParams, EpilogueParams)) {
    /// The Rust type of A and B. Of each type and layout, the smallest tile comes first.
    gemm_decode_sm80 {
        gemm_decode_sm80_bf16_nt_16x64x128(bf16);
        gemm_decode_sm80_bf16_nt_64x64x64(bf16);
        gemm_decode_sm80_bf16_nt_16x64x128_anywhere(bf16);
        gemm_decode_sm80_bf16_nt_32x128x64_anywhere(bf16);
        gemm_decode_sm80_bf16_nt_64x128x64_anywhere(bf16);
        gemm_decode_sm80_bf16_nn_16x64x128(bf16);
        gemm_decode_sm80_bf16_nn_64x64x64(bf16);
        gemm_decode_sm80_f16_nt_16x64x128(f16);
        gemm_decode_sm80_f16_nt_64x64x64(f16);
        gemm_decode_sm80_f16_nt_16x64x128_anywhere(f16);
        gemm_decode_sm80_f16_nt_32x128x64_anywhere(f16);
        gemm_decode_sm80_f16_nt_64x128x64_anywhere(f16);
        gemm_decode_sm80_f16_nn_16x64x128(f16);
        gemm_decode_sm80_f16_nn_64x64x64(f16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn warps_share_a_tile_in_whole_products() {
        for config in DECODE_CONFIGS {
            assert_eq!(config.warps_n * config.warps_k(), WARPS, "{config}");
            assert_eq!(config.tile_n % (config.warps_n * 16), 0, "{config}");
            assert_eq!(config.tile_k % (config.warps_k() * 32), 0, "{config}");
            assert_eq!(config.tile_m % 8, 0, "{config}");
        }
    }

    #[test]
    fn a_block_fits_the_smallest_multiprocessor() {
        for config in DECODE_CONFIGS {
            for trans_b in Transpose::ALL {
                let bytes = config.smem_bytes(trans_b);
                assert!(bytes <= 99 << 10, "{config}: {bytes}");
            }
        }
    }

    #[test]
    fn shares_of_k_are_all_of_it_in_order() {
        for config in DECODE_CONFIGS {
            for (k, splits) in [(1, 1), (1, 8), (4096, 3), (14_336, 7), (100, 2)] {
                let mut next = 0;
                for split_idx in 0..splits {
                    let (first, end) = config.k_tiles(k, split_idx, splits);
                    assert!(
                        first == next && end >= first,
                        "k {k}, {split_idx} of {splits}"
                    );
                    next = end;
                }
                assert_eq!(next, k.div_ceil(config.tile_k), "k {k}, splits {splits}");
            }
        }
    }

    #[test]
    fn the_smallest_tile_that_holds_the_rows_is_chosen() {
        let held = [0, 1, 16, 17, 64, 65].map(|m| {
            let entry = DecodeEntry::of(DType::Bf16, Transpose::T, m, false);
            entry.map(|entry| entry.config.tile_m)
        });
        assert_eq!(held, [None, Some(16), Some(16), Some(64), Some(64), None]);
    }

    #[test]
    fn k_is_split_until_most_multiprocessors_have_a_block() {
        let [config, ..] = DECODE_CONFIGS;
        let splits = |n, k| config.choose_splits(n, k, 1, 132);
        assert_eq!(splits(4096, 4096), 2);
        assert_eq!(splits(28_672, 4096), 1);
        assert_eq!(splits(64, 4096), 8);
        assert_eq!(splits(64, 300), 3);
    }

    #[test]
    fn entry_names_are_as_documented() {
        let name = |trans_b, m| {
            DecodeEntry::of(DType::Bf16, trans_b, m, false).map(|entry| entry.to_string())
        };
        let few = "gemm_decode_sm80_bf16_nt_16x64x128";
        assert_eq!(name(Transpose::T, 1).as_deref(), Some(few));
        let more = "gemm_decode_sm80_bf16_nn_64x64x64";
        assert_eq!(name(Transpose::N, 64).as_deref(), Some(more));
    }
}
