//! Tensor-core kernels of Turing, Ampere and Ada (`mma.sync`), which run on everything newer too.
//! On Hopper they take operands that TMA cannot load.
//!
//! Entries are named `gemm_mma_<operands>_<layout>_<tile>_s<stages>_fused`, for example
//! `gemm_mma_bf16_nt_128x256x64_s3_fused`; [`MmaEntry::ALL`] has all. Each takes `a, b` and then
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

use super::simt::grid;
use super::{EpilogueParams, GemmParams, Transpose};
use crate::DType;
use crate::entry::{Parts, entries};
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
    /// The tile of these extents and stages; elements of one byte have a tile of their own.
    const fn of_name([m, n, k]: [u32; 3], stages: u32, size_bytes: u32) -> Self {
        let tile = match (n, stages) {
            (256, _) => MMA_LARGE,
            (_, 2) => MMA_TURING,
            _ if size_bytes == 1 => MMA_ADA,
            _ => MMA_SMALL,
        };
        assert!(
            tile.tile_m == m && tile.tile_n == n,
            "there is no such tile"
        );
        assert!(tile.stages == stages && tile.tile_k_bytes == k * size_bytes);
        tile
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
    ///
    /// It is [`grouped`](super::raster::grouped) in other words: kernels that call that one are 26
    /// instructions longer, as its divisions do not trap.
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
    pub const fn result_offset(&self, row: u32, column: u32, vector: u32) -> u32 {
        let chunk = column / 4;
        let chunk_at = if vector == 8 {
            let (eight, half) = (chunk / 2, chunk % 2);
            (eight ^ (half + 2 * (row % 4))) + half * (self.tile_n / 8)
        } else {
            chunk ^ (2 * (row % 4))
        };
        row * self.tile_n + chunk_at * 4 + column % 4
    }

    /// As [`result_offset`](Self::result_offset), where vectors have 4 or 8 results, as the launch
    /// says.
    #[inline(always)]
    pub const fn either_offset(&self, row: u32, column: u32) -> u32 {
        let (eight, half) = (column / 8, column / 4 % 2);
        let chunk_at = (eight ^ (row % 4 + 4 * half)) + half * (self.tile_n / 8);
        row * self.tile_n + chunk_at * 4 + column % 4
    }

    /// Where 8 results of 16 bits, from (`row`, `column`) on, are staged before they are stored, in
    /// chunks of 16 bytes. A warp writes 8 rows of one chunk at once, and reads rows.
    #[inline(always)]
    pub const fn rounded_offset(&self, row: u32, column: u32) -> u32 {
        row * (self.tile_n / 8) + ((column / 8) ^ (row % 8))
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaEntry {
    name: &'static str,
    /// Element type of A.
    pub a: DType,
    /// Element type of B.
    pub b: DType,
    /// Element type of C and D; `None` if each launch says which
    /// ([`EpilogueParams::d_dtype`](super::EpilogueParams::d_dtype)).
    pub output: Option<DType>,
    /// How A is stored.
    pub trans_a: Transpose,
    /// How B is stored.
    pub trans_b: Transpose,
    /// Tile.
    pub tile: MmaTile,
}

impl MmaEntry {
    /// The entry of a name `gemm_mma_<a>[_<b>][_<out>]_<layout>_<m>x<n>x<k>_s<stages>_fused`. One
    /// dtype stands for all, two for the operands and D. The small tile of 16 bits and the one of
    /// i8 have entries whose launches say what D is.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_mma");
        let (a, b, output) = match (parts.dtype(), parts.dtype(), parts.dtype()) {
            (Some(a), None, _) => (a, a, a),
            (Some(a), Some(output), None) => (a, a, output),
            (Some(a), Some(b), Some(output)) => (a, b, output),
            (None, ..) => panic!("an entry's name lacks a dtype"),
        };
        let [trans_a, trans_b] = Transpose::of_layout(&mut parts);
        let extents = parts.numbers("");
        let tile = MmaTile::of_name(extents, parts.number("s"), a.size_bytes() as u32);
        parts.expect("fused");
        parts.end();
        let is_small = tile.stages == MMA_SMALL.stages && tile.tile_n == MMA_SMALL.tile_n;
        let is_any = is_small && matches!(a, DType::Bf16 | DType::F16 | DType::I8);
        Self {
            name,
            a,
            b,
            output: if is_any { None } else { Some(output) },
            trans_a,
            trans_b,
            tile,
        }
    }

    /// The entry for these operands and this tile that writes `output`.
    pub fn of(
        [a, b]: [DType; 2],
        output: DType,
        layout: (Transpose, Transpose),
        tile: MmaTile,
    ) -> Option<Self> {
        Self::find(|entry| {
            (entry.a, entry.b, entry.tile) == (a, b, tile)
                && (entry.trans_a, entry.trans_b) == layout
                && entry.writes(output)
        })
    }

    /// Whether it can write C and D of this dtype.
    pub fn writes(&self, output: DType) -> bool {
        match self.output {
            Some(own) => output == own,
            None if self.a == DType::I8 => {
                matches!(output, DType::I32 | DType::F32 | DType::F16 | DType::Bf16)
            }
            None => output == self.a || output == DType::F32,
        }
    }

    /// The least compute capability that runs it.
    pub const fn arch(&self) -> (u32, u32) {
        match (self.a, self.tile.stages == MMA_TURING.stages) {
            (_, true) => (7, 5),
            (DType::E4m3 | DType::E5m2, _) => (8, 9),
            _ => (8, 0),
        }
    }
}

entries! { $ MmaEntry((GemmParams, EpilogueParams)) {
    /// From sm_80 on: blocks of an SM, the product of the Rust types of operands, and the ending
    /// with the Rust type of D.
    gemm_mma_sm80 {
        gemm_mma_bf16_nn_128x256x64_s3_fused(1, Bf16(bf16, bf16) => Typed(bf16));
        gemm_mma_bf16_nt_128x256x64_s3_fused(1, Bf16(bf16, bf16) => Typed(bf16));
        gemm_mma_f16_nn_128x256x64_s3_fused(1, F16(f16, f16) => Typed(f16));
        gemm_mma_f16_nt_128x256x64_s3_fused(1, F16(f16, f16) => Typed(f16));
        gemm_mma_bf16_nn_128x128x32_s4_fused(2, Bf16(bf16, bf16) => Either(bf16));
        gemm_mma_bf16_nt_128x128x32_s4_fused(2, Bf16(bf16, bf16) => Either(bf16));
        gemm_mma_bf16_tn_128x128x32_s4_fused(2, Bf16(bf16, bf16) => Either(bf16));
        gemm_mma_bf16_tt_128x128x32_s4_fused(2, Bf16(bf16, bf16) => Either(bf16));
        gemm_mma_f16_nn_128x128x32_s4_fused(2, F16(f16, f16) => Either(f16));
        gemm_mma_f16_nt_128x128x32_s4_fused(2, F16(f16, f16) => Either(f16));
        gemm_mma_f16_tn_128x128x32_s4_fused(2, F16(f16, f16) => Either(f16));
        gemm_mma_f16_tt_128x128x32_s4_fused(2, F16(f16, f16) => Either(f16));
        gemm_mma_i8_nt_128x128x64_s4_fused(1, S8(i8, i8) => Sums(u8));
        gemm_mma_f32_nn_128x128x16_s4_fused(2, Tf32(f32, f32) => Typed(f32));
        gemm_mma_f32_nt_128x128x16_s4_fused(2, Tf32(f32, f32) => Typed(f32));
        gemm_mma_f32_tn_128x128x16_s4_fused(2, Tf32(f32, f32) => Typed(f32));
        gemm_mma_f32_tt_128x128x16_s4_fused(2, Tf32(f32, f32) => Typed(f32));
    }
    /// For Turing.
    gemm_mma_sm75 {
        gemm_mma_f16_nn_128x128x32_s2_fused(1, TuringF16(f16, f16) => Typed(f16));
        gemm_mma_f16_nt_128x128x32_s2_fused(1, TuringF16(f16, f16) => Typed(f16));
        gemm_mma_f16_tn_128x128x32_s2_fused(1, TuringF16(f16, f16) => Typed(f16));
        gemm_mma_f16_tt_128x128x32_s2_fused(1, TuringF16(f16, f16) => Typed(f16));
    }
    /// For Ada.
    gemm_mma_sm89 {
        gemm_mma_e4m3_bf16_nt_128x128x64_s4_fused(1, E4m3E4m3(u8, u8) => Typed(bf16));
        gemm_mma_e4m3_e5m2_bf16_nt_128x128x64_s4_fused(1, E4m3E5m2(u8, u8) => Typed(bf16));
        gemm_mma_e5m2_e4m3_bf16_nt_128x128x64_s4_fused(1, E5m2E4m3(u8, u8) => Typed(bf16));
        gemm_mma_e5m2_bf16_nt_128x128x64_s4_fused(1, E5m2E5m2(u8, u8) => Typed(bf16));
    }
} }

#[cfg(test)]
mod tests;
