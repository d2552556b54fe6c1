//! Errors relative to f64 results of functions of two arguments, inverse functions and derivatives.

use super::tests::{holds, ulps};
use super::*;

/// Pairs over all exponents, and all pairs of special values.
fn pairs() -> impl Iterator<Item = (f32, f32)> {
    const SPECIALS: [f32; 18] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.0,
        3.0,
        -3.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        16_777_216.0,
        -33_554_434.0,
    ];
    let mut state = 1_u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 32) as u32
    };
    let random = (0..400_000).map(move |i| {
        let (x, y) = (next(), next());
        match i % 3 {
            0 => (f32::from_bits(x), f32::from_bits(y)),
            // Close enough to each other, and to 1, for the results to be finite.
            1 => {
                let near = |bits: u32| f32::from_bits((bits & 0x81ff_ffff) | 0x3e00_0000);
                (near(x), near(y) * 40.0)
            }
            _ => {
                let x = f32::from_bits((x & 0x007f_ffff) | 0x3f80_0000);
                (x, (y as i32 as f32) * 6e-8)
            }
        }
    });
    let specials = SPECIALS.into_iter().flat_map(|x| SPECIALS.map(|y| (x, y)));
    specials.chain(random)
}

fn holds_for_pairs(f: impl Fn(f32, f32) -> f32, truth: impl Fn(f64, f64) -> f64, bound: f64) {
    for (x, y) in pairs() {
        let want = truth(f64::from(x), f64::from(y));
        let error = ulps(f(x, y), want);
        assert!(
            error <= bound,
            "{error} ulp at ({x:e}, {y:e}): got {:e}, want {want:e}",
            f(x, y)
        );
    }
}

#[test]
fn powers_are_within_their_bound_and_have_ieee_special_values() {
    holds_for_pairs(pow, libm::pow, 1.5);
    for (x, y) in pairs() {
        let (got, want) = (pow(x, y), libm::pow(f64::from(x), f64::from(y)) as f32);
        assert!(
            got.is_nan() || got.is_sign_negative() == want.is_sign_negative(),
            "sign of pow({x:e}, {y:e})"
        );
    }
}

#[test]
fn lengths_and_angles_are_within_their_bounds() {
    holds_for_pairs(hypot, libm::hypot, 1.1);
    holds_for_pairs(atan2, libm::atan2, 3.0);
    for (y, x) in [(0.0, -0.0), (-0.0, -0.0), (-0.0, 0.0), (-0.0, -1.0)] {
        assert_eq!(atan2(y, x), libm::atan2(y.into(), x.into()) as f32);
        assert_eq!(atan2(y, x).is_sign_negative(), y.is_sign_negative());
    }
}

#[test]
fn remainders_are_exact_but_for_one_addition() {
    // The f64 remainder of two f32 is exact, like the f32 one.
    holds_for_pairs(fmod, |x, y| x % y, 0.0);
    let truth = |x: f64, y: f64| {
        let rest = x % y;
        if rest != 0.0 && (rest < 0.0) != (y < 0.0) {
            rest + y
        } else {
            rest
        }
    };
    holds_for_pairs(remainder, truth, 0.5);
    assert_eq!(remainder(-7.0, 3.0), 2.0);
    assert_eq!(remainder(7.0, -3.0), -2.0);
    assert!(remainder(6.0, -3.0).is_sign_negative());
}

#[test]
fn hyperbolic_functions_are_within_their_bounds() {
    holds(expm1, f64::exp_m1, 1.5);
    holds(log1p, f64::ln_1p, 2.0);
    holds(log10, f64::log10, 2.0);
    holds(sinh, f64::sinh, 3.0);
    holds(cosh, f64::cosh, 2.5);
    holds(asinh, libm::asinh, 3.5);
    holds(
        acosh,
        |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
        3.5,
    );
    holds(atanh, libm::atanh, 3.0);
}

#[test]
fn inverse_functions_are_within_their_bounds() {
    holds(tan, f64::tan, 4.0);
    holds(atan, f64::atan, 2.5);
    holds(asin, f64::asin, 3.0);
    holds(acos, f64::acos, 3.0);
}

/// As `holds`, in ulp of the larger of |want| and `of`(x).
fn holds_for_sums(f: fn(f32) -> f32, truth: fn(f64) -> f64, of: fn(f64) -> f64, bound: f64) {
    for x in (0..=u32::MAX).step_by(2003).map(f32::from_bits) {
        let wide = f64::from(x);
        let (got, want) = (f(x), truth(wide));
        if want.is_nan() || got.is_nan() {
            assert!(
                want.is_nan() && got.is_nan(),
                "at {x:e}: got {got:e}, want {want:e}"
            );
            continue;
        }
        let least = f64::from(f32::MIN_POSITIVE);
        let ulp = want.abs().max(of(wide)).max(least).log2().floor().exp2() * 2f64.powi(-23);
        let error = (f64::from(got) - want).abs() / ulp;
        assert!(
            error <= bound,
            "{error} ulp at {x:e}: got {got:e}, want {want:e}"
        );
    }
}

fn logistic(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

#[test]
fn derivatives_are_within_their_bounds() {
    let sigmoid_truth = |x: f64| logistic(x) * logistic(-x);
    holds(sigmoid_grad, sigmoid_truth, 4.5);
    holds(
        tanh_grad,
        |x| 4.0 * logistic(2.0 * x) * logistic(-2.0 * x),
        6.0,
    );
    // The two terms of the sum; for very large |v| the second is 0, not inf · 0.
    fn gate(v: f64, g: f64) -> [f64; 2] {
        let far = v.abs() > 800.0;
        [
            logistic(v),
            if far {
                0.0
            } else {
                logistic(v) * logistic(-v) * g
            },
        ]
    }
    fn phi(x: f64) -> [f64; 2] {
        use core::f64::consts::{FRAC_1_SQRT_2, TAU};
        let density = (-0.5 * x * x).exp() / TAU.sqrt();
        [
            0.5 * libm::erfc(-x * FRAC_1_SQRT_2),
            if density == 0.0 { 0.0 } else { x * density },
        ]
    }
    fn tanh_gate(x: f64) -> [f64; 2] {
        let c = 2.0 * (2.0 / core::f64::consts::PI).sqrt();
        gate(
            c * (x + 0.044_715 * x * x * x),
            x * c * (1.0 + 3.0 * 0.044_715 * x * x),
        )
    }
    fn sum(x: [f64; 2]) -> f64 {
        x[0] + x[1]
    }
    fn size(x: [f64; 2]) -> f64 {
        x[0].abs().max(x[1].abs())
    }
    holds_for_sums(silu_grad, |x| sum(gate(x, x)), |x| size(gate(x, x)), 8.0);
    holds_for_sums(gelu_grad, |x| sum(phi(x)), |x| size(phi(x)), 6.0);
    holds_for_sums(
        gelu_tanh_grad,
        |x| sum(tanh_gate(x)),
        |x| size(tanh_gate(x)),
        12.0,
    );
    assert_eq!(
        [relu_grad(-1.0), relu_grad(0.0), relu_grad(2.0)],
        [0.0, 0.0, 1.0]
    );
}
