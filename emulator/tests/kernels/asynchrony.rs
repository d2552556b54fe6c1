//! Pipelines of mbarriers, copies and clusters.

use warpsmith_emulator::{Fill, Swizzle, TensorMapDesc, TensorMapType};

use super::machine::{Machine, shape};

/// A tensor of words, 32 per row, in boxes of 8 rows.
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

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pointer(address: u64) -> Vec<u8> {
    address.to_le_bytes().to_vec()
}

#[test]
fn lanes_copy_in_every_size_and_fill_with_zeros() {
    for seed in 0..4 {
        let machine = Machine::new("pass", "lane_copies", seed);
        let data: Vec<u8> = (0..2048).map(|i| ((i * 7) >> 1) as u8 | 1).collect();
        let input = machine.buffer(&data);
        let out = machine.buffer(&[0; 2048]);
        let params = [pointer(input), pointer(out)];
        machine
            .launch("sizes", &shape(1, 64, 0), &params)
            .unwrap_or_else(|error| panic!("{error}"));
        let got = machine.bytes(out, 2048);
        for (i, got) in got.iter().enumerate() {
            let (lane, at) = (i / 32, i % 32);
            let read = match at {
                0..16 => true,
                16..24 => lane % 2 == 0,
                24..28 => at - 24 < lane % 4,
                _ => false,
            };
            assert_eq!(*got, if read { data[i] } else { 0 }, "byte {i}");
        }
    }
}

#[test]
fn mbarriers_count_the_copies_of_lanes() {
    for seed in 0..8 {
        let machine = Machine::new("pass", "lane_copies", seed);
        let data: Vec<u32> = (0..256).map(|i| i * 12345).collect();
        let input = machine.buffer(&bytes(&data));
        let out = machine.buffer(&[0; 1024]);
        let params = [pointer(input), pointer(out)];
        machine
            .launch("by_mbarrier", &shape(1, 128, 0), &params)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(words(&machine.bytes(out, 1024)), data);
    }
}

#[test]
fn bulk_copies_go_everywhere() {
    for seed in 0..8 {
        let machine = Machine::new("pass", "bulk_copies", seed);
        let data: Vec<u32> = (0..64).map(|i| i * i * 3 + 1).collect();
        let input = machine.buffer(&bytes(&data));
        let out = machine.buffer(&[0; 128]);
        let sums = machine.buffer(&bytes(&[5; 64]));
        let params = [pointer(input), pointer(out), pointer(sums)];
        machine
            .launch("ring", &shape(2, 32, 0), &params)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let got = words(&machine.bytes(out, 128));
        for (i, got) in got.iter().enumerate() {
            // Block b has what block 1 - b has passed on.
            let from = (1 - i / 16) * 16 + i % 16;
            assert_eq!(*got, data[from] + data[from + 32], "word {i}, seed {seed}");
        }
        let want: Vec<u32> = data.iter().map(|word| 5 + 2 * word).collect();
        assert_eq!(words(&machine.bytes(sums, 256)), want);
    }
}

#[test]
fn bulk_reductions_do_what_atomics_do() {
    let machine = Machine::new("pass", "bulk_copies", 3);
    let old: Vec<u32> = (0..384u32)
        .map(|i| i.wrapping_mul(0x9e37_79b9) >> 3)
        .collect();
    let mut new: Vec<u32> = (0..384u32).map(|i| i.wrapping_mul(0x85eb_ca6b)).collect();
    let mut old = old;
    for i in 288..320 {
        (old[i], new[i]) = ((i as f32).to_bits(), (0.5 * i as f32).to_bits());
    }
    for i in 320..352 {
        // 1.0 and 2.0, 3.0 and 0.5
        (old[i], new[i]) = (0x4000_3c00, 0x3800_4200);
    }
    let data = machine.buffer(&bytes(&old));
    let operands = machine.buffer(&bytes(&new));
    machine
        .launch(
            "reductions",
            &shape(1, 96, 0),
            &[pointer(data), pointer(operands)],
        )
        .unwrap_or_else(|error| panic!("{error}"));
    let got = words(&machine.bytes(data, 1536));
    let wide = |list: &[u32], i: usize| {
        let low = i / 2 * 2;
        u64::from(list[low]) | u64::from(list[low + 1]) << 32
    };
    for (i, got) in got.iter().enumerate() {
        let (a, b) = (old[i], new[i]);
        let half = |value: u64| (value >> (32 * (i % 2))) as u32;
        let (wa, wb) = (wide(&old, i), wide(&new, i));
        let want = match i / 32 {
            0 => a.wrapping_add(b),
            1 => (a as i32).min(b as i32) as u32,
            2 => a.max(b),
            3 if a >= b => 0,
            3 => a + 1,
            4 if a == 0 || a > b => b,
            4 => a - 1,
            5 => a & b,
            6 => a | b,
            7 => half(wa ^ wb),
            8 => half(wa.wrapping_add(wb)),
            9 => (f32::from_bits(a) + f32::from_bits(b)).to_bits(),
            // 4.0 and 2.5
            10 => 0x4100_4400,
            _ => half((wa as i64).min(wb as i64) as u64),
        };
        assert_eq!(*got, want, "word {i}");
    }
}

