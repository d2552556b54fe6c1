//! Tensor-core kernels of Turing, Ampere and Ada (`mma.sync`), which run on everything newer too.
//! On Hopper they take operands that TMA cannot load.
//!
//! Entries are named `gemm_mma_<operands>_<layout>_<tile>_s<stages>_fused`, for example
//! `gemm_mma_bf16_nt_128x256x64_s3_fused`; [`MmaEntry`] prints the name. Each takes `a, b` and then
//! the arguments of a fused [`epilogue`](super::epilogue). It runs with [`MmaTile::threads`]
//! threads a block on the grid of [`MmaTile::grid`], with [`MmaTile::smem_bytes`] of dynamic shared
//! memory.
//!
//! Pointers need the alignment of one element only, leading dimensions none. A block tests the
//! alignment of each of its operands by itself:
//!
//! | alignment | copies |
//! |---|---|
//! | 16 bytes | one `cp.async` for 16 bytes, the fast way |
//! | 8 or 4 bytes | 2 or 4 times as many `cp.async` |
//! | less | plain loads and stores, which wait for memory in each k tile |
//!
//! | operands | layouts | output | tiles | from |
//! |---|---|---|---|---|
//! | bf16, f16 | all; large: A by rows | as operands; small: or f32, as the launch says | large, small | sm_80 |
//! | f32 as tf32 | all | f32 | small | sm_80 |
//! | i8 | `nt` | i32, f32, f16, bf16, as the launch says ([`integer`](super::integer)) | Ada's | sm_80 |
//! | e4m3, e5m2, mixes | `nt` | bf16 | Ada's | sm_89 |
//! | f16 | all | f16 | Turing's | sm_75 |
//!
//! `a` and `b` may be null if k is 0. `c` may be `d` if their strides agree.

mod map;

use core::fmt;

use super::Transpose;
use super::simt::grid;
use crate::DType;
pub use map::OperandMap;

/// Threads of a warp.
const WARP_THREADS: u32 = 32;

/// Bytes of k of one step of `mma`s: a row of an `m16n8` instruction's fragment of A.
pub const MMA_STEP_BYTES: u32 = 32;

/// Tile of one thread block, and how its warps share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaTile {
    /// Rows of D a block computes.
    pub tile_m: u32,
    /// Columns of D a block computes.
    pub tile_n: u32,
    /// Bytes of k of each row of A and each column of B that a stage holds.
    pub tile_k_bytes: u32,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Warps along m.
    pub warps_m: u32,
    /// Warps along n.
    pub warps_n: u32,
    /// Rows of tiles in a band: see [`MmaTile::tile_coordinates`].
    pub band_rows: u32,
}

/// For large GEMMs: 64×64 results a warp, 8 warps, one block an SM.
pub const MMA_LARGE: MmaTile = MmaTile {
    tile_m: 128,
    tile_n: 256,
    tile_k_bytes: 128,
    stages: 3,
    warps_m: 2,
    warps_n: 4,
    band_rows: 16,
};

/// For smaller GEMMs, and for devices with less than 144 KiB of shared memory a block: 64×64
/// results a warp, 4 warps.
pub const MMA_SMALL: MmaTile = MmaTile {
    tile_m: 128,
    tile_n: 128,
    tile_k_bytes: 64,
    stages: 4,
    warps_m: 2,
    warps_n: 2,
    band_rows: 12,
};

/// For 8 bits: 64×32 results a warp. Devices newer than Ada make two instructions of each `mma` of
/// floats, which takes registers; of i8 it is the entry with the shorter code.
pub const MMA_ADA: MmaTile = MmaTile {
    warps_n: 4,
    ..MMA_SMALL
};

/// For Turing, which copies through registers.
pub const MMA_TURING: MmaTile = MmaTile {
    tile_m: 128,
    tile_n: 128,
    tile_k_bytes: 64,
    stages: 2,
    warps_m: 2,
    warps_n: 4,
    band_rows: 12,
};

impl MmaTile {
    const fn name(&self) -> Option<TileName> {
        match (self.tile_m, self.tile_n, self.stages, self.warps_n) {
            (128, 256, 3, 4) => Some(TileName::Large),
            (128, 128, 4, 2) => Some(TileName::Small),
            (128, 128, 4, 4) => Some(TileName::Ada),
            (128, 128, 2, 4) => Some(TileName::Turing),
            _ => None,
        }
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warps_m * self.warps_n * WARP_THREADS
    }

    /// Rows of D a warp computes.
    pub const fn warp_m(&self) -> u32 {
        self.tile_m / self.warps_m
    }

