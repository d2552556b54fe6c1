extern crate std;

use std::{collections::HashSet, string::ToString, vec};

use super::*;
use crate::swizzle::CHUNK_BYTES;

const TILES: [MmaTile; 4] = [MMA_LARGE, MMA_SMALL, MMA_ADA, MMA_TURING];

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

/// Wavefronts beyond the first that accesses of `bytes` each at these offsets take.
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
                    let offset = tile.result_offset(row, column, vector) as usize;
                    assert!(!core::mem::replace(&mut seen[offset], true), "{tile:?}");
                }
            }
            // Pairs are written by half a warp at once: 4 rows, 4 pairs.
            for (row, column) in [(0, 0), (4, 8), (8, 64), (60, 120)] {
                let pairs = (0..16).map(|lane| {
                    4 * tile.result_offset(row + lane / 4, column + lane % 4 * 2, vector)
                });
                assert_eq!(conflicts(pairs, 8), 0, "{tile:?}, vectors of {vector}");
            }
            // Chunks are read by a quarter of a warp at once.
            for row in 0..8 {
                for chunk in 0..vector / 4 {
                    let chunks = (0..8)
                        .map(|lane| 4 * tile.result_offset(row, lane * vector + 4 * chunk, vector));
                    assert_eq!(conflicts(chunks, 16), 0, "{tile:?}, vectors of {vector}");
                }
            }
        }
    }
}

#[test]
fn results_of_either_type_have_places_of_their_own_without_conflicts() {
    for tile in TILES {
        let offsets: HashSet<_> = (0..tile.tile_m)
            .flat_map(|row| (0..tile.tile_n).map(move |column| tile.either_offset(row, column)))
            .collect();
        let results = tile.tile_m * tile.tile_n;
        assert_eq!(offsets.len(), results as usize, "{tile:?}");
        assert!(offsets.iter().all(|&offset| offset < results));
        // Pairs are written by half a warp at once: 4 rows, 4 pairs.
        for (row, column) in [(0, 0), (4, 8), (8, 64), (60, 120)] {
            let pairs =
                (0..16).map(|lane| 4 * tile.either_offset(row + lane / 4, column + lane % 4 * 2));
            assert_eq!(conflicts(pairs, 8), 0, "{tile:?}");
        }
        // Chunks are read by a quarter of a warp at once: one after the other, or every other one.
        for row in 0..8 {
            for (step, first) in [(4, 0), (4, 32), (8, 0), (8, 4)] {
                let chunks = (0..8).map(|lane| 4 * tile.either_offset(row, first + lane * step));
                assert_eq!(conflicts(chunks, 16), 0, "{tile:?}, every {step}");
            }
        }
    }
}

#[test]
fn rounded_results_have_places_of_their_own_without_conflicts() {
    for tile in TILES {
        let chunks = (tile.tile_m * tile.tile_n / 8) as usize;
        let offsets: HashSet<_> = (0..tile.tile_m)
            .flat_map(|row| (0..tile.tile_n).map(move |column| tile.rounded_offset(row, column)))
            .collect();
        assert_eq!(offsets.len(), chunks, "{tile:?}");
        assert!(offsets.iter().all(|&offset| (offset as usize) < chunks));
        // Words are written by a warp at once: 8 rows, the 4 of a chunk.
        for (row, column) in [(0, 0), (8, 8), (64, 120)] {
            let words = (0..32)
                .map(|lane| 16 * tile.rounded_offset(row + lane / 4, column) + 4 * (lane % 4));
            assert_eq!(conflicts(words, 4), 0, "{tile:?}");
        }
        // Chunks are read by a quarter of a warp at once.
        for row in 0..8 {
            let chunks = (0..8).map(|lane| 16 * tile.rounded_offset(row, 8 * lane));
            assert_eq!(conflicts(chunks, 16), 0, "{tile:?}");
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
fn names_say_types_layout_and_tile() {
    use DType::{Bf16, E4m3, E5m2, F16, F32, I8, I32};
    let (n, t) = (Transpose::N, Transpose::T);
    let name = |operands, output, layout, tile| {
        MmaEntry::of(operands, output, layout, tile).map(|entry| entry.to_string())
    };
    let large = "gemm_mma_bf16_nt_128x256x64_s3_fused";
    assert_eq!(
        name([Bf16; 2], Bf16, (n, t), MMA_LARGE).as_deref(),
        Some(large)
    );
    let small = "gemm_mma_bf16_tt_128x128x32_s4_fused";
    for output in [Bf16, F32] {
        assert_eq!(
            name([Bf16; 2], output, (t, t), MMA_SMALL).as_deref(),
            Some(small)
        );
    }
    let eight = "gemm_mma_e4m3_e5m2_bf16_nt_128x128x64_s4_fused";
    assert_eq!(
        name([E4m3, E5m2], Bf16, (n, t), MMA_ADA).as_deref(),
        Some(eight)
    );
    let sums = "gemm_mma_i8_nt_128x128x64_s4_fused";
    for output in [I32, F32, F16, Bf16] {
        assert_eq!(
            name([I8; 2], output, (n, t), MMA_ADA).as_deref(),
            Some(sums)
        );
    }
    assert_eq!(name([Bf16; 2], F32, (n, t), MMA_LARGE), None);
    assert_eq!(name([F16; 2], F32, (n, t), MMA_TURING), None);
    assert_eq!(name([I8; 2], I32, (n, n), MMA_ADA), None);
}

#[test]
fn shared_memory_fits_the_devices_they_are_for() {
    assert_eq!(MMA_LARGE.smem_bytes(), 144 << 10); // of 163 KiB on sm_80
    assert_eq!(MMA_SMALL.smem_bytes(), 64 << 10); // twice of 164, once of 99 KiB
    assert_eq!(MMA_TURING.smem_bytes(), 64 << 10); // of 64 KiB
}
