//! Runs one case on one device: every candidate kernel of its plan against the reference.

use ndarray::{ArrayD, Axis as Dim};
use warpsmith::reference::Expected;
use warpsmith::reference::gemm::{Arithmetic, FusedOptions, fused};
use warpsmith::{
    Activation, DType, Device, E4m3, E5m2, Error, Float, Gemm, GemmInput, Precision, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, agrees_exactly, run_twice};
use warpsmith_tests::output::Output;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use crate::case::{Axis, Case, Scale};

/// Largest k for which sums of products of [`Values::Integers`] are exact: in f32, and in the 14
/// bits of fp8 tensor cores.
const EXACT_K: usize = 4096;
const EXACT_K_FP8: usize = 512;

/// Runs the case with every kernel that supports it.
pub(crate) fn check(case: &Case, device: &Device) -> Checked {
    macro_rules! by_output {
        ($a:ty, $b:ty) => {
            match case.dtypes().2 {
                DType::F32 => typed::<$a, $b, f32>(case, device),
                DType::F16 => typed::<$a, $b, half::f16>(case, device),
                DType::Bf16 => typed::<$a, $b, half::bf16>(case, device),
                other => Err(format!("no product is written in {other}")),
            }
        };
    }
    match case.dtypes() {
        (DType::F32, DType::F32, _) => by_output!(f32, f32),
        (DType::F16, DType::F16, _) => by_output!(half::f16, half::f16),
        (DType::Bf16, DType::Bf16, _) => by_output!(half::bf16, half::bf16),
        (DType::E4m3, DType::E4m3, _) => by_output!(E4m3, E4m3),
        (DType::E4m3, DType::E5m2, _) => by_output!(E4m3, E5m2),
        (DType::E5m2, DType::E4m3, _) => by_output!(E5m2, E4m3),
        (DType::E5m2, DType::E5m2, _) => by_output!(E5m2, E5m2),
        (a, b, _) => Err(format!("{a} and {b} are not multiplied")),
    }
}

/// All inputs of a case.
struct Inputs<A: TestElement, B: TestElement, Out: TestElement> {
    a: Operand<A>,
    b: Operand<B>,
    c: Operand<Out>,
    residual: Operand<Out>,
    bias: Operand<Out>,
    /// Scales by row and by column, and a single scale for each operand.
    scales: [Operand<f32>; 2],
    scale: [Operand<f32>; 2],
    alpha: Operand<f32>,
    beta: Operand<f32>,
}

/// The value of a scale that is known on the host.
const HOST_SCALE: f32 = 0.5;

impl<A: TestElement, B: TestElement, Out: TestElement> Inputs<A, B, Out> {
    fn draw(case: &Case, device: &Device) -> Result<Self, String> {
        let Case {
            m,
            n,
            k,
            values,
            views,
            ..
        } = *case;
        let seed = |idx: u64| case.seed + 1000 * idx;
        let shape = |batch: Option<usize>, rows, columns| -> Vec<usize> {
            batch.into_iter().chain([rows, columns]).collect()
        };
        let shape_d = shape(case.batch(), m, n);
        // With beta == 0, c is NaN: reading it would show in the result.
        let c = match case.beta {
            0.0 => Operand::lay_out(device, ArrayD::from_elem(&*shape_d, f64::NAN), views[2]),
            _ => Operand::draw(device, &shape_d, values, views[2], seed(3)),
        };
        let len = match case.bias {
            Some(Axis::Row) => m,
            _ => n,
        };
        let bias_shape = match case.batch().filter(|_| case.bias_batched) {
            Some(batch) => vec![batch, len],
            None => vec![len],
        };
        // Powers of two keep integers exact.
        let factors = |shape: &[usize], idx: u64| {
            let drawn = Values::Integers.draw(shape, seed(idx));
            let drawn = drawn.mapv(|x| 2f64.powi((x as i32).clamp(-1, 1)));
            Operand::<f32>::lay_out(device, drawn, views[2].writable_or_contiguous())
        };
        let one = |value: f32| {
            Operand::<f32>::lay_out(
                device,
                ArrayD::from_elem(vec![1], f64::from(value)),
                View::Contiguous,
            )
        };
        Ok(Self {
            a: Operand::draw(
                device,
                &shape(case.batch_a, m, k),
                values,
                views[0],
                seed(1),
            )?,
            b: Operand::draw(
                device,
                &shape(case.batch_b, k, n),
                values,
                views[1],
                seed(2),
            )?,
            c: c?,
            residual: Operand::draw(device, &shape_d, values, views[2], seed(4))?,
            bias: Operand::draw(device, &bias_shape, values, View::Sliced, seed(5))?,
            scales: [factors(&[m], 6)?, factors(&[n], 7)?],
            scale: [factors(&[1], 8)?, factors(&[1], 9)?],
            alpha: one(case.alpha)?,
            beta: one(case.beta)?,
        })
    }