    /// Columns of D a warp computes.
    pub const fn warp_n(&self) -> u32 {
        self.tile_n / self.warps_n
    }

    /// k steps in a stage.
    pub const fn k_steps(&self) -> u32 {
        self.tile_k_bytes / MMA_STEP_BYTES
    }

    /// Bytes of A in a stage; those of B follow.
    pub const fn stage_a_bytes(&self) -> u32 {
        self.tile_m * self.tile_k_bytes
    }

    /// Bytes of a stage.
    pub const fn stage_bytes(&self) -> u32 {
        (self.tile_m + self.tile_n) * self.tile_k_bytes
    }

    /// Dynamic shared memory of a block: the stages, and later, in their place, the results in f32.
    pub const fn smem_bytes(&self) -> u32 {
        let stages = self.stages * self.stage_bytes();
        let results = self.tile_m * self.tile_n * size_of::<f32>() as u32;
        if stages > results { stages } else { results }
    }

    /// Tiles that cover `m`×`n` results.
    pub const fn tiles(&self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.tile_m) as u64 * n.div_ceil(self.tile_n) as u64
    }

    /// Grid of a launch over `batch` matrices of `m`×`n` results: x = tiles, y and z = batches, see
    /// [`batch_idx`](super::batch_idx). `None` if there is nothing to launch (an extent is 0) or if
    /// there are more tiles or matrices than a grid can hold.
    pub const fn grid(&self, m: u32, n: u32, batch: u32) -> Option<[u32; 3]> {
        grid(self.tiles(m, n), batch)
    }

    /// Row and column, in tiles, of the tile that block `block_idx_x` computes. Blocks run down
    /// bands of rows of tiles, so that those that run at the same time share operands.
    pub const fn tile_coordinates(&self, block_idx_x: u32, m: u32, n: u32) -> (u32, u32) {
        let m_tiles = m.div_ceil(self.tile_m);
        let n_tiles = n.div_ceil(self.tile_n);
        let band_tiles = self.band_rows * n_tiles;
        let band_idx = block_idx_x / band_tiles;
        let band_start = band_idx * self.band_rows;
        let rows_left = m_tiles - band_start;
        let rows = if rows_left < self.band_rows {
            rows_left
        } else {
            self.band_rows
        };
        let idx_in_band = block_idx_x - band_idx * band_tiles;
        (band_start + idx_in_band % rows, idx_in_band / rows)
    }

    /// Layout of A in a stage.
    pub const fn map_a(&self, k_major: bool, size_bytes: u32) -> OperandMap {
        OperandMap {
            k_major,
            size_bytes,
            tile_mn: self.tile_m,
            tile_k_bytes: self.tile_k_bytes,
        }
    }

    /// Layout of B in a stage.
    pub const fn map_b(&self, k_major: bool, size_bytes: u32) -> OperandMap {
        OperandMap {
            tile_mn: self.tile_n,
            ..self.map_a(k_major, size_bytes)
        }
    }

    /// Where the tile's result (`row`, `column`) is staged before it is stored, in f32 elements, if
    /// threads store vectors of `vector` results (4 or 8).
    ///
    /// Results are swizzled in chunks of 4. A warp writes pairs, 8 rows by 4 pairs at once, and
    /// reads consecutive chunks (`vector` 4) or every other chunk (`vector` 8): neither has bank
    /// conflicts.
    #[inline(always)]
    pub const fn result_place(&self, row: u32, column: u32, vector: u32) -> u32 {
        let chunk = column / 4;
        let place = if vector == 8 {
            let (eight, half) = (chunk / 2, chunk % 2);
            (eight ^ (half + 2 * (row % 4))) + half * (self.tile_n / 8)
        } else {
            chunk ^ (2 * (row % 4))
        };
        row * self.tile_n + place * 4 + column % 4
    }

    /// As [`result_place`](Self::result_place), where vectors have 4 or 8 results, as the launch
    /// says.
    #[inline(always)]
    pub const fn either_place(&self, row: u32, column: u32) -> u32 {
        let (eight, half) = (column / 8, column / 4 % 2);
        let place = (eight ^ (row % 4 + 4 * half)) + half * (self.tile_n / 8);
        row * self.tile_n + place * 4 + column % 4
    }

    /// Where 8 results of 16 bits, from (`row`, `column`) on, are staged before they are stored, in
    /// chunks of 16 bytes. A warp writes 8 rows of one chunk at once, and reads rows.
    #[inline(always)]
    pub const fn rounded_place(&self, row: u32, column: u32) -> u32 {
        row * (self.tile_n / 8) + ((column / 8) ^ (row % 8))
    }
}

