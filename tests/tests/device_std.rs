//! Every wrapper of `cuda_std`, through the kernels of `device_std/`: what the device returns.
//!
//! After a change of these kernels or of cuda_std, rebuild their PTX:
//! `cargo run -p warpsmith-cli -- build tests/device_std --arch sm_80`.

use cuda_std::{convert, math};
use half::{bf16, f16};
use warpsmith::testing::devices;
use warpsmith::{Device, DeviceBuffer, Element, Kernel, KernelArgs, LaunchConfig};

macro_rules! ptx {
    ($family:literal) => {
        include_str!(concat!("../device_std/ptx/sm_80/", $family, ".ptx"))
    };
}

/// The name of a kernel, and the answer that each thread must give.
pub(crate) type Answer = (&'static str, fn(u32) -> u32);

/// The name of a kernel, and the same function on the host.
type Function = (&'static str, fn(f32) -> f32);

/// A kernel of PTX `text`.
fn kernel(device: &Device, text: &str, name: &str) -> Kernel {
    device
        .load_ptx(text)
        .and_then(|module| module.kernel(name))
        .unwrap_or_else(|error| panic!("{name} on {}: {error}", device.name()))
}

/// Launches a kernel and waits for it.
fn launch(
    kernel: &Kernel,
    config: LaunchConfig,
    arguments: impl KernelArgs,
) -> warpsmith::Result<()> {
    let stream = kernel.device().stream()?;
    // SAFETY: each test passes what the kernel's documentation requires.
    unsafe { kernel.launch(&stream, config, arguments)? };
    stream.synchronize()
}

/// A buffer with these values.
fn buffer<T: Element>(device: &Device, values: &[T]) -> DeviceBuffer<T> {
    DeviceBuffer::from_slice(device, values).expect("the device has memory")
}

/// The values of a buffer.
fn values<T: Element>(buffer: &DeviceBuffer<T>) -> Vec<T> {
    buffer.to_vec().expect("the buffer can be read")
}

/// Holds what each thread of a block answers against what it must.
pub(crate) fn hold(text: &str, name: &str, config: LaunchConfig, answers: &[Answer]) {
    let threads = config.block[0];
    for device in devices() {
        let mut out = buffer(&device, &vec![0_u32; answers.len() * threads as usize]);
        launch(&kernel(&device, text, name), config, (&mut out,)).expect("it runs");
        for ((name, want), got) in answers.iter().zip(values(&out).chunks(threads as usize)) {
            let want: Vec<u32> = (0..threads).map(want).collect();
            assert_eq!(got, want, "{name} on {}", device.name());
        }
    }
}

#[test]
fn a_block_meets_at_barriers() {
    let answers: [Answer; 6] = [
        ("bar_red_popc", |_| 32),
        ("bar_red_and", |_| 1),
        ("bar_red_or", |_| 1),
        ("block::reduce", |_| 127 * 64),
        ("bar_sync, dynamic_shared", |thread| (127 - thread) * 3),
        ("bar_arrive", |thread| {
            if thread < 64 { 0 } else { thread - 64 + 1000 }
        }),
    ];
    let config = LaunchConfig::linear(1, 128).shared_bytes(512);
    hold(ptx!("barriers"), "block_answers", config, &answers);
}

#[test]
fn atomics_lose_nothing() {
    for device in devices() {
        let mut words = buffer(&device, &[0_u32, 3, 5, u32::MAX, 0, 0, 77, 0, 100, 0]);
        let mut wide = buffer(&device, &[0_u64, -100_i64 as u64, 0, 0]);
        let kernel = kernel(&device, ptx!("atomics"), "atomic_answers");
        launch(
            &kernel,
            LaunchConfig::linear(1, 64),
            (&mut words, &mut wide),
        )
        .expect("it runs");
        let words = values(&words);
        let name = device.name();
        let want = [63 * 32, -63_i32 as u32, 63, 0, 0xffff, 0, 4, 77];
        assert_eq!(
            words[..8],
            want,
            "add min max and or xor exch before, on {name}"
        );
        assert!(
            words[8] < 64,
            "cas: one thread wins: {} on {name}",
            words[8]
        );
        assert_eq!(words[9], 129, "shared, on {name}");
        let f64_sum = 16.0_f64.to_bits();
        let f32_sum = u64::from(32.0_f32.to_bits());
        assert_eq!(
            values(&wide),
            [64 << 33, -5_i64 as u64, f64_sum, f32_sum],
            "on {name}"
        );
    }
}

/// Minimum, maximum and sum of 128 numbers, among them NaN and both zeros, by atomics.
fn extrema<T: Element>(name: &str, number: fn(f32) -> T, bits: fn(T) -> u64) {
    let mut numbers: Vec<f32> = (0..128).map(|i| (i * 37 % 128) as f32 - 63.5).collect();
    (numbers[5], numbers[40], numbers[70]) = (0.0, -0.0, f32::INFINITY);
    let sum: f32 = numbers.iter().filter(|x| x.is_finite()).sum();
    for device in devices() {
        let own: Vec<T> = numbers.iter().map(|x| number(*x)).collect();
        let input = buffer(&device, &own);
        let first = [f32::NAN, -0.0, -sum, 100.0, f32::NAN];
        let mut out = buffer(&device, &first.map(number));
        let kernel = kernel(&device, ptx!("atomics"), name);
        launch(&kernel, LaunchConfig::linear(2, 64), (&input, &mut out)).expect("it runs");
        let least = |of: &[f32]| of.iter().copied().fold(f32::INFINITY, f32::min);
        let halves = numbers.split_at(64);
        let want = [
            least(&numbers),
            f32::INFINITY,
            f32::INFINITY,
            least(halves.0),
            least(halves.1),
        ];
        let got: Vec<u64> = values(&out).into_iter().map(bits).collect();
        let want = want.map(|x| bits(number(x)));
        assert_eq!(got, want, "{name} on {}", device.name());
    }
}

#[test]
fn floats_have_minima_and_maxima() {
    extrema("extrema_f32", |x| x, |x| x.to_bits().into());
    extrema("extrema_f64", f64::from, f64::to_bits);
    extrema("extrema_f16", f16::from_f32, |x| x.to_bits().into());
    extrema("extrema_bf16", bf16::from_f32, |x| x.to_bits().into());
}

/// A pattern of `core_atomics`, 0 to 2, by 6 blocks or 6 warps of a block.
fn pattern<T: Element + From<u8>>(device: &Device, name: &str, pattern: u32) -> Result<T, String> {
    let mut memory = buffer(device, &[T::from(0); 16]);
    let mut out = buffer(device, &[T::from(0)]);
    let kernel = kernel(device, ptx!("core_atomics"), name);
    let config = match name.ends_with("global") {
        true => LaunchConfig::linear(6, 32),
        false => LaunchConfig::linear(1, 6 * 32),
    };
    let done = launch(&kernel, config, (pattern, &mut memory, &mut out));
    done.map(|()| values(&out)[0])
        .map_err(|error| format!("{error:?}").to_lowercase())
}

/// Runs the patterns of a kernel: with an order all devices give the result, and without one the
/// emulator reports the race.
fn patterns<T: Element + From<u8> + PartialEq + std::fmt::Debug>(ty: &str) {
    for space in ["global", "shared"] {
        for (number, want) in [(0, 21), (1, 77), (2, 21)] {
            for device in devices() {
                let name = format!("ordered_{ty}_{space}");
                let got = pattern::<T>(&device, &name, number);
                let on = device.name();
                assert_eq!(got, Ok(T::from(want)), "pattern {number} of {name} on {on}");
            }
            let device = Device::emulator().expect("there is always an emulator");
            let name = format!("relaxed_{ty}_{space}");
            let error = pattern::<T>(&device, &name, number).expect_err(&name);
            assert!(
                error.contains("race"),
                "pattern {number} of {name}: {error}"
            );
        }
    }
}

#[test]
fn core_atomics_order_what_they_guard() {
    patterns::<u32>("u32");
    patterns::<i32>("i32");
    patterns::<u64>("u64");
    for device in devices() {
        for (number, want) in [(0, 21), (1, 77), (2, 21)] {
            let narrow = pattern::<u32>(&device, "sequential_u32_global", number);
            let wide = pattern::<u64>(&device, "sequential_u64_shared", number);
            let want = u8::try_from(want).expect("small");
            assert_eq!((narrow, wide), (Ok(want.into()), Ok(want.into())));
        }
    }
}

#[test]
fn core_fences_order_a_relaxed_pointer() {
    for device in devices() {
        let mut data = buffer(&device, &[0_u32; 2]);
        let mut slot = buffer(&device, &[0_u64]);
        let mut out = buffer(&device, &[0_u32]);
        let kernel = kernel(&device, ptx!("core_atomics"), "handed_by_pointer");
        let config = LaunchConfig::linear(2, 32);
        launch(&kernel, config, (&mut data, &mut slot, &mut out)).expect("it runs");
        assert_eq!(values(&out), [99], "on {}", device.name());
    }
}

#[test]
fn core_atomics_of_bytes_lose_nothing_and_leave_their_neighbours() {
    for device in devices() {
        let mut bytes = buffer(&device, &[0_u8, 0, 0, 0, 11, 12, 13, 14]);
        let mut halves = buffer(&device, &[0_u16, 0]);
        let mut words = buffer(&device, &[0_u32, 0, 0]);
        let kernel = kernel(&device, ptx!("core_atomics"), "small_answers");
        let config = LaunchConfig::linear(3, 125);
        launch(&kernel, config, (&mut bytes, &mut halves, &mut words)).expect("it runs");
        let name = device.name();
        let [sum, update] = [375 * 3, 375 * 5].map(|sum: u32| sum as u8);
        let min = -63_i8 as u8;
        assert_eq!(
            values(&bytes),
            [sum, update, 1, min, 11, 12, 13, 14],
            "on {name}"
        );
        assert_eq!(values(&halves), [124 * 200, 0xe000], "on {name}");
        let sub = 0_u32.wrapping_sub(3 * 124 * 125 / 2);
        assert_eq!(values(&words), [1, u32::MAX, sub], "on {name}");
    }
}

/// f32 values over the whole range, with special values, and their number.
fn spread(step: usize) -> (Vec<f32>, u32) {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
    ];
    let all = (0..=u32::MAX).step_by(step).map(f32::from_bits);
    let x: Vec<f32> = specials.into_iter().chain(all).collect();
    let len = u32::try_from(x.len()).expect("a step of more than 1");
    (x, len)
}

#[test]
fn functions_have_the_hosts_bits() {
    let functions: [Function; 17] = [
        ("exp", math::exp),
        ("exp2", math::exp2),
        ("log", math::log),
        ("log2", math::log2),
        ("tanh", math::tanh),
        ("erf", math::erf),
        ("erfc", math::erfc),
        ("gelu", math::gelu),
        ("gelu_tanh", math::gelu_tanh),
        ("silu", math::silu),
        ("sigmoid", math::sigmoid),
        ("sin", math::sin),
        ("cos", math::cos),
        ("rcp", math::rcp),
        ("rsqrt", math::rsqrt),
        ("floor", math::floor),
        ("rint", math::rint),
    ];
    let (x, len) = spread(100_003);
    for device in devices() {
        let x_device = buffer(&device, &x);
        let mut y = buffer(&device, &vec![0_f32; functions.len() * x.len()]);
        let kernel = kernel(&device, ptx!("floats"), "math_answers");
        launch(
            &kernel,
            LaunchConfig::linear(16, 256),
            (&x_device, &mut y, len),
        )
        .expect("it runs");
        for ((name, function), got) in functions.iter().zip(values(&y).chunks(x.len())) {
            for (&x, &got) in x.iter().zip(got) {
                let want = function(x);
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(
                    same,
                    "{name}({x:e}) is {got:e} on {}, {want:e} here",
                    device.name()
                );
            }
        }
    }
}

#[test]
fn approximations_are_as_near_as_the_manual_says() {
    /// A function's name, the true function, log2 of the largest relative error, and the range of
    /// arguments.
    type Claim = (&'static str, fn(f64) -> f64, f64, [f64; 2]);
    let claims: [Claim; 8] = [
        ("ex2", f64::exp2, -21.5, [-100.0, 100.0]),
        ("lg2", f64::log2, -21.0, [2.0, 1e30]),
        ("rcp", |x| 1.0 / x, -22.0, [1e-30, 1e30]),
        ("rsqrt", |x| 1.0 / x.sqrt(), -22.0, [1e-30, 1e30]),
        ("sqrt", f64::sqrt, -22.0, [1e-30, 1e30]),
        ("sin", f64::sin, -18.0, [0.1, 1.5]),
        ("cos", f64::cos, -17.0, [-1.0, 1.0]),
        ("tanh", f64::tanh, -10.0, [0.01, 5.0]),
    ];
    let (x, len) = spread(100_003);
    for device in devices() {
        let x_device = buffer(&device, &x);
        let mut y = buffer(&device, &vec![0_f32; claims.len() * x.len()]);
        let kernel = kernel(&device, ptx!("floats"), "approx_answers");
        launch(
            &kernel,
            LaunchConfig::linear(16, 256),
            (&x_device, &mut y, len),
        )
        .expect("it runs");
        for ((name, truth, log2_error, [low, high]), got) in
            claims.iter().zip(values(&y).chunks(x.len()))
        {
            let inside = |x: &f32| (*low..=*high).contains(&f64::from(*x));
            assert!(
                x.iter().filter(|x| inside(x)).count() > 100,
                "{name} is tried"
            );
            for (x, &got) in x.iter().zip(got).filter(|(x, _)| inside(x)) {
                let want = truth(f64::from(*x));
                let error = (f64::from(got) - want).abs() / want.abs();
                assert!(
                    error <= log2_error.exp2(),
                    "{name}({x:e}) is {got:e} on {}, want {want:e}",
                    device.name()
                );
            }
        }
    }
}

#[test]
fn conversions_have_the_hosts_bits() {
    let (x, len) = spread(50_021);
    let host = |x: f32| {
        let (f16, e4m3) = (convert::f32_to_f16(x), convert::f32_to_e4m3_satfinite(x));
        [
            u32::from(f16),
            u32::from(convert::f32_to_bf16(x)),
            u32::from(convert::f32_to_bf16(x)),
            u32::from(e4m3),
            u32::from(convert::f32_to_e5m2_satfinite(x)),
            convert::f16_to_f32(f16).to_bits(),
            convert::e4m3_to_f32(e4m3).to_bits(),
        ]
    };
    for device in devices() {
        let x_device = buffer(&device, &x);
        let mut y = buffer(&device, &vec![0_u32; 7 * x.len()]);
        let kernel = kernel(&device, ptx!("floats"), "convert_answers");
        launch(
            &kernel,
            LaunchConfig::linear(16, 256),
            (&x_device, &mut y, len),
        )
        .expect("it runs");
        for (&x, got) in x.iter().zip(values(&y).chunks(7)) {
            assert_eq!(got, host(x), "of {x:e} on {}", device.name());
        }
    }
}

#[test]
fn larger_halves_have_the_hosts_bits() {
    // Every 16 bits beside others: NaN, infinities, denormals and zeros of both signs among them.
    let x: Vec<u32> = (0..1 << 16)
        .map(|i: u32| i << 16 | i.wrapping_mul(40_503) & 0xffff)
        .chain([0x8000_0000, 0x0000_8000, 0x7fff_ffff, 0x7fff_ffff])
        .collect();
    let len = x.len() as u32;
    for device in devices() {
        let x_device = buffer(&device, &x);
        let mut y = buffer(&device, &vec![0_u32; 3 * x.len()]);
        let kernel = kernel(&device, ptx!("floats"), "larger_answers");
        launch(
            &kernel,
            LaunchConfig::linear(16, 256),
            (&x_device, &mut y, len),
        )
        .expect("it runs");
        let others = x.iter().rev();
        for ((&a, &b), got) in x.iter().zip(others).zip(values(&y).chunks(3)) {
            let want = [
                math::max_f16x2(a, b),
                math::max_bf16x2(a, b),
                math::max_nan_bf16x2(a, b),
            ];
            assert_eq!(got, want, "of {a:#x} and {b:#x} on {}", device.name());
        }
    }
}

#[test]
fn vectors_are_copied_whole() {
    let x: Vec<f32> = (0..400).map(|i| i as f32).collect();
    for device in devices() {
        let x_device = buffer(&device, &x);
        let mut y = buffer(&device, &vec![-1_f32; 1200]);
        let kernel = kernel(&device, ptx!("memory"), "vector_copies");
        launch(
            &kernel,
            LaunchConfig::linear(4, 32),
            (&x_device, &mut y, 100_u32),
        )
        .expect("it runs");
        assert_eq!(
            values(&y),
            [&x[..], &x, &x].concat(),
            "on {}",
            device.name()
        );
    }
}

#[test]
fn an_index_out_of_bounds_ends_the_launch() {
    // On the emulator only: a trap makes a GPU's context unusable for the tests that follow.
    let device = Device::emulator().expect("there is always an emulator");
    let kernel = kernel(&device, ptx!("output"), "index_or_trap");
    let mut out = buffer(&device, &[0_u32]);
    launch(&kernel, LaunchConfig::linear(1, 1), (&mut out, 2_u32)).expect("2 is in bounds");
    assert_eq!(values(&out), [7]);
    let error = launch(&kernel, LaunchConfig::linear(1, 1), (&mut out, 4_u32));
    let error = error.expect_err("4 is not");
    assert!(
        format!("{error:?}").to_lowercase().contains("trap"),
        "{error:?}"
    );
}

#[test]
fn kernels_print_lines_as_c_does() {
    use warpsmith_emulator::{EmulatorConfig, Output};
    let (output, written) = Output::buffer();
    let config = EmulatorConfig {
        output,
        ..EmulatorConfig::default()
    };
    let device = Device::emulator_with(config).expect("there is always an emulator");
    let kernel = kernel(&device, ptx!("output"), "print_lines");
    launch(&kernel, LaunchConfig::linear(2, 32), (2.0_f32,)).expect("it runs");
    let written = written.lock().expect("nobody panicked").clone();
    let text = String::from_utf8(written).expect("it is text");
    assert_eq!(text, "100% of 7 is 0.5, {really}\n-3 1 200 text\n");
}
