//! The decode GEMM entries, launched as `abi` says, against plain f64 loops: every entry, ragged
//! edges, padding that must not be touched, special values, fused epilogues, the order of sums, and
//! the emulator's counters.

mod counters;
mod epilogue;
mod launch;

use abi::DType;
use abi::gemm::Transpose;
use abi::gemm::decode::DECODE_CONFIGS;
use abi::gemm::decode::sm90::{DecodeTiling, Sm90DecodeEntry};
use half::{bf16, f16};
use launch::{Case, Extras, Value, Way, launch};
use rayon::prelude::*;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer};

/// Contents of D before a launch.
const POISON: f64 = -77.0;

fn upload<T: Value>(device: &Device, values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(device, values).expect("the device has memory")
}

/// A small integer that depends on the place, so that products and sums are exact.
fn integer(seed: u32, [i, row, column]: [u32; 3]) -> f64 {
    let mixed = (row.wrapping_mul(0x9e37_79b9) ^ column.wrapping_mul(0x85eb_ca6b))
        .wrapping_add(i.wrapping_mul(0xc2b2_ae35) ^ seed)
        .wrapping_mul(0x27d4_eb2f);
    f64::from((mixed >> 13) % 5) - 2.0
}

/// A number whose products give sums that are rounded, so that their order shows.
fn fraction(seed: u32, place: [u32; 3]) -> f64 {
    integer(seed, place) * 0.3 + integer(seed + 1, place) * 0.011
}

/// Runs a case on integers and compares all of D's memory.
fn check<In: Value, Out: Value>(device: &Device, case: &Case) {
    let a_value = |place| integer(1, place);
    let b_value = |place| integer(2, place);
    let got = run::<In, Out>(device, case, a_value, b_value);
    let ldd = case.params().ldd as usize;
    let (before, got) = got.split_at(case.before as usize);
    assert!(
        before.iter().all(|x| *x == Out::new(POISON)),
        "{case:?}: what is ahead of D is left as it was"
    );
    for (offset, &got) in got.iter().enumerate() {
        let (row, column) = ((offset / ldd) as u32, (offset % ldd) as u32);
        let (i, row) = (row / case.m, row % case.m);
        let products = (0..case.k).map(|p| a_value([i, row, p]) * b_value([i, p, column]));
        let want = if column < case.n {
            products.sum()
        } else {
            POISON
        };
        assert_eq!(
            got,
            Out::new(want),
            "{case:?}: batch {i}, row {row}, column {column}"
        );
    }
}

fn run<In: Value, Out: Value>(
    device: &Device,
    case: &Case,
    a: impl Fn([u32; 3]) -> f64,
    b: impl Fn([u32; 3]) -> f64,
) -> Vec<Out> {
    let (a, b) = (
        upload(device, &case.a::<In>(a)),
        upload(device, &case.b::<In>(b)),
    );
    let mut d = upload(device, &vec![Out::new(POISON); case.len_d()]);
    launch(
        device,
        case,
        case.params(),
        (&a, &b),
        &mut d,
        &Extras::default(),
    )
    .unwrap_or_else(|error| panic!("{case:?} on {}: {error:?}", device.name()));
    d.to_vec().expect("the result can be read")
}

/// Hopper's tiles: the narrowest, one whose last warpgroup computes some weights twice, wide ones,
/// and tiles whose tokens are shared by two and by four blocks.
fn tilings() -> impl Iterator<Item = DecodeTiling> {
    [16, 32, 64, 128].into_iter().flat_map(|tile_m| {
        [(64, 1), (72, 1), (128, 2), (192, 1), (80, 2), (64, 4)]
            .into_iter()
            .map(move |(tile_n, sharers)| DecodeTiling {
                tile_m,
                tile_n,
                splits: 1,
                sharers,
            })
    })
}

/// Each tile of each architecture, with both layouts of B.
fn tiles() -> impl Iterator<Item = Case> {
    let ways = DECODE_CONFIGS.into_iter().map(Way::Sm80);
    let ways = ways.chain(tilings().map(Way::Sm90));
    ways.flat_map(|way| Transpose::ALL.map(|trans_b| Case::new(way, [way.tile_m(), 1, 1], trans_b)))
        .filter(|case| match case.way {
            Way::Sm80(_) => true,
            Way::Sm90(tiling) => tiling.is_valid(case.trans_b) && case.exists(),
        })
}

