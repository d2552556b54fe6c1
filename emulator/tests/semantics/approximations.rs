//! `.approx` instructions: special values must be the hardware's. All others must be within the
//! distances that the module's table states, given that one rounding of the f64 value leaves half
//! an ulp.

use proptest::prelude::*;
use warpsmith_emulator::semantics::approx;
use warpsmith_emulator::semantics::fp16::{Bf16, F16, Half};

#[test]
fn special_values() {
    let [inf, nan, least] = [f32::INFINITY, 0x7fff_ffff_u32 as f32, f32::from_bits(1)];
    assert!(nan > 0.0);
    let canonical = |value: f32| value.to_bits() == 0x7fff_ffff;
    assert_eq!(approx::rcp(0.0, false), inf);
    assert_eq!(approx::rcp(-0.0, true), -inf);
    assert_eq!(approx::rcp(-inf, false).to_bits(), 1 << 31);
    assert_eq!(approx::rcp(least, true), inf);
    assert_eq!(approx::rsqrt(-0.0, false), -inf);
    assert!(canonical(approx::rsqrt(-1.0, false)));
    assert!(canonical(approx::sqrt(-1.0, false)));
    assert_eq!(approx::sqrt(-0.0, false).to_bits(), 1 << 31);
    assert_eq!(approx::lg2(0.0, false), -inf);
    assert_eq!(approx::lg2(least, true), -inf);
    assert_eq!(approx::lg2(least, false), -149.0);
    assert!(canonical(approx::lg2(-1.0, false)));
    assert_eq!(approx::ex2(-inf, false), 0.0);
    assert_eq!(approx::ex2(-130.0, true), 0.0);
    assert_eq!(approx::ex2(-130.0, false), 2.0_f32.powi(-130));
    assert_eq!(approx::ex2(128.0, false), inf);
    assert_eq!(approx::sin(-0.0).to_bits(), 1 << 31);
    assert_eq!(approx::cos(0.0), 1.0);
    assert!(canonical(approx::sin(inf)));
    assert!(canonical(approx::cos(-inf)));
    assert_eq!(approx::tanh(-inf), -1.0);
    assert_eq!(approx::div(f32::MAX, f32::MAX, false), 0.0);
    assert!(canonical(approx::div(inf, f32::MAX, false)));
    assert_eq!(approx::div_full(f32::MAX, f32::MAX, false), 1.0);
}

#[test]
fn f64_approximations_use_upper_halves() {
    assert_eq!(approx::rcp_f64(f64::from_bits(0x4008_0000_ffff_ffff)), {
        f64::from_bits((1.0_f64 / 3.0).to_bits() >> 32 << 32)
    });
    assert_eq!(approx::rcp_f64(f64::from_bits(0x7ff0_0000_0000_0001)), 0.0);
    assert_eq!(approx::rcp_f64(f64::NAN).to_bits(), 0x7fff_ffff_0000_0000);
    assert_eq!(approx::rcp_f64(f64::MAX), 0.0);
    assert_eq!(approx::rsqrt_f64_ftz(-4.0).to_bits(), 0x7fff_ffff_0000_0000);
    assert_eq!(approx::rsqrt_f64_ftz(4.0), 0.5);
    assert_eq!(approx::rsqrt_f64(16.0), 0.25);
}

