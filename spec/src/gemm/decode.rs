//! Products with few rows (1 to 64): each weight is read once and used at most 64 times, so what
//! counts is how evenly and with how many bytes on their way the weights are read.
//!
//! The operands are swapped: a block multiplies [`DecodeConfig::tile_n`] rows of weights (columns of
//! B) with all rows of A, over its share of k. `splits` blocks share one tile's k and add up their
//! sums in the order of their shares, so that the bits do not depend on who is done first.
//!
//! Entries are named `gemm_decode_<arch>_<in>[_<out>]_<layout>_<tile_m>x<tile_n>x<tile_k>`, for
//! example `gemm_decode_sm90_bf16_nt_8x64x128`; [`DecodeEntry`] prints the name. Each takes
//! `(a: *const In, b: *const In, ..)`, then for [`DecodeArch::Sm80`] `partials: *mut f32,
//! tickets: *mut u32`, then the tail of [`epilogue`](super::epilogue); it runs with [`DecodeArch::threads`]
//! threads a block on the grid of [`DecodeConfig::grid`], with [`DecodeConfig::smem_bytes`] of
//! dynamic shared memory.
//!
//! A has its rows without gaps (`N`); rows of A and of B as stored start at multiples of 16 bytes.
//! [`DecodeArch::Sm90`] is launched in clusters of `(1, splits, 1)` and needs no memory. For
//! [`DecodeArch::Sm80`], where `splits` is not 1, `partials` has
//! [`DecodeConfig::partials`] elements, and `tickets` one for each tile of each product, which are
//! 0 before and after the launch.

use core::fmt;

use super::Transpose;
use crate::DType;

/// Threads of a block that multiply.
const MULTIPLIERS: u32 = 256;

/// Most rows of A.
pub const DECODE_M_MAX: u32 = 64;

/// Most blocks that share a tile: a portable cluster.
pub const SPLITS_MAX: u32 = 8;

/// Most products of a batch: the third extent of a grid.
pub const DECODE_BATCH_MAX: u32 = 65_535;

/// Element types, as (in, out).
pub const DECODE_DTYPES: [(DType, DType); 4] = [
    (DType::F16, DType::F16),
    (DType::F16, DType::F32),
    (DType::Bf16, DType::Bf16),
    (DType::Bf16, DType::F32),
];

const WARPS: u32 = MULTIPLIERS / 32;
/// Bytes of a stage's barriers.
const BARRIERS_BYTES: u32 = 16;
const ELEMENT_BYTES: u32 = 2;
/// Bytes of a row of a tensor copy's box, which its swizzle spans.
pub const SPAN_BYTES: u32 = 128;
/// Alignment of a swizzled box.
pub const BOX_ALIGN: u32 = 1024;
/// Bytes between the end of a staged row and the next: an odd number of sixteens spreads the rows
/// that one `ldmatrix` reads over the banks.
const PAD_BYTES: u32 = 16;
/// f32 elements by which a row of partial sums is longer than its contents: then the four tokens
/// and eight weights that a warp stores to at once are in different banks.
const PARTIAL_PAD: u32 = 4;
/// Bytes of a copy.
const CHUNK_BYTES: u32 = 16;

/// Tile of one block and how its warps share it.
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
    /// Warps side by side along n.
    pub warps_n: u32,
    /// Blocks that a multiprocessor has room for.
    pub blocks: u32,
}

/// Up to 8 rows of A.
pub const DECODE_8: DecodeConfig = DecodeConfig {
    tile_m: 8,
    tile_n: 64,
    tile_k: 128,
    stages: 5,
    warps_n: 2,
    blocks: 2,
};

/// Up to 16 rows of A.
pub const DECODE_16: DecodeConfig = DecodeConfig {
    tile_m: 16,
    tile_n: 64,
    tile_k: 128,
    stages: 5,
    warps_n: 2,
    blocks: 2,
};

/// Up to 32 rows of A.
pub const DECODE_32: DecodeConfig = DecodeConfig {
    tile_m: 32,
    tile_n: 128,
    tile_k: 64,
    stages: 4,
    warps_n: 4,
    blocks: 2,
};

/// Up to 64 rows of A.
pub const DECODE_64: DecodeConfig = DecodeConfig {
    tile_m: 64,
    tile_n: 256,
    tile_k: 64,
    stages: 5,
    warps_n: 8,
    blocks: 1,
};

/// All, by rows of A.
pub const DECODE_CONFIGS: [DecodeConfig; 4] = [DECODE_8, DECODE_16, DECODE_32, DECODE_64];

