//! `cvt` between all pairs of types.

use proptest::prelude::*;
use warpsmith_emulator::semantics::fp16::{Bf16, F16, Half};
use warpsmith_emulator::semantics::round::Format;
use warpsmith_emulator::semantics::{FloatMode, Rounding, cvt, fp8, fp32, fp64};

use super::oracle::{self, Layout, MODES, Wide};

fn mode(rounding: Rounding) -> FloatMode {
    FloatMode {
        rounding,
        ..FloatMode::default()
    }
}

/// The value of a float of at most 16 bits, by the formula of its format.
fn decode(layout: Layout, bits: u64) -> f64 {
    let value = layout.value(bits);
    let magnitude = value.significand as f64 * 2.0_f64.powi(value.exponent);
    if value.negative {
        -magnitude
    } else {
        magnitude
    }
}

/// An f64 converted to `layout` by the oracle; zeros keep their sign.
fn expected(layout: Layout, value: f64, rounding: Rounding) -> u64 {
    if value == 0.0 {
        return if value.is_sign_negative() {
            layout.sign()
        } else {
            0
        };
    }
    layout.round(&Wide::new(oracle::F64.value(value.to_bits())), rounding)
}

/// f64 values at, between and next to all neighbouring values of a format, with both signs.
fn boundaries(layout: Layout) -> impl Iterator<Item = f64> {
    (0..=layout.largest).flat_map(move |bits| {
        let (low, high) = (decode(layout, bits), decode(layout, bits + 1));
        let middle = low / 2.0 + high / 2.0;
        let beside = [
            low,
            low.next_up(),
            middle.next_down(),
            middle,
            middle.next_up(),
        ];
        beside.into_iter().flat_map(|x| [x, -x])
    })
}

fn narrowing<H: Half>(layout: Layout) {
    for value in boundaries(layout) {
        for rounding in MODES {
            let want = expected(layout, value, rounding) as u16;
            assert_eq!(
                cvt::f64_to_half::<H>(value, mode(rounding)),
                want,
                "{value:e} {rounding:?}"
            );
            let single = value as f32;
            if f64::from(single) == value {
                let got = cvt::f32_to_half::<H>(single, mode(rounding), false);
                assert_eq!(got, want, "{value:e} {rounding:?}");
            }
        }
    }
}

#[test]
fn f16_is_rounded_right_at_every_boundary() {
    narrowing::<F16>(oracle::F16);
}

#[test]
fn bf16_is_rounded_right_at_every_boundary() {
    narrowing::<Bf16>(oracle::BF16);
}

#[test]
fn f32_beside_every_boundary_of_f16_is_rounded_right() {
    for value in boundaries(oracle::F16) {
        let middle = value as f32;
        for single in [middle, middle.next_up(), middle.next_down()] {
            for rounding in MODES {
                let want = expected(oracle::F16, single.into(), rounding) as u16;
                assert_eq!(cvt::f32_to_half::<F16>(single, mode(rounding), false), want);
            }
        }
    }
}

#[test]
fn widening_is_exact_for_all_values() {
    for bits in 0..=u16::MAX {
        let nan = bits & 0x7fff > 0x7c00;
        let infinite = bits & 0x7fff == 0x7c00;
        let got = F16::widen(bits);
        if nan {
            assert_eq!(got.to_bits(), 0x7fff_ffff);
        } else if infinite {
            assert_eq!(
                got,
                if bits == 0x7c00 {
                    f32::INFINITY
                } else {
                    f32::NEG_INFINITY
                }
            );
        } else {
            assert_eq!(f64::from(got), decode(oracle::F16, bits.into()));
            assert_eq!(got.is_sign_negative(), bits >= 0x8000);
            assert_eq!(
                cvt::f16_to_f64(bits, mode(Rounding::NearestEven)),
                got.into()
            );
        }
        assert_eq!(Bf16::widen(bits).to_bits(), u32::from(bits) << 16);
    }
}