#[test]
fn half_approximations_of_exact_cases() {
    assert_eq!(approx::ex2_half::<F16>(0x4000, false), 0x4400);
    assert_eq!(approx::ex2_half::<Bf16>(0xbf80, true), 0x3f00);
    assert_eq!(approx::ex2_half::<F16>(0x7e01, false), 0x7fff);
    assert_eq!(approx::tanh_half::<F16>(0x7c00), 0x3c00);
    assert_eq!(approx::tanh_half::<Bf16>(0xff80), 0xbf80);
    for bits in 0..0x7c00 {
        let (low, high) = (
            approx::tanh_half::<F16>(bits),
            approx::tanh_half::<F16>(bits + 1),
        );
        assert!(F16::widen(low) <= F16::widen(high), "{bits:#x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn sine_and_cosine_stay_close_within_a_turn(x in -6.3_f32..6.3) {
        // The angle in turns is rounded toward zero twice: in the constant and in the product.
        let bound = f64::from(x).abs() * 2.0_f64.powi(-22) + 2.0_f64.powi(-25);
        prop_assert!((f64::from(approx::sin(x)) - f64::from(x).sin()).abs() < bound);
        prop_assert!((f64::from(approx::cos(x)) - f64::from(x).cos()).abs() < bound);
    }

    #[test]
    fn exponential_and_logarithm_are_inverse(x in 0.001_f32..1000.0) {
        let back = approx::ex2(approx::lg2(x, false), false);
        prop_assert!((back / x - 1.0).abs() < 1e-6);
        let root = approx::rsqrt(x, false);
        prop_assert!((f64::from(root) * f64::from(root) * f64::from(x) - 1.0).abs() < 3e-7);
        prop_assert_eq!(approx::rcp(x, false), 1.0 / x);
    }
}

/// The result bits of a form of `h200_approximations.txt` in this implementation.
fn evaluate(form: &str, operands: &[u64]) -> u64 {
    let words: Vec<&str> = form.split('.').collect();
    let ftz = words.contains(&"ftz");
    let single = |i: usize| f32::from_bits(operands[i] as u32);
    let (half, double) = (operands[0] as u16, f64::from_bits(operands[0]));
    let result = match (words[0], words[1], words[words.len() - 1]) {
        ("rcp", _, "f64") => return approx::rcp_f64(double).to_bits(),
        ("rsqrt", _, "f64") if ftz => return approx::rsqrt_f64_ftz(double).to_bits(),
        ("rsqrt", _, "f64") => return approx::rsqrt_f64(double).to_bits(),
        ("ex2", _, "f16") => return approx::ex2_half::<F16>(half, ftz).into(),
        ("ex2", _, "bf16") => return approx::ex2_half::<Bf16>(half, ftz).into(),
        ("tanh", _, "f16") => return approx::tanh_half::<F16>(half).into(),
        ("tanh", _, "bf16") => return approx::tanh_half::<Bf16>(half).into(),
        ("div", "full", _) => approx::div_full(single(0), single(1), ftz),
        ("div", ..) => approx::div(single(0), single(1), ftz),
        ("rcp", ..) => approx::rcp(single(0), ftz),
        ("sqrt", ..) => approx::sqrt(single(0), ftz),
        ("rsqrt", ..) => approx::rsqrt(single(0), ftz),
        ("lg2", ..) => approx::lg2(single(0), ftz),
        ("ex2", ..) => approx::ex2(single(0), ftz),
        ("sin", ..) => approx::sin(single(0)),
        ("cos", ..) => approx::cos(single(0)),
        ("tanh", ..) => approx::tanh(single(0)),
        _ => panic!("{form} is no approximate instruction"),
    };
    result.to_bits().into()
}

/// Whether `got` is as near to `want` as the table of [`approx`] says.
fn is_near(form: &str, operand: u64, got: u64, want: u64) -> bool {
    let (x, y) = (f32::from_bits(got as u32), f32::from_bits(want as u32));
    let absolute = (f64::from(x) - f64::from(y)).abs();
    let ulps = got.abs_diff(want);
    let words: Vec<&str> = form.split('.').collect();
    match (words[0], words[words.len() - 1]) {
        _ if got == want => true,
        ("sin" | "cos", _) => absolute <= 2.0_f64.powf(-21.5),
        ("lg2", _) if (0.5..=2.0).contains(&f32::from_bits(operand as u32)) => {
            absolute <= 2.0_f64.powf(-22.4)
        }
        ("tanh", "f32") => absolute <= f64::from(y).abs() * 2.0_f64.powf(-16.6),
        ("rcp" | "rsqrt", "f64") if words.contains(&"ftz") => ulps <= 1 << 32,
        ("ex2" | "lg2" | "div", "f32") => ulps <= 2,
        _ => ulps <= 1,
    }
}

#[test]
fn an_h200_is_as_near_as_the_documentation_says() {
    let lines = include_str!("h200_approximations.txt").lines();
    let mut compared = 0;
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (form, numbers) = line.split_once(' ').expect("a form and numbers");
        let numbers: Vec<u64> = numbers
            .split(' ')
            .map(|number| u64::from_str_radix(number, 16).expect("hexadecimal"))
            .collect();
        let (want, operands) = numbers.split_last().expect("a result");
        let got = evaluate(form, operands);
        assert!(is_near(form, operands[0], got, *want), "{line}: {got:x}");
        compared += 1;
    }
    assert_eq!(compared, 26 * 64);
}
