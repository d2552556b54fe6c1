//! Tensor-core kernels of Turing, Ampere and Ada (`mma.sync`), which run on everything newer too:
//! what takes operands that no tensor copy can take.
//!
//! Entries are named `gemm_mma_<operands>_<layout>_<tile>_s<stages>_<epilogue>`, for example
//! `gemm_mma_bf16_f32_nt_128x256x64_s3_fused`; [`MmaEntry`] prints the name. A `plain` one takes
//! `(a, b, d: *mut Out, params: GemmParams)`, a `fused` one after `a, b` the tail of arguments that
//! [`epilogue`](super::epilogue) says. Each runs with [`MmaTile::threads`] threads a block on the
//! grid of [`MmaTile::grid`], with [`MmaTile::smem_bytes`] of dynamic shared memory.
//!
//! Pointers need the alignment of one element only, leading dimensions none. A block looks at the
//! alignment of its operands, each by itself: 16 bytes go the fast way; 8 and 4 by 2 and 4 times as
//! many copies; less by plain loads, which wait for memory in each tile of k.
//!
//! `a` and `b` may be null where k is 0. `c` may be `d` where their strides agree.

use core::fmt;

use super::{GRID_Y_MAX, Transpose};
use crate::DType;
use crate::swizzle::CHUNK_BYTES;

/// Threads of a warp.
const WARP_THREADS: u32 = 32;

/// Bytes of k that one step of the products takes: a row of an `m16n8` fragment of A.
pub const MMA_STEP_BYTES: u32 = 32;

/// Blocks of the first grid dimension a device allows.
const GRID_X_MAX: u64 = i32::MAX as u64;

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
    /// Rows of tiles in a band of the grid: see [`MmaTile::tile_coordinates`].
    pub band_rows: u32,
}

/// For large products: 64×64 results a warp, 8 warps, one block a multiprocessor.
pub const MMA_LARGE: MmaTile = MmaTile {
    tile_m: 128,
    tile_n: 256,
    tile_k_bytes: 128,
    stages: 3,
    warps_m: 2,
    warps_n: 4,
    band_rows: 16,
};

/// For smaller products, and devices of less than 144 KiB of shared memory a block: 64×64 results a
/// warp, 4 warps.
pub const MMA_SMALL: MmaTile = MmaTile {
    tile_m: 128,
    tile_n: 128,
    tile_k_bytes: 64,
    stages: 4,
    warps_m: 2,
    warps_n: 2,
    band_rows: 12,
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
        match (self.tile_m, self.tile_n, self.stages) {
            (128, 256, 3) => Some(TileName::Large),
            (128, 128, 4) => Some(TileName::Small),
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

    /// Steps of the products in a stage.
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

    /// Dynamic shared memory of a block: the stages, and after them in the same place the results
    /// in f32.
    pub const fn smem_bytes(&self) -> u32 {
        let stages = self.stages * self.stage_bytes();
        let results = self.tile_m * self.tile_n * size_of::<f32>() as u32;
        if stages > results { stages } else { results }
    }

    /// Tiles that cover `m`×`n` results.
    pub const fn tiles(&self, m: u32, n: u32) -> u64 {
        m.div_ceil(self.tile_m) as u64 * n.div_ceil(self.tile_n) as u64
    }

    /// Grid of a launch over `batch` products of `m`×`n` results: x = tiles, y and z = batches, see
    /// [`batch_idx`](super::batch_idx). `None` where there is nothing to launch (an extent is 0) or
    /// more tiles than a grid can hold.
    pub const fn grid(&self, m: u32, n: u32, batch: u32) -> Option<[u32; 3]> {
        let tiles = self.tiles(m, n);
        if tiles == 0 || batch == 0 || tiles > GRID_X_MAX {
            return None;
        }
        let y = if batch < GRID_Y_MAX {
            batch
        } else {
            GRID_Y_MAX
        };
        Some([tiles as u32, y, batch.div_ceil(y)])
    }

    /// Row and column, in tiles, of the tile that block `block_idx_x` computes. Blocks run down
    /// bands of rows of tiles, so that those in flight together share operands.
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

    /// How A lies in a stage.
    pub const fn map_a(&self, k_major: bool, size_bytes: u32) -> OperandMap {
        OperandMap {
            k_major,
            size_bytes,
            tile_mn: self.tile_m,
            tile_k_bytes: self.tile_k_bytes,
        }
    }

    /// How B lies in a stage.
    pub const fn map_b(&self, k_major: bool, size_bytes: u32) -> OperandMap {
        OperandMap {
            tile_mn: self.tile_n,
            ..self.map_a(k_major, size_bytes)
        }
    }

    /// Where the tile's result (`row`, `column`) waits to be stored, in f32 elements, where threads
    /// store vectors of `vector` results (4 or 8).
    ///
    /// Results lie in chunks of 4. A warp writes pairs, 8 rows and 4 pairs at once, and reads chunks
    /// of neighbours (of 4) or of every other (of 8): the permutations keep both apart in the banks.
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
}

/// How an operand's tile lies in shared memory: rows of chunks of 16 bytes, the chunks of a row
/// permuted by the row.
///
/// K-major rows are the operand's rows (A) or columns (B), with `tile_k_bytes` of k; the others are
/// those of one k, with `tile_mn` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandMap {
    /// True where k is the contiguous extent.
    pub k_major: bool,
    /// Bytes of an element.
    pub size_bytes: u32,
    /// Rows of A or columns of B.
    pub tile_mn: u32,
    /// Bytes of k that would lie together in a K-major tile.
    pub tile_k_bytes: u32,
}

