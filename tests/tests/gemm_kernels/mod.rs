//! The tensor-core kernels of `Gemm`, each by name, on every kind of device that has kernels of its
//! own. Operands are small integers, so results are exact.

mod bands;
mod counters;
mod epilogue;
mod few_rows;
mod hopper;
mod product;
mod repeats;

use std::collections::BTreeSet;

use abi::gemm::MmaEntry;
use half::bf16;
use product::{Gaps, LAYOUTS, NT, Product, with_all_dtypes};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{DType, Device, Gemm, GemmInput, GemmOutput};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::emulator;

/// The kernels of `mma.sync`, which take any alignment.
const MMA: &[&str] = &["gemm_mma"];

const TURING: (u32, u32) = (7, 5);
const ADA: (u32, u32) = (8, 9);

/// The devices of tests, and emulators of the older architectures that have kernels of their own.
fn generations() -> Vec<Device> {
    let mut all = devices();
    if all.iter().any(Device::is_emulator) {
        all.extend([TURING, ADA].map(|arch| emulator(arch, 2, EmulatorConfig::default())));
    }
    all
}

/// Whether a device's kernels for operands of this dtype are not those of newer devices, too.
fn has_own_kernels(device: &Device, operands: DType) -> bool {
    match device.arch() {
        TURING => operands == DType::F16,
        ADA => matches!(operands, DType::E4m3 | DType::E5m2),
        _ => true,
    }
}

#[test]
fn every_entry_of_mma_is_exact_around_its_tiles() {
    let mut ran = BTreeSet::new();
    for device in generations() {
        for trans in LAYOUTS {
            for [m, n, k] in [
                [128, 256, 128],
                [1, 1, 1],
                [129, 257, 65],
                [136, 136, 320],
                [77, 30, 203],
            ] {
                let product = Product::new(m, n, k, trans);
                // In parts of k there are entries that write partial results.
                let run = with_all_dtypes!(check(&product, &device));
                ran.extend(run);
            }
        }
    }
    if devices().iter().any(Device::is_emulator) {
        // Results in i32 have an epilogue of their own, which the tests of `Gemm` are about.
        let outputs = [DType::F32, DType::F16, DType::Bf16];
        let writes = |entry: &&MmaEntry| outputs.iter().any(|&of| entry.writes(of));
        let floats = MmaEntry::ALL.iter().filter(writes);
        let left: Vec<_> = floats.filter(|entry| !ran.contains(entry.name())).collect();
        assert!(left.is_empty(), "not run: {left:?}");
    }
}

/// Runs the kernels of `mma.sync`; returns their entries.
fn check<A, B, Out>(product: &Product, device: &Device) -> Vec<String>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: GemmOutput + TestElement + PartialEq,
{
    match has_own_kernels(device, A::DTYPE) {
        true => product.check::<A, B, Out>(device, MMA),
        false => Vec::new(),
    }
}

#[test]
fn every_entry_of_mma_takes_every_alignment() {
    for device in generations() {
        for trans in LAYOUTS {
            for (before, pad) in [(0, 8), (8, 0), (4, 4), (2, 2), (1, 1), (3, 0), (0, 7)] {
                let product = Product {
                    a: Gaps::new(before, pad),
                    b: Gaps::new(pad, before),
                    d: Gaps::new(before, pad),
                    ..Product::new(72, 80, 104, trans)
                };
                with_all_dtypes!(check(&product, &device));
                // Each operand with its own alignment.
                let product = Product {
                    b: Gaps::default(),
                    ..product
                };
                with_all_dtypes!(check(&product, &device));
            }
        }
    }
}

#[test]
fn products_are_exact_in_any_shape_and_layout() {
    for device in generations() {
        let extent = || prop_oneof![1..4_usize, 1..300_usize, Just(128), Just(256)];
        let gaps = || {
            (0..9_usize, 0..9_usize, any::<bool>()).prop_map(|(before, pad, broadcast)| Gaps {
                broadcast,
                ..Gaps::new(before, pad)
            })
        };
        let products = (
            (extent(), extent(), extent(), 1..3_usize),
            (gaps(), gaps(), gaps()),
            any::<[bool; 2]>(),
            any::<u32>(),
        );
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 8,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        runner
            .run(&products, |((m, n, k, batch), (a, b, d), trans, seed)| {
                let one = |gaps: Gaps, broadcast| Gaps { broadcast, ..gaps };
                let product = Product {
                    batch,
                    a,
                    b: one(b, b.broadcast && !a.broadcast),
                    d: one(d, false),
                    seed: u64::from(seed),
                    ..Product::new(m, n, k, trans)
                };
                with_all_dtypes!(check(&product, &device));
                Ok(())
            })
            .unwrap_or_else(|error| panic!("on {}: {error}", device.name()));
    }
}

#[test]
fn a_tall_batch_goes_over_the_grids_third_dimension() {
    for device in devices().iter().filter(|device| !device.is_emulator()) {
        let product = Product {
            batch: 70_000,
            b: Gaps {
                broadcast: true,
                ..Gaps::default()
            },
            ..Product::new(2, 3, 5, NT)
        };
        check::<bf16, bf16, bf16>(&product, device);
    }
}

#[test]
fn rows_may_lie_gigabytes_apart() {
    for device in devices() {
        let far = Gaps::new(0, 1_200_000_000);
        let product = Product {
            a: far,
            b: far,
            ..Product::new(3, 70, 3, [false, false])
        };
        let ran = check::<bf16, bf16, bf16>(&product, &device);
        assert!(!ran.is_empty());
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_warps_and_copies() {
    for seed in 0..4 {
        let config = EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        };
        let device = Device::emulator_with(config).expect("an emulator");
        let product = Product {
            a: Gaps::new(1, 1),
            ..Product::new(130, 260, 500, [false, false])
        };
        let ran = check::<bf16, bf16, bf16>(&product, &device);
        assert!(!ran.is_empty());
    }
}

/// Runs a product with NaN in a row of `a`, and infinity in a column of `b`.
fn check_special(product: &Product, device: &Device, families: &[&str]) {
    let (row, depth, column) = (product.m - 1, product.k - 1, product.n - 1);
    let stream = device.stream().expect("a stream");
    let mut operands = product.operands();
    operands[0][row * product.k + depth] = f64::NAN;
    operands[1][(depth - 1) * product.n + column] = f64::INFINITY;
    // Else 0 times infinity is NaN.
    for row in 0..product.m {
        operands[0][row * product.k + depth - 1] = 1.0;
    }
    let (a, b) = product.place::<bf16, bf16>(&stream, &operands);
    let exact = product.exact(&operands);
    let gemm = Gemm::new(&a.view, &b.view);
    let ran = product.by_each(&gemm, families, &stream, |at| {
        let want = exact[product.index(at)];
        let [_, i, j] = at;
        assert_eq!(want.is_nan(), i == row);
        assert_eq!(want.is_infinite(), i != row && j == column);
        want
    });
    assert!(!ran.is_empty(), "{product:?}");
}

#[test]
fn nan_and_infinity_reach_their_own_results_only() {
    for device in devices() {
        for trans in LAYOUTS {
            check_special(&Product::new(140, 150, 72, trans), &device, MMA);
        }
    }
}