#[test]
fn half_crate_agrees_on_widening_and_narrowing() {
    for bits in 0..=u16::MAX {
        let (a, b) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        if !a.is_nan() {
            assert_eq!(F16::widen(bits).to_bits(), a.to_f32().to_bits());
        }
        let single = f32::from_bits(u32::from(bits) << 16 | 0x8000 | u32::from(bits) >> 3);
        if !single.is_nan() {
            assert_eq!(F16::narrow(single), half::f16::from_f32(single).to_bits());
            assert_eq!(Bf16::narrow(single), half::bf16::from_f32(single).to_bits());
        }
        assert_eq!(b.is_nan(), Bf16::widen(bits).is_nan());
    }
}

#[test]
fn fp8_from_every_f16_and_at_every_boundary() {
    for (format, layout) in [(Format::E4M3, oracle::E4M3), (Format::E5M2, oracle::E5M2)] {
        let want = |value: f64, relu: bool| {
            if relu && value.is_sign_negative() {
                return 0;
            }
            let sign = if value.is_sign_negative() { 0x80 } else { 0 };
            (expected(layout, value, Rounding::NearestEven) & 0x7f).min(layout.largest) | sign
        };
        for relu in [false, true] {
            for bits in 0..=u16::MAX {
                let value = f64::from(F16::widen(bits));
                let got = fp8::from_f16x2(format, u32::from(bits) << 16 | 0x3c00, relu);
                let high = if value.is_nan() {
                    0x7f
                } else if value.is_infinite() {
                    let negative = value < 0.0;
                    if relu && negative {
                        0
                    } else {
                        layout.largest | u64::from(negative) << 7
                    }
                } else {
                    want(value, relu)
                };
                assert_eq!(u64::from(got >> 8), high, "{bits:#x} {relu}");
                assert_eq!(u64::from(got & 0xff), want(1.0, relu));
            }
            for value in boundaries(layout).map(|x| x as f32) {
                let got = fp8::from_f32_x2(format, value, -0.0, relu);
                assert_eq!(u64::from(got >> 8), want(value.into(), relu), "{value:e}");
                assert_eq!(got & 0xff, if relu { 0 } else { 0x80 });
            }
        }
    }
}

#[test]
fn every_fp8_as_f16() {
    for bits in 0..=u8::MAX {
        let e4m3 = fp8::to_f16(Format::E4M3, bits, false);
        if bits & 0x7f == 0x7f {
            assert_eq!(e4m3, 0x7fff);
        } else {
            assert_eq!(
                f64::from(F16::widen(e4m3)),
                decode(oracle::E4M3, bits.into())
            );
        }
        let e5m2 = fp8::to_f16(Format::E5M2, bits, false);
        let is_nan = bits & 0x7f > 0x7c;
        assert_eq!(e5m2, if is_nan { 0x7fff } else { u16::from(bits) << 8 });
        let relu = fp8::to_f16x2(Format::E5M2, u16::from(bits) << 8 | 0x80, true);
        let want = if is_nan {
            0x7fff
        } else if bits >= 0x80 {
            0
        } else {
            u32::from(bits) << 8
        };
        assert_eq!(relu, want << 16);
    }
}

#[test]
fn nan_becomes_the_nan_of_the_destination() {
    let plain = FloatMode::default();
    let single = f32::from_bits(0xff81_2345);
    assert_eq!(cvt::f32_to_half::<F16>(single, plain, false), 0x7fff);
    assert_eq!(
        cvt::f32_to_half::<Bf16>(single, mode(Rounding::Up), true),
        0x7fff
    );
    assert_eq!(fp8::from_f32(Format::E4M3, single, true), 0x7f);
    assert_eq!(fp8::from_f32(Format::E5M2, single, false), 0x7f);
    assert_eq!(
        cvt::f32_to_tf32(single, Rounding::NearestEven, true),
        0x7fff_e000
    );
    assert_eq!(
        cvt::f32_to_f64(single, plain).to_bits(),
        0xfff8_2468_a000_0000
    );
    let double = f64::from_bits(0x7ff4_5678_9abc_def0);
    assert_eq!(cvt::f64_to_f32(double, plain).to_bits(), 0x7fe2_b3c4);
    assert_eq!(cvt::f64_to_half::<F16>(double, plain), 0x7f15);
    assert_eq!(cvt::f64_to_half::<Bf16>(-double, plain), 0xffe2);
    assert_eq!(
        cvt::f16_to_f64(0xfc01, plain).to_bits(),
        0xfff8_0400_0000_0000
    );
    assert_eq!(
        cvt::bf16_to_f64(0x7f81, plain).to_bits(),
        0x7ff8_2000_0000_0000
    );
}

