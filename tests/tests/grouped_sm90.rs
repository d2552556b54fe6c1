//! Hopper's grouped GEMM: which products it takes, and the bits of Hopper's GEMM of each group alone.

use half::{bf16, f16};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{Device, Float, Gemm, GroupedGemm, Stream, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::{Checked, say};

/// Seeds of emulators: orders of warps and of completions.
const SEEDS: u64 = 2;
/// SMs of emulators, so that a block has several tiles, or none.
const MULTIPROCESSORS: [usize; 2] = [3, 40];

fn hoppers() -> Vec<Device> {
    let is_hopper = |device: &Device| device.arch() == (9, 0);
    let mut all: Vec<Device> = devices().into_iter().filter(is_hopper).collect();
    if all.iter().any(Device::is_emulator) {
        all.retain(|device| !device.is_emulator());
        for (seed, threads) in (0..SEEDS).zip(MULTIPROCESSORS) {
            let config = EmulatorConfig {
                seed,
                threads: Some(threads),
                ..EmulatorConfig::default()
            };
            all.push(Device::emulator_with(config).expect("the emulator is built in"));
        }
    }
    all
}

fn drawn<T: TestElement>(device: &Device, shape: &[usize], seed: u64) -> Tensor<T> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values: Vec<T> = (0..shape.iter().product())
        .map(|_| T::nearest(rng.random_range(-1.0..1.0)))
        .collect();
    Tensor::from_slice(device, shape, &values).expect("the device has memory")
}

fn ends_of(device: &Device, ends: &[i32]) -> Tensor<i32> {
    Tensor::from_slice(device, &[ends.len()], ends).expect("the device has memory")
}

#[derive(Clone, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    ends: Vec<i32>,
    b_by_k: bool,
    seed: u64,
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    // Groups that take one tile or less, and few that take bands of several.
    let groups = prop_oneof![2 => 1..6_usize, 2 => 6..60_usize, 1 => Just(384_usize)];
    let extents = (extent(6 * largest), extent(2 * largest), extent(largest));
    (extents, groups, any::<bool>(), any::<u32>()).prop_map(|((m, n, k), groups, b_by_k, seed)| {
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(seed));
        // Tensor copies take rows of 16 bytes; others go through a copy, which `grouped.rs` tests.
        let (n, k) = match groups {
            384 => (8, 8),
            _ => (n.next_multiple_of(8).max(8), k.next_multiple_of(8).max(8)),
        };
        let mut ends: Vec<i32> = (0..groups)
            .map(|_| rng.random_range(0..=m as i32))
            .collect();
        ends.sort_unstable();
        let seed = u64::from(seed);
        Case {
            m: m.max(1),
            n,
            k,
            ends,
            b_by_k,
            seed,
        }
    })
}

fn check<T: TestElement + Float>(case: &Case, device: &Device) -> Checked {
    let &Case {
        m,
        n,
        k,
        b_by_k,
        seed,
        ..
    } = case;
    let stream = device.stream().map_err(say)?;
    let groups = case.ends.len();
    let a = drawn::<T>(device, &[m, k], seed);
    let b = match b_by_k {
        true => drawn::<T>(device, &[groups, n, k], seed + 1).t(),
        false => drawn::<T>(device, &[groups, k, n], seed + 1),
    };
    let ends = ends_of(device, &case.ends);
    let grouped = GroupedGemm::new(&a, &b, &ends).alpha(0.5);
    let layout = if b_by_k { "nt" } else { "nn" };
    let plan = grouped.plan(&stream).map_err(say)?;
    let chosen = plan.chosen().ok_or("no kernel")?;
    let entry = format!("gemm_grouped_sm90_{}_{layout}_128x128_s5_pp", T::DTYPE);
    if chosen.entry != entry {
        return Err(format!("{} instead of {entry}", chosen.entry));
    }
    let d = Tensor::full(&stream, &[m, n], T::POISON).map_err(say)?;
    grouped.run_into(&d, &stream).map_err(say)?;
    let got = d.to_vec().map_err(say)?;
    let alone = format!("gemm_sm90_{}_{layout}_128x128_s6_pp_plain", T::DTYPE);
    let mut start = 0;
    for (group, &end) in case.ends.iter().enumerate() {
        let end = end as usize;
        if start == end {
            continue;
        }
        let rows = a.slice(0, start..end).map_err(say)?;
        let matrix = b.index_axis(0, group).map_err(say)?;
        let want = Gemm::new(&rows, &matrix).alpha(0.5).with_kernel(&alone);
        let want = want.run(&stream).and_then(|d| d.to_vec()).map_err(say)?;
        if got[start * n..end * n] != want[..] {
            return Err(format!(
                "group {group}, rows {start}..{end}, has other bits"
            ));
        }
        start = end;
    }
    match got[start * n..].iter().all(|x| x.wide() == 0.0) {
        true => Ok(()),
        false => Err("rows of no group are not 0".to_owned()),
    }
}

