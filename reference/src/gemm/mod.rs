//! `D = alpha * A @ B + beta * C`, batched; [`fused`] has the other epilogues, and other arithmetic
//! than f32; [`double`] has products in f64, [`integer`] those of i8 in i32.
//!
//! # Bound
//!
//! Let `S = sum_l |a_il| |b_lj|`. The implementation multiplies and adds in f32, in any order,
//! fused or not. Each product passes through at most `k` roundings (its own and at most `k - 1`
//! additions). So the accumulator is within `gamma(k) S` of `A @ B`, plus `eta` for each product
//! that may be subnormal. The epilogue `alpha * acc + beta * c` adds at most three roundings to
//! each of its two terms, hence
//!
//! `|d - D| <= |alpha| (gamma(k + 3) S + k eta) + gamma(3) |beta c| + 3 eta`
//!
//! and then the rounding to the output's dtype ([`Expected::rounded_to`]). If `beta == 0`, c is not
//! read. Where `S` exceeds the largest f32, a partial sum may overflow although the result would
//! not, so the bound is infinite.

mod arithmetic;
mod double;
mod fused;
mod grouped;
mod integer;
mod parts;

pub use arithmetic::Arithmetic;
pub use double::{DoubleOptions, double};
pub use fused::{FusedOptions, fused};
pub use grouped::{grouped, rows_of_groups};
pub use integer::{IntegerOptions, integer};

use abi::DType;
use ndarray::{Array2, ArrayD, ArrayView2, ArrayViewD, Axis, Dimension, Ix2};
use rayon::prelude::*;

use crate::precision::{ETA32, gamma};
use crate::{Expected, ReferenceError};

/// Scalars of a GEMM, and the dtype of its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmOptions {
    /// Factor of `a @ b`.
    pub alpha: f32,
    /// Factor of `c`; if it is 0, `c` is not read.
    pub beta: f32,
    /// The dtype of the result.
    pub dtype: DType,
}

impl Default for GemmOptions {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            beta: 0.0,
            dtype: DType::F32,
        }
    }
}

/// GEMM of `a`: `[m, k]` or `[batch, m, k]`, and `b`: `[k, n]` or `[batch, k, n]`, with a `c` that
/// broadcasts to `[batch, m, n]`. An operand without a batch, or with a batch of 1, is broadcast.
/// Transposed operands are views. The result has three dimensions if `a` or `b` has.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn gemm(
    a: &ArrayViewD<'_, f64>,
    b: &ArrayViewD<'_, f64>,
    c: Option<&ArrayViewD<'_, f64>>,
    options: &GemmOptions,
) -> Result<Expected, ReferenceError> {
    let extents = extents(a, b)?;
    let Extents { batch, m, n, k, .. } = extents;
    let c = match c {
        Some(c) if options.beta != 0.0 => {
            Some(c.broadcast(vec![batch, m, n]).ok_or_else(|| {
                ReferenceError::shape("c", c.shape(), format!("it has to broadcast to {m} x {n}"))
            })?)
        }
        _ => None,
    };
    let mut values = ArrayD::zeros(vec![batch, m, n]);
    let mut errors = ArrayD::zeros(vec![batch, m, n]);
    for batch_idx in 0..batch {
        let (product, magnitude) = product(&matrix(a, batch_idx), &matrix(b, batch_idx));
        let mut value = values.index_axis_mut(Axis(0), batch_idx);
        let mut error = errors.index_axis_mut(Axis(0), batch_idx);
        let alpha = f64::from(options.alpha);
        value.assign(&(product * alpha));
        error.assign(&magnitude.mapv(|s| accumulator_error(alpha, k, s)));
        if let Some(c) = &c {
            let scaled = c
                .index_axis(Axis(0), batch_idx)
                .mapv(|c| f64::from(options.beta) * c);
            value += &scaled;
            error.zip_mut_with(&scaled, |error, x| *error += gamma(3) * x.abs());
        }
    }
    extents.expected(options.dtype, values, errors)
}

/// Extents of a GEMM.
struct Extents {
    /// 1 without a batch.
    batch: usize,
    has_batch: bool,
    m: usize,
    n: usize,
    k: usize,
}

impl Extents {
    /// Results and their errors, which lose the batch if no operand has one.
    fn expected(
        &self,
        dtype: DType,
        mut values: ArrayD<f64>,
        mut errors: ArrayD<f64>,
    ) -> Result<Expected, ReferenceError> {
        if !self.has_batch {
            values = values.index_axis_move(Axis(0), 0);
            errors = errors.index_axis_move(Axis(0), 0);
        }
        Expected::rounded_to(dtype, values, &errors)
    }
}

