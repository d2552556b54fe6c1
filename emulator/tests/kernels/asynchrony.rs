//! Pipelines of mbarriers, copies and clusters.

use warpsmith_emulator::{Fill, Swizzle, TensorMapDesc, TensorMapType};

use crate::machine::{Machine, shape};

/// A tensor of words, 32 in a row, and boxes of 8 rows.
fn rows(address: u64, rows: u64) -> TensorMapDesc {
    TensorMapDesc {
        data_type: TensorMapType::U32,
        address,
        dims: vec![32, rows],
        strides_bytes: vec![128],
        box_dims: vec![32, 8],
        element_strides: vec![1, 1],
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |word: &[u8]| u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

#[test]
fn a_cluster_passes_multicast_tiles_through_a_ring() {
    for seed in 0..8 {
        for tiles in [0, 1, 2, 5, 9] {
            let machine = Machine::new("pass", "cluster_pipeline", seed);
            let data: Vec<u32> = (0..512 * tiles.max(1)).map(|i| i * i + 7).collect();
            let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
            let input = machine.buffer(&bytes);
            let out = machine.buffer(&[0; 2048]);
            let map = rows(input, 16 * u64::from(tiles.max(1))).encode();
            let params = [
                map.expect("the map is valid").to_vec(),
                out.to_le_bytes().to_vec(),
                tiles.to_le_bytes().to_vec(),
            ];
            machine
                .launch("pipeline", &shape(2, 384, 0), &params)
                .unwrap_or_else(|error| panic!("seed {seed}, {tiles} tiles: {error}"));
            let got = words(&machine.bytes(out, 2048));
            for (i, got) in got.iter().enumerate() {
                let tiles = data.chunks(512).take(tiles as usize);
                let want = tiles.map(|tile| tile[i % 256].wrapping_add(tile[i % 256 + 256]));
                let want = want.fold(0, u32::wrapping_add);
                assert_eq!(*got, want, "word {i}, seed {seed}");
            }
        }
    }
}
