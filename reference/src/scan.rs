//! Running sums, products, maxima, minima and logsumexps along an axis.
//!
//! All but sums and products are NaN from the first NaN on. Exclusive scans begin with 0 (sums), 1
//! (products), the least value (maxima, logsumexps), and the greatest (minima).
//!
//! # Bounds
//!
//! Let `g(k) = k u / (1 - k u)` with the unit roundoff `u` of the dtype that the implementation
//! computes in. The error of a running sum is at most `g(additions) sum |x|` over its elements. A
//! product has a relative error of `g(2 n)` and, where partial products may underflow, an error of
//! `eta` times the factors that may follow. Maxima and minima are
//! exact. Each combination of two logarithms `l = ln(e^a + e^b)` has an absolute error of at most
//! `u (c + |l|)`, where `c` counts the errors of `exp`, `ln` and `1 + e`. Errors of earlier ones
//! count by their share of the sum. Shares of one level sum up to 1, and the entropy of `n` of them
//! is at most `ln n`. So a logsumexp `l` has an error of at most
//! `g(additions) (c + |l| + ln n)`. Then the result is rounded to the
//! dtype.

use abi::DType;
use abi::scan::ScanOp;
use ndarray::{ArrayD, ArrayViewD, Axis};

use crate::precision::Format;
use crate::sum::Compensated;
use crate::{Expected, Model, ReferenceError};

/// Scans `x` along `axis`, with the result in `dtype`, a floating-point type.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`].
pub fn scan(
    op: ScanOp,
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    is_exclusive: bool,
    dtype: DType,
    model: &Model,
) -> Result<Expected, ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    let format = match dtype {
        DType::F64 => Format::of(DType::F64),
        _ => Format::of(DType::F32),
    };
    let format = format.unwrap_or_else(|| unreachable!("both are floats"));
    let (unit, eta) = (
        format.unit_roundoff(),
        (2.0 * format.half_subnormal()).max(f64::from_bits(1)),
    );
    let growth = |n: usize| {
        let nu = n as f64 * unit;
        if nu < 1.0 {
            nu / (1.0 - nu)
        } else {
            f64::INFINITY
        }
    };
    let mut values = ArrayD::zeros(x.raw_dim());
    let mut errors = ArrayD::zeros(x.raw_dim());
    let outputs = values.lanes_mut(Axis(axis)).into_iter();
    let outputs = outputs.zip(errors.lanes_mut(Axis(axis)));
    for (lane, (mut value, mut error)) in x.lanes(Axis(axis)).into_iter().zip(outputs) {
        let mut state = State::new(op);
        for (i, &x) in lane.iter().enumerate() {
            if !is_exclusive {
                state.take(op, x);
            }
            (value[i], error[i]) = match op {
                ScanOp::Sum if state.size < format.max => {
                    (state.sum.value(), growth(model.additions) * state.size)
                }
                ScanOp::Sum => (state.sum.value(), f64::INFINITY),
                ScanOp::Prod => {
                    state.product(growth(2 * i + 2), eta * (2 * i + 2) as f64, format.max)
                }
                ScanOp::Max | ScanOp::Min => (state.value, 0.0),
                ScanOp::Logsumexp => {
                    let (value, own) = state.logarithm();
                    let per_step = 3.0 + 2.0 * (model.exp_ulps + model.log_ulps);
                    let size = per_step + value.abs() + ((i + 1) as f64).ln();
                    let error = growth(model.additions) * size + own;
                    (value, if value.is_finite() { error } else { 0.0 })
                }
            };
            if is_exclusive {
                state.take(op, x);
            }
        }
    }
    Expected::rounded_to(dtype, values, &errors)
}

/// Scans integers in wrapping 64-bit arithmetic.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::Operation`] (logsumexps).
pub fn integers(
    op: ScanOp,
    x: &ArrayViewD<'_, i64>,
    axis: usize,
    is_exclusive: bool,
) -> Result<ArrayD<i64>, ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    let mut values = ArrayD::zeros(x.raw_dim());
    let outputs = values.lanes_mut(Axis(axis)).into_iter();
    for (lane, mut value) in x.lanes(Axis(axis)).into_iter().zip(outputs) {
        let mut state = match op {
            ScanOp::Sum => 0,
            ScanOp::Prod => 1,
            ScanOp::Max => i64::MIN,
            ScanOp::Min => i64::MAX,
            ScanOp::Logsumexp => {
                return Err(ReferenceError::Operation {
                    op: op.name(),
                    want: "floats have one, by `scan`",
                });
            }
        };
        for (i, &x) in lane.iter().enumerate() {
            let next = match op {
                ScanOp::Sum => i64::wrapping_add(state, x),
                ScanOp::Prod => state.wrapping_mul(x),
                ScanOp::Max => state.max(x),
                ScanOp::Min | ScanOp::Logsumexp => state.min(x),
            };
            value[i] = if is_exclusive { state } else { next };
            state = next;
        }
    }
    Ok(values)
}

/// State of a scan over the elements so far.
struct State {
    sum: Compensated,
    /// The product, the extreme, or a number near the largest so far.
    value: f64,
    /// Sum of magnitudes.
    size: f64,
    /// Product of magnitudes above 1, and of those below.
    above: f64,
    below: f64,
    has_infinity: bool,
    has_zero: bool,
    is_finite: bool,
}

impl State {
    fn new(op: ScanOp) -> Self {
        Self {
            sum: Compensated::default(),
            value: match op {
                ScanOp::Max | ScanOp::Logsumexp => f64::NEG_INFINITY,
                ScanOp::Min => f64::INFINITY,
                ScanOp::Sum | ScanOp::Prod => 1.0,
            },
            size: 0.0,
            above: 1.0,
            below: 1.0,
            has_infinity: false,
            has_zero: false,
            is_finite: true,
        }
    }