#[test]
fn stores_into_another_block_are_counted_there() {
    for seed in 0..4 {
        let machine = Machine::new("pass", "bulk_copies", seed);
        let out = machine.buffer(&[0; 512]);
        machine
            .launch("remote_stores", &shape(2, 32, 0), &[pointer(out)])
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (i, got) in words(&machine.bytes(out, 512)).iter().enumerate() {
            let (thread, word) = (i as u32 / 4, i as u32 % 4);
            let counter = if word == 0 { 32 } else { 0 };
            assert_eq!(*got, 100 * thread + word + counter, "word {i}");
        }
    }
}

#[test]
fn mbarriers_in_every_form() {
    for seed in 0..3 {
        let machine = Machine::new("pass", "mbarrier_forms", seed);
        let out = machine.buffer(&[0xff; 36]);
        machine
            .launch("forms", &shape(1, 32, 0), &[pointer(out)])
            .unwrap_or_else(|error| panic!("{error}"));
        // The last word is the offset of the shared window in its low 32 bits, which is zero.
        let want = [3, 2, 0, 3, 2, 2, 0, 1, 0];
        assert_eq!(words(&machine.bytes(out, 36)), want);
    }
}

#[test]
fn operands_may_be_constants() {
    for seed in 0..4 {
        let machine = Machine::new("pass", "constant_operands", seed);
        let out = machine.buffer(&[0xff; 28 * 64]);
        machine
            .launch("constants", &shape(1, 64, 0), &[pointer(out)])
            .unwrap_or_else(|error| panic!("{error}"));
        let got = words(&machine.bytes(out, 28 * 64));
        for (lane, got) in (0..64_u32).zip(got.chunks(7)) {
            let shift = lane & 7;
            let shifted = [(-16_i32 >> shift).cast_unsigned(), 1 << shift];
            // 7 and 64 ones, 64 twos, and -1.
            let counted = 7 + 64 + 128 - 1;
            let want = [1, 1, lane | 31, lane ^ 16, shifted[0], shifted[1], counted];
            assert_eq!(got, want, "{lane}");
        }
    }
}

#[test]
fn blocks_know_their_cluster() {
    let machine = Machine::new("pass", "cluster_registers", 0);
    let out = machine.buffer(&[0; 4 * 6 * 32]);
    let launch = warpsmith_emulator::LaunchConfig {
        grid: [4, 6, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        cluster: Some([2, 3, 1]),
    };
    machine
        .launch("registers", &launch, &[pointer(out)])
        .unwrap_or_else(|error| panic!("{error}"));
    let got = words(&machine.bytes(out, 4 * 6 * 32));
    for (i, got) in got.chunks(8).enumerate() {
        let (x, y) = (i as u32 % 4, i as u32 / 4);
        let rank = x % 2 + 2 * (y % 3);
        let other = rank ^ 1;
        let spaces = 1 + 4 + (other << 8) + (other << 16) + (rank << 24);
        let ids = [x / 2 + ((y / 3) << 8), 2 + (2 << 8)];
        let want = [x % 2, y % 3, 2, 3, rank + (6 << 4), spaces, ids[0], ids[1]];
        assert_eq!(got, want, "block ({x}, {y})");
    }
}
