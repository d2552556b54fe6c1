//! The kernels for few rows: every number of rows, tiles and splits of k.

use std::collections::{BTreeSet, HashMap};

use abi::gemm::decode::DecodeEntry;
use abi::gemm::decode::sm90::Sm90DecodeEntry;
use half::{bf16, f16};
use rayon::prelude::*;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{Device, E4m3, Gemm, GemmInput, GemmOutput, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::emulator;

use super::check_special;
use super::product::{Gaps, NT, Product};

/// Those of Ampere and of Hopper.
const FAMILIES: &[&str] = &["gemm_decode"];

/// `b` with contiguous n, and with contiguous k.
const LAYOUTS: [[bool; 2]; 2] = [[false, false], NT];

/// Layouts, and rows that fill most of a tile of each height. The tallest takes `b` with contiguous k
/// alone.
fn tiles() -> impl Iterator<Item = ([bool; 2], usize)> {
    let both = LAYOUTS
        .into_iter()
        .flat_map(|trans| [13, 29, 61].map(|m| (trans, m)));
    both.chain([(NT, 125)])
}

/// Products whose rows begin at any element: of both operands or of one, by odd lengths and by views.
fn products_anywhere() -> impl Iterator<Item = Product> {
    let gaps = [
        (Gaps::new(0, 0), Gaps::new(0, 0), 331),
        (Gaps::new(1, 0), Gaps::new(3, 2), 331),
        (Gaps::aligned(8), Gaps::new(5, 6), 700),
        (Gaps::new(7, 1), Gaps::aligned(16), 64),
        (Gaps::new(2, 0), Gaps::new(4, 0), 5),
    ];
    gaps.into_iter().flat_map(|(a, b, k)| {
        [1, 13, 29, 64].map(|m| Product {
            a,
            b,
            batch: 1 + m % 3,
            d: Gaps::new(0, 3),
            ..Product::new(m, 157, k, NT)
        })
    })
}

/// The devices of tests, and emulators on whose SMs other tiles fill a wave.
fn machines() -> Vec<Device> {
    let mut all = devices();
    if all.iter().any(Device::is_emulator) {
        let more = [3, 8].map(|sms| emulator((9, 0), sms, EmulatorConfig::default()));
        all.extend(more);
    }
    all
}

/// Runs a product in all dtypes; returns the entries.
fn check(product: &Product, device: &Device) -> Vec<String> {
    let of_8_bits = [
        product.check::<E4m3, E4m3, bf16>(device, FAMILIES),
        product.check::<E4m3, E4m3, f32>(device, FAMILIES),
        product.check::<i8, i8, i32>(device, FAMILIES),
        product.check::<i8, i8, bf16>(device, FAMILIES),
    ];
    let is_for_tensor_maps = product.trans == NT && device.arch() == (9, 0);
    for ran in &of_8_bits {
        assert_eq!(!ran.is_empty(), is_for_tensor_maps, "{product:?}");
    }
    [
        product.check::<bf16, bf16, bf16>(device, FAMILIES),
        product.check::<bf16, bf16, f32>(device, FAMILIES),
        product.check::<f16, f16, f16>(device, FAMILIES),
        product.check::<f16, f16, f32>(device, FAMILIES),
        of_8_bits.concat(),
    ]
    .concat()
}

#[test]
fn every_entry_multiplies_ragged_shapes_exactly() {
    let mut ran = BTreeSet::new();
    for device in machines() {
        for (trans, m) in tiles() {
            let product = Product {
                a: Gaps::aligned(8),
                b: Gaps::aligned(16),
                d: Gaps::new(0, 3),
                ..Product::new(m, 157, 331, trans)
            };
            ran.extend(check(&product, &device));
        }
        for product in products_anywhere() {
            let few = product.check::<bf16, bf16, f32>(&device, FAMILIES);
            let other = product.check::<f16, f16, f16>(&device, FAMILIES);
            let is_in_place = |name: &String| name.contains("anywhere");
            let has_kernels = device.arch() >= (8, 0);
            assert_eq!(few.iter().any(is_in_place), has_kernels, "{product:?}");
            ran.extend(few);
            ran.extend(other);
        }
    }
    if devices().iter().any(|device| device.arch() == (9, 0)) {
        let sm80 = DecodeEntry::ALL.iter().map(DecodeEntry::name);
        let sm90 = Sm90DecodeEntry::ALL.iter().map(Sm90DecodeEntry::name);
        let left: Vec<_> = sm80
            .chain(sm90)
            .filter(|name| !ran.contains(*name))
            .collect();
        assert!(left.is_empty(), "not run: {left:?}");
    }
}

#[test]
fn every_number_of_rows_is_exact() {
    for device in devices() {
        for m in 1..=128 {
            let trans = if m <= 64 { LAYOUTS[m % 2] } else { NT };
            let product = Product::new(m, 40, 72, trans).aligned();
            let ran = product.check::<bf16, bf16, f32>(&device, FAMILIES);
            assert!(!ran.is_empty(), "{m} rows");
        }
    }
}

#[test]
fn more_rows_than_a_tile_has_are_exact() {
    for device in machines() {
        let nn = LAYOUTS[0];
        for (m, trans, batch) in [(129, NT, 1), (200, NT, 1), (65, nn, 2), (150, nn, 1)] {
            let product = Product {
                batch,
                d: Gaps::new(0, 3),
                ..Product::new(m, 70, 200, trans).aligned()
            };
            let ran = product.check::<bf16, bf16, f32>(&device, FAMILIES);
            assert_eq!(!ran.is_empty(), device.arch() == (9, 0), "{product:?}");
            product.check::<i8, i8, i32>(&device, FAMILIES);
        }
    }
}

#[test]
fn the_smallest_extents_are_exact() {
    for device in machines() {
        for trans in LAYOUTS {
            for [n, k] in [[1, 1], [2, 7], [8, 64], [65, 129], [64, 1100]] {
                let product = Product::new(2, n, k, trans).aligned();
                let ran = product.check::<f16, f16, f32>(&device, FAMILIES);
                assert!(!ran.is_empty(), "{product:?}");
            }
        }
    }
}

/// Runs a product with k in so many parts, if a kernel can.
fn check_split<A, Out>(product: &Product, splits: u32, device: &Device)
where
    A: GemmInput<A> + TestElement,
    Out: GemmOutput + TestElement + PartialEq,
{
    let stream = device.stream().expect("a stream");
    let operands = product.operands();
    let (a, b) = product.place::<A, A>(&stream, &operands);
    let exact = product.exact(&operands);
    let gemm = Gemm::new(&a.view, &b.view).output::<Out>().split_k(splits);
    let want = |at| exact[product.index(at)];
    // Twice: the second call finds the workspace as the first left it.
    for _ in 0..2 {
        let ran = product.by_each(&gemm, FAMILIES, &stream, want);
        assert!(!ran.is_empty(), "{splits} parts of {product:?}");
    }
}

#[test]
fn k_in_parts_is_exact() {
    for device in devices() {
        for (trans, m) in tiles() {
            for splits in [2, 3, 5, 8] {
                let product = Product::new(m, 157, 530, trans).aligned();
                check_split::<bf16, bf16>(&product, splits, &device);
            }
            let product = Product::new(m, 70, 1100, trans).aligned();
            check_split::<f16, f32>(&product, 3, &device);
        }
    }
}

/// Four neighbours are stored at once only where the result's dtype lets them.
#[test]
fn the_result_begins_at_any_of_its_elements() {
    for device in devices() {
        for trans in LAYOUTS {
            for before in [1, 2, 4] {
                let product = Product {
                    d: Gaps::new(before, 0),
                    ..Product::new(6, 72, 64, trans).aligned()
                };
                check(&product, &device);
            }
        }
    }
}

#[test]
fn a_batch_has_products_of_its_own() {
    for device in devices() {
        for (trans, m) in tiles() {
            let product = Product {
                batch: 3,
                ..Product::new(m, 70, 130, trans).aligned()
            };
            check(&product, &device);
        }
    }
}

#[test]
fn special_values_reach_their_own_results_only() {
    for device in devices() {
        for (trans, m) in tiles() {
            let product = Product::new(m, 70, 200, trans).aligned();
            check_special(&product, &device, FAMILIES);
        }
        for product in products_anywhere() {
            if product.m > 1 && device.arch() >= (8, 0) {
                check_special(
                    &Product {
                        batch: 1,
                        ..product
                    },
                    &device,
                    FAMILIES,
                );
            }
        }
    }
}

/// Numbers whose products have sums that are rounded, so that their order shows.
fn fractions(rows: usize, columns: usize, seed: usize) -> Vec<bf16> {
    let value = |at: usize| ((at * 7919 + seed) % 1000) as f32 / 1000.0 - 0.5;
    (0..rows * columns)
        .map(|at| bf16::from_f32(value(at)))
        .collect()
}

#[test]
fn the_bits_are_the_same_in_every_order_of_events() {
    const K: usize = 400;
    let bits = |m: usize, n: usize, seed: u64| -> HashMap<String, Vec<u32>> {
        let config = EmulatorConfig {
            seed,
            threads: Some(1),
            ..EmulatorConfig::default()
        };
        let device = emulator((9, 0), 3, config);
        let stream = device.stream().expect("a stream");
        let a = Tensor::from_slice(&device, &[m, K], &fractions(m, K, 1)).expect("memory");
        let b = Tensor::from_slice(&device, &[n, K], &fractions(n, K, 2)).expect("memory");
        let b = b.t();
        let gemm = Gemm::new(&a, &b).output::<f32>().split_k(2);
        let plan = gemm.plan(&stream).expect("a plan");
        let candidates = plan.candidates().iter();
        let of_few = candidates.filter(|way| way.name.starts_with(FAMILIES[0]));
        let run = |name: &str| {
            let d = gemm.with_kernel(name).run(&stream).expect("a product");
            let d = d.to_vec().expect("it can be read");
            d.into_iter().map(f32::to_bits).collect()
        };
        of_few
            .map(|way| (way.name.clone(), run(&way.name)))
            .collect()
    };
    for (m, n) in [(9, 70), (30, 160), (50, 200), (100, 70)] {
        let first = bits(m, n, 0);
        assert!(first.len() >= 2, "{:?}", first.keys());
        (1..40).into_par_iter().for_each(|seed| {
            for (name, got) in bits(m, n, seed) {
                assert!(got == first[&name], "{name}: seed {seed} gives other bits");
            }
        });
    }
}
