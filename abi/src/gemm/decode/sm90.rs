//! GEMMs with few rows on Hopper: TMA, `wgmma`, clusters.
//!
//! Weights (columns of B) are the 64 rows of a `wgmma`, tokens (rows of A) its columns. The launch
//! chooses how wide a block's tile is, how many blocks split its k, and how many share the loads of
//! tokens: a [`DecodeTiling`]. More rows than a tile has are several rows of tiles, which pays where
//! D is small and k is long.
//!
//! Entries are named `gemm_decode_sm90_<in>[_<out>]_<layout>_<tile_m>`, for example
//! `gemm_decode_sm90_bf16_nt_16`; [`Sm90DecodeEntry::ALL`] has all. Sums of i8 are written in i32,
//! times alpha, without another epilogue. The entries run with
//! [`DecodeTiling::threads`] threads a block on the grid of [`DecodeTiling::grid`] in clusters of
//! [`DecodeTiling::cluster`], with [`DecodeTiling::smem_bytes`] of dynamic shared memory.
//! Arguments:
//! - tensor maps of A and B by value, of three dimensions. The third is the batch, of extent one if
//!   the batch stride is 0. They have the swizzle that spans [`SPAN_BYTES`], zeros outside, and
//!   boxes of [`DecodeTiling::box_a`] and [`DecodeTiling::box_b`];
//! - those of a fused [`epilogue`](crate::gemm::epilogue);
//! - a [`DecodeLaunch`].

use super::{DECODE_BATCH_MAX, partial_pitch};
use crate::DType;
use crate::entry::{Parts, entries};
use crate::gemm::raster::divided;
use crate::gemm::{EpilogueParams, GemmParams, Transpose};
use crate::kernel_param;

/// Rows of a `wgmma`: the fewest columns of B in a tile.
pub const MMA_WEIGHTS: u32 = 64;
/// Most columns of a tile: the limit of a box's extent; a block has a warpgroup for every 64.
pub const TILE_N_MAX: u32 = 256;
/// A tile's width is a multiple of this if B is K-major: the rows of a swizzle's pattern. Otherwise
/// it is a multiple of [`MMA_WEIGHTS`].
pub const TILE_N_STEP: u32 = 8;
/// Bytes of a row of a box, which the swizzle spans.
pub const SPAN_BYTES: u32 = 128;
/// Alignment of a box.
pub const BOX_ALIGN: u32 = 1024;
/// Most blocks of a cluster.
pub const CLUSTER_MAX: u32 = 8;
/// Threads of a consumer warpgroup.
pub const WARPGROUP: u32 = 128;
const COPIERS: u32 = 32;

/// Bytes of a stage's barriers.
const BARRIERS_BYTES: u32 = 16;
/// Most dynamic shared memory of a block.
const SMEM_MAX_BYTES: u32 = 227 * 1024;

/// How a GEMM is divided among blocks. The k tiles that its functions take are
/// [`Sm90DecodeEntry::k_tiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeTiling {
    /// Rows of A, at most: those of a [`Sm90DecodeEntry`].
    pub tile_m: u32,
    /// Columns of B that a block computes.
    pub tile_n: u32,
    /// Blocks that split a tile's k; their sums are added in the order of k.
    pub splits: u32,
    /// Blocks, neighbours along n, that multicast tokens to each other: 1, 2 or 4.
    pub sharers: u32,
}

kernel_param! {
    /// What a kernel is told about its tiling; the rest it reads from the grid and the cluster.
    #[derive(Debug, PartialEq, Eq)]
    pub struct DecodeLaunch {
        /// [`DecodeTiling::tile_n`].
        pub tile_n: u32,
        /// Stages of the ring in shared memory.
        pub stages: u32,
    }
}

impl DecodeTiling {
    /// Whether the kernels take this tiling.
    pub fn is_valid(&self, trans_b: Transpose) -> bool {
        let step = match trans_b {
            Transpose::N => MMA_WEIGHTS,
            Transpose::T => TILE_N_STEP,
        };
        let is_of =
            |entry: &Sm90DecodeEntry| (entry.trans_b, entry.tile_m) == (trans_b, self.tile_m);
        Sm90DecodeEntry::ALL.iter().any(is_of)
            && (MMA_WEIGHTS..=TILE_N_MAX).contains(&self.tile_n)
            && self.tile_n.is_multiple_of(step)
            && self.splits > 0
            && [1, 2, 4].contains(&self.sharers)
            && self.splits * self.sharers <= CLUSTER_MAX
            // A sharer loads whole patterns of the swizzle.
            && self.tile_m / self.sharers >= TILE_N_STEP
    }

