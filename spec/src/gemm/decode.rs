//! Products with few rows (1 to 64): each weight is read once and used at most 64 times, so what
//! counts is how evenly and with how many bytes on their way the weights are read.
//!
//! The operands are swapped: a block multiplies [`DecodeConfig::tile_n`] rows of weights (columns of
//! B) with all rows of A, over its share of k. `splits` blocks share one tile's k and add up their
//! sums in the order of their shares, so that the bits do not depend on who is done first.
//!
//! Entries are named `gemm_decode_<arch>_<in>[_<out>]_<layout>_<tile_m>x<tile_n>x<tile_k>`, for
//! example `gemm_decode_sm90_bf16_nt_16x64x128`; [`DecodeEntry`] prints the name. They run with
//! [`DecodeArch::threads`] threads a block on the grid of [`DecodeConfig::grid`], with
//! [`DecodeConfig::smem_bytes`] of dynamic shared memory. A has its rows without gaps (`N`); rows of A
//! and of B as stored start at multiples of 16 bytes. Arguments, before the tail of
//! [`epilogue`](super::epilogue):
//!
//! - [`DecodeArch::Sm90`]: tensor maps of A and B by value, of three dimensions
//!   (the third is the batch; one product where the batch stride is 0), swizzled over
//!   [`SPAN_BYTES`], zeros outside, with boxes of [`DecodeConfig::box_a`] and
//!   [`DecodeConfig::box_b`]. Launched in clusters of `(1, splits, 1)`.
//! - [`DecodeArch::Sm80`]: `a: *const In, b: *const In, partials: *mut f32, tickets: *mut u32`.
//!   Where `splits` is not 1, `partials` has [`DecodeConfig::partials`] elements, and `tickets` one
//!   for each tile of each product, which are 0 before and after the launch.

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
/// Blocks that may share a wide tile: clusters of more than two leave multiprocessors idle that
/// have room for one block only.
const WIDE_SPLITS: u64 = 2;
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

/// [`DecodeArch::Sm80`]'s, by rows of A: they fit the 99 KB that the smallest of its kind has.
pub const SM80_CONFIGS: [DecodeConfig; 2] = [
    config(16, [64, 128], 4, 2, 1),
    config(64, [64, 64], 5, 4, 1),
];

/// [`DecodeArch::Sm90`]'s, by rows of A, then by columns of B. Rows that are not there cost no
/// memory traffic, so there is no smaller one.
pub const SM90_CONFIGS: [DecodeConfig; 3] = [
    config(16, [64, 128], 5, 2, 2),
    config(64, [64, 128], 3, 4, 2),
    config(64, [128, 128], 4, 4, 1),
];

const fn config(
    tile_m: u32,
    [tile_n, tile_k]: [u32; 2],
    stages: u32,
    warps_n: u32,
    blocks: u32,
) -> DecodeConfig {
    DecodeConfig {
        tile_m,
        tile_n,
        tile_k,
        stages,
        warps_n,
        blocks,
    }
}