impl OperandMap {
    /// Elements of k.
    pub const fn tile_k(&self) -> u32 {
        self.tile_k_bytes / self.size_bytes
    }

    /// Rows.
    pub const fn rows(&self) -> u32 {
        if self.k_major {
            self.tile_mn
        } else {
            self.tile_k()
        }
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> u32 {
        if self.k_major {
            self.tile_k_bytes
        } else {
            self.tile_mn * self.size_bytes
        }
    }

    /// Chunks of a row.
    pub const fn row_chunks(&self) -> u32 {
        self.row_bytes() / CHUNK_BYTES
    }

    /// What a row's chunks are xored with.
    ///
    /// 8 rows of one chunk lie in different banks, for `ldmatrix`; where elements of other sizes
    /// than 2 lie MN-major, fragments are loads of 4 bytes instead: of 4 rows (every fourth, for 1
    /// byte) by 2 chunks.
    #[inline(always)]
    pub const fn swizzle(&self, row: u32) -> u32 {
        match (self.k_major, self.size_bytes) {
            (true, _) if self.tile_k_bytes == 64 => row / 2 % 4,
            (true, _) | (false, 2) => row % 8,
            (false, 1) => row / 4 % 4 * 2,
            (false, _) => row % 4 * 2,
        }
    }

    /// Rows after which the permutation repeats.
    pub const fn swizzle_period(&self) -> u32 {
        match (self.k_major, self.size_bytes) {
            (false, 1) => 16,
            (false, 4) => 4,
            _ => 8,
        }
    }

    /// Byte offset of a chunk.
    #[inline(always)]
    pub const fn chunk_offset(&self, row: u32, chunk: u32) -> u32 {
        row * self.row_bytes() + (chunk ^ self.swizzle(row)) * CHUNK_BYTES
    }

    /// Byte offset of the element `mn`, `k`.
    #[inline(always)]
    pub const fn element_offset(&self, mn: u32, k: u32) -> u32 {
        let (row, column) = if self.k_major { (mn, k) } else { (k, mn) };
        let byte = column * self.size_bytes;
        self.chunk_offset(row, byte / CHUNK_BYTES) + byte % CHUNK_BYTES
    }
}

/// Which of the tiles one is.
enum TileName {
    Large,
    Small,
}

/// What is done to results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaEpilogue {
    /// `alpha * acc`.
    Plain,
    /// Everything of [`epilogue`](super::epilogue), chosen at run time.
    Fused,
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaEntry {
    /// Element type of A.
    pub a: DType,
    /// Element type of B.
    pub b: DType,
    /// Element type of C and D.
    pub output: DType,
    /// How A lies.
    pub trans_a: Transpose,
    /// How B lies.
    pub trans_b: Transpose,
    /// Tile.
    pub tile: MmaTile,
    /// Epilogue.
    pub epilogue: MmaEpilogue,
}

impl MmaEntry {
    /// The least compute capability that runs it; `None` where there is no such entry.
    pub const fn arch(&self) -> Option<(u32, u32)> {
        use DType::{Bf16, F16, F32};
        let is_fused = matches!(self.epilogue, MmaEpilogue::Fused);
        let same = matches!(
            (self.a, self.b, self.output),
            (Bf16, Bf16, Bf16) | (F16, F16, F16)
        );
        let wide = matches!(
            (self.a, self.b, self.output),
            (Bf16, Bf16, F32) | (F16, F16, F32)
        );
        let rows = matches!(self.trans_a, Transpose::N);
        match self.tile.name() {
            Some(TileName::Large) if is_fused && same && rows => Some((8, 0)),
            Some(TileName::Small) if is_fused && (same || wide) => Some((8, 0)),
            _ => None,
        }
    }