    /// Consumer warpgroups of a block. The last one's 64 columns end with the tile, so some of them
    /// may belong to the one before it as well.
    pub const fn warpgroups(&self) -> u32 {
        self.tile_n.div_ceil(MMA_WEIGHTS)
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warpgroups() * WARPGROUP + COPIERS
    }

    /// Stages of a block's ring: one for each of its k tiles, but no more than fit.
    pub const fn stages(&self, k_tiles: u32) -> u32 {
        let stage_bytes = stage_bytes(self.tile_m, self.tile_n);
        let most = (SMEM_MAX_BYTES - BOX_ALIGN) / (stage_bytes + BARRIERS_BYTES);
        let k_tiles = k_tiles.div_ceil(self.splits);
        if k_tiles < most { k_tiles } else { most }
    }

    /// Bytes of dynamic shared memory.
    pub const fn smem_bytes(&self, k_tiles: u32) -> u32 {
        let stages = self.stages(k_tiles);
        // The ring is aligned, but the memory may begin anywhere.
        barriers_at(self.tile_m, self.tile_n, stages) + stages * BARRIERS_BYTES + BOX_ALIGN
    }

    /// What the kernel is told.
    pub const fn launch(&self, k_tiles: u32) -> DecodeLaunch {
        DecodeLaunch {
            tile_n: self.tile_n,
            stages: self.stages(k_tiles),
        }
    }

    /// Extents of a box of A, innermost first; `tile_k` is that of the entry.
    pub const fn box_a(&self, tile_k: u32) -> [u32; 3] {
        [tile_k, self.tile_m / self.sharers, 1]
    }

    /// Extents of a box of B as stored, innermost first; `tile_k` is that of the entry.
    pub const fn box_b(&self, trans_b: Transpose, tile_k: u32) -> [u32; 3] {
        match trans_b {
            Transpose::N => [MMA_WEIGHTS, tile_k, 1],
            Transpose::T => [tile_k, self.tile_n, 1],
        }
    }

    /// Rows of tiles of a matrix of `m` rows.
    pub const fn row_tiles(&self, m: u32) -> u32 {
        m.div_ceil(self.tile_m)
    }

    /// Blocks of a cluster.
    pub const fn cluster(&self) -> [u32; 3] {
        [self.sharers, self.splits, 1]
    }

    /// Grid of a launch: x = a row's tiles, in whole clusters, y = shares of k, z = the rows of
    /// tiles of one matrix after the other. `None` if there is nothing to launch, or more than a
    /// grid can hold.
    pub const fn grid(&self, m: u32, n: u32, batch: u32) -> Option<[u32; 3]> {
        let clusters = n.div_ceil(self.tile_n).div_ceil(self.sharers);
        let rows = self.row_tiles(m) as u64 * batch as u64;
        if clusters == 0 || rows == 0 || rows > DECODE_BATCH_MAX as u64 {
            return None;
        }
        Some([clusters * self.sharers, self.splits, rows as u32])
    }
}

/// Bytes of a stage: B, then A.
#[inline(always)]
pub const fn stage_bytes(tile_m: u32, tile_n: u32) -> u32 {
    (tile_n + tile_m) * SPAN_BYTES
}

/// Offset of the barriers: behind the ring, and behind the sums, which take the ring's place. Other
/// blocks of the cluster arrive at them until all have met at its barrier.
#[inline(always)]
pub const fn barriers_at(tile_m: u32, tile_n: u32, stages: u32) -> u32 {
    let ring = stages * stage_bytes(tile_m, tile_n);
    let sums = tile_m * partial_pitch(tile_n) * 4;
    if ring > sums { ring } else { sums }
}