impl DecodeConfig {
    /// The smallest that holds `m` rows; `None` where none does, or there are none.
    pub const fn of_m(m: u32) -> Option<Self> {
        match m {
            1..=8 => Some(DECODE_8),
            9..=16 => Some(DECODE_16),
            17..=32 => Some(DECODE_32),
            33..=64 => Some(DECODE_64),
            _ => None,
        }
    }

    /// Warps that share the k of a stage.
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

    /// Copies of 16 bytes that bring `rows` of `columns` elements.
    pub const fn chunks(rows: u32, columns: u32) -> u32 {
        rows * columns * ELEMENT_BYTES / CHUNK_BYTES
    }

    /// Bytes of a padded stage's A, which comes first.
    pub const fn padded_a_bytes(&self) -> u32 {
        self.tile_m * self.pitch_a_bytes()
    }

    /// Bytes of a swizzled stage's A, which comes first.
    pub const fn swizzled_a_bytes(&self) -> u32 {
        self.tile_m * self.tile_k * ELEMENT_BYTES
    }

    /// Bytes of a stage: padded rows for [`DecodeArch::Sm80`], swizzled boxes for
    /// [`DecodeArch::Sm90`].
    pub const fn stage_bytes(&self, arch: DecodeArch, trans_b: Transpose) -> u32 {
        match arch {
            DecodeArch::Sm80 => {
                self.padded_a_bytes() + self.rows_b(trans_b) * self.pitch_b_bytes(trans_b)
            }
            DecodeArch::Sm90 => (self.tile_m + self.tile_n) * self.tile_k * ELEMENT_BYTES,
        }
    }

    /// f32 elements between the rows (of one row of A) of a block's partial sums.
    pub const fn partial_pitch(&self) -> u32 {
        self.tile_n + PARTIAL_PAD
    }

    /// Bytes of the partial sums of all warps, which take the place of the stages.
    pub const fn sums_bytes(&self) -> u32 {
        self.warps_k() * self.tile_m * self.partial_pitch() * 4
    }

    /// Bytes of dynamic shared memory.
    pub const fn smem_bytes(&self, arch: DecodeArch, trans_b: Transpose) -> u32 {
        let stages = self.stages * self.stage_bytes(arch, trans_b);
        let used = if stages > self.sums_bytes() {
            stages
        } else {
            self.sums_bytes()
        };
        match arch {
            DecodeArch::Sm80 => used,
            // Boxes begin at multiples of 1024, the memory at multiples of 16.
            DecodeArch::Sm90 => used + self.stages * BARRIERS_BYTES + BOX_ALIGN,
        }
    }

    /// Tiles that cover `n` columns.
    pub const fn tiles(&self, n: u32) -> u32 {
        n.div_ceil(self.tile_n)
    }

    /// Blocks that share a tile, on a device with so many multiprocessors.
    ///
    /// As few as give five in six multiprocessors a block: memory is the limit, so it does not
    /// matter that blocks are spread unevenly, as long as all run at once.
    pub const fn choose_splits(&self, n: u32, k: u32, batch: u32, multiprocessors: u32) -> u32 {
        let tiles = self.tiles(n) as u64 * batch as u64;
        let k_tiles = k.div_ceil(self.tile_k);
        let mut splits = 1;
        while splits < SPLITS_MAX
            && splits < k_tiles
            && tiles * (splits as u64) * 6 < multiprocessors as u64 * 5
            && tiles * (splits as u64 + 1) <= multiprocessors as u64 * self.blocks as u64
        {
            splits += 1;
        }
        splits
    }

    /// Grid of a launch: x = tiles, y = shares of k, z = products. `None` where there is nothing to
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
        blocks * (self.tile_m * self.tile_n) as u64
    }

    /// The k tiles, first and one past the last, of share `split_idx` of `splits`.
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

/// How blocks that share a tile meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeArch {
    /// Through global memory; the last one adds up.
    Sm80,
    /// In a cluster, through each other's shared memory.
    Sm90,
}

impl DecodeArch {
    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        match self {
            Self::Sm80 => MULTIPLIERS,
            Self::Sm90 => MULTIPLIERS + 32,
        }
    }
}

impl fmt::Display for DecodeArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sm80 => "sm80",
            Self::Sm90 => "sm90",
        })
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeEntry {
    /// Where it runs.
    pub arch: DecodeArch,
    /// Element type of A and B.
    pub input: DType,
    /// Element type of C and D.
    pub output: DType,
    /// How B lies.
    pub trans_b: Transpose,
    /// Its tile.
    pub config: DecodeConfig,
}

impl fmt::Display for DecodeEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gemm_decode_{}_{}", self.arch, self.input)?;
        if self.output != self.input {
            write!(f, "_{}", self.output)?;
        }
        write!(f, "_n{}_{}", self.trans_b.letter(), self.config)
    }
}