/// The smallest tiles that hold `m` rows.
fn holding(m: u32) -> impl Iterator<Item = Way> {
    let entry = Sm90DecodeEntry::of(DType::Bf16, Transpose::T, m);
    let tiling = entry.map(|entry| DecodeTiling {
        tile_m: entry.tile_m,
        tile_n: 64,
        splits: 1,
        sharers: 1,
    });
    let mut configs = DECODE_CONFIGS.into_iter();
    let config = configs.find(|config| m <= config.tile_m).map(Way::Sm80);
    config.into_iter().chain(tiling.map(Way::Sm90))
}

#[test]
fn every_entry_multiplies_ragged_shapes_exactly() {
    for device in devices() {
        for tile in tiles() {
            let case = Case {
                m: tile.way.tile_m() - 3,
                n: 157,
                k: 331,
                padding: [8, 16, 3],
                ..tile
            }
            .split(2);
            check::<bf16, bf16>(&device, &case);
            check::<bf16, f32>(&device, &case);
            check::<f16, f16>(&device, &case);
            check::<f16, f32>(&device, &case);
        }
    }
}

#[test]
fn every_number_of_rows_is_exact() {
    for device in devices() {
        for m in 1..=128 {
            let trans_b = if m <= 64 {
                Transpose::ALL[m as usize % 2]
            } else {
                Transpose::T
            };
            for way in holding(m) {
                check::<bf16, f32>(&device, &Case::new(way, [m, 40, 72], trans_b));
            }
        }
    }
}

#[test]
fn the_smallest_extents_and_the_most_splits_are_exact() {
    for device in devices() {
        for tile in tiles() {
            for [n, k] in [[1, 1], [2, 7], [8, 64], [65, 129], [64, 1100]] {
                for splits in [1, 5, 8] {
                    let case = Case { m: 2, n, k, ..tile }.split(splits);
                    check::<f16, f32>(&device, &case);
                }
            }
        }
    }
}

/// Four neighbours are stored at once only where D's type lets them.
#[test]
fn d_begins_at_any_of_its_elements() {
    for device in devices() {
        for tile in tiles() {
            for before in [1, 2, 4] {
                let case = Case {
                    m: 6,
                    n: 72,
                    k: 64,
                    before,
                    ..tile
                };
                check::<bf16, bf16>(&device, &case);
                check::<f16, f32>(&device, &case);
            }
        }
    }
}

#[test]
fn a_batch_has_products_of_its_own() {
    for device in devices() {
        for tile in tiles() {
            let case = Case {
                m: 5,
                n: 70,
                k: 130,
                batch: 3,
                ..tile
            }
            .split(2);
            check::<bf16, bf16>(&device, &case);
            check::<f16, f32>(&device, &case);
        }
    }
}

#[test]
fn special_values_reach_their_own_results_only() {
    for device in devices() {
        for tile in tiles() {
            let case = Case {
                m: 3,
                n: 70,
                k: 200,
                ..tile
            }
            .split(2);
            // NaN in a row of A and infinity in a column of B, at the last k.
            let a = |[_, row, p]: [u32; 3]| if (row, p) == (1, 199) { f64::NAN } else { 1.0 };
            let b = |[_, p, column]: [u32; 3]| {
                if (p, column) == (199, 69) {
                    f64::INFINITY
                } else {
                    1.0
                }
            };
            let got = run::<bf16, f32>(&device, &case, a, b);
            for (offset, got) in got.into_iter().enumerate() {
                let (row, column) = (offset / 70, offset % 70);
                let is_right = match (row, column) {
                    (1, _) => got.is_nan(),
                    (_, 69) => got == f32::INFINITY,
                    _ => got == 200.0,
                };
                assert!(is_right, "{case:?}: row {row}, column {column} is {got}");
            }
        }
    }
}

#[test]
fn the_bits_are_the_same_in_every_order_of_events() {
    let case_of = |tile: Case| {
        Case {
            m: 9,
            n: 70,
            k: 400,
            ..tile
        }
        .split(3)
    };
    for tile in tiles().filter(|tile| tile.trans_b == Transpose::T) {
        let case = case_of(tile);
        let bits = |seed| -> Vec<u32> {
            let config = EmulatorConfig {
                seed,
                ..EmulatorConfig::default()
            };
            let device = Device::emulator_with(config).expect("an emulator");
            let got = run::<bf16, f32>(&device, &case, |p| fraction(3, p), |p| fraction(5, p));
            got.into_iter().map(f32::to_bits).collect()
        };
        let first = bits(0);
        (1..100).into_par_iter().for_each(|seed| {
            assert!(
                first == bits(seed),
                "{case:?}: seed {seed} gives other bits"
            );
        });
    }
}
