//! f32 and f64 arithmetic.

use std::cmp::Ordering;

use proptest::prelude::*;
use warpsmith_emulator::semantics::fp32::{self, MinMaxMode};
use warpsmith_emulator::semantics::{FloatMode, Rounding, fp64};

use super::oracle::{self, Dyadic, Layout, MODES, Wide};

/// f32 bits: any, near 1, or near the ends of the range.
fn f32_bits() -> impl Strategy<Value = u32> {
    let near = |exponent: u32| {
        (0..40_u32, any::<u32>())
            .prop_map(move |(offset, bits)| (bits & 0x807f_ffff) | (exponent + offset) << 23)
    };
    let few = prop::sample::select(vec![
        0_u32,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0x3f7f_ffff,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x3f80_0001,
    ]);
    let few = (few, any::<bool>()).prop_map(|(bits, sign)| bits | u32::from(sign) << 31);
    prop_oneof![any::<u32>(), near(108), near(0), near(215), few]
}

/// f64 bits, in the same way.
fn f64_bits() -> impl Strategy<Value = u64> {
    let near = |exponent: u64| {
        (0..80_u64, any::<u64>()).prop_map(move |(offset, bits)| {
            (bits & 0x800f_ffff_ffff_ffff) | (exponent + offset) << 52
        })
    };
    let few = prop::sample::select(vec![
        0_u64,
        1,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0x3fef_ffff_ffff_ffff,
        0x7fef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
    ]);
    let few = (few, any::<bool>()).prop_map(|(bits, sign)| bits | u64::from(sign) << 63);
    prop_oneof![any::<u64>(), near(983), near(0), near(1966), few]
}

fn mode(rounding: Rounding) -> FloatMode {
    FloatMode {
        rounding,
        ..FloatMode::default()
    }
}

/// The expected rounded sum of products; `None` if an operand is not finite.
fn sum_of_product(layout: Layout, bits: [u64; 3], rounding: Rounding) -> Option<u64> {
    let largest = layout.largest;
    if bits.iter().any(|b| b & (layout.sign() - 1) > largest) {
        return None;
    }
    let [a, b, c] = bits.map(|bits| layout.value(bits));
    let exact = Wide::new(a.times(b)).plus(&Wide::new(c));
    if exact.is_zero() {
        let product_negative = a.negative != b.negative;
        let negative = if product_negative == c.negative {
            c.negative
        } else {
            rounding == Rounding::Down
        };
        return Some(if negative { layout.sign() } else { 0 });
    }
    Some(layout.round(&exact, rounding))
}

fn magnitude(value: Dyadic) -> Dyadic {
    Dyadic {
        negative: false,
        ..value
    }
}

/// The expected rounded quotient; `None` if an operand is zero or not finite.
fn quotient(layout: Layout, a: u64, b: u64, rounding: Rounding) -> Option<u64> {
    let in_range = |bits: u64| (1..=layout.largest).contains(&(bits & (layout.sign() - 1)));
    if !in_range(a) || !in_range(b) {
        return None;
    }
    let (a, b) = (layout.value(a), layout.value(b));
    let dividend = Wide::new(magnitude(a));
    let compare = |candidate: Dyadic| -> Ordering {
        Wide::new(candidate.times(magnitude(b))).compare(&dividend)
    };
    Some(layout.round_by(a.negative != b.negative, rounding, compare))
}

/// The expected rounded root; `None` unless the operand is positive and finite.
fn root(layout: Layout, a: u64, rounding: Rounding) -> Option<u64> {
    if !(1..=layout.largest).contains(&a) {
        return None;
    }
    let radicand = Wide::new(layout.value(a));
    let compare = |candidate: Dyadic| Wide::new(candidate.times(candidate)).compare(&radicand);
    Some(layout.round_by(false, rounding, compare))
}