fn extents(a: &ArrayViewD<'_, f64>, b: &ArrayViewD<'_, f64>) -> Result<Extents, ReferenceError> {
    let (batch_a, [m, k]) = split("a", a)?;
    let (batch_b, [k_b, n]) = split("b", b)?;
    if k_b != k {
        let want = format!("a is {:?}, so it has to be [.., {k}, n]", a.shape());
        return Err(ReferenceError::shape("b", b.shape(), want));
    }
    let batch = match (batch_a.unwrap_or(1), batch_b.unwrap_or(1)) {
        (x, y) if x == y || y == 1 => x,
        (1, y) => y,
        (x, _) => {
            let want = format!("a has a batch of {x}, so b has 1 or {x}");
            return Err(ReferenceError::shape("b", b.shape(), want));
        }
    };
    Ok(Extents {
        batch,
        has_batch: batch_a.is_some() || batch_b.is_some(),
        m,
        n,
        k,
    })
}

fn accumulator_error(alpha: f64, k: usize, magnitude: f64) -> f64 {
    if magnitude > f64::from(f32::MAX) {
        return f64::INFINITY;
    }
    alpha.abs() * (gamma(k + 3) * magnitude + k as f64 * ETA32) + 3.0 * ETA32
}

fn split(
    operand: &'static str,
    array: &ArrayViewD<'_, f64>,
) -> Result<(Option<usize>, [usize; 2]), ReferenceError> {
    match *array.shape() {
        [rows, columns] => Ok((None, [rows, columns])),
        [batch, rows, columns] => Ok((Some(batch), [rows, columns])),
        ref shape => Err(ReferenceError::shape(
            operand,
            shape,
            "it has to have 2 or 3 dimensions",
        )),
    }
}

fn matrix<'a>(array: &'a ArrayViewD<'_, f64>, batch_idx: usize) -> ArrayView2<'a, f64> {
    let view = match array.ndim() {
        2 => array.view(),
        _ => array.index_axis(
            Axis(0),
            if array.len_of(Axis(0)) == 1 {
                0
            } else {
                batch_idx
            },
        ),
    };
    let shape = Ix2(view.shape()[0], view.shape()[1]);
    // `view` has two dimensions by construction, so the conversion cannot fail.
    view.into_dimensionality().unwrap_or_else(|_| {
        unreachable!(
            "a matrix of {} dimensions, expected {:?}",
            array.ndim(),
            shape.slice()
        )
    })
}

