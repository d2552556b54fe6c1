//! Errors relative to f64 results, over a spread of all f32.

use super::*;

/// Error of `got` in ulp of `want`; 0 where both are the same special value.
pub(super) fn ulps(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if got.is_infinite() || want.is_infinite() || want.abs() >= 3.402_823_567_797_336_6e38 {
        return if f64::from(got) == f64::from(want as f32) {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = if want == 0.0 {
        -126
    } else {
        (want.abs().log2().floor() as i32).max(-126)
    };
    (f64::from(got) - want).abs() / f64::from(exponent - 23).exp2()
}

/// Checks `f` at every 2,003rd f32 and at special values.
pub(super) fn holds(f: impl Fn(f32) -> f32, truth: impl Fn(f64) -> f64, bound: f64) {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
    ];
    let mut worst = (0.0, 0.0f32);
    for x in (0..=u32::MAX)
        .step_by(2003)
        .map(f32::from_bits)
        .chain(specials)
    {
        let error = ulps(f(x), truth(f64::from(x)));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    let (error, x) = worst;
    assert!(
        error <= bound,
        "{error} ulp at {x:e}: got {:e}, want {:e}",
        f(x),
        truth(f64::from(x))
    );
}

#[test]
fn exponentials_and_logarithms_are_within_their_bounds() {
    holds(exp, f64::exp, 1.1);
    holds(exp2, f64::exp2, 1.0);
    holds(log, f64::ln, 1.0);
    holds(log2, f64::log2, 1.5);
    holds(rsqrt, |x| 1.0 / x.sqrt(), 1.5);
}

#[test]
fn single_operations_are_correctly_rounded() {
    holds(rcp, |x| 1.0 / x, 0.5);
    holds(sqrt, f64::sqrt, 0.5);
    holds(floor, f64::floor, 0.0);
    holds(ceil, f64::ceil, 0.0);
    holds(trunc, f64::trunc, 0.0);
    holds(rint, f64::round_ties_even, 0.0);
}

#[test]
fn trigonometry_holds_for_every_magnitude() {
    holds(sin, f64::sin, 2.0);
    holds(cos, f64::cos, 2.0);
    holds(tanh, f64::tanh, 2.0);
}

#[test]
fn error_functions_are_exact_into_the_tails() {
    holds(erf, libm::erf, 2.0);
    holds(erfc, libm::erfc, 5.0);
    let gelu_truth =
        |x: f64| 0.5 * x.max(f64::MIN) * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
    holds(gelu, gelu_truth, 5.0);
}

#[test]
fn activations_are_exact_into_the_tails() {
    holds(
        sigmoid,
        |x| {
            if x < 0.0 {
                x.exp() / (1.0 + x.exp())
            } else {
                1.0 / (1.0 + (-x).exp())
            }
        },
        3.0,
    );
    let gate = |x: f64, v: f64| {
        if v < 0.0 {
            x.max(f64::MIN) * v.exp() / (1.0 + v.exp())
        } else {
            x / (1.0 + (-v).exp())
        }
    };
    holds(silu, |x| gate(x, x), 5.0);
    let slope = 2.0 * (2.0 / core::f64::consts::PI).sqrt();
    holds(
        gelu_tanh,
        |x| gate(x, slope * (x + 0.044_715 * x * x * x)),
        6.0,
    );
}

#[test]
fn short_forms_are_within_their_bounds() {
    use core::f64::consts::{FRAC_1_SQRT_2, PI};
    let gate = |x: f64, v: f64| {
        if v < 0.0 {
            x.max(f64::MIN) * v.exp() / (1.0 + v.exp())
        } else {
            x / (1.0 + (-v).exp())
        }
    };
    holds(narrow::exp, f64::exp, 128.0);
    holds(narrow::exp2, f64::exp2, 128.0);
    holds(narrow::sqrt, f64::sqrt, 1.5);
    holds(narrow::rsqrt, |x| 1.0 / x.sqrt(), 3.0);
    holds(narrow::tanh, f64::tanh, 20.0);
    holds(narrow::sigmoid, |x| gate(1.0, x), 128.0);
    holds(narrow::silu, |x| gate(x, x), 128.0);
    let slope = 2.0 * (2.0 / PI).sqrt();
    let gelu_tanh = |x: f64| gate(x, slope * (x + 0.044_715 * x * x * x));
    holds(narrow::gelu_tanh, gelu_tanh, 300.0);
    holds(
        narrow::gelu,
        |x| 0.5 * x.max(f64::MIN) * libm::erfc(-x * FRAC_1_SQRT_2),
        250.0,
    );
}

#[test]
fn the_larger_and_the_smaller_tell_zeros_apart() {
    for (a, b) in [(0.0_f32, -0.0), (-0.0, 0.0)] {
        assert_eq!(maximum(a, b).to_bits(), 0.0_f32.to_bits());
        assert_eq!(minimum(a, b).to_bits(), (-0.0_f32).to_bits());
    }
    assert!(maximum(f32::NAN, 1.0).is_nan() && minimum(1.0, f32::NAN).is_nan());
    assert_eq!((maximum(1.0, 2.0), minimum(1.0, 2.0)), (2.0, 1.0));
}

#[test]
fn larger_and_smaller_pass_nan_on() {
    assert!(max_nan(f32::NAN, 1.0).is_nan() && max_nan(1.0, f32::NAN).is_nan());
    assert!(min_nan(f32::NAN, 1.0).is_nan() && min_nan(1.0, f32::NAN).is_nan());
    assert_eq!((max_nan(1.0, 2.0), min_nan(1.0, 2.0)), (2.0, 1.0));
}
