//! What a reference returns: values and bounds.

use ndarray::{ArrayD, ArrayViewD};
use spec::DType;

use crate::compare::{self, Agreement, Mismatch};
use crate::precision::{ETA32, Format, SLACK, U32};

/// Exact values of an operation and, element by element, the largest error of a correct result.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The values, in f64, before any rounding.
    pub values: ArrayD<f64>,
    /// The largest `|got - value|`. Infinite where an intermediate f32 may have overflowed and
    /// nothing can be promised; [`Agreement::unbounded`] counts those.
    pub bounds: ArrayD<f64>,
    /// The dtype of the judged result.
    pub dtype: DType,
}

impl Expected {
    /// Values that must be met exactly once rounded to `dtype`: the operation only moves numbers
    /// or counts.
    pub fn exact(values: ArrayD<f64>, dtype: DType) -> Self {
        let bounds = ArrayD::zeros(values.raw_dim());
        Self {
            values,
            bounds,
            dtype,
        }
    }

    /// Values computed in f32 with at most `errors`, then rounded once to `dtype`.
    ///
    /// The f32 result `r` is within `e` of the value `x`; rounding it adds at most
    /// `u_out |r| + eta_out / 2 <= u_out (|x| + e) + eta_out / 2`. For f32 that last rounding
    /// already happened and is part of `e`. All of it is widened by [`SLACK`].
    pub fn rounded_to(dtype: DType, values: ArrayD<f64>, errors: &ArrayD<f64>) -> Self {
        let mut bounds = errors.clone();
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

    /// Values that an f32 function returns within `ulps` units in the last place, then rounded
    /// to `dtype`. Half an ulp means correctly rounded.
    pub fn within_ulps(dtype: DType, values: ArrayD<f64>, ulps: f64) -> Self {
        let errors = values.mapv(|x| ulps * (2.0 * U32 * x.abs()).max(ETA32));
        Self::rounded_to(dtype, values, &errors)
    }

    /// Judges a result: NaN where the value is NaN and nowhere else, infinities alike, and every
    /// other element within its bound. A value whose rounding to the dtype overflows must be
    /// that infinity; one within its bound of the threshold may be.
    ///
    /// # Errors
    /// [`Mismatch`], naming the worst element.
    pub fn compare(&self, got: &ArrayViewD<'_, f64>) -> Result<Agreement, Mismatch> {
        compare::compare(got, self)
    }

    /// The largest bound, for tables: what an error has to be measured against.
    pub fn largest_bound(&self) -> f64 {
        self.bounds.iter().copied().fold(0.0, f64::max)
    }
}
