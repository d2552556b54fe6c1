//! Casts between all dtypes: rounded once, and saturated.

use half::{bf16, f16};
use warpsmith::reference::precision::round_to;
use warpsmith::{CastElement, Device, E4m3, E5m2, Element, Tensor};
use warpsmith_tests::{Checked, say};

/// An element type of casts: its exact value, and the nearest element to a value.
trait Number: CastElement + std::fmt::Debug {
    /// The exact value; integers stay integers.
    fn value(self) -> Value;
    /// The cast's result.
    fn cast_from(value: Value) -> Self;
    /// The bits, with all NaNs equal.
    fn key(self) -> u64;
    /// Values at which casts tend to fail, and others.
    fn table() -> Vec<Self>;
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i64),
    Float(f64),
}

/// An integer rounded to `bits` of significand if f64 has more: to nearest, ties to even. f64
/// represents the result exactly, however many bits the integer has.
fn rounded(x: i64, bits: u32) -> f64 {
    let magnitude = i128::from(x).unsigned_abs();
    let len = 128 - magnitude.leading_zeros();
    if len <= bits {
        return x as f64;
    }
    let dropped = len - bits;
    let (kept, rest) = (magnitude >> dropped, magnitude & ((1 << dropped) - 1));
    let half = 1_u128 << (dropped - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    let value = ((kept + u128::from(up)) << dropped) as f64;
    if x < 0 { -value } else { value }
}

/// Numbers around powers of two, halves, and the ends of ranges.
fn interesting() -> Vec<f64> {
    let mut all = vec![
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-300,
        1e300,
    ];
    for exponent in -152..=130 {
        for significand in [
            1.0,
            1.5,
            1.25,
            1.0 + 2f64.powi(-9),
            1.0 + 3.0 * 2f64.powi(-9),
        ] {
            for nudge in [-1.0, 0.0, 1.0] {
                let x = significand * 2f64.powi(exponent);
                let x = x + nudge * x * 2f64.powi(-40);
                all.extend([x, -x]);
            }
        }
    }
    for x in [
        0.5, 1.5, 2.5, 127.5, 128.5, 255.5, 256.5, 447.9, 448.1, 464.0, 57344.5, 65519.9, 65520.0,
    ] {
        all.extend([x, -x, x + 1.0, -x - 1.0]);
    }
    all
}

fn integers() -> Vec<i64> {
    let mut all = vec![0, i64::MIN, i64::MAX];
    for shift in 0..63 {
        for extra in [0, 1, 3] {
            for below in [1, 8, 9, 10, 11, 12, 24, 25, 40, 53, 54] {
                let tie = if shift > below {
                    1_i64 << (shift - below)
                } else {
                    0
                };
                for nudge in [-1, 0, 1] {
                    let base = (1_i64 << shift).wrapping_add((extra * 2_i64).wrapping_mul(tie));
                    let x = base.wrapping_add(tie).wrapping_add(nudge);
                    all.extend([x, x.wrapping_neg()]);
                }
            }
        }
    }
    all
}

macro_rules! integer_types {
    ($($ty:ident)*) => {$(
        impl Number for $ty {
            fn value(self) -> Value {
                Value::Integer(i64::from(self))
            }
            fn cast_from(value: Value) -> Self {
                match value {
                    Value::Integer(x) => x.clamp(i64::from($ty::MIN), i64::from($ty::MAX)) as Self,
                    Value::Float(x) => x as Self,
                }
            }
            fn key(self) -> u64 {
                self as u64
            }
            fn table() -> Vec<Self> {
                integers().into_iter().map(|x| x as Self).collect()
            }
        }
    )*};
}

integer_types! { i8 i16 i32 i64 u8 u16 u32 }

macro_rules! float_types {
    ($($ty:ident, $bits:literal: $to:expr, $from:expr, $key:expr;)*) => {$(
        impl Number for $ty {
            fn value(self) -> Value {
                let to: fn(Self) -> f64 = $to;
                Value::Float(to(self))
            }
            fn cast_from(value: Value) -> Self {
                let from: fn(f64) -> Self = $from;
                match value {
                    Value::Integer(x) => from(rounded(x, $bits)),
                    // With the reference: `half` does not look at all bits of an f64.
                    Value::Float(x) => from(round_to(<$ty as Element>::DTYPE, x)),
                }
            }
            fn key(self) -> u64 {
                let to: fn(Self) -> f64 = $to;
                let key: fn(Self) -> u64 = $key;
                if to(self).is_nan() { u64::MAX } else { key(self) }
            }
            fn table() -> Vec<Self> {
                let from: fn(f64) -> Self = $from;
                interesting().into_iter().map(from).collect()
            }
        }
    )*};
}

float_types! {
    f64, 53: |x| x, |x| x, f64::to_bits;
    f32, 24: f64::from, |x| x as f32, |x| x.to_bits().into();
    f16, 11: f16::to_f64, f16::from_f64, |x| x.to_bits().into();
    bf16, 8: bf16::to_f64, bf16::from_f64, |x| x.to_bits().into();
    E4m3, 4: |x| x.to_f32().into(), E4m3::from_f64, |x| x.0.into();
    E5m2, 3: |x| x.to_f32().into(), E5m2::from_f64, |x| x.0.into();
}

fn check<T: Number, U: Number>(device: &Device) -> Checked {
    let values = T::table();
    let stream = device.stream().map_err(say)?;
    let x = Tensor::from_slice(device, &[values.len()], &values).map_err(say)?;
    // The whole tensor, which is processed in chunks, and every second element backwards, which is
    // not.
    let gathered = x.slice_step(0, .., -2).map_err(say)?;
    let order: [(&Tensor<T>, Vec<T>); 2] = [
        (&x, values.clone()),
        (&gathered, values.iter().rev().step_by(2).copied().collect()),
    ];
    for (x, values) in order {
        let got = x.cast::<U>(&stream).map_err(say)?.to_vec().map_err(say)?;
        for (x, got) in values.into_iter().zip(got) {
            let want = U::cast_from(x.value());
            let is_copy = T::DTYPE == U::DTYPE;
            if !is_copy && got.key() != want.key() {
                return Err(format!(
                    "{} {x:?} is {} {got:?}, want {want:?}",
                    T::DTYPE,
                    U::DTYPE
                ));
            }
        }
    }
    Ok(())
}

fn check_from<T: Number>(device: &Device) -> Checked {
    check::<T, f64>(device)?;
    check::<T, f32>(device)?;
    check::<T, f16>(device)?;
    check::<T, bf16>(device)?;
    check::<T, E4m3>(device)?;
    check::<T, E5m2>(device)?;
    check::<T, i8>(device)?;
    check::<T, i16>(device)?;
    check::<T, i32>(device)?;
    check::<T, i64>(device)?;
    check::<T, u8>(device)?;
    check::<T, u16>(device)?;
    check::<T, u32>(device)
}

#[test]
fn casts_between_all_dtypes_round_once_and_saturate() {
    for device in warpsmith::testing::devices() {
        let faults: Vec<String> = [
            check_from::<f64>(&device),
            check_from::<f32>(&device),
            check_from::<f16>(&device),
            check_from::<bf16>(&device),
            check_from::<E4m3>(&device),
            check_from::<E5m2>(&device),
            check_from::<i8>(&device),
            check_from::<i16>(&device),
            check_from::<i32>(&device),
            check_from::<i64>(&device),
            check_from::<u8>(&device),
            check_from::<u16>(&device),
            check_from::<u32>(&device),
        ]
        .into_iter()
        .filter_map(Result::err)
        .collect();
        assert!(faults.is_empty(), "on {device}: {faults:#?}");
    }
}

#[test]
fn integers_of_64_bits_are_rounded_once_where_f64_would_be_a_step_between() {
    // One more than halfway between two bf16 numbers: converted to f64 first, it would be halfway.
    let x = (1_i64 << 62) + (1 << 54) + 1;
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(&device, &[1], &[x]).expect("a tensor");
        let got = x
            .cast::<bf16>(&stream)
            .and_then(|y| y.item())
            .expect("a cast");
        assert_eq!(got.to_f64(), 2f64.powi(62) + 2f64.powi(55), "on {device}");
    }
}