/// `A @ B` and `|A| @ |B|`.
fn product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>) -> (Array2<f64>, Array2<f64>) {
    let (m, n) = (a.nrows(), b.ncols());
    let b = b.as_standard_layout();
    let mut values = Array2::zeros((m, n));
    let mut magnitudes = Array2::zeros((m, n));
    let rows = values
        .axis_iter_mut(Axis(0))
        .zip(magnitudes.axis_iter_mut(Axis(0)));
    let rows: Vec<_> = rows.zip(a.axis_iter(Axis(0))).collect();
    rows.into_par_iter()
        .for_each(|((mut value, mut magnitude), a_row)| {
            for (&x, b_row) in a_row.iter().zip(b.axis_iter(Axis(0))) {
                value.zip_mut_with(&b_row, |sum, y| *sum += x * y);
                magnitude.zip_mut_with(&b_row, |sum, y| *sum += (x * y).abs());
            }
        });
    (values, magnitudes)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array, Array3, arr2};
    use proptest::prelude::*;

    use super::*;

    fn options(alpha: f32, beta: f32) -> GemmOptions {
        GemmOptions {
            alpha,
            beta,
            dtype: DType::F32,
        }
    }

    #[test]
    fn a_known_product() {
        let a = arr2(&[[1.0, 2.0], [3.0, 4.0]]).into_dyn();
        let b = arr2(&[[5.0, 6.0], [7.0, 8.0]]).into_dyn();
        let c = arr2(&[[1.0, 1.0], [2.0, 2.0]]).into_dyn();
        let d = gemm(&a.view(), &b.view(), Some(&c.view()), &options(2.0, -1.0)).unwrap();
        assert_eq!(d.values, arr2(&[[37.0, 43.0], [84.0, 98.0]]).into_dyn());
    }

    #[test]
    fn k_zero_scales_c_and_reads_nothing_at_beta_zero() {
        let (a, b) = (ArrayD::zeros(vec![2, 0]), ArrayD::zeros(vec![0, 3]));
        let c = ArrayD::from_elem(vec![2, 3], 4.0);
        let d = gemm(&a.view(), &b.view(), Some(&c.view()), &options(1.0, 0.5)).unwrap();
        assert_eq!(d.values, ArrayD::from_elem(vec![2, 3], 2.0));
        let nan = ArrayD::from_elem(vec![2, 3], f64::NAN);
        let d = gemm(&a.view(), &b.view(), Some(&nan.view()), &options(1.0, 0.0)).unwrap();
        assert_eq!(d.values, ArrayD::zeros(vec![2, 3]));
    }

    #[test]
    fn a_broadcast_batch_repeats_the_matrix() {
        let a = Array3::from_shape_fn((3, 2, 4), |(s, i, j)| (s * 8 + i * 4 + j) as f64).into_dyn();
        let b = Array2::from_shape_fn((4, 2), |(i, j)| (i * 2 + j) as f64).into_dyn();
        let whole = gemm(&a.view(), &b.view(), None, &GemmOptions::default()).unwrap();
        assert_eq!(whole.values.shape(), [3, 2, 2]);
        for s in 0..3 {
            let slice = a.index_axis(Axis(0), s);
            let one = gemm(&slice, &b.view(), None, &GemmOptions::default()).unwrap();
            assert_eq!(whole.values.index_axis(Axis(0), s), one.values);
        }
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        let zeros = |shape: &[usize]| ArrayD::<f64>::zeros(shape);
        let default = GemmOptions::default();
        for (a, b) in [
            (zeros(&[2, 3]), zeros(&[2, 3])),
            (zeros(&[2]), zeros(&[2, 3])),
            (zeros(&[3, 2, 2]), zeros(&[2, 2, 2])),
        ] {
            assert!(gemm(&a.view(), &b.view(), None, &default).is_err());
        }
        let (a, c) = (zeros(&[2, 2]), zeros(&[3, 2]));
        assert!(gemm(&a.view(), &a.view(), Some(&c.view()), &options(1.0, 1.0)).is_err());
    }

    proptest! {
        #[test]
        fn any_order_of_f32_sums_is_within_the_bound(
            k in 0usize..200,
            values in proptest::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 200),
            alpha in -2f32..2.0,
            c in -1e6f32..1e6,
            beta in -2f32..2.0,
            chunk in 1usize..40,
        ) {
            let column = |f: fn(&(f32, f32)) -> f32| -> Vec<f64> {
                values[..k].iter().map(|x| f64::from(f(x))).collect()
            };
            let a = Array::from_shape_vec((1, k), column(|x| x.0)).unwrap().into_dyn();
            let b = Array::from_shape_vec((k, 1), column(|x| x.1)).unwrap().into_dyn();
            let c64 = ArrayD::from_elem(vec![1, 1], f64::from(c));
            let want = gemm(&a.view(), &b.view(), Some(&c64.view()), &options(alpha, beta)).unwrap();
            // Two orders an implementation might take: one chain, fused; and sums of chunks.
            let chain = values[..k].iter().fold(0f32, |sum, x| x.0.mul_add(x.1, sum));
            let chunked: f32 = values[..k]
                .chunks(chunk)
                .map(|part| part.iter().map(|x| x.0 * x.1).sum::<f32>())
                .sum();
            for acc in [chain, chunked] {
                let got = ArrayD::from_elem(vec![1, 1], f64::from(alpha * acc + beta * c));
                let agreement = want.compare(&got.view());
                prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
            }
        }

        #[test]
        fn small_integers_are_exact_in_f64(
            m in 0usize..6, n in 0usize..6, k in 0usize..6, seed in any::<u64>(),
        ) {
            let entry = |i: usize, j: usize, s: u64| {
                (seed.wrapping_mul(i as u64 * 31 + j as u64 * 7 + s) % 17) as f64 - 8.0
            };
            let a = Array2::from_shape_fn((m, k), |(i, j)| entry(i, j, 1));
            let b = Array2::from_shape_fn((k, n), |(i, j)| entry(i, j, 2));
            let (av, bv) = (a.clone().into_dyn(), b.clone().into_dyn());
            let d = gemm(&av.view(), &bv.view(), None, &GemmOptions::default()).unwrap();
            for i in 0..m {
                for j in 0..n {
                    let sum: f64 = (0..k).map(|l| a[[i, l]] * b[[l, j]]).sum();
                    prop_assert_eq!(d.values[[i, j]], sum);
                }
            }
            // (A @ B)^T = B^T @ A^T: transposes are views.
            let (at, bt) = (av.view().reversed_axes(), bv.view().reversed_axes());
            let t = gemm(&bt, &at, None, &GemmOptions::default()).unwrap();
            prop_assert_eq!(t.values.view().reversed_axes(), d.values);
        }
    }
}