const ONE_F32: u64 = 0x3f80_0000;
const ONE_F64: u64 = 0x3ff0_0000_0000_0000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn f32_sums_and_products_are_rounded_once(a in f32_bits(), b in f32_bits(), c in f32_bits()) {
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let [a, b, c] = [a, b, c].map(u64::from);
        for rounding in MODES {
            let mode = mode(rounding);
            if let Some(want) = sum_of_product(oracle::F32, [a, b, c], rounding) {
                prop_assert_eq!(u64::from(fp32::fma_with(mode, x, y, z).to_bits()), want);
            }
            if let Some(want) = sum_of_product(oracle::F32, [a, ONE_F32, c], rounding) {
                prop_assert_eq!(u64::from(fp32::add_with(mode, x, z).to_bits()), want);
                prop_assert_eq!(u64::from(fp32::sub_with(mode, x, -z).to_bits()), want);
            }
            let zero = (a ^ b) & 0x8000_0000;
            if let Some(want) = sum_of_product(oracle::F32, [a, b, zero], rounding) {
                prop_assert_eq!(u64::from(fp32::mul_with(mode, x, y).to_bits()), want);
            }
        }
    }

    #[test]
    fn f32_quotients_and_roots_are_rounded_once(a in f32_bits(), b in f32_bits()) {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        for rounding in MODES {
            let mode = mode(rounding);
            if let Some(want) = quotient(oracle::F32, a.into(), b.into(), rounding) {
                prop_assert_eq!(u64::from(fp32::div_with(mode, x, y).to_bits()), want);
            }
            if let Some(want) = quotient(oracle::F32, ONE_F32, b.into(), rounding) {
                prop_assert_eq!(u64::from(fp32::rcp_with(mode, y).to_bits()), want);
            }
            if let Some(want) = root(oracle::F32, a.into(), rounding) {
                prop_assert_eq!(u64::from(fp32::sqrt_with(mode, x).to_bits()), want);
            }
        }
    }

    #[test]
    fn f64_sums_and_products_are_rounded_once(a in f64_bits(), b in f64_bits(), c in f64_bits()) {
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        for rounding in MODES {
            if let Some(want) = sum_of_product(oracle::F64, [a, b, c], rounding) {
                prop_assert_eq!(fp64::fma_with(rounding, x, y, z).to_bits(), want);
            }
            if let Some(want) = sum_of_product(oracle::F64, [a, ONE_F64, c], rounding) {
                prop_assert_eq!(fp64::add_with(rounding, x, z).to_bits(), want);
                prop_assert_eq!(fp64::sub_with(rounding, x, -z).to_bits(), want);
            }
            if let Some(want) = sum_of_product(oracle::F64, [a, b, (a ^ b) & 1 << 63], rounding) {
                prop_assert_eq!(fp64::mul_with(rounding, x, y).to_bits(), want);
            }
        }
    }

    #[test]
    fn f64_quotients_and_roots_are_rounded_once(a in f64_bits(), b in f64_bits()) {
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        for rounding in MODES {
            if let Some(want) = quotient(oracle::F64, a, b, rounding) {
                prop_assert_eq!(fp64::div_with(rounding, x, y).to_bits(), want);
            }
            if let Some(want) = quotient(oracle::F64, ONE_F64, b, rounding) {
                prop_assert_eq!(fp64::rcp_with(rounding, y).to_bits(), want);
            }
            if let Some(want) = root(oracle::F64, a, rounding) {
                prop_assert_eq!(fp64::sqrt_with(rounding, x).to_bits(), want);
            }
        }
    }

    #[test]
    fn fast_forms_are_the_general_ones_in_the_default_mode(
        a in f32_bits(), b in f32_bits(), c in f32_bits(),
    ) {
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let mode = FloatMode::default();
        prop_assert!(mode.is_plain());
        prop_assert_eq!(fp32::add(x, y).to_bits(), fp32::add_with(mode, x, y).to_bits());
        prop_assert_eq!(fp32::sub(x, y).to_bits(), fp32::sub_with(mode, x, y).to_bits());
        prop_assert_eq!(fp32::mul(x, y).to_bits(), fp32::mul_with(mode, x, y).to_bits());
        prop_assert_eq!(fp32::fma(x, y, z).to_bits(), fp32::fma_with(mode, x, y, z).to_bits());
        prop_assert_eq!(fp32::div(x, y).to_bits(), fp32::div_with(mode, x, y).to_bits());
    }

    #[test]
    fn every_f32_nan_result_is_the_canonical_one(a in f32_bits(), b in f32_bits()) {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let results = [
            fp32::add(x, y), fp32::sub(x, y), fp32::mul(x, y), fp32::fma(x, y, x), fp32::div(x, y),
            fp32::sqrt(x), fp32::rcp(x), fp32::min(x, y), fp32::max(x, y), fp32::abs(x),
            fp32::neg(x),
        ];
        for result in results.into_iter().filter(|r| r.is_nan()) {
            prop_assert_eq!(result.to_bits(), 0x7fff_ffff);
        }
    }

    #[test]
    fn flushed_operations_never_give_a_subnormal(a in f32_bits(), b in f32_bits(), c in f32_bits()) {
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        for rounding in MODES {
            let mode = FloatMode { rounding, ftz: true, saturate: false };
            for result in [
                fp32::add_with(mode, x, y), fp32::mul_with(mode, x, y), fp32::div_with(mode, x, y),
                fp32::fma_with(mode, x, y, z), fp32::rcp_with(mode, x), fp32::sqrt_with(mode, x),
            ] {
                prop_assert!(!result.is_subnormal(), "{:?} {:x} {:x} {:x}", rounding, a, b, c);
            }
        }
    }

    #[test]
    fn saturated_results_are_between_zero_and_one(a in f32_bits(), b in f32_bits()) {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let mode = FloatMode { saturate: true, ..FloatMode::default() };
        let (sum, plain) = (fp32::add_with(mode, x, y), fp32::add(x, y));
        prop_assert!((0.0..=1.0).contains(&sum) && sum.is_sign_positive());
        if (0.0..=1.0).contains(&plain) {
            prop_assert_eq!(sum, plain);
        }
    }
}

