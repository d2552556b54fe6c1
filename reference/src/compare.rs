//! Checking a result element by element.

use std::fmt;

use ndarray::{ArrayViewD, Dimension};
use thiserror::Error;

use crate::Expected;
use crate::precision::Format;

/// Statistics of a result that is within its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Largest `|got - want|` over finite elements.
    pub max_error: f64,
    /// Largest ratio of an error to its bound, at most 1. An exact element counts as 0.
    pub max_ratio: f64,
    /// Index of the element with `max_ratio`; empty if all elements are exact.
    pub worst_index: Vec<usize>,
    /// Number of elements.
    pub elements: usize,
    /// Number of elements without a finite bound, whose values were not checked.
    pub unbounded: usize,
}

/// A result that is wrong.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The result has the wrong shape.
    #[error("the result has shape {got:?}, expected {want:?}")]
    Shape {
        /// Shape of the result.
        got: Vec<usize>,
        /// Shape of the reference.
        want: Vec<usize>,
    },
    /// Elements outside their bounds.
    #[error("{count} of {elements} elements are wrong; the worst: {worst}")]
    Elements {
        /// Number of wrong elements.
        count: usize,
        /// Number of all elements.
        elements: usize,
        /// The element with the largest ratio of error to bound.
        worst: WrongElement,
    },
}

/// One element outside its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongElement {
    /// Its index.
    pub index: Vec<usize>,
    /// Its value in the result.
    pub got: f64,
    /// Its value in the reference.
    pub want: f64,
    /// The largest error allowed.
    pub bound: f64,
}

