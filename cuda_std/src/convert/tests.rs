//! f16 and bf16 against the crate `half`; fp8 against a table of all its values.

use super::*;

/// All finite non-negative values of an 8-bit format in order, by its definition.
fn values(exponent_bits: u32, mantissa_bits: u32, bias: i32, finite: usize) -> Vec<f64> {
    assert_eq!(exponent_bits + mantissa_bits, 7);
    (0..finite)
        .map(|code| {
            let fraction =
                (code & ((1 << mantissa_bits) - 1)) as f64 / f64::from(1 << mantissa_bits);
            match (code >> mantissa_bits) as i32 {
                0 => fraction * 2f64.powi(1 - bias),
                field => (1.0 + fraction) * 2f64.powi(field - bias),
            }
        })
        .collect()
}

/// The code of the nearest value, ties to the even code, saturating.
fn nearest(values: &[f64], x: f32) -> u8 {
    let magnitude = f64::from(x.abs());
    let above = values.partition_point(|&v| v < magnitude);
    let code = if above == values.len() {
        above - 1
    } else if above == 0 {
        0
    } else {
        let (down, up) = (magnitude - values[above - 1], values[above] - magnitude);
        let even = if above % 2 == 0 { above } else { above - 1 };
        if down < up {
            above - 1
        } else if up < down {
            above
        } else {
            even
        }
    };
    code as u8 | if x.is_sign_negative() { 0x80 } else { 0 }
}

/// A spread of all f32, every one near a 16-bit or 8-bit tie included.
fn spread() -> impl Iterator<Item = f32> {
    let ties = (0..=u32::from(u16::MAX)).flat_map(|top| {
        let low = [
            0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000,
        ];
        low.into_iter().map(move |low| top << 16 | low)
    });
    (0..=u32::MAX).step_by(4099).chain(ties).map(f32::from_bits)
}

#[test]
fn f16_and_bf16_widen_exactly() {
    for bits in 0..=u16::MAX {
        for (got, want) in [
            (f16_to_f32(bits), half::f16::from_bits(bits).to_f32()),
            (bf16_to_f32(bits), half::bf16::from_bits(bits).to_f32()),
        ] {
            assert!(got == want || got.is_nan() && want.is_nan(), "{bits:#x}");
        }
    }
}

#[test]
fn f16_and_bf16_round_to_nearest_even() {
    for x in spread() {
        let want = |bits: u16| if x.is_nan() { 0x7fff } else { bits };
        assert_eq!(
            f32_to_f16(x),
            want(half::f16::from_f32(x).to_bits()),
            "{x:e}"
        );
        let bf16 = want(half::bf16::from_f32(x).to_bits());
        assert_eq!(f32_to_bf16(x), bf16, "{x:e}");
        assert_eq!(f32_to_bf16_cvt(x), bf16, "{x:e}");
        assert_eq!(
            f32x2_to_bf16x2_cvt(x, 1.0),
            0x3f80_0000 | u32::from(bf16),
            "{x:e}"
        );
    }
}

#[test]
fn fp8_widens_to_the_value_of_its_definition() {
    let e4m3 = values(4, 3, 7, 0x7f);
    let e5m2 = values(5, 2, 15, 0x7c);
    for code in 0..=u8::MAX {
        let sign = if code < 0x80 { 1.0 } else { -1.0 };
        let index = usize::from(code & 0x7f);
        match e4m3.get(index) {
            Some(&v) => assert_eq!(f64::from(e4m3_to_f32(code)), sign * v, "{code:#x}"),
            None => assert!(e4m3_to_f32(code).is_nan(), "{code:#x}"),
        }
        match e5m2.get(index) {
            Some(&v) => assert_eq!(f64::from(e5m2_to_f32(code)), sign * v, "{code:#x}"),
            None if index == 0x7c => assert!(e5m2_to_f32(code).is_infinite()),
            None => assert!(e5m2_to_f32(code).is_nan(), "{code:#x}"),
        }
    }
}

#[test]
fn fp8_rounds_to_nearest_even_and_saturates() {
    let e4m3 = values(4, 3, 7, 0x7f);
    let e5m2 = values(5, 2, 15, 0x7c);
    for x in spread() {
        let (want4, want5) = if x.is_nan() {
            (0x7f, 0x7f)
        } else {
            (nearest(&e4m3, x), nearest(&e5m2, x))
        };
        assert_eq!(f32_to_e4m3_satfinite(x), want4, "{x:e}");
        assert_eq!(f32_to_e5m2_satfinite(x), want5, "{x:e}");
    }
}

#[test]
fn tf32_rounds_to_eleven_bits_with_ties_away() {
    let step = 2f32.powi(-10);
    for (x, want) in [
        (1.0, 1.0),
        (1.0 + 0.5 * step, 1.0 + step),
        (-1.0 - 0.5 * step, -1.0 - step),
        (1.0 + 0.49 * step, 1.0),
        (f32::MAX, f32::INFINITY),
        (f32::NEG_INFINITY, f32::NEG_INFINITY),
        (-0.0, -0.0),
    ] {
        assert_eq!(f32_to_tf32_rna(x), f32::to_bits(want), "{x}");
    }
    assert!(f32::from_bits(f32_to_tf32_rna(f32::NAN)).is_nan());
}
