//! Every candidate gives the same bits each time: by whole tiles, with tiles and k that blocks share,
//! and from K-major copies.

use std::collections::HashMap;

use half::bf16;
use warpsmith::{Device, Float, Gemm, Precision};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

use super::hopper::{MULTIPROCESSORS, hoppers};

/// Number of runs of each candidate whose bits are compared. On an emulator the order of warps and
/// copies depends on the seed alone, so each of several runs it once.
const REPEATS: usize = 1_000;

/// Several tiles with ragged edges; few rows, with kernels for them; split k and stream-K.
const SHAPES: [[usize; 3]; 5] = [
    [512, 512, 512],
    [520, 776, 712],
    [8, 1024, 2048],
    [64, 512, 4096],
    [128, 256, 8192],
];
const SHAPES_ON_EMULATORS: [[usize; 3]; 2] = [[136, 136, 1032], [8, 136, 1032]];

/// The bits of each candidate's first result.
type Seen = HashMap<String, Vec<u64>>;

/// Runs `a @ b`, whose sums are not exact, by every candidate, again and again.
fn check<T: Float + TestElement>(
    device: &Device,
    [m, n, k]: [usize; 3],
    view_of_b: View,
    seen: &mut Seen,
) {
    let repeats = match device.is_emulator() {
        true => 1,
        false => REPEATS,
    };
    let stream = device.stream().expect("there is a stream");
    let operand = |shape: [usize; 2], view, seed| {
        let drawn = Operand::<T>::draw(device, &shape, Values::Uniform, view, seed);
        drawn.expect("the device has memory").tensor
    };
    let a = operand([m, k], View::Contiguous, 1);
    let b = operand([k, n], view_of_b, 2);
    let gemm = Gemm::new(&a, &b).output::<T>().precision(Precision::Tf32);
    let plan = gemm.plan(&stream).expect("it is a product");
    for candidate in plan.candidates() {
        // They take minutes there, and their order is not a matter of time anywhere.
        if device.is_emulator() && candidate.name.starts_with("gemm_simt") {
            continue;
        }
        let key = format!("{} of {m} x {n} x {k}", candidate.name);
        for run in 0..repeats {
            let d = gemm.with_kernel(&candidate.name).run(&stream);
            let d = d.and_then(|d| d.to_vec());
            let d = d.unwrap_or_else(|error| panic!("{key}: {error}"));
            let bits: Vec<u64> = d.into_iter().map(T::bits).collect();
            let first = seen.entry(key.clone()).or_insert_with(|| bits.clone());
            assert!(*first == bits, "{key}: run {run} differs");
        }
    }
}

#[test]
fn every_candidate_gives_the_same_bits_each_time() {
    let mut of_emulators = Seen::new();
    for device in hoppers(Some(MULTIPROCESSORS)) {
        let mut of_gpu = Seen::new();
        let (shapes, seen) = match device.is_emulator() {
            true => (&SHAPES_ON_EMULATORS[..], &mut of_emulators),
            false => (&SHAPES[..], &mut of_gpu),
        };
        for &shape in shapes {
            check::<bf16>(&device, shape, View::Transposed, seen);
        }
        check::<f32>(&device, shapes[0], View::Contiguous, seen);
        for way in ["+streamk", "+split", "+kmajor", "gemm_decode", "gemm_mma"] {
            assert!(seen.keys().any(|key| key.contains(way)), "no {way}");
        }
    }
}
