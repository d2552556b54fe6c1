//! The result of a reference: values and error bounds.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD};

use crate::ReferenceError;
use crate::compare::{self, Agreement, Mismatch};
use crate::precision::{ETA32, Format, SLACK, U32};

/// Values of an operation in f64 and, for each element, the largest error of a correct result.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The values in f64, before any rounding to the result's dtype.
    pub values: ArrayD<f64>,
    /// The largest correct `|got - value|` of each element. It is infinite where an intermediate
    /// f32 may overflow, so that there is no bound; [`Agreement::unbounded`] counts those elements.
    pub bounds: ArrayD<f64>,
    /// The dtype of the result to be checked.
    pub dtype: DType,
}

impl Expected {
    /// Values that a correct result equals exactly, for operations that only move numbers or count.
    pub fn exact(values: ArrayD<f64>, dtype: DType) -> Self {
        let bounds = ArrayD::zeros(values.raw_dim());
        Self {
            values,
            bounds,
            dtype,
        }
    }

    /// Values of an implementation that computes in f32 with errors up to `errors`, and then rounds
    /// once to `dtype`.
    ///
    /// The f32 result `r` is within `e` of the value `x`. Rounding it adds an error of at most
    /// `u_out |r| + eta_out / 2 <= u_out (|x| + e) + eta_out / 2`. For f32 and f64 there is no such
    /// last rounding: it is part of `e`. The bound is widened by [`SLACK`].
    ///
    /// # Errors
    /// [`ReferenceError::ShapeMismatch`] unless there is an error for each value.
    pub fn rounded_to(
        dtype: DType,
        values: ArrayD<f64>,
        errors: &ArrayD<f64>,
    ) -> Result<Self, ReferenceError> {
        ReferenceError::unless_shape_of("values", values.shape(), "errors", errors.shape())?;
        Ok(Self::rounded(dtype, values, errors.clone()))
    }

    /// [`rounded_to`](Self::rounded_to), of errors that have the shape of the values.
    fn rounded(dtype: DType, values: ArrayD<f64>, errors: ArrayD<f64>) -> Self {
        let mut bounds = errors;
        let output = match dtype {
            DType::F32 | DType::F64 => None,
            _ => Format::of(dtype),
        };
        bounds.zip_mut_with(&values, |bound, &value| {
            let rounding = output.map_or(0.0, |format| {
                format.unit_roundoff() * (value.abs() + *bound) + format.half_subnormal()
            });
            *bound = (*bound + rounding) * SLACK;
        });
        Self {
            values,
            bounds,
            dtype,
        }
    }

    /// Values of an f32 function with an error up to `ulps` units in the last place, whose result
    /// is then rounded to `dtype`. Half an ulp means correctly rounded.
    pub fn within_ulps(dtype: DType, values: ArrayD<f64>, ulps: f64) -> Self {
        let errors = values.mapv(|x| ulps * (2.0 * U32 * x.abs()).max(ETA32));
        Self::rounded(dtype, values, errors)
    }

    /// Checks a result. Elements must be NaN where the value is NaN and nowhere else, likewise for
    /// infinities, and all other elements must be within their bounds. A value that overflows when
    /// it is rounded to the dtype must be that infinity; a value within its bound of the overflow
    /// threshold may be.
    ///
    /// # Errors
    /// [`Mismatch`], with the worst element.
    pub fn compare(&self, got: &ArrayViewD<'_, f64>) -> Result<Agreement, Mismatch> {
        compare::compare(got, self)
    }

    /// The largest bound of all elements, for tables.
    pub fn largest_bound(&self) -> f64 {
        self.bounds.iter().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_error_for_each_value() {
        let zeros = |shape: &[usize]| ArrayD::zeros(shape);
        for errors in [&[3][..], &[1], &[], &[2, 1]] {
            let error = Expected::rounded_to(DType::F32, zeros(&[2]), &zeros(errors)).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(&format!("errors has shape {errors:?}")),
                "{text}"
            );
            assert!(text.contains("it has to be [2], as values"), "{text}");
        }
        assert!(Expected::rounded_to(DType::F32, zeros(&[2]), &zeros(&[2])).is_ok());
    }
}