/// Which of `k_tiles` are in share `split_idx` of `splits`: the first, and one past the last.
#[inline(always)]
pub const fn share(k_tiles: u32, split_idx: u32, splits: u32) -> (u32, u32) {
    // Nothing overflows: there are fewer than 2^27 tiles, and few splits.
    let first = divided(k_tiles * split_idx, splits).0;
    let end = divided(k_tiles * (split_idx + 1), splits).0;
    (first, end)
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90DecodeEntry {
    name: &'static str,
    /// Element type of A and B.
    pub input: DType,
    /// Element type of D other than f32, which all entries but those of i8 write as well.
    pub output: DType,
    /// How B is stored.
    pub trans_b: Transpose,
    /// Rows of A in a tile.
    pub tile_m: u32,
}

impl Sm90DecodeEntry {
    /// The entry of a name `gemm_decode_sm90_<in>[_<out>]_<layout>_<tile_m>`. One dtype stands for
    /// both.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_decode_sm90");
        let input = parts.expect_dtype();
        let output = match parts.dtype() {
            Some(output) => output,
            None => input,
        };
        let trans_b = Transpose::of_b(&mut parts);
        let tile_m = parts.number("");
        parts.end();
        Self {
            name,
            input,
            output,
            trans_b,
            tile_m,
        }
    }

    /// The entry of the smallest tile that holds `m` rows, of which there are some.
    pub fn of(input: DType, trans_b: Transpose, m: u32) -> Option<Self> {
        Self::find(|entry| {
            let holds = m != 0 && m <= entry.tile_m;
            (entry.input, entry.trans_b) == (input, trans_b) && holds
        })
    }

    /// Whether it writes this dtype: each launch says which, but for i8
    /// ([`EpilogueParams::d_dtype`]).
    pub fn writes(&self, output: DType) -> bool {
        output == self.output || output == DType::F32 && self.input != DType::I8
    }

    /// Whether products of each k tile are added to sums in f32 outside of the tensor cores, which
    /// keep fewer bits of a running sum of 8-bit floats.
    pub const fn promotes(&self) -> bool {
        matches!(self.input, DType::E4m3 | DType::E5m2)
    }

    /// Elements of k in a stage.
    pub const fn tile_k(&self) -> u32 {
        SPAN_BYTES / self.input.size_bytes() as u32
    }

    /// Tiles of a k of this length.
    pub const fn k_tiles(&self, k: u32) -> u32 {
        k.div_ceil(self.tile_k())
    }
}

