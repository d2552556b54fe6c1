//! Hopper's kernels, on more than one tile and with several seeds (orders of warps and copies).

use half::bf16;
use ndarray::Array2;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{Device, Gemm, Stream, Tensor};

use super::product::{Gaps, LAYOUTS, NT, Product};

/// Number of seeds (orders of warps and completions) that are tried.
const SEEDS: u64 = 3;
/// SMs of emulators in tests of kernels whose blocks share tiles (stream-K): more than the tiles of
/// some GEMMs, and not a divisor of the tiles of others.
pub(super) const MULTIPROCESSORS: usize = 11;

/// Hopper GPUs, and emulators with this number of SMs.
pub(super) fn hoppers(multiprocessors: Option<usize>) -> Vec<Device> {
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

#[test]
fn every_kernel_is_exact_over_several_tiles_and_ragged_edges() {
    for device in hoppers(None) {
        let check = |[m, n, k]: [usize; 3], trans| {
            let product = Product::new(m, n, k, trans);
            let ran = product.check::<bf16, bf16, bf16>(&device, &["gemm_sm90"]);
            assert!(!ran.is_empty(), "{product:?}");
            ran.len()
        };
        // More than one wave of tiles of every size, ragged edges, and k beyond the depth of the
        // ring. An emulator has few SMs.
        let several = match device.is_emulator() {
            true => [264, 520, 456],
            false => [520, 776, 712],
        };
        assert!(check(several, NT) >= 6);
        for trans in LAYOUTS {
            check([136, 328, 200], trans);
        }
        check([104, 776, 328], NT);
        check([8, 8, 8], NT);
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
        for (m, n) in [(1, 1), (72, 100), (130, 259)] {
            let product = Product {
                d: Gaps::new(0, 264 - n),
                ..Product::new(m, n, 72, NT)
            };
            let ran = product.check::<bf16, bf16, bf16>(&device, &["gemm"]);
            assert!(!ran.is_empty(), "{product:?}");
        }
    }
}