    fn take(&mut self, op: ScanOp, x: f64) {
        match op {
            ScanOp::Sum => {
                self.sum.add(x);
                self.size += x.abs();
            }
            ScanOp::Prod => {
                self.value *= x;
                self.has_infinity |= x.is_infinite();
                self.has_zero |= x == 0.0;
                self.is_finite &= x.is_finite();
                if x.is_finite() && x != 0.0 {
                    self.above *= x.abs().max(1.0);
                    self.below *= x.abs().min(1.0);
                }
            }
            _ if x.is_nan() || self.value.is_nan() => self.value = f64::NAN,
            ScanOp::Max => self.value = self.value.max(x),
            ScanOp::Min => self.value = self.value.min(x),
            ScanOp::Logsumexp => {
                // Relative to a number up to 8 below the largest: it seldom changes, so the sum is
                // seldom rescaled.
                if x > self.value + 8.0 {
                    let sum = self.sum.value() * (self.value - x).exp();
                    (self.sum, self.value) = (Compensated::default(), x);
                    self.sum.add(sum);
                }
                let apart = if x == self.value { 0.0 } else { x - self.value };
                self.sum.add(apart.exp());
            }
        }
    }

    /// The logsumexp, and the error of computing it here, in f64.
    fn logarithm(&self) -> (f64, f64) {
        if !self.value.is_finite() {
            return (self.value, 0.0);
        }
        let value = self.value + self.sum.value().ln();
        (
            value,
            f64::EPSILON * (16.0 + value.abs() + self.value.abs()),
        )
    }

    /// The product and its error, which is infinite if a partial product may overflow, or if
    /// infinite elements are multiplied by partial products that may have underflowed. After a 0 it is
    /// exact.
    fn product(&self, growth: f64, eta: f64, max: f64) -> (f64, f64) {
        if self.has_zero && self.is_finite {
            return (0.0, 0.0);
        }
        let is_mixed = self.has_infinity && (self.below < 1e-30 || self.above > 1e30);
        if !self.value.is_nan() && (is_mixed || self.above >= max) {
            return (0.0, f64::INFINITY);
        }
        (self.value, growth * self.value.abs() + eta * self.above)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{arr1, arr2};

    use super::*;

    #[test]
    fn running_sums_products_and_maxima_of_a_known_row() {
        let x = arr1(&[3.0, -1.0, 4.0]).into_dyn();
        let model = Model::any_order(3, 0, 1.0);
        for (op, is_exclusive, want) in [
            (ScanOp::Sum, false, [3.0, 2.0, 6.0]),
            (ScanOp::Sum, true, [0.0, 3.0, 2.0]),
            (ScanOp::Prod, false, [3.0, -3.0, -12.0]),
            (ScanOp::Prod, true, [1.0, 3.0, -3.0]),
            (ScanOp::Max, false, [3.0, 3.0, 4.0]),
            (ScanOp::Max, true, [f64::NEG_INFINITY, 3.0, 3.0]),
            (ScanOp::Min, false, [3.0, -1.0, -1.0]),
            (ScanOp::Min, true, [f64::INFINITY, 3.0, -1.0]),
        ] {
            let got = scan(op, &x.view(), 0, is_exclusive, DType::F32, &model).unwrap();
            assert_eq!(got.values, arr1(&want).into_dyn(), "{op:?} {is_exclusive}");
        }
        assert!(scan(ScanOp::Sum, &x.view(), 1, false, DType::F32, &model).is_err());
    }

    #[test]
    fn integers_wrap_along_any_axis() {
        let x = arr2(&[[i64::MAX, 2], [1, 3]]).into_dyn();
        let got = integers(ScanOp::Sum, &x.view(), 0, false).unwrap();
        assert_eq!(got, arr2(&[[i64::MAX, 2], [i64::MIN, 5]]).into_dyn());
        assert!(integers(ScanOp::Logsumexp, &x.view(), 0, false).is_err());
    }

    #[test]
    fn logsumexps_neither_overflow_nor_lose_what_is_small() {
        let x = arr1(&[-800.0, -1.0, 0.0, 1000.0, f64::INFINITY, 3.0]).into_dyn();
        let model = Model::any_order(6, 0, 1.0);
        let got = scan(ScanOp::Logsumexp, &x.view(), 0, false, DType::F64, &model).unwrap();
        let third = (-1.0_f64).exp().ln_1p();
        let want = [-800.0, -1.0, third, 1000.0, f64::INFINITY, f64::INFINITY];
        for (i, want) in want.into_iter().enumerate() {
            let near = (got.values[[i]] - want).abs() < 1e-13 * want.abs();
            assert!(got.values[[i]] == want || near, "{i}: {got:?}");
        }
        let nothing = arr1(&[f64::NEG_INFINITY, f64::NEG_INFINITY]).into_dyn();
        let got = scan(
            ScanOp::Logsumexp,
            &nothing.view(),
            0,
            true,
            DType::F32,
            &model,
        )
        .unwrap();
        assert_eq!(got.values, nothing);
    }

    #[test]
    fn a_maximum_is_nan_from_the_first_nan_on() {
        let x = arr1(&[1.0, f64::NAN, 2.0]).into_dyn();
        let model = Model::any_order(3, 0, 1.0);
        let got = scan(ScanOp::Max, &x.view(), 0, false, DType::F32, &model).unwrap();
        assert!(got.values[[0]] == 1.0 && got.values[[1]].is_nan() && got.values[[2]].is_nan());
    }
}