    /// All that there are.
    pub fn all() -> impl Iterator<Item = Self> {
        use DType::{Bf16, F16, F32};
        const OPERANDS: [(DType, DType); 4] = [(Bf16, Bf16), (Bf16, F32), (F16, F16), (F16, F32)];
        [MMA_LARGE, MMA_SMALL]
            .into_iter()
            .flat_map(|tile| {
                OPERANDS.into_iter().flat_map(move |(operand, output)| {
                    Transpose::ALL.into_iter().flat_map(move |trans_a| {
                        Transpose::ALL.into_iter().map(move |trans_b| Self {
                            a: operand,
                            b: operand,
                            output,
                            trans_a,
                            trans_b,
                            tile,
                            epilogue: MmaEpilogue::Fused,
                        })
                    })
                })
            })
            .filter(|entry| entry.arch().is_some())
    }
}

impl fmt::Display for MmaEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gemm_mma_{}", self.a)?;
        if self.b != self.a {
            write!(f, "_{}", self.b)?;
        }
        if self.output != self.a {
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
        let epilogue = match self.epilogue {
            MmaEpilogue::Plain => "plain",
            MmaEpilogue::Fused => "fused",
        };
        write!(f, "_{a}{b}_{tile_m}x{tile_n}x{tile_k}_s{stages}_{epilogue}")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{collections::HashSet, string::ToString, vec, vec::Vec};

    use super::*;

    const TILES: [MmaTile; 3] = [MMA_LARGE, MMA_SMALL, MMA_TURING];

    fn maps() -> impl Iterator<Item = OperandMap> {
        TILES.into_iter().flat_map(|tile| {
            [
                (true, 1),
                (true, 2),
                (true, 4),
                (false, 1),
                (false, 2),
                (false, 4),
            ]
            .into_iter()
            .flat_map(move |(k_major, size)| [tile.map_a(k_major, size), tile.map_b(k_major, size)])
        })
    }

    /// Wavefronts beyond one of accesses of `bytes` each at these offsets.
    fn conflicts(offsets: impl Iterator<Item = u32>, bytes: u32) -> usize {
        let words = offsets.flat_map(|at| (at / 4)..(at + bytes) / 4);
        let mut banks = vec![HashSet::new(); 32];
        for word in words {
            banks[word as usize % 32].insert(word);
        }
        banks.iter().map(HashSet::len).max().unwrap_or(0) - 1
    }

    #[test]
    fn every_element_of_an_operand_has_a_place_of_its_own() {
        for map in maps() {
            let bytes = map.tile_mn * map.tile_k_bytes;
            let mut seen = vec![false; bytes as usize];
            for mn in 0..map.tile_mn {
                for k in 0..map.tile_k() {
                    let at = map.element_offset(mn, k) as usize;
                    assert!(at.is_multiple_of(map.size_bytes as usize), "{map:?}");
                    assert!(
                        !core::mem::replace(&mut seen[at], true),
                        "{map:?}: {mn}, {k}"
                    );
                }
            }
            assert_eq!(bytes, map.rows() * map.row_bytes(), "{map:?}");
        }
    }

    #[test]
    fn eight_rows_of_a_chunk_lie_in_different_banks() {
        for map in maps().filter(|map| map.k_major || map.size_bytes == 2) {
            for first in (0..map.rows()).step_by(8) {
                for chunk in 0..map.row_chunks() {
                    let rows = (first..first + 8).map(|row| map.chunk_offset(row, chunk));
                    assert_eq!(conflicts(rows, CHUNK_BYTES), 0, "{map:?}");
                }
            }
        }
    }

    #[test]
    fn a_fragment_of_words_lies_in_different_banks() {
        // Lanes 4 * g + t: 8 words of mn by 4 rows of k, every fourth for bytes.
        for map in maps().filter(|map| !map.k_major && map.size_bytes != 2) {
            let words_of = 4 / map.size_bytes;
            for k in 0..map.tile_k() / (4 * words_of) {
                let offsets = (0..32).map(|lane| {
                    let (g, t) = (lane / 4, lane % 4);
                    map.element_offset(g * words_of, (4 * k + t) * words_of)
                });
                assert_eq!(conflicts(offsets, 4), 0, "{map:?}, k {k}");
            }
        }
    }

    #[test]
    fn results_have_places_of_their_own_without_conflicts() {
        for tile in TILES {
            for vector in [4, 8] {
                let mut seen = vec![false; (tile.tile_m * tile.tile_n) as usize];
                for row in 0..tile.tile_m {
                    for column in 0..tile.tile_n {
                        let place = tile.result_place(row, column, vector) as usize;
                        assert!(!core::mem::replace(&mut seen[place], true), "{tile:?}");
                    }
                }
                // Pairs are written by half a warp at once: 4 rows, 4 pairs.
                for (row, column) in [(0, 0), (4, 8), (8, 64), (60, 120)] {
                    let pairs = (0..16).map(|lane| {
                        4 * tile.result_place(row + lane / 4, column + lane % 4 * 2, vector)
                    });
                    assert_eq!(conflicts(pairs, 8), 0, "{tile:?}, vectors of {vector}");
                }
                // Chunks are read by a quarter of a warp at once.
                for row in 0..8 {
                    for chunk in 0..vector / 4 {
                        let chunks = (0..8).map(|lane| {
                            4 * tile.result_place(row, lane * vector + 4 * chunk, vector)
                        });
                        assert_eq!(conflicts(chunks, 16), 0, "{tile:?}, vectors of {vector}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_block_computes_a_tile_of_its_own() {
        for tile in TILES {
            for m in [1, 128, 129, 1500, 2200] {
                for n in [1, 255, 257, 1100] {
                    let blocks = tile.tiles(m, n) as u32;
                    let seen: HashSet<_> = (0..blocks)
                        .map(|block| tile.tile_coordinates(block, m, n))
                        .collect();
                    assert_eq!(seen.len(), blocks as usize, "m {m}, n {n}");
                    for (m_tile_idx, n_tile_idx) in seen {
                        assert!(m_tile_idx * tile.tile_m < m && n_tile_idx * tile.tile_n < n);
                    }
                }
            }
        }
    }

    #[test]
    fn names_are_as_documented_and_unique() {
        let names: Vec<_> = MmaEntry::all().map(|entry| entry.to_string()).collect();
        assert!(names.contains(&"gemm_mma_bf16_nt_128x256x64_s3_fused".to_string()));
        assert!(names.contains(&"gemm_mma_bf16_f32_tt_128x128x32_s4_fused".to_string()));
        let unique: HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn shared_memory_fits_the_devices_they_are_for() {
        assert_eq!(MMA_LARGE.smem_bytes(), 144 << 10); // of 163 KiB on sm_80
        assert_eq!(MMA_SMALL.smem_bytes(), 64 << 10); // twice of 164, once of 99 KiB
        assert_eq!(MMA_TURING.smem_bytes(), 64 << 10); // of 64 KiB
    }
}