/// The tiles there are entries of.
enum TileName {
    Large,
    Small,
    Ada,
    Turing,
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaEntry {
    /// Element type of A.
    pub a: DType,
    /// Element type of B.
    pub b: DType,
    /// Element type of C and D. An entry that [is told](Self::is_told) it serves several.
    pub output: DType,
    /// How A is stored.
    pub trans_a: Transpose,
    /// How B is stored.
    pub trans_b: Transpose,
    /// Tile.
    pub tile: MmaTile,
}

impl MmaEntry {
    /// The least compute capability that runs it; `None` if there is no such entry.
    pub const fn arch(&self) -> Option<(u32, u32)> {
        use DType::{Bf16, E4m3, E5m2, F16, F32, I8, I32};
        use Transpose::{N, T};
        let types = (self.a, self.b, self.output);
        let layout = (self.trans_a, self.trans_b);
        match self.tile.name() {
            Some(TileName::Large) => match (types, layout) {
                ((Bf16, Bf16, Bf16) | (F16, F16, F16), (N, _)) => Some((8, 0)),
                _ => None,
            },
            Some(TileName::Small) => match (types, layout) {
                ((Bf16, Bf16, Bf16 | F32) | (F16, F16, F16 | F32) | (F32, F32, F32), _) => {
                    Some((8, 0))
                }
                _ => None,
            },
            Some(TileName::Ada) => match (types, layout) {
                ((E4m3 | E5m2, E4m3 | E5m2, Bf16), (N, T)) => Some((8, 9)),
                ((I8, I8, I32 | F32 | F16 | Bf16), (N, T)) => Some((8, 0)),
                _ => None,
            },
            Some(TileName::Turing) => match types {
                (F16, F16, F16) => Some((7, 5)),
                _ => None,
            },
            None => None,
        }
    }

    /// Whether each launch tells the entry the type of C and D
    /// ([`EpilogueParams::d_dtype`](super::EpilogueParams::d_dtype)), so that its name does not.
    pub const fn is_told(&self) -> bool {
        match self.tile.name() {
            Some(TileName::Small) => matches!(self.a, DType::Bf16 | DType::F16),
            Some(TileName::Ada) => matches!(self.a, DType::I8),
            _ => false,
        }
    }

    /// All entries, those that are told the type of C and D once for each type.
    pub fn all() -> impl Iterator<Item = Self> {
        const OPERANDS: [DType; 7] = [
            DType::Bf16,
            DType::F16,
            DType::F32,
            DType::I32,
            DType::I8,
            DType::E4m3,
            DType::E5m2,
        ];
        const LAYOUTS: [[Transpose; 2]; 4] = [
            [Transpose::N, Transpose::N],
            [Transpose::N, Transpose::T],
            [Transpose::T, Transpose::N],
            [Transpose::T, Transpose::T],
        ];
        let tiles = [MMA_LARGE, MMA_SMALL, MMA_ADA, MMA_TURING].into_iter();
        let types = tiles.flat_map(|tile| OPERANDS.into_iter().map(move |a| (tile, a)));
        let types = types.flat_map(|(tile, a)| OPERANDS.into_iter().map(move |b| (tile, a, b)));
        let types = types.flat_map(|(tile, a, b)| {
            let outputs = OPERANDS[..4].iter();
            outputs.map(move |&output| (tile, a, b, output))
        });
        let all = types.flat_map(|(tile, a, b, output)| {
            LAYOUTS.into_iter().map(move |[trans_a, trans_b]| Self {
                a,
                b,
                output,
                trans_a,
                trans_b,
                tile,
            })
        });
        all.filter(|entry| entry.arch().is_some())
    }
}

impl fmt::Display for MmaEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gemm_mma_{}", self.a)?;
        if self.b != self.a {
            write!(f, "_{}", self.b)?;
        }
        if self.output != self.a && !self.is_told() {
            write!(f, "_{}", self.output)?;
        }
        let (a, b) = (self.trans_a.letter(), self.trans_b.letter());
        let MmaTile {
            tile_m,
            tile_n,
            tile_k_bytes,
            stages,
            ..
        } = self.tile;
        let tile_k = tile_k_bytes / self.a.size_bytes() as u32;
        write!(f, "_{a}{b}_{tile_m}x{tile_n}x{tile_k}_s{stages}_fused")
    }
}

#[cfg(test)]
mod tests;
