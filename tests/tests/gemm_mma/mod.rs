//! The `mma.sync` GEMM kernels, launched as `abi` says. Operands are small integers, so that
//! products and sums are exact, and are compared with f64. Padding of the matrices is never written
//! (the emulator refuses to read it), and each allocation ends with its last element.

mod epilogue;
mod launch;
mod planted;
mod problem;

use abi::gemm::{MMA_LARGE, MMA_SMALL, Transpose};
use half::bf16;
use launch::{Tail, Writing, check_product, launch};
use problem::{Lie, Problem, check, poisoned, stream};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use warpsmith::Device;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith_tests::profiled;

const fn lie(before: usize, pad: usize) -> Lie {
    Lie {
        before,
        pad,
        broadcast: false,
    }
}

#[test]
fn every_entry_is_exact_around_its_tiles() {
    for device in devices() {
        for entry in Writing::all(&device) {
            for (m, n, k) in [
                (128, 256, 128),
                (1, 1, 1),
                (129, 257, 65),
                (136, 136, 320),
                (77, 30, 203),
            ] {
                check_product(&device, &entry, &Problem::new(m, n, k));
            }
        }
    }
}

#[test]
fn every_entry_takes_every_alignment() {
    for device in devices() {
        for entry in Writing::all(&device) {
            for (before, pad) in [(0, 8), (8, 0), (4, 4), (2, 2), (1, 1), (3, 0), (0, 7)] {
                let problem = Problem {
                    a: lie(before, pad),
                    b: lie(pad, before),
                    d: lie(before, pad),
                    ..Problem::new(72, 80, 136)
                };
                check_product(&device, &entry, &problem);
                // Each operand with its own layout.
                let problem = Problem {
                    b: Lie::default(),
                    ..problem
                };
                check_product(&device, &entry, &problem);
            }
        }
    }
}

#[test]
fn products_are_exact_in_any_shape_and_layout() {
    for device in devices() {
        let entries = Writing::all(&device);
        let extent = || prop_oneof![0..4_usize, 1..300_usize, Just(128), Just(256)];
        let lies = || {
            (0..9_usize, 0..9_usize, any::<bool>()).prop_map(|(before, pad, broadcast)| Lie {
                before,
                pad,
                broadcast,
            })
        };
        let problems = (
            0..entries.len(),
            (extent(), extent(), extent(), 1..3_usize),
            (lies(), lies(), lies()),
            any::<u32>(),
        );
        let mut runner = TestRunner::new(ProptestConfig {
            cases: 96,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        runner
            .run(&problems, |(entry, (m, n, k, batch), (a, b, d), seed)| {
                let problem = Problem {
                    batch,
                    a,
                    b,
                    d: Lie {
                        broadcast: false,
                        ..d
                    },
                    seed: u64::from(seed),
                    ..Problem::new(m, n, k)
                };
                check_product(&device, &entries[entry], &problem);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("on {}: {error}", device.name()));
    }
}

#[test]
fn nan_and_infinity_reach_what_they_belong_to_and_nothing_else() {
    let problem = Problem::new(140, 150, 72);
    let (row, depth, column) = (131, 70, 141);
    for device in devices() {
        let stream = stream(&device);
        for trans_a in Transpose::ALL {
            for trans_b in Transpose::ALL {
                let entry = Writing::bf16(trans_a, trans_b, MMA_SMALL);
                let mut operands = problem.operands();
                operands.a[row * problem.k + depth] = f32::NAN;
                operands.b[(depth - 1) * problem.n + column] = f32::INFINITY;
                let (a, b) = problem.place::<bf16, bf16>(&stream, &entry, &operands);
                let d = poisoned::<bf16>(&stream, &problem);
                let params = problem.params(&a, &b, &d);
                launch(
                    &stream,
                    &entry,
                    &problem,
                    (&a, &b, &d),
                    params,
                    &Tail::EMPTY,
                );
                let product = problem.product(&operands);
                check(&entry, &problem, &d, |_, i, j| {
                    let want = product[i * problem.n + j] as f32;
                    assert_eq!(want.is_finite(), i != row && j != column);
                    want
                });
            }
        }
    }
}

#[test]
fn a_tall_batch_goes_over_the_grids_third_dimension() {
    for device in devices().iter().filter(|device| !device.is_emulator()) {
        let problem = Problem {
            batch: 70_000,
            b: Lie {
                broadcast: true,
                ..Lie::default()
            },
            ..Problem::new(2, 3, 5)
        };
        check_product(
            device,
            &Writing::bf16(Transpose::N, Transpose::T, MMA_SMALL),
            &problem,
        );
    }
}

#[test]
fn rows_may_lie_gigabytes_apart() {
    for device in devices() {
        for tile in [MMA_LARGE, MMA_SMALL] {
            let far = lie(0, 1_200_000_000);
            let problem = Problem {
                a: far,
                b: far,
                ..Problem::new(3, 70, 3)
            };
            // B as [k, n], so that it has three rows as well.
            let entry = Writing::bf16(Transpose::N, Transpose::N, tile);
            check_product(&device, &entry, &problem);
        }
    }
}

#[test]
fn main_loop_and_epilogue_have_no_bank_conflicts() {
    let device = profiled();
    for entry in Writing::all(&device) {
        for (m, n, k) in [(256, 256, 256), (200, 136, 104)] {
            check_product(&device, &entry, &Problem::new(m, n, k));
            let stats = device.last_launch().expect("it was launched");
            let lines = stats.counters().lines.iter();
            let bad: Vec<_> = lines.filter(|line| line.bank_conflicts > 0).collect();
            assert!(bad.is_empty(), "{entry} at {m}, {n}, {k}: {bad:#?}");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_warps_and_copies() {
    for seed in 0..4 {
        let device = Device::emulator_with(EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        })
        .expect("an emulator");
        for tile in [MMA_LARGE, MMA_SMALL] {
            let entry = Writing::bf16(Transpose::N, Transpose::N, tile);
            let problem = Problem {
                a: lie(1, 1),
                ..Problem::new(130, 260, 500)
            };
            check_product(&device, &entry, &problem);
        }
    }
}

#[test]
fn a_thousand_runs_give_the_same_bits() {
    let problem = Problem::new(300, 520, 1000);
    for device in devices().iter().filter(|device| !device.is_emulator()) {
        let stream = stream(device);
        for tile in [MMA_LARGE, MMA_SMALL] {
            let entry = Writing::bf16(Transpose::N, Transpose::T, tile);
            let mut operands = problem.operands();
            let shrink = |(i, x): (usize, &mut f32)| *x *= 0.1 + (i % 17) as f32;
            operands.a.iter_mut().enumerate().for_each(shrink);
            let (a, b) = problem.place::<bf16, bf16>(&stream, &entry, &operands);
            let d = poisoned::<bf16>(&stream, &problem);
            let params = problem.params(&a, &b, &d);
            let run = || {
                launch(
                    &stream,
                    &entry,
                    &problem,
                    (&a, &b, &d),
                    params,
                    &Tail::EMPTY,
                );
                d.whole.to_vec().expect("D can be read")
            };
            let first = run();
            for _ in 0..1000 {
                assert!(run() == first, "{entry} gives other bits");
            }
        }
    }
}
