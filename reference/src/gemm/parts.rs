//! What an epilogue reads, an element for each result.

use ndarray::{ArrayViewD, IxDyn};

use super::Extents;
use crate::ReferenceError;

/// An operand of the epilogue, which broadcasts to the result.
type Operand<'a> = Option<ArrayViewD<'a, f64>>;

/// The operands of an epilogue, broadcast. `c` is absent where it is not read.
pub(super) struct Parts<'a> {
    scales: [Operand<'a>; 2],
    c: Operand<'a>,
    bias: Operand<'a>,
    residual: Operand<'a>,
}

/// Those of one result.
pub(super) struct Part {
    /// Row and column scale, 1 without one.
    pub(super) scales: [f64; 2],
    pub(super) c: Option<f64>,
    pub(super) bias: Option<f64>,
    pub(super) residual: Option<f64>,
}

impl<'a> Parts<'a> {
    /// Broadcasts scales, `c` with its factor, bias and residual.
    pub(super) fn new(
        extents: &Extents,
        [rows, columns]: &'a [Operand<'_>; 2],
        (beta, c): (f64, &'a Operand<'_>),
        bias: &'a Operand<'_>,
        residual: &'a Operand<'_>,
    ) -> Result<Self, ReferenceError> {
        let shape = [extents.batch, extents.m, extents.n];
        let whole = |operand, array: &'a Operand<'_>| {
            let Some(array) = array else {
                return Ok(None);
            };
            let whole = array.broadcast(IxDyn(&shape)).ok_or_else(|| {
                let want = format!("it has to broadcast to {shape:?}");
                ReferenceError::shape(operand, array.shape(), want)
            })?;
            Ok(Some(whole))
        };
        Ok(Self {
            scales: [whole("row scales", rows)?, whole("column scales", columns)?],
            c: if beta == 0.0 { None } else { whole("c", c)? },
            bias: whole("bias", bias)?,
            residual: whole("residual", residual)?,
        })
    }

    /// Those of the result at `[batch, row, column]`.
    pub(super) fn at(&self, place: [usize; 3]) -> Part {
        let of = |array: &Operand<'_>| array.as_ref().map(|array| array[place]);
        Part {
            scales: [0, 1].map(|idx| of(&self.scales[idx]).unwrap_or(1.0)),
            c: of(&self.c),
            bias: of(&self.bias),
            residual: of(&self.residual),
        }
    }
}

impl Part {
    /// Factor of the product.
    pub(super) fn factor(&self, alpha: f64) -> f64 {
        let [row, column] = self.scales;
        alpha * row * column
    }

    /// A value and the sum of its terms' magnitudes, after `beta * c` and the bias are added.
    pub(super) fn plus(&self, [value, terms]: [f64; 2], beta: f64) -> [f64; 2] {
        let addends = [self.c.map(|c| beta * c), self.bias];
        let addends = addends.into_iter().flatten();
        addends.fold([value, terms], |[value, terms], x| {
            [value + x, terms + x.abs()]
        })
    }
}

#[cfg(test)]
mod tests {
    use abi::gemm::Activation;
    use ndarray::{ArrayD, arr1, arr2};

    use super::super::{DoubleOptions, FusedOptions, double, fused};

    /// The same epilogue in f64.
    fn in_f64<'a>(options: &FusedOptions<'a>) -> DoubleOptions<'a> {
        let options = options.clone();
        DoubleOptions {
            alpha: options.alpha.into(),
            scales: options.scales,
            beta: options.beta.into(),
            c: options.c,
            bias: options.bias,
            has_relu: options.activation == Activation::Relu,
            residual: options.residual,
        }
    }

    #[test]
    fn every_part_stands_in_its_place() {
        let a = arr2(&[[1.0, 2.0], [3.0, 4.0]]).into_dyn();
        let b = arr2(&[[1.0, 0.0], [0.0, -1.0]]).into_dyn(); // a @ b = [[1, -2], [3, -4]]
        let rows = arr2(&[[2.0], [3.0]]).into_dyn();
        let columns = arr1(&[1.0, 10.0]).into_dyn();
        let c = arr2(&[[1.0, 1.0], [1.0, 1.0]]).into_dyn();
        let bias = arr1(&[5.0, 50.0]).into_dyn();
        let residual = arr2(&[[0.5, 0.5], [0.25, 0.25]]).into_dyn();
        let options = FusedOptions {
            alpha: 0.5,
            scales: [Some(rows.view()), Some(columns.view())],
            beta: 2.0,
            c: Some(c.view()),
            bias: Some(bias.view()),
            activation: Activation::Relu,
            residual: Some(residual.view()),
            ..FusedOptions::default()
        };
        // 0.5 * 2 * 1 + 2 + 5, 0.5 * 2 * 10 * -2 + 2 + 50; 4.5 + 2 + 5, -60 + 52 < 0
        let want = arr2(&[[8.5, 32.5], [11.75, 0.25]]).into_dyn();
        let d = fused(&a.view(), &b.view(), &options).unwrap();
        assert_eq!(d.values, want);
        assert!(d.bounds.iter().all(|&bound| bound > 0.0 && bound < 1e-4));
        let d = double(&a.view(), &b.view(), &in_f64(&options)).unwrap();
        assert_eq!(d.values, want);
        assert!(d.bounds.iter().all(|&bound| bound > 0.0 && bound < 1e-12));
    }

    #[test]
    fn refuses_what_does_not_broadcast() {
        let a = ArrayD::zeros(vec![2, 2]);
        let wrong = ArrayD::zeros(vec![3]);
        let options = FusedOptions {
            bias: Some(wrong.view()),
            ..FusedOptions::default()
        };
        assert!(fused(&a.view(), &a.view(), &options).is_err());
        assert!(double(&a.view(), &a.view(), &in_f64(&options)).is_err());
    }
}
