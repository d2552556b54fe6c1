//! f16 and bf16 arithmetic.

use proptest::prelude::*;
use warpsmith_emulator::semantics::fp16::{self, Bf16, F16, Half};
use warpsmith_emulator::semantics::fp32::MinMaxMode;
use warpsmith_emulator::semantics::{FloatMode, Rounding};

use super::oracle::{self, Layout, Wide};

const PLAIN: FloatMode = FloatMode {
    rounding: Rounding::NearestEven,
    ftz: false,
    saturate: false,
};

/// Values to combine with every 16-bit number.
const PARTNERS: [u16; 20] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x0002, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3bff, 0x3c01, 0x3555,
    0x7bff, 0xfbff, 0x1400, 0x4248, 0x3f80, 0x7f7f, 0x0080, 0xbf81,
];

fn fused(layout: Layout, a: u16, b: u16, c: u16) -> Option<u16> {
    let bits = [a, b, c].map(u64::from);
    if bits.iter().any(|b| b & 0x7fff > layout.largest) {
        return None;
    }
    let [a, b, c] = bits.map(|bits| layout.value(bits));
    let exact = Wide::new(a.times(b)).plus(&Wide::new(c));
    if exact.is_zero() {
        let negative = c.negative && a.negative != b.negative;
        return Some(if negative { 0x8000 } else { 0 });
    }
    Some(layout.round(&exact, Rounding::NearestEven) as u16)
}

fn check_all<H: Half>(layout: Layout, one: u16) {
    for a in 0..=u16::MAX {
        for b in PARTNERS {
            if let Some(want) = fused(layout, a, one, b) {
                assert_eq!(fp16::add::<H>(PLAIN, a, b), want, "{a:#x} + {b:#x}");
                assert_eq!(
                    fp16::sub::<H>(PLAIN, a, b ^ 0x8000),
                    want,
                    "{a:#x} - -{b:#x}"
                );
            }
            if let Some(want) = fused(layout, a, b, (a ^ b) & 0x8000) {
                assert_eq!(fp16::mul::<H>(PLAIN, a, b), want, "{a:#x} * {b:#x}");
            }
        }
    }
}

#[test]
fn f16_sums_and_products_are_rounded_once() {
    check_all::<F16>(oracle::F16, 0x3c00);
}

#[test]
fn bf16_sums_and_products_are_rounded_once() {
    check_all::<Bf16>(oracle::BF16, 0x3f80);
}

/// A third operand that brings the sum near a rounding boundary of the product.
fn nearby(layout: Layout, a: u16, b: u16, c: u16) -> u16 {
    let field = |x: u16| i32::from(x & 0x7fff) >> layout.fraction;
    let bias = (1 << (layout.exponent - 1)) - 1;
    let offset = i32::from(c & 31) - 15;
    let exponent = (field(a) + field(b) - bias + offset).clamp(0, 2 * bias);
    let fraction = c >> 1 & ((1 << layout.fraction) - 1);
    c & 0x8000 | (exponent as u16) << layout.fraction | fraction
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn fused_operations_are_rounded_once(a: u16, b: u16, c: u16) {
        for c in [c, nearby(oracle::F16, a, b, c)] {
            if let Some(want) = fused(oracle::F16, a, b, c) {
                prop_assert_eq!(fp16::fma::<F16>(PLAIN, a, b, c), want, "{:x}", c);
            }
        }
        for c in [c, nearby(oracle::BF16, a, b, c)] {
            if let Some(want) = fused(oracle::BF16, a, b, c) {
                prop_assert_eq!(fp16::fma::<Bf16>(PLAIN, a, b, c), want, "{:x}", c);
            }
        }
    }

    #[test]
    fn pairs_are_two_of_one(a: u32, b: u32, c: u32) {
        let halves = |x: u32| [(x >> 16) as u16, x as u16];
        let ([a1, a0], [b1, b0], [c1, c0]) = (halves(a), halves(b), halves(c));
        let join = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
        prop_assert_eq!(
            fp16::fma_x2::<F16>(PLAIN, a, b, c),
            join(fp16::fma::<F16>(PLAIN, a1, b1, c1), fp16::fma::<F16>(PLAIN, a0, b0, c0))
        );
        prop_assert_eq!(
            fp16::sub_x2::<Bf16>(PLAIN, a, b),
            join(fp16::sub::<Bf16>(PLAIN, a1, b1), fp16::sub::<Bf16>(PLAIN, a0, b0))
        );
        let plain = MinMaxMode::default();
        prop_assert_eq!(
            fp16::max_x2::<F16>(plain, a, b),
            join(fp16::max::<F16>(plain, a1, b1), fp16::max::<F16>(plain, a0, b0))
        );
    }

    #[test]
    fn nan_results_are_canonical(a: u16, b: u16) {
        for (result, infinity) in [
            (fp16::add::<F16>(PLAIN, a, b), F16::INFINITY),
            (fp16::mul::<F16>(PLAIN, a, b), F16::INFINITY),
            (fp16::min::<F16>(MinMaxMode::default(), a, b), F16::INFINITY),
            (fp16::neg::<F16>(a), F16::INFINITY),
            (fp16::add::<Bf16>(PLAIN, a, b), Bf16::INFINITY),
            (fp16::abs::<Bf16>(a), Bf16::INFINITY),
        ] {
            prop_assert!(result & 0x7fff <= infinity || result == 0x7fff, "{:x}", result);
        }
    }
}

