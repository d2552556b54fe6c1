//! Values of 60 digits, which share no formula with the functions; special values.

use super::{gelu, gelu_tanh, sigmoid, silu, tanh};

type Function = fn(f64) -> f64;

/// The functions in the order of the values' columns, with their bounds in ulp.
const FUNCTIONS: [(&str, Function, f64); 5] = [
    ("tanh", tanh, 2.0),
    ("sigmoid", sigmoid, 3.0),
    ("silu", silu, 5.0),
    ("gelu", gelu, 5.0),
    ("gelu_tanh", gelu_tanh, 6.0),
];

/// The distance in ulp of `want`; of the smallest normal number if that is subnormal.
fn ulps(got: f64, want: f64) -> f64 {
    let exponent = want.abs().max(f64::MIN_POSITIVE).log2().floor();
    // In two steps, as the ulp of a small number may be subnormal.
    (got - want).abs() * (52.0 - exponent).min(1000.0).exp2() * (-948.0 - exponent).max(0.0).exp2()
}

#[test]
fn functions_are_within_their_ulps_of_values_of_many_digits() {
    for line in include_str!("values.txt").lines().skip(1) {
        let numbers: Vec<f64> = line.split(' ').map(|x| x.parse().unwrap()).collect();
        for ((name, f, bound), want) in FUNCTIONS.into_iter().zip(&numbers[1..]) {
            let x = numbers[0];
            let error = ulps(f(x), *want);
            // The values are rounded themselves.
            assert!(error <= bound + 0.5, "{name}({x:e}): {error} ulp");
        }
    }
}

#[test]
fn ends_are_limits() {
    let inf = f64::INFINITY;
    assert_eq!((tanh(inf), tanh(-inf)), (1.0, -1.0));
    assert_eq!((sigmoid(inf), sigmoid(-inf)), (1.0, 0.0));
    for f in [silu, gelu, gelu_tanh] {
        assert_eq!(
            (f(inf), f(-inf), f(f64::MIN), f(f64::MAX)),
            (inf, 0.0, 0.0, f64::MAX)
        );
    }
    assert!(tanh(-0.0).is_sign_negative());
    for (name, f, _) in FUNCTIONS {
        assert!(f(f64::NAN).is_nan(), "{name}");
    }
}
