//! The error function in f64, which std lacks.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// Below this magnitude the series converges fast; above it, the continued fraction.
const SERIES_LIMIT: f64 = 2.5;

/// `erf(x) = 2/sqrt(pi) * integral of exp(-t^2) from 0 to x`.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() < SERIES_LIMIT {
        series(x)
    } else {
        (1.0 - fraction(x.abs())).copysign(x)
    }
}

/// `1 - erf(x)` without cancellation for large `x`.
pub fn erfc(x: f64) -> f64 {
    match x {
        x if x.is_nan() => x,
        x if x >= SERIES_LIMIT => fraction(x),
        x if x <= -SERIES_LIMIT => 2.0 - fraction(-x),
        x => 1.0 - series(x),
    }
}

/// `2/sqrt(pi) exp(-x^2) sum_n 2^n x^(2n+1) / (2n+1)!!`: all terms of one sign (DLMF 7.6.2).
fn series(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-18 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// erfc for `x >= 2.5` by its continued fraction (DLMF 7.9.1), from the inside out.
fn fraction(x: f64) -> f64 {
    let tail = (1..=120)
        .rev()
        .fold(x, |tail, n| x + f64::from(n) / 2.0 / tail);
    (-x * x).exp() / (PI.sqrt() * tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_tabulated_values() {
        // Abramowitz and Stegun, table 7.1 and 7.3.
        for (x, want) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (3.0, 0.999_977_909_503_001_4),
        ] {
            assert!((erf(x) - want).abs() < 4e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!((erfc(5.0) / 1.537_459_794_428_034_8e-12 - 1.0).abs() < 1e-13);
        assert_eq!((erf(f64::INFINITY), erfc(f64::NEG_INFINITY)), (1.0, 2.0));
        assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
    }

    #[test]
    fn both_branches_agree_where_they_meet() {
        for x in [2.0, 2.4, 2.6, 3.0] {
            let difference = 1.0 - series(x) - fraction(x);
            assert!(difference.abs() < 4e-16, "{x}: {difference:e}");
        }
    }
}
