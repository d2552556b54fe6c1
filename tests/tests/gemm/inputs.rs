//! The inputs of a case, and the product of them.

use ndarray::{ArrayD, ArrayViewD, Axis as Dim};
use warpsmith::{DType, Device, Gemm, GemmInput, GemmOutput, Precision, Tensor};
use warpsmith_tests::Checked;
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

use super::case::{Axis, Case, Scale};

/// An element type of results, whose factors can be examined too.
pub(crate) trait TestOutput: TestElement + GemmOutput<Factor: TestElement> {}

impl<T: TestElement + GemmOutput<Factor: TestElement>> TestOutput for T {}

/// All inputs of a case.
pub(crate) struct Inputs<A: TestElement, B: TestElement, Out: TestOutput> {
    pub(crate) a: Operand<A>,
    pub(crate) b: Operand<B>,
    pub(crate) c: Operand<Out>,
    pub(crate) residual: Operand<Out>,
    bias: Operand<Out>,
    /// Scales by row and by column, and a single scale for each operand.
    scales: [Operand<Out::Factor>; 2],
    scale: [Operand<Out::Factor>; 2],
    /// A scale that is known on the host.
    host_scale: ArrayD<f64>,
    alpha: Operand<Out::Factor>,
    beta: Operand<Out::Factor>,
}

impl<A, B, Out> Inputs<A, B, Out>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: TestOutput,
{
    pub(crate) fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let Case { m, n, k, views, .. } = *case;
        let shape = |batch: Option<usize>, rows, columns| -> Vec<usize> {
            batch.into_iter().chain([rows, columns]).collect()
        };
        let shape_d = shape(case.batch(), m, n);
        // With beta == 0, c is NaN: reading it would show in the result.
        let c = match case.beta {
            0.0 => Operand::lay_out(device, ArrayD::from_elem(&*shape_d, f64::NAN), views[2]),
            _ => operand(case, device, 3, &shape_d, views[2]),
        };
        let len = match case.bias {
            Some(Axis::Row) => m,
            _ => n,
        };
        let bias_shape = match case.batch().filter(|_| case.bias_batched) {
            Some(batch) => vec![batch, len],
            None => vec![len],
        };
        let is_double = Out::DTYPE == DType::F64;
        // Factors in f64 are not f32 numbers. Those in f32 are powers of two, which keep integers
        // exact.
        let factors = |len: usize, idx: u64| {
            let seed = seed(case, idx);
            let drawn = match is_double {
                true => Values::Uniform.draw(&[len], seed),
                false => Values::Integers
                    .draw(&[len], seed)
                    .mapv(|x| 2f64.powi((x as i32).clamp(-1, 1))),
            };
            Operand::lay_out(device, drawn, views[2].writable_or_contiguous())
        };
        let one = |value: f64| {
            let value = ArrayD::from_elem(vec![1], value);
            Operand::lay_out(device, value, View::Contiguous)
        };
        Ok(Self {
            a: operand(case, device, 1, &shape(case.batch_a, m, k), views[0])?,
            b: operand(case, device, 2, &shape(case.batch_b, k, n), views[1])?,
            c: c?,
            residual: operand(case, device, 4, &shape_d, views[2])?,
            bias: operand(case, device, 5, &bias_shape, View::Sliced)?,
            scales: [factors(m, 6)?, factors(n, 7)?],
            scale: [factors(1, 8)?, factors(1, 9)?],
            host_scale: ArrayD::from_elem(vec![1], if is_double { 0.7 } else { 0.5 }),
            alpha: one(case.alpha)?,
            beta: one(case.beta)?,
        })
    }

    pub(crate) fn expect_unchanged(&self) -> Checked {
        self.a.expect_unchanged()?;
        self.b.expect_unchanged()?;
        for operand in [&self.c, &self.residual, &self.bias] {
            operand.expect_unchanged()?;
        }
        for operand in self.scales.iter().chain(&self.scale) {
            operand.expect_unchanged()?;
        }
        self.alpha.expect_unchanged()?;
        self.beta.expect_unchanged()
    }

    /// The product of the case; `over` is both read and written.
    pub(crate) fn product<'a>(
        &'a self,
        case: &Case,
        over: Option<&'a Tensor<Out>>,
    ) -> Gemm<'a, A, B, Out> {
        let mut gemm = Gemm::new(&self.a.tensor, &self.b.tensor)
            .output::<Out>()
            .activation(case.activation)
            .fast_accumulation(case.fast_accumulation);
        if case.tf32 {
            gemm = gemm.precision(Precision::Tf32);
        }
        if let Some(parts) = case.split_k {
            gemm = gemm.split_k(parts);
        }
        let c = over.filter(|_| !case.residual).unwrap_or(&self.c.tensor);
        let factor = Out::Factor::nearest;
        gemm = match case.device_scalars {
            true => gemm
                .alpha_from(&self.alpha.tensor)
                .beta_from(&self.beta.tensor, c),
            false => gemm.alpha(factor(case.alpha)).beta(factor(case.beta), c),
        };
        let host_scale = factor(self.host_scale[0]);
        gemm = match case.scales[0] {
            Scale::None => gemm,
            Scale::Host => gemm.scale_a(host_scale),
            Scale::Device => gemm.scale_a_from(&self.scale[0].tensor),
            Scale::Each => gemm.row_scales(&self.scales[0].tensor),
        };
        gemm = match case.scales[1] {
            Scale::None => gemm,
            Scale::Host => gemm.scale_b(host_scale),
            Scale::Device => gemm.scale_b_from(&self.scale[1].tensor),
            Scale::Each => gemm.column_scales(&self.scales[1].tensor),
        };
        gemm = match case.bias {
            None => gemm,
            Some(Axis::Row) => gemm.row_bias(&self.bias.tensor),
            Some(Axis::Column) => gemm.column_bias(&self.bias.tensor),
        };
        match case.residual {
            true => gemm.residual(over.unwrap_or(&self.residual.tensor)),
            false => gemm,
        }
    }

    /// Row and column scales, as the references take them.
    pub(crate) fn scales(&self, case: &Case) -> [Option<ArrayViewD<'_, f64>>; 2] {
        [0, 1].map(|idx| match case.scales[idx] {
            Scale::None => None,
            Scale::Host => Some(self.host_scale.view()),
            Scale::Device => Some(self.scale[idx].values.view()),
            Scale::Each if idx == 0 => Some(self.scales[0].values.view().insert_axis(Dim(1))),
            Scale::Each => Some(self.scales[1].values.view()),
        })
    }

    /// The bias, as the references take it.
    pub(crate) fn bias(&self, case: &Case) -> Option<ArrayViewD<'_, f64>> {
        let bias = self.bias.values.view();
        let last = bias.ndim();
        case.bias.map(|axis| match axis {
            Axis::Row => bias.insert_axis(Dim(last)),
            Axis::Column => bias.insert_axis(Dim(last - 1)),
        })
    }

    /// The residual, as the references take it.
    pub(crate) fn residual(&self, case: &Case) -> Option<ArrayViewD<'_, f64>> {
        case.residual.then(|| self.residual.values.view())
    }
}

/// The seed of an operand.
fn seed(case: &Case, idx: u64) -> u64 {
    case.seed + 1000 * idx
}

/// A matrix or a bias of the case.
fn operand<T: TestElement>(
    case: &Case,
    device: &Device,
    idx: u64,
    shape: &[usize],
    view: View,
) -> Result<Operand<T>, String> {
    let drawn = case.values.draw(shape, seed(case, idx));
    Operand::nearest(device, drawn * 2f64.powi(case.exponent), view)
}
