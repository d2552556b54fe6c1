//! Products of i8 with results in i32, exactly; [`fused`](super::fused()) has those in floats
//! ([`Arithmetic::Integer`](super::Arithmetic::Integer)).
//!
//! All is in i32 and wraps: sums, factors, additions. A product of two i8 is at most 2^14, so sums of up
//! to 131,071 products do not wrap. Sums in f64 are exact up to 2^53, of any k that there is memory for.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn};

use super::parts::Parts;
use super::{extents, matrix, product};
use crate::{Expected, ReferenceError};

/// The epilogue. Arrays, which hold values of i32, broadcast to the result.
#[derive(Clone, Debug)]
pub struct IntegerOptions<'a> {
    /// Factor of `a @ b`.
    pub alpha: i32,
    /// Factor of `c`; if it is 0, `c` is not read.
    pub beta: i32,
    /// Added after multiplication by `beta`.
    pub c: Option<ArrayViewD<'a, f64>>,
    /// Added.
    pub bias: Option<ArrayViewD<'a, f64>>,
    /// Whether negative sums of these become 0.
    pub has_relu: bool,
    /// Added after that.
    pub residual: Option<ArrayViewD<'a, f64>>,
}

impl Default for IntegerOptions<'_> {
    fn default() -> Self {
        Self {
            alpha: 1,
            beta: 0,
            c: None,
            bias: None,
            has_relu: false,
            residual: None,
        }
    }
}

/// The i32 that an integer of up to 53 bits wraps to.
pub(super) fn wrapped(x: f64) -> f64 {
    f64::from(x as i64 as i32)
}

/// `relu(alpha * (a @ b) + beta * c + bias) + residual` in wrapping i32, for operands that hold values
/// of i8, with the shapes of [`super::gemm`].
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn integer(
    a: &ArrayViewD<'_, f64>,
    b: &ArrayViewD<'_, f64>,
    options: &IntegerOptions<'_>,
) -> Result<Expected, ReferenceError> {
    let extents = extents(a, b)?;
    let parts = Parts::new(
        &extents,
        &[None, None],
        (options.beta.into(), &options.c),
        &options.bias,
        &options.residual,
    )?;
    let mut values = ArrayD::zeros(IxDyn(&[extents.batch, extents.m, extents.n]));
    for batch_idx in 0..extents.batch {
        let (sums, _) = product(&matrix(a, batch_idx), &matrix(b, batch_idx));
        let mut values = values.index_axis_mut(Axis(0), batch_idx);
        for ((i, j), &sum) in sums.indexed_iter() {
            let part = parts.at([batch_idx, i, j]);
            // Products of two i32 are exact in f64 only up to 2^53.
            let scaled = options.alpha.wrapping_mul(sum as i64 as i32);
            let of_c = options.beta.wrapping_mul(part.c.unwrap_or(0.0) as i32);
            let addends = [of_c, part.bias.unwrap_or(0.0) as i32];
            let x = addends.into_iter().fold(scaled, i32::wrapping_add);
            let x = if options.has_relu { x.max(0) } else { x };
            let x = x.wrapping_add(part.residual.unwrap_or(0.0) as i32);
            values[[i, j]] = x.into();
        }
    }
    let errors = ArrayD::zeros(values.raw_dim());
    extents.expected(DType::I32, values, errors)
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::super::{Arithmetic, FusedOptions, fused};
    use super::*;

    #[test]
    fn sums_wrap_one_product_after_the_last_exact_one() {
        for (k, want) in [(131_071, 2_147_467_264), (131_072, i32::MIN)] {
            let a = ArrayD::from_elem(vec![1, k], -128.0);
            let d = integer(&a.view(), &a.t(), &IntegerOptions::default()).unwrap();
            assert_eq!(d.values[[0, 0]], f64::from(want));
            let options = FusedOptions {
                arithmetic: Arithmetic::Integer,
                ..FusedOptions::default()
            };
            let d = fused(&a.view(), &a.t(), &options).unwrap();
            assert_eq!(d.values[[0, 0]], f64::from(want));
        }
    }

    #[test]
    fn every_part_stands_in_its_place_and_wraps() {
        let a = arr2(&[[1.0, 2.0], [3.0, 4.0]]).into_dyn();
        let b = arr2(&[[1.0, 0.0], [0.0, -1.0]]).into_dyn(); // a @ b = [[1, -2], [3, -4]]
        let c = arr2(&[[1.0, 1.0], [1.0, f64::from(i32::MAX)]]).into_dyn();
        let bias = arr2(&[[5.0, 50.0]]).into_dyn();
        let residual = arr2(&[[10.0, 10.0], [20.0, 20.0]]).into_dyn();
        let options = IntegerOptions {
            alpha: 3,
            beta: 2,
            c: Some(c.view()),
            bias: Some(bias.view()),
            has_relu: true,
            residual: Some(residual.view()),
        };
        // 3 + 2 + 5 + 10, -6 + 2 + 50 + 10; 9 + 2 + 5 + 20, -12 + (2^32 - 2) + 50 + 20
        let d = integer(&a.view(), &b.view(), &options).unwrap();
        assert_eq!(d.values, arr2(&[[20.0, 56.0], [36.0, 56.0]]).into_dyn());
        assert!(d.bounds.iter().all(|&bound| bound == 0.0));
    }
}