#[test]
fn each_group_has_the_bits_of_hoppers_gemm() {
    let devices = hoppers();
    let effort = Effort {
        cases: [20, 200],
        largest: [100, 400],
    };
    holds(effort, case, |case, device| {
        if device.arch() != (9, 0) {
            return Ok(());
        }
        let both = |device| check::<bf16>(case, device).and_then(|()| check::<f16>(case, device));
        match device.is_emulator() {
            true => devices
                .iter()
                .filter(|device| device.is_emulator())
                .try_for_each(both),
            false => both(device),
        }
    });
}

fn entry_of<T: TestElement + Float>(
    (device, stream): (&Device, &Stream),
    [groups, m, n, k]: [usize; 4],
    alpha: f32,
) -> String {
    let a = drawn::<T>(device, &[m, k], 1);
    let b = drawn::<T>(device, &[groups, k, n], 2);
    let ends = ends_of(device, &vec![0; groups]);
    let grouped = GroupedGemm::new(&a, &b, &ends).alpha(alpha);
    let plan = grouped.plan(stream).expect("a plan");
    plan.chosen().expect("a kernel").entry.clone()
}

#[test]
fn what_hoppers_kernel_does_not_take_goes_to_the_portable_one() {
    const PORTABLE: &str = "gemm_grouped_simt_f32_64x64x16";
    for device in hoppers() {
        let stream = device.stream().expect("a stream");
        let on = (&device, &stream);
        let hopper = "gemm_grouped_sm90_f16_nn_128x128_s5_pp";
        assert_eq!(entry_of::<f16>(on, [3, 50, 8, 8], 1.0), hopper);
        assert_eq!(entry_of::<f16>(on, [384, 50, 7, 9], -0.5), hopper);
        assert_eq!(entry_of::<f32>(on, [3, 50, 8, 8], 1.0), PORTABLE);
        assert_eq!(entry_of::<f16>(on, [385, 50, 8, 8], 1.0), PORTABLE);
        assert_eq!(entry_of::<f16>(on, [3, 50, 8, 0], 1.0), PORTABLE);
        assert_eq!(entry_of::<f16>(on, [3, 50, 8, 8], f32::INFINITY), PORTABLE);
    }
}

#[test]
fn rows_of_no_group_are_zero_whatever_lies_there() {
    for device in hoppers() {
        let stream = device.stream().expect("a stream");
        let nan = bf16::NAN;
        let a = Tensor::full(&stream, &[300, 24], nan).expect("memory");
        let b = Tensor::full(&stream, &[2, 24, 40], nan).expect("memory");
        let ends = ends_of(&device, &[70, 70]);
        let d = GroupedGemm::new(&a, &b, &ends)
            .run(&stream)
            .expect("a launch");
        let got = d.to_vec().expect("a copy");
        assert!(got[..70 * 40].iter().all(|x| x.is_nan()));
        assert!(got[70 * 40..].iter().all(|&x| x == bf16::ZERO));
    }
}