impl DecodeConfig {
    /// The one for a product, on a device with so many multiprocessors: the smallest that holds `m`
    /// rows, and of those the widest of which two thirds of the multiprocessors get a block. `None`
    /// where `m` is 0 or more than [`DECODE_M_MAX`].
    pub fn choose(
        arch: DecodeArch,
        [m, n]: [u32; 2],
        batch: u32,
        multiprocessors: u32,
    ) -> Option<Self> {
        let mut holding = arch.configs().iter().filter(|c| m != 0 && m <= c.tile_m);
        let tile_m = holding.clone().next()?.tile_m;
        let first = holding.next()?;
        let mut wider = holding.filter(|c| {
            let blocks = c.tiles(n) as u64 * batch as u64 * WIDE_SPLITS;
            c.tile_m == tile_m && blocks * 3 >= multiprocessors as u64 * 2
        });
        Some(*wider.next_back().unwrap_or(first))
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

    /// Extents of a box of A, innermost first.
    pub const fn box_a(&self) -> [u32; 3] {
        [SPAN_BYTES / ELEMENT_BYTES, self.tile_m, 1]
    }

    /// Extents of a box of B as stored, innermost first.
    pub const fn box_b(&self, trans_b: Transpose) -> [u32; 3] {
        [SPAN_BYTES / ELEMENT_BYTES, self.rows_b(trans_b), 1]
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
    /// As few as give five in six multiprocessors a block, and no more than run at once: memory is
    /// the limit, so it does not matter that blocks are spread unevenly.
    pub const fn choose_splits(&self, n: u32, k: u32, batch: u32, multiprocessors: u32) -> u32 {
        let tiles = self.tiles(n) as u64 * batch as u64;
        let k_tiles = k.div_ceil(self.tile_k);
        let most = if self.blocks == 1 {
            WIDE_SPLITS as u32
        } else {
            SPLITS_MAX
        };
        let mut splits = 1;
        while splits < most
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
    /// Both, the better one last.
    pub const ALL: [Self; 2] = [Self::Sm80, Self::Sm90];

    /// Its tiles, by rows of A, then by columns of B.
    pub const fn configs(self) -> &'static [DecodeConfig] {
        match self {
            Self::Sm80 => &SM80_CONFIGS,
            Self::Sm90 => &SM90_CONFIGS,
        }
    }

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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    fn all() -> impl Iterator<Item = (DecodeArch, DecodeConfig)> {
        DecodeArch::ALL
            .into_iter()
            .flat_map(|arch| arch.configs().iter().map(move |config| (arch, *config)))
    }

    #[test]
    fn warps_share_a_tile_in_whole_products() {
        for (_, config) in all() {
            assert_eq!(config.warps_n * config.warps_k(), WARPS, "{config}");
            assert_eq!(config.tile_n % (config.warps_n * 16), 0, "{config}");
            assert_eq!(config.tile_k % (config.warps_k() * 32), 0, "{config}");
            assert_eq!(config.tile_m % 8, 0, "{config}");
        }
    }

    #[test]
    fn warps_stay_in_a_swizzled_box_or_take_whole_ones() {
        const SPAN: u32 = SPAN_BYTES / ELEMENT_BYTES;
        for config in SM90_CONFIGS {
            let (weights, k) = (
                config.tile_n / config.warps_n,
                config.tile_k / config.warps_k(),
            );
            assert!(
                SPAN.is_multiple_of(weights) && (SPAN.is_multiple_of(k) || k.is_multiple_of(SPAN)),
                "{config}"
            );
            assert_eq!(config.tile_n % SPAN, 0, "{config}");
            assert!(
                config.tile_n <= 256 && config.tile_k <= 256,
                "{config}: a box's extent"
            );
            assert_eq!(config.swizzled_a_bytes() % BOX_ALIGN, 0, "{config}");
        }
    }

    #[test]
    fn as_many_blocks_fit_a_multiprocessor_as_it_says() {
        const RESERVED_BYTES: u32 = 1024;
        for (arch, config) in all() {
            for trans_b in Transpose::ALL {
                let bytes = config.smem_bytes(arch, trans_b);
                let (most, all) = match arch {
                    DecodeArch::Sm80 => (99 << 10, 100 << 10),
                    DecodeArch::Sm90 => (227 << 10, 228 << 10),
                };
                assert!(bytes <= most, "{arch} {config}: {bytes}");
                assert!(
                    (bytes + RESERVED_BYTES) * config.blocks <= all,
                    "{arch} {config}"
                );
            }
        }
    }

    #[test]
    fn shares_of_k_are_all_of_it_in_order() {
        for config in SM90_CONFIGS {
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
        let tile = |m, n| {
            let config = DecodeConfig::choose(DecodeArch::Sm90, [m, n], 1, 132);
            config.map(|c| (c.tile_m, c.tile_n))
        };
        assert_eq!(tile(0, 4096), None);
        assert_eq!(tile(1, 28_672), Some((16, 64)));
        assert_eq!(tile(16, 4096), Some((16, 64)));
        assert_eq!(tile(17, 28_672), Some((64, 128)));
        assert_eq!(tile(64, 4096), Some((64, 64)));
        assert_eq!(tile(33, 6144), Some((64, 128)));
        assert_eq!(tile(65, 4096), None);
    }

    #[test]
    fn k_is_split_until_most_multiprocessors_have_a_block() {
        let splits = |config: DecodeConfig, n, k| config.choose_splits(n, k, 1, 132);
        let [narrow, .., wide] = SM90_CONFIGS;
        assert_eq!(splits(narrow, 4096, 4096), 2);
        assert_eq!(splits(narrow, 28_672, 4096), 1);
        assert_eq!(splits(narrow, 64, 4096), 8);
        assert_eq!(splits(narrow, 64, 300), 3);
        assert_eq!(splits(wide, 8192, 8192), 2);
        assert_eq!(splits(wide, 4096, 8192), 2);
        assert_eq!(splits(wide, 10_240, 8192), 1);
    }

    #[test]
    fn entry_names_are_as_documented() {
        let entry = DecodeEntry {
            arch: DecodeArch::Sm90,
            input: DType::Bf16,
            output: DType::Bf16,
            trans_b: Transpose::T,
            config: SM90_CONFIGS[0],
        };
        assert_eq!(entry.to_string(), "gemm_decode_sm90_bf16_nt_16x64x128");
        let mixed = DecodeEntry {
            arch: DecodeArch::Sm80,
            output: DType::F32,
            trans_b: Transpose::N,
            ..entry
        };
        assert_eq!(mixed.to_string(), "gemm_decode_sm80_bf16_f32_nn_16x64x128");
    }
}