    fn expect_unchanged(&self) -> Checked {
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
}

fn typed<A, B, Out>(case: &Case, device: &Device) -> Checked
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: Float + TestElement,
{
    let inputs = Inputs::<A, B, Out>::draw(case, device)?;
    let stream = device.stream().map_err(say)?;
    let in_place = case.in_place && (case.residual || case.beta != 0.0);
    let shape = inputs.c.values.shape().to_vec();
    let output = || {
        let start = match (in_place, case.residual) {
            (false, _) => return Output::<Out>::new(device, &shape, case.views[3]),
            (true, true) => &inputs.residual.values,
            (true, false) => &inputs.c.values,
        };
        Output::with(device, &start.mapv(Out::nearest), case.views[3])
    };
    let names = {
        let d = output()?;
        let gemm = describe(case, &inputs, in_place.then_some(&d.tensor));
        let plan = gemm.plan_into(&d.tensor, &stream).map_err(say)?;
        let candidates = plan.candidates().iter();
        candidates
            .map(|candidate| candidate.name.clone())
            .collect::<Vec<_>>()
    };
    let forced = names.iter().map(|name| Some(name.as_str()));
    for name in std::iter::once(None).chain(forced) {
        let got = run_twice(output, |d| {
            let mut gemm = describe(case, &inputs, in_place.then_some(&d.tensor));
            if let Some(name) = name {
                gemm = gemm.with_kernel(name);
            }
            gemm.run_into(&d.tensor, &stream)
        });
        let judged = got.and_then(|got| {
            let arithmetic = arithmetic(case, name);
            let want = expected(case, &inputs, arithmetic)?;
            agrees(&got, &want)?;
            if is_exact(case, arithmetic) {
                agrees_exactly(&got, &want.values)?;
            }
            Ok(())
        });
        judged.map_err(|error| format!("{}: {error}", name.unwrap_or("by the plan")))?;
    }
    inputs.expect_unchanged()
}

/// The GEMM of a case; `over` is both read and written.
fn describe<'a, A, B, Out>(
    case: &Case,
    inputs: &'a Inputs<A, B, Out>,
    over: Option<&'a Tensor<Out>>,
) -> Gemm<'a, A, B, Out>
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: Float + TestElement,
{
    let mut gemm = Gemm::with_output(&inputs.a.tensor, &inputs.b.tensor)
        .activation(case.activation)
        .fast_accumulation(case.fast_accumulation);
    if case.tf32 {
        gemm = gemm.precision(Precision::Tf32);
    }
    if let Some(parts) = case.split_k {
        gemm = gemm.split_k(parts);
    }
    let c = over.filter(|_| !case.residual).unwrap_or(&inputs.c.tensor);
    gemm = match case.device_scalars {
        true => gemm
            .alpha_from(&inputs.alpha.tensor)
            .beta_from(&inputs.beta.tensor, c),
        false => gemm.alpha(case.alpha).beta(case.beta, c),
    };
    gemm = match case.scales[0] {
        Scale::None => gemm,
        Scale::Host => gemm.scale_a(HOST_SCALE),
        Scale::Device => gemm.scale_a_from(&inputs.scale[0].tensor),
        Scale::Each => gemm.row_scales(&inputs.scales[0].tensor),
    };
    gemm = match case.scales[1] {
        Scale::None => gemm,
        Scale::Host => gemm.scale_b(HOST_SCALE),
        Scale::Device => gemm.scale_b_from(&inputs.scale[1].tensor),
        Scale::Each => gemm.column_scales(&inputs.scales[1].tensor),
    };
    gemm = match case.bias {
        None => gemm,
        Some(Axis::Row) => gemm.row_bias(&inputs.bias.tensor),
        Some(Axis::Column) => gemm.column_bias(&inputs.bias.tensor),
    };
    match case.residual {
        true => gemm.residual(over.unwrap_or(&inputs.residual.tensor)),
        false => gemm,
    }
}

fn expected<A: TestElement, B: TestElement, Out: TestElement>(
    case: &Case,
    inputs: &Inputs<A, B, Out>,
    arithmetic: Arithmetic,
) -> Result<Expected, String> {
    let host = ArrayD::from_elem(vec![1], f64::from(HOST_SCALE));
    let scale = |idx: usize| match case.scales[idx] {
        Scale::None => None,
        Scale::Host => Some(host.view()),
        Scale::Device => Some(inputs.scale[idx].values.view()),
        Scale::Each if idx == 0 => Some(inputs.scales[0].values.view().insert_axis(Dim(1))),
        Scale::Each => Some(inputs.scales[1].values.view()),
    };
    let bias = inputs.bias.values.view();
    let bias = case.bias.map(|axis| {
        let last = bias.ndim();
        match axis {
            Axis::Row => bias.insert_axis(Dim(last)),
            Axis::Column => bias.insert_axis(Dim(last - 1)),
        }
    });
    let options = FusedOptions {
        alpha: case.alpha,
        scales: [scale(0), scale(1)],
        beta: case.beta,
        c: Some(inputs.c.values.view()),
        bias,
        activation: case.activation,
        residual: case.residual.then(|| inputs.residual.values.view()),
        arithmetic,
        dtype: Out::DTYPE,
    };
    fused(&inputs.a.values.view(), &inputs.b.values.view(), &options).map_err(say)
}

/// The arithmetic of the named kernel; without a name, that of any kernel for the case.
fn arithmetic(case: &Case, name: Option<&str>) -> Arithmetic {
    if name.is_some_and(|name| name.starts_with("gemm_simt")) {
        return Arithmetic::F32;
    }
    match case.dtypes().0 {
        DType::F32 if case.tf32 => Arithmetic::Tf32,
        DType::F32 => Arithmetic::F32,
        DType::E4m3 | DType::E5m2 if case.fast_accumulation => Arithmetic::Fp8Fast,
        DType::E4m3 | DType::E5m2 => Arithmetic::Fp8Promoted,
        _ => Arithmetic::TensorCore,
    }
}

/// Whether only the final rounding can have an effect.
fn is_exact(case: &Case, arithmetic: Arithmetic) -> bool {
    let most = match arithmetic {
        Arithmetic::Fp8Promoted | Arithmetic::Fp8Fast => EXACT_K_FP8,
        _ => EXACT_K,
    };
    let is_linear = matches!(case.activation, Activation::Identity | Activation::Relu);
    case.values == Values::Integers && case.k <= most && is_linear
}

/// The error of a description that must be refused, as text.
pub(crate) fn refusal<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}
