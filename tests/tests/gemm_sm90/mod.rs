//! Hopper's GEMM kernels, each by name, on more than one tile. Operands are small integers, so
//! results are exact; D is full of NaN before. Run with several seeds (orders of warps and copies)
//! and all of the emulator's checks.

mod bands;
mod counters;
mod repeats;

use half::bf16;
use ndarray::Array2;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{Device, Gemm, Stream, Tensor};

/// Number of seeds (orders of warps and completions) that are tried.
const SEEDS: u64 = 3;
/// SMs of emulators in tests of kernels whose blocks share tiles (stream-K): more than the tiles of
/// some GEMMs, and not a divisor of the tiles of others.
const MULTIPROCESSORS: usize = 11;

/// Hopper GPUs, and emulators with this number of SMs.
fn hoppers(multiprocessors: Option<usize>) -> Vec<Device> {
    let is_hopper = |device: &Device| device.arch() == (9, 0);
    let mut devices: Vec<Device> = devices().into_iter().filter(is_hopper).collect();
    if devices.iter().any(Device::is_emulator) {
        devices.retain(|device| !device.is_emulator());
        devices.extend((0..SEEDS).map(|seed| {
            let config = EmulatorConfig {
                seed,
                threads: multiprocessors,
                ..EmulatorConfig::default()
            };
            Device::emulator_with(config).expect("the emulator is built in")
        }));
    }
    devices
}

fn integers(rows: usize, columns: usize, seed: usize) -> Array2<bf16> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        bf16::from_f32(((row * 7919 + column * 31 + row / 7 + seed) % 7) as f32 - 3.0)
    })
}

/// Compares every kernel that computes `a @ b` with the exact result; returns their names.
fn check(device: &Device, [m, n, k]: [usize; 3], [trans_a, trans_b]: [bool; 2]) -> Vec<String> {
    let (a, b) = (integers(m, k, 1), integers(k, n, 4));
    let stored = |x: &Array2<bf16>, transposed: bool| {
        let lies = if transposed {
            x.t().as_standard_layout().into_owned()
        } else {
            x.clone()
        };
        let tensor = Tensor::from_ndarray(device, &lies).expect("the device has memory");
        if transposed { tensor.t() } else { tensor }
    };
    let (a_tensor, b_tensor) = (stored(&a, trans_a), stored(&b, trans_b));
    let want = a
        .mapv(f32::from)
        .dot(&b.mapv(f32::from))
        .mapv(bf16::from_f32);
    let stream = device.stream().expect("there is a stream");
    let plan = Gemm::new(&a_tensor, &b_tensor)
        .plan(&stream)
        .expect("it is a product");
    let names = plan
        .candidates()
        .iter()
        .map(|candidate| candidate.name.clone());
    let names: Vec<String> = names.filter(|name| name.starts_with("gemm_sm90")).collect();
    for name in &names {
        let d = Tensor::full(&stream, &[m, n], bf16::NAN).expect("the device has memory");
        let gemm = Gemm::new(&a_tensor, &b_tensor).with_kernel(name);
        gemm.run_into(&d, &stream)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let got = d
            .to_ndarray()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            got == want.clone().into_dyn(),
            "{name}: {m} x {n} x {k} is wrong"
        );
    }
    names
}

#[test]
fn every_kernel_is_exact_over_several_tiles_and_ragged_edges() {
    for device in hoppers(None) {
        // More than one wave of tiles of every size, ragged edges, and k beyond the depth of the
        // ring.
        let nt = check(&device, [520, 776, 712], [false, true]);
        assert!(nt.len() >= 6, "{nt:?}");
        for layout in [[false, false], [true, false], [true, true]] {
            assert!(!check(&device, [136, 328, 200], layout).is_empty());
        }
        check(&device, [104, 776, 328], [false, true]);
        check(&device, [8, 8, 8], [false, true]);
    }
}