#[test]
fn saturation_of_conversions() {
    let sat = FloatMode {
        saturate: true,
        ..FloatMode::default()
    };
    for (value, want) in [(f64::NAN, 0.0), (-1.0, 0.0), (0.25, 0.25), (7.0, 1.0)] {
        assert_eq!(cvt::f64_to_f32(value, sat), want);
        assert_eq!(cvt::f32_to_f32(value as f32, sat), want);
        assert_eq!(cvt::f32_to_f64(value as f32, sat), f64::from(want));
        assert_eq!(F16::widen(cvt::f64_to_half::<F16>(value, sat)), want);
    }
    let plain = FloatMode::default();
    assert_eq!(
        cvt::f32_to_half::<F16>(f32::NEG_INFINITY, plain, true),
        0xfbff
    );
    assert_eq!(
        cvt::f32_to_half_x2::<Bf16>(3.4e38, -1.0, plain, true, true),
        0x7f7f_0000
    );
    assert_eq!(
        cvt::f32_to_half_x2::<F16>(1.0, 2.0, plain, false, false),
        0x3c00_4000
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn f64_to_f32_is_rounded_once(bits: u64, near in 870..1160_u64) {
        for bits in [bits, bits & 0x800f_ffff_ffff_ffff | near << 52] {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite() && value != 0.0);
            for rounding in MODES {
                let got = cvt::f64_to_f32(value, mode(rounding)).to_bits();
                prop_assert_eq!(u64::from(got), expected(oracle::F32, value, rounding));
            }
        }
    }

    #[test]
    fn tf32_is_rounded_once(bits: u32) {
        let value = f32::from_bits(bits);
        prop_assume!(value.is_finite());
        for rounding in [Rounding::NearestEven, Rounding::TowardZero] {
            let got = cvt::f32_to_tf32(value, rounding, false);
            prop_assert_eq!(u64::from(got) >> 13, expected(oracle::TF32, value.into(), rounding));
            prop_assert_eq!(got & 0x1fff, 0);
        }
        let away = cvt::f32_to_tf32_away(value, false);
        let want = expected(oracle::TF32, value.into(), Rounding::NearestAway);
        prop_assert_eq!(u64::from(away) >> 13, want);
    }

    #[test]
    fn rounding_to_integral_floats_agrees_with_integers(value in -1.0e12..1.0e12_f64) {
        for rounding in MODES {
            let want = cvt::f64_to_int::<i64>(value, rounding) as f64;
            prop_assert_eq!(fp64::round_to_integer(rounding, value), want);
            let single = value as f32;
            let want = cvt::f32_to_int::<i64>(single, rounding, false) as f32;
            prop_assert_eq!(fp32::round_to_integer(rounding, single), want);
        }
    }
}

#[test]
fn flushed_conversions_treat_subnormals_as_zero() {
    let least = f32::from_bits(1);
    assert_eq!(cvt::f32_to_int::<i32>(least, Rounding::Up, true), 0);
    assert_eq!(cvt::f32_to_int::<i32>(least, Rounding::Up, false), 1);
    let ftz = FloatMode {
        ftz: true,
        ..FloatMode::default()
    };
    assert_eq!(cvt::f64_to_f32(1e-40, ftz).to_bits(), 0);
    assert_eq!(cvt::f32_to_f64(-least, ftz).to_bits(), 1 << 63);
}
