//! `cvt` to, from and between integers.

use proptest::prelude::*;
use warpsmith_emulator::semantics::fp16::{Bf16, F16, Half};
use warpsmith_emulator::semantics::int::{self, Integer};
use warpsmith_emulator::semantics::{Rounding, cvt};

use super::oracle::{self, Dyadic, Layout, MODES, Wide};

/// `value` as an integer, rounded by `rounding` and clamped: computed digit by digit in i128.
fn integer<D: Integer>(value: Dyadic, rounding: Rounding) -> D {
    let Dyadic {
        negative,
        significand,
        exponent,
    } = value;
    let magnitude = if exponent >= 0 {
        if exponent > 70 && significand != 0 {
            1_i128 << 100
        } else {
            (significand as i128) << exponent
        }
    } else {
        let whole = if exponent < -100 {
            0
        } else {
            significand >> -exponent
        };
        let rest = significand
            - if exponent < -100 {
                0
            } else {
                whole << -exponent
            };
        let half = if exponent < -120 {
            u128::MAX
        } else {
            1 << (-exponent - 1)
        };
        let up = match rounding {
            Rounding::TowardZero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
            Rounding::NearestAway => rest >= half,
            Rounding::NearestEven => rest > half || (rest == half && whole % 2 == 1),
        };
        whole as i128 + i128::from(up)
    };
    let signed = if negative { -magnitude } else { magnitude };
    D::truncate(signed.clamp(D::MIN.to_i128(), D::MAX.to_i128()))
}

fn float_to_int<D: Integer>(single: f32, double: f64) {
    let nan_64 = D::truncate(1 << (D::BITS - 1));
    for rounding in MODES {
        let want = if single.is_nan() {
            if D::BITS == 64 { nan_64 } else { D::ZERO }
        } else if single.is_infinite() {
            if single > 0.0 { D::MAX } else { D::MIN }
        } else {
            integer(oracle::F32.value(single.to_bits().into()), rounding)
        };
        assert_eq!(
            cvt::f32_to_int::<D>(single, rounding, false),
            want,
            "{single:e} {rounding:?}"
        );
        let want = if double.is_nan() {
            nan_64
        } else if double.is_infinite() {
            if double > 0.0 { D::MAX } else { D::MIN }
        } else {
            integer(oracle::F64.value(double.to_bits()), rounding)
        };
        assert_eq!(
            cvt::f64_to_int::<D>(double, rounding),
            want,
            "{double:e} {rounding:?}"
        );
    }
}

fn float_to_every_int(single: f32, double: f64) {
    float_to_int::<u8>(single, double);
    float_to_int::<i8>(single, double);
    float_to_int::<u16>(single, double);
    float_to_int::<i16>(single, double);
    float_to_int::<u32>(single, double);
    float_to_int::<i32>(single, double);
    float_to_int::<u64>(single, double);
    float_to_int::<i64>(single, double);
}

#[test]
fn every_f16_and_bf16_to_every_integer() {
    for bits in 0..=u16::MAX {
        float_to_every_int(F16::widen(bits), F16::widen(bits).into());
        float_to_every_int(Bf16::widen(bits), Bf16::widen(bits).into());
    }
}

fn int_to_every_float<S: Integer>(value: S) {
    let exact = value.to_i128();
    let dyadic = Dyadic {
        negative: exact < 0,
        significand: exact.unsigned_abs(),
        exponent: 0,
    };
    let want = |layout: Layout, rounding| {
        if exact == 0 {
            0
        } else {
            layout.round(&Wide::new(dyadic), rounding)
        }
    };
    for rounding in MODES {
        let single = cvt::int_to_f32(value, rounding);
        assert_eq!(
            u64::from(single.to_bits()),
            want(oracle::F32, rounding),
            "{exact} {rounding:?}"
        );
        let double = cvt::int_to_f64(value, rounding);
        assert_eq!(
            double.to_bits(),
            want(oracle::F64, rounding),
            "{exact} {rounding:?}"
        );
        let f16 = cvt::int_to_half::<S, F16>(value, rounding);
        assert_eq!(
            u64::from(f16),
            want(oracle::F16, rounding),
            "{exact} {rounding:?}"
        );
        let bf16 = cvt::int_to_half::<S, Bf16>(value, rounding);
        assert_eq!(
            u64::from(bf16),
            want(oracle::BF16, rounding),
            "{exact} {rounding:?}"
        );
    }
}

#[test]
fn every_8_and_16_bit_integer_to_every_float() {
    for bits in 0..=u8::MAX {
        int_to_every_float(bits);
        int_to_every_float(bits as i8);
    }
    for bits in (0..=u16::MAX).step_by(3) {
        int_to_every_float(bits);
        int_to_every_float(bits as i16);
    }
}

/// `cvt` and `cvt.sat` of one integer to `D`.
fn int_to_int<S: Integer, D: Integer>(value: S) {
    let exact = value.to_i128();
    let modulus = 1_i128 << D::BITS;
    let wrapped = exact.rem_euclid(modulus);
    let wrapped = if wrapped > D::MAX.to_i128() {
        wrapped - modulus
    } else {
        wrapped
    };
    assert_eq!(int::convert::<S, D>(value).to_i128(), wrapped);
    let clamped = exact.max(D::MIN.to_i128()).min(D::MAX.to_i128());
    assert_eq!(int::convert_sat::<S, D>(value).to_i128(), clamped);
}

fn int_to_every_int<S: Integer>(value: S) {
    int_to_int::<S, u8>(value);
    int_to_int::<S, i8>(value);
    int_to_int::<S, u16>(value);
    int_to_int::<S, i16>(value);
    int_to_int::<S, u32>(value);
    int_to_int::<S, i32>(value);
    int_to_int::<S, u64>(value);
    int_to_int::<S, i64>(value);
}

#[test]
fn every_8_and_16_bit_integer_to_every_integer() {
    for bits in 0..=u16::MAX {
        int_to_every_int(bits as u8);
        int_to_every_int(bits as i8);
        int_to_every_int(bits);
        int_to_every_int(bits as i16);
    }
}

/// Floats with integer magnitudes, including halves and quarters.
fn integral_f64() -> impl Strategy<Value = f64> {
    let sized = (any::<i64>(), 0..64_u32, 0..3_i32)
        .prop_map(|(value, shift, places)| (value >> shift) as f64 / 2.0_f64.powi(places));
    prop_oneof![any::<u64>().prop_map(f64::from_bits), sized]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn floats_to_integers(single in any::<u32>(), double in integral_f64()) {
        float_to_every_int(f32::from_bits(single), double);
        float_to_every_int(double as f32, double);
    }

    #[test]
    fn integers_to_floats(value: u64, shift in 0..64_u32) {
        let value = value >> shift;
        int_to_every_float(value as u32);
        int_to_every_float(value as i32);
        int_to_every_float(value);
        int_to_every_float(value as i64);
        int_to_every_float((value as i64).wrapping_neg());
    }

    #[test]
    fn integers_to_integers(value: u64, shift in 0..64_u32) {
        let value = value as i64 >> shift;
        int_to_every_int(value as u32);
        int_to_every_int(value as i32);
        int_to_every_int(value as u64);
        int_to_every_int(value);
    }
}