/// Runs the same GEMM with whole tiles, and with blocks that share tiles (stream-K), which must
/// give the same bits each time.
fn check_shared(device: &Device, [m, n, k]: [usize; 3]) -> Vec<f32> {
    const WHOLE: &str = "gemm_sm90_bf16_nt_128x128_s6_pp_plain";
    const SHARED: &str = "gemm_sm90_bf16_nt_128x128_s6_pp_plain+streamk";
    // None of these sums is exact, so a different order of the partial sums would show.
    let values = |rows: usize, seed: usize| {
        Array2::from_shape_fn((rows, k), |(row, column)| {
            let x = (row * 7919 + column * 104_729 + seed) % 1000;
            bf16::from_f32(x as f32 / 1000.0 - 0.5)
        })
    };
    let a = Tensor::from_ndarray(device, &values(m, 1)).expect("the device has memory");
    let b = Tensor::from_ndarray(device, &values(n, 2)).expect("the device has memory");
    let b = b.t();
    let by = |kernel: &str, stream: &Stream| -> Vec<f32> {
        let d = Gemm::new(&a, &b).with_kernel(kernel).run(stream);
        let d = d.unwrap_or_else(|error| panic!("{kernel}: {error}"));
        let d = d
            .to_vec()
            .unwrap_or_else(|error| panic!("{kernel}: {error}"));
        d.into_iter().map(f32::from).collect()
    };
    let streams = [(); 2].map(|()| device.stream().expect("there is a stream"));
    let whole = by(WHOLE, &streams[0]);
    let first = by(SHARED, &streams[0]);
    for (&shared, &whole) in first.iter().zip(&whole) {
        // Half a bf16 ulp each, plus the difference between sums in different orders.
        let bound = 8e-3 * whole.abs() + 1e-3;
        assert!((shared - whole).abs() <= bound, "{shared} and {whole}");
    }
    // Launches in one stream reuse one workspace in order; another stream has its own.
    for stream in [&streams[0], &streams[1], &streams[0]] {
        assert!(first == by(SHARED, stream), "not the same bits again");
    }
    first
}

#[test]
fn blocks_that_share_tiles_agree_with_whole_tiles_and_with_themselves() {
    // One tile for all blocks; two blocks per tile; parts of several tiles in one block; whole
    // tiles, and after them the last wave's in parts. Hardware has more SMs, so k must be longer for
    // each to have a share, and tiles more.
    for (shape, of_hardware) in [
        ([100, 104, 1504], [100, 104, 12_032]),
        ([200, 296, 704], [200, 296, 5632]),
        ([300, 304, 328], [300, 304, 2624]),
        ([300, 504, 1960], [1700, 1400, 4104]),
    ] {
        let mut of_emulators = None;
        for device in hoppers(Some(MULTIPROCESSORS)) {
            let is_emulated = device.is_emulator();
            let got = check_shared(&device, if is_emulated { shape } else { of_hardware });
            if device.is_emulator() {
                assert!(*of_emulators.get_or_insert_with(|| got.clone()) == got);
            }
        }
    }
}

/// What lies beside D in a wider matrix must stay, although tensor stores write whole 16-byte
/// units.
#[test]
fn no_kernel_writes_beside_a_narrow_view() {
    for device in hoppers(None) {
        let stream = device.stream().expect("there is a stream");
        for (m, n) in [(1, 1), (72, 100), (130, 259)] {
            let (a, b) = (integers(m, 72, 1), integers(n, 72, 4));
            let a = Tensor::from_ndarray(&device, &a).expect("the device has memory");
            let b = Tensor::from_ndarray(&device, &b).expect("the device has memory");
            let b = b.t();
            let gemm = Gemm::new(&a, &b);
            let names: Vec<String> = {
                let whole = Tensor::full(&stream, &[m, 264], bf16::ONE);
                let view = whole.and_then(|whole| whole.slice(1, 0..n));
                let plan = gemm.plan_into(&view.expect("it is inside"), &stream);
                let plan = plan.expect("it is a product");
                plan.candidates().iter().map(|c| c.name.clone()).collect()
            };
            for name in names {
                let whole = Tensor::full(&stream, &[m, 264], bf16::NEG_ONE);
                let whole = whole.expect("the device has memory");
                let view = whole.slice(1, 0..n).expect("it is inside");
                let got = gemm
                    .with_kernel(&name)
                    .run_into(&view, &stream)
                    .and_then(|()| whole.to_ndarray());
                let got = got.unwrap_or_else(|error| panic!("{name}: {error}"));
                let beside = got.iter().enumerate().filter(|(at, _)| at % 264 >= n);
                let wrong = beside.filter(|&(_, &x)| x != bf16::NEG_ONE).count();
                assert_eq!(wrong, 0, "{name}: {m} x {n} wrote beside D");
            }
        }
    }
}