impl fmt::Display for WrongElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            got,
            want,
            bound,
        } = self;
        write!(
            f,
            "{index:?} is {got:e}, expected {want:e} within {bound:e}"
        )?;
        let error = (got - want).abs();
        if error.is_finite() {
            write!(f, " (off by {error:e}")?;
            if *bound > 0.0 {
                write!(f, ", {:.3} of the bound", error / bound)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// The verdict on one element.
enum Verdict {
    /// Within the bound: the error, and its ratio to the bound.
    Good { error: f64, ratio: f64 },
    /// No finite bound.
    Unbounded,
    /// Wrong, with the ratio of the error to the bound.
    Bad { ratio: f64 },
}

pub(crate) fn compare(
    got: &ArrayViewD<'_, f64>,
    expected: &Expected,
) -> Result<Agreement, Mismatch> {
    if got.shape() != expected.values.shape() {
        return Err(Mismatch::Shape {
            got: got.shape().to_vec(),
            want: expected.values.shape().to_vec(),
        });
    }
    let overflow = Format::of(expected.dtype).map_or(f64::INFINITY, Format::overflow);
    let mut agreement = Agreement {
        max_error: 0.0,
        max_ratio: 0.0,
        worst_index: Vec::new(),
        elements: got.len(),
        unbounded: 0,
    };
    let mut count = 0;
    let mut worst: Option<(f64, WrongElement)> = None;
    let triples = got
        .indexed_iter()
        .zip(&expected.values)
        .zip(&expected.bounds);
    for (((index, &got), &want), &bound) in triples {
        match judge(got, want, bound, overflow) {
            Verdict::Good { error, ratio } => {
                agreement.max_error = agreement.max_error.max(error);
                if ratio > agreement.max_ratio {
                    agreement.max_ratio = ratio;
                    agreement.worst_index = index.slice().to_vec();
                }
            }
            Verdict::Unbounded => agreement.unbounded += 1,
            Verdict::Bad { ratio } => {
                count += 1;
                if worst.as_ref().is_none_or(|(previous, _)| ratio > *previous) {
                    let index = index.slice().to_vec();
                    worst = Some((
                        ratio,
                        WrongElement {
                            index,
                            got,
                            want,
                            bound,
                        },
                    ));
                }
            }
        }
    }
    match worst {
        None => Ok(agreement),
        Some((_, worst)) => Err(Mismatch::Elements {
            count,
            elements: agreement.elements,
            worst,
        }),
    }
}

fn judge(got: f64, want: f64, bound: f64, overflow: f64) -> Verdict {
    const EXACT: Verdict = Verdict::Good {
        error: 0.0,
        ratio: 0.0,
    };
    const WRONG_KIND: Verdict = Verdict::Bad {
        ratio: f64::INFINITY,
    };
    if want.is_nan() {
        return if got.is_nan() { EXACT } else { WRONG_KIND };
    }
    if want.is_infinite() {
        return if got == want { EXACT } else { WRONG_KIND };
    }
    if !bound.is_finite() {
        return Verdict::Unbounded;
    }
    if got.is_infinite() && got.signum() == want.signum() && want.abs() + bound >= overflow {
        return EXACT;
    }
    if want.abs() - bound >= overflow || !got.is_finite() {
        return WRONG_KIND;
    }
    let error = (got - want).abs();
    if error <= bound {
        let ratio = if error == 0.0 { 0.0 } else { error / bound };
        Verdict::Good { error, ratio }
    } else {
        Verdict::Bad {
            ratio: error / bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use abi::DType;
    use ndarray::{ArrayD, arr1};

    use super::*;

    fn expected(values: &[f64], bounds: &[f64], dtype: DType) -> Expected {
        Expected {
            values: arr1(values).into_dyn(),
            bounds: arr1(bounds).into_dyn(),
            dtype,
        }
    }

    fn check(got: &[f64], expected: &Expected) -> Result<Agreement, Mismatch> {
        expected.compare(&arr1(got).into_dyn().view())
    }

    #[test]
    fn reports_the_largest_share_of_a_bound_and_where() {
        let want = expected(&[1.0, 100.0, 5.0], &[0.1, 1.0, 0.0], DType::F32);
        let agreement = check(&[1.05, 100.25, 5.0], &want).unwrap();
        assert_eq!(agreement.worst_index, [0]);
        assert_eq!(agreement.max_error, 0.25);
        assert!((agreement.max_ratio - 0.5).abs() < 1e-9);
        assert_eq!((agreement.elements, agreement.unbounded), (3, 0));
    }

    #[test]
    fn names_the_element_farthest_outside_its_bound() {
        let want = expected(&[1.0, 2.0, 3.0], &[0.1, 0.1, 0.1], DType::F32);
        let error = check(&[1.2, 2.0, 9.0], &want).unwrap_err();
        let Mismatch::Elements { count, worst, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*count, worst.index.as_slice()), (2, [2].as_slice()));
        assert!(
            error.to_string().contains("2 of 3 elements are wrong"),
            "{error}"
        );
    }

    #[test]
    fn a_zero_bound_means_equality() {
        let want = expected(&[1.0], &[0.0], DType::F32);
        assert!(check(&[1.0], &want).is_ok());
        assert!(check(&[1.0 + f64::EPSILON], &want).is_err());
    }

    #[test]
    fn nan_and_infinity_must_stand_where_expected_and_nowhere_else() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let want = expected(&[nan, inf, 1.0], &[1.0, 1.0, 1.0], DType::F32);
        assert!(check(&[nan, inf, 1.0], &want).is_ok());
        for wrong in [
            [0.0, inf, 1.0],
            [nan, -inf, 1.0],
            [nan, nan, 1.0],
            [nan, inf, nan],
        ] {
            assert!(check(&wrong, &want).is_err(), "{wrong:?}");
        }
        assert!(check(&[nan, inf, inf], &want).is_err());
    }

    #[test]
    fn overflow_of_the_output_dtype_is_infinity_and_only_there() {
        let want = expected(
            &[70_000.0, 65_519.0, 60_000.0],
            &[1.0, 32.0, 32.0],
            DType::F16,
        );
        let inf = f64::INFINITY;
        assert!(check(&[inf, 65_504.0, 60_000.0], &want).is_ok());
        assert!(check(&[inf, inf, 60_000.0], &want).is_ok());
        assert!(check(&[65_504.0, inf, 60_000.0], &want).is_err());
        assert!(check(&[inf, inf, inf], &want).is_err());
    }

    #[test]
    fn elements_without_a_bound_are_counted() {
        let want = expected(&[1.0, 1.0], &[f64::INFINITY, 1.0], DType::F32);
        assert_eq!(check(&[f64::NAN, 1.0], &want).unwrap().unbounded, 1);
    }

    #[test]
    fn another_shape_is_a_mismatch() {
        let want = expected(&[1.0, 2.0], &[1.0, 1.0], DType::F32);
        let got = ArrayD::zeros(vec![2, 1]);
        let error = want.compare(&got.view()).unwrap_err();
        assert!(matches!(error, Mismatch::Shape { .. }), "{error}");
    }
}