entries! { $ Sm90DecodeEntry((GemmParams, EpilogueParams, DecodeLaunch)) {
    /// The Rust type of D where it is not f32. Of each type and layout, the smallest tile comes first.
    /// Tiles of 128 rows are there only where B is K-major, as it is in most layers, and where sums are
    /// not promoted, for which registers do not suffice.
    gemm_decode_sm90 {
        gemm_decode_sm90_bf16_nt_16(bf16);
        gemm_decode_sm90_bf16_nt_32(bf16);
        gemm_decode_sm90_bf16_nt_64(bf16);
        gemm_decode_sm90_bf16_nt_128(bf16);
        gemm_decode_sm90_bf16_nn_16(bf16);
        gemm_decode_sm90_bf16_nn_32(bf16);
        gemm_decode_sm90_bf16_nn_64(bf16);
        gemm_decode_sm90_f16_nt_16(f16);
        gemm_decode_sm90_f16_nt_32(f16);
        gemm_decode_sm90_f16_nt_64(f16);
        gemm_decode_sm90_f16_nt_128(f16);
        gemm_decode_sm90_f16_nn_16(f16);
        gemm_decode_sm90_f16_nn_32(f16);
        gemm_decode_sm90_f16_nn_64(f16);
        gemm_decode_sm90_e4m3_bf16_nt_16(bf16);
        gemm_decode_sm90_e4m3_bf16_nt_32(bf16);
        gemm_decode_sm90_e4m3_bf16_nt_64(bf16);
    }
    /// Sums in i32.
    gemm_decode_sm90_sums {
        gemm_decode_sm90_i8_i32_nt_16;
        gemm_decode_sm90_i8_i32_nt_64;
        gemm_decode_sm90_i8_i32_nt_128;
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    fn all(trans_b: Transpose) -> impl Iterator<Item = DecodeTiling> {
        let widths = (0..=TILE_N_MAX + 64).step_by(8);
        [16, 32, 64, 128]
            .into_iter()
            .flat_map(move |tile_m| {
                widths.clone().flat_map(move |tile_n| {
                    [1, 2, 3, 4, 8].into_iter().flat_map(move |splits| {
                        [1, 2, 4].map(|sharers| DecodeTiling {
                            tile_m,
                            tile_n,
                            splits,
                            sharers,
                        })
                    })
                })
            })
            .filter(move |tiling| tiling.is_valid(trans_b))
    }

    #[test]
    fn every_valid_tiling_fits_a_block() {
        for trans_b in Transpose::ALL {
            for tiling in all(trans_b) {
                for k_tiles in [1, 16, 448] {
                    let bytes = tiling.smem_bytes(k_tiles);
                    assert!(bytes <= SMEM_MAX_BYTES, "{tiling:?}, {k_tiles} k tiles");
                    assert!(tiling.stages(k_tiles) > 0, "{tiling:?}, {k_tiles} k tiles");
                }
                assert!(tiling.threads() <= 1024, "{tiling:?}");
                assert!(
                    tiling.stages(1 << 14) >= 4,
                    "{tiling:?}: too few to hide latency"
                );
                let cluster: u32 = tiling.cluster().iter().product();
                assert!(cluster <= CLUSTER_MAX, "{tiling:?}");
                let rows = [tiling.box_a(64)[1], tiling.box_b(trans_b, 64)[1]];
                assert!(
                    rows.iter()
                        .all(|rows| (rows * SPAN_BYTES).is_multiple_of(BOX_ALIGN))
                );
            }
        }
    }

    #[test]
    fn what_the_kernels_cannot_do_is_not_valid() {
        let tiling = DecodeTiling {
            tile_m: 16,
            tile_n: 72,
            splits: 2,
            sharers: 2,
        };
        assert!(tiling.is_valid(Transpose::T) && !tiling.is_valid(Transpose::N));
        for wrong in [
            DecodeTiling {
                tile_m: 8,
                ..tiling
            },
            DecodeTiling {
                tile_n: 56,
                ..tiling
            },
            DecodeTiling {
                tile_n: 68,
                ..tiling
            },
            DecodeTiling {
                tile_n: 264,
                ..tiling
            },
            DecodeTiling {
                splits: 0,
                ..tiling
            },
            DecodeTiling {
                splits: 5,
                ..tiling
            },
            DecodeTiling {
                sharers: 3,
                ..tiling
            },
            DecodeTiling {
                sharers: 4,
                ..tiling
            },
        ] {
            assert!(!wrong.is_valid(Transpose::T), "{wrong:?}");
        }
    }

    #[test]
    fn grids_are_whole_clusters() {
        let tiling = DecodeTiling {
            tile_m: 64,
            tile_n: 80,
            splits: 2,
            sharers: 4,
        };
        assert_eq!(tiling.grid(64, 10_240, 3), Some([128, 2, 3]));
        assert_eq!(tiling.grid(65, 10_240, 3), Some([128, 2, 6]));
        assert_eq!(tiling.grid(1, 10_241, 1), Some([132, 2, 1]));
        assert_eq!(tiling.grid(0, 1, 1), None);
        assert_eq!(tiling.grid(1, 0, 1), None);
        assert_eq!(tiling.grid(1, 1, DECODE_BATCH_MAX + 1), None);
        assert_eq!(tiling.grid(u32::MAX, 1, u32::MAX), None);
    }

    #[test]
    fn shares_of_k_are_all_of_it_in_order() {
        for (all, splits) in [
            (1, 1),
            (1, 8),
            (64, 3),
            (224, 7),
            (2, 2),
            (u32::MAX.div_ceil(64), 8),
        ] {
            let mut next = 0;
            for split_idx in 0..splits {
                let (first, end) = share(all, split_idx, splits);
                assert!(
                    first == next && end >= first,
                    "{all} k tiles, {split_idx} of {splits}"
                );
                next = end;
            }
            assert_eq!(next, all, "{all} k tiles, splits {splits}");
        }
    }

    #[test]
    fn the_smallest_tile_that_holds_the_rows_is_taken() {
        let held = |trans_b| {
            [0, 1, 16, 17, 33, 64, 65, 128, 129]
                .map(|m| Sm90DecodeEntry::of(DType::F16, trans_b, m).map(|entry| entry.tile_m))
        };
        let want = [
            None,
            Some(16),
            Some(16),
            Some(32),
            Some(64),
            Some(64),
            Some(128),
            Some(128),
            None,
        ];
        assert_eq!(held(Transpose::T), want);
        assert_eq!(held(Transpose::N)[6..], [None; 3]);
    }

    #[test]
    fn entry_names_are_as_documented() {
        let name = |trans_b, m| Sm90DecodeEntry::of(DType::Bf16, trans_b, m).map(|e| e.to_string());
        let few = "gemm_decode_sm90_bf16_nt_16";
        assert_eq!(name(Transpose::T, 3).as_deref(), Some(few));
        let more = "gemm_decode_sm90_bf16_nn_64";
        assert_eq!(name(Transpose::N, 64).as_deref(), Some(more));
    }
}
