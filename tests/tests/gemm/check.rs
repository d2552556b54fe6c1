//! Runs one case on one device: every candidate kernel of its plan against the reference.

use ndarray::ArrayD;
use warpsmith::reference::gemm::{Arithmetic, FusedOptions, fused};
use warpsmith::{Activation, DType, Device, E4m3, E5m2, Error, GemmInput};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operation::{agrees, agrees_exactly, run_repeatedly};
use warpsmith_tests::output::Output;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

use super::case::Case;
use super::inputs::{Inputs, TestOutput};

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

fn typed<A, B, Out>(case: &Case, device: &Device) -> Checked
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: TestOutput,
{
    let inputs = Inputs::<A, B, Out>::draw(case, device)?;
    by_each_kernel(case, &inputs, device, |name, got| {
        let arithmetic = arithmetic(case, name);
        let options = FusedOptions {
            alpha: case.alpha as f32,
            scales: inputs.scales(case),
            beta: case.beta as f32,
            c: Some(inputs.c.values.view()),
            bias: inputs.bias(case),
            activation: case.activation,
            residual: inputs.residual(case),
            arithmetic,
            dtype: Out::DTYPE,
        };
        let want = fused(&inputs.a.values.view(), &inputs.b.values.view(), &options);
        let want = want.map_err(say)?;
        agrees(got, &want)?;
        match is_exact(case, arithmetic) {
            true => agrees_exactly(got, &want.values),
            false => Ok(()),
        }
    })
}

/// Runs the case as the plan says, which gives `judge` no name, and with every kernel that supports
/// it.
pub(crate) fn by_each_kernel<A, B, Out>(
    case: &Case,
    inputs: &Inputs<A, B, Out>,
    device: &Device,
    mut judge: impl FnMut(Option<&str>, &ArrayD<Out>) -> Checked,
) -> Checked
where
    A: GemmInput<B> + TestElement,
    B: TestElement,
    Out: TestOutput,
{
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
        let gemm = inputs.product(case, in_place.then_some(&d.tensor));
        let plan = gemm.plan_into(&d.tensor, &stream).map_err(say)?;
        let candidates = plan.candidates().iter();
        candidates
            .map(|candidate| candidate.name.clone())
            .collect::<Vec<_>>()
    };
    let forced = names.iter().map(|name| Some(name.as_str()));
    for name in std::iter::once(None).chain(forced) {
        let got = run_repeatedly(output, |d| {
            let mut gemm = inputs.product(case, in_place.then_some(&d.tensor));
            if let Some(name) = name {
                gemm = gemm.with_kernel(name);
            }
            gemm.run_into(&d.tensor, &stream)
        });
        let judged = got.and_then(|got| judge(name, &got));
        judged.map_err(|error| format!("{}: {error}", name.unwrap_or("by the plan")))?;
    }
    inputs.expect_unchanged()
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