#[test]
fn flushing_looks_at_the_result_rounded_with_endless_exponents() {
    let ftz = FloatMode {
        ftz: true,
        ..FloatMode::default()
    };
    let least = f32::MIN_POSITIVE;
    // (1 - 2^-24) times the least normal number is exact in 24 bits below it: flushed to zero.
    assert_eq!(
        fp32::mul_with(ftz, 1.0 - f32::EPSILON / 2.0, least).to_bits(),
        0
    );
    // (1 - 2^-46) times it rounds up to it at 24 bits: kept.
    assert_eq!(
        fp32::mul_with(ftz, 1.0 - f32::EPSILON, 1.0_f32.next_up() * least),
        least
    );
    let subnormal = f32::from_bits(1);
    assert_eq!(
        fp32::add_with(ftz, -subnormal, -subnormal).to_bits(),
        0x8000_0000
    );
    assert_eq!(fp32::div_with(ftz, 1.0, subnormal), f32::INFINITY);
}

#[test]
fn f64_hands_on_one_nan_operand_as_hardware_does() {
    let [a, b, c] = [
        0x7ff0_0000_0000_0001,
        0xfff8_0000_0000_0002,
        0x7ff8_0000_0000_0003,
    ];
    let nan = f64::from_bits;
    let quiet_a = 0x7ff8_0000_0000_0001;
    assert_eq!(fp64::add(nan(a), nan(b)).to_bits(), b);
    assert_eq!(fp64::add(nan(a), 1.0).to_bits(), quiet_a);
    assert_eq!(fp64::mul(nan(b), nan(a)).to_bits(), quiet_a);
    assert_eq!(fp64::fma(nan(a), nan(b), nan(c)).to_bits(), b);
    assert_eq!(fp64::fma(nan(a), 1.0, nan(c)).to_bits(), c);
    assert_eq!(fp64::div(nan(a), nan(b)).to_bits(), quiet_a);
    assert_eq!(fp64::min(nan(a), nan(b)).to_bits(), b);
    assert_eq!(fp64::neg(nan(b)).to_bits(), b);
    assert_eq!(fp64::abs(nan(b)).to_bits(), b);
    for invalid in [
        fp64::sub(f64::INFINITY, f64::INFINITY),
        fp64::mul(0.0, f64::INFINITY),
        fp64::div(0.0, 0.0),
        fp64::sqrt(-1.0),
        fp64::add_with(Rounding::Up, f64::INFINITY, f64::NEG_INFINITY),
    ] {
        assert_eq!(invalid.to_bits(), 0xfff8_0000_0000_0000);
    }
}

#[test]
fn minimum_and_maximum_order_zeros_and_prefer_numbers() {
    assert_eq!(fp32::min(0.0, -0.0).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(fp32::max(-0.0, 0.0).to_bits(), 0);
    assert_eq!(fp64::min(0.0, -0.0).to_bits(), (-0.0_f64).to_bits());
    assert_eq!(fp64::max(-0.0, 0.0).to_bits(), 0);
    assert_eq!(fp32::min(f32::NAN, 2.0), 2.0);
    assert_eq!(fp32::max(-3.0, f32::NAN), -3.0);
    assert_eq!(fp32::min(f32::NEG_INFINITY, 2.0), f32::NEG_INFINITY);
    let nan = MinMaxMode {
        nan: true,
        ..MinMaxMode::default()
    };
    assert_eq!(fp32::min_with(nan, f32::NAN, 2.0).to_bits(), 0x7fff_ffff);
    let xorsign = MinMaxMode {
        xorsign_abs: true,
        ..MinMaxMode::default()
    };
    assert_eq!(fp32::min_with(xorsign, -3.0, 2.0), -2.0);
    assert_eq!(fp32::max_with(xorsign, -3.0, -2.0), 3.0);
    let ftz = MinMaxMode {
        ftz: true,
        ..MinMaxMode::default()
    };
    assert_eq!(fp32::max_with(ftz, f32::from_bits(1), -1.0).to_bits(), 0);
}

#[test]
fn copysign_takes_the_sign_of_the_first_operand() {
    assert_eq!(fp32::copysign(-1.0, 3.0), -3.0);
    assert_eq!(fp64::copysign(1.0, -3.0), 3.0);
    assert_eq!(
        fp32::copysign(-0.0, f32::from_bits(0x7fc0_0001)).to_bits(),
        0xffc0_0001
    );
}