#[test]
fn minimum_orders_all_f16_as_their_values() {
    let plain = MinMaxMode::default();
    for a in 0..=u16::MAX {
        for b in PARTNERS.into_iter().filter(|b| b & 0x7fff < 0x7c00) {
            let (x, y) = (F16::widen(a), F16::widen(b));
            let (low, high) = (fp16::min::<F16>(plain, a, b), fp16::max::<F16>(plain, a, b));
            if x.is_nan() {
                assert_eq!((low, high), (b, b));
            } else if x == y && a != b {
                assert_eq!((low, high), (0x8000, 0));
            } else {
                assert_eq!(
                    (low, high),
                    if x < y { (a, b) } else { (b, a) },
                    "{a:#x} {b:#x}"
                );
            }
        }
    }
}

#[test]
fn modifiers_of_minimum_and_maximum() {
    let nan = MinMaxMode {
        nan: true,
        ..MinMaxMode::default()
    };
    assert_eq!(fp16::max::<F16>(nan, 0x3c00, 0xfe00), 0x7fff);
    let xorsign = MinMaxMode {
        xorsign_abs: true,
        ..MinMaxMode::default()
    };
    assert_eq!(fp16::min::<F16>(xorsign, 0xc200, 0x4000), 0xc000);
    // The sign of a NaN that is not chosen still counts.
    assert_eq!(fp16::min::<F16>(xorsign, 0xfd00, 0x3c00), 0xbc00);
    assert_eq!(fp16::max::<Bf16>(xorsign, 0xffc0, 0xbf80), 0x3f80);
    let ftz = MinMaxMode {
        ftz: true,
        ..MinMaxMode::default()
    };
    assert_eq!(fp16::min::<F16>(ftz, 0x83ff, 0x3c00), 0x8000);
}

#[test]
fn saturation_relu_and_flushing_on_all_values() {
    for bits in 0..=u16::MAX {
        let value = F16::widen(bits);
        let saturated = F16::widen(fp16::saturate::<F16>(bits));
        let want = if value.is_nan() {
            0.0
        } else {
            value.clamp(0.0, 1.0)
        };
        assert_eq!(saturated, want, "{bits:#x}");
        assert!(saturated.is_sign_positive());
        let relu = fp16::relu::<F16>(bits);
        let want = if value.is_nan() {
            0x7fff
        } else if bits >= 0x8000 {
            0
        } else {
            bits
        };
        assert_eq!(relu, want, "{bits:#x}");
        let subnormal = bits & 0x7fff < 0x400;
        let flushed = if subnormal { bits & 0x8000 } else { bits };
        assert_eq!(fp16::flush::<F16>(bits), flushed);
    }
    let ftz = FloatMode { ftz: true, ..PLAIN };
    // (1 - 2^-11) * 2^-14 is exact in 11 bits below the least normal number: flushed to zero.
    assert_eq!(fp16::mul::<F16>(ftz, 0x3bff, 0x0400), 0);
    // 2^-14 - 2^-28 rounds up to it: kept.
    assert_eq!(fp16::fma::<F16>(ftz, 0x8400, 0x0400, 0x0400), 0x0400);
}
