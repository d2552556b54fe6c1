//! Launches of one entry on one problem.

use std::fmt;
use std::ops::Deref;

use abi::gemm::{EpilogueParams, GemmParams, MmaEntry, MmaTile, Transpose};
use abi::{DType, OutputDType};
use warpsmith::{Device, Kernel, KernelArg, Result, Stream};

use super::problem::{Placed, Problem, Value, check, launch_config, poisoned, stream};

/// Calls `$run::<A, B, D>($($argument),*)` with the types of the entry.
macro_rules! with_types {
    ($entry:expr, $run:ident($($argument:expr),*)) => {{
        use half::{bf16, f16};
        use abi::DType;
        use warpsmith::{E4m3, E5m2};
        match ($entry.a, $entry.b, $entry.output) {
            (DType::Bf16, _, DType::Bf16) => $run::<bf16, bf16, bf16>($($argument),*),
            (DType::Bf16, _, DType::F32) => $run::<bf16, bf16, f32>($($argument),*),
            (DType::F16, _, DType::F16) => $run::<f16, f16, f16>($($argument),*),
            (DType::F16, _, DType::F32) => $run::<f16, f16, f32>($($argument),*),
            (DType::F32, _, DType::F32) => $run::<f32, f32, f32>($($argument),*),
            (DType::I8, _, DType::F32) => $run::<i8, i8, f32>($($argument),*),
            (DType::I8, _, DType::F16) => $run::<i8, i8, f16>($($argument),*),
            (DType::I8, _, DType::Bf16) => $run::<i8, i8, bf16>($($argument),*),
            (DType::E4m3, DType::E4m3, _) => $run::<E4m3, E4m3, bf16>($($argument),*),
            (DType::E4m3, DType::E5m2, _) => $run::<E4m3, E5m2, bf16>($($argument),*),
            (DType::E5m2, DType::E4m3, _) => $run::<E5m2, E4m3, bf16>($($argument),*),
            (DType::E5m2, DType::E5m2, _) => $run::<E5m2, E5m2, bf16>($($argument),*),
            other => panic!("no test has types for {other:?}"),
        }
    }};
}
pub(crate) use with_types;

/// The pointers at the end of a fused entry's arguments; `None` is null.
pub(crate) struct Tail<'a, D: Value> {
    pub(crate) c: Option<&'a warpsmith::Tensor<D>>,
    pub(crate) bias: Option<&'a warpsmith::Tensor<D>>,
    pub(crate) residual: Option<&'a warpsmith::Tensor<D>>,
    pub(crate) row_scale: Option<&'a warpsmith::Tensor<f32>>,
    pub(crate) column_scale: Option<&'a warpsmith::Tensor<f32>>,
    pub(crate) alpha: Option<&'a warpsmith::Tensor<f32>>,
    pub(crate) beta: Option<&'a warpsmith::Tensor<f32>>,
    pub(crate) epilogue: EpilogueParams,
}

impl<D: Value> Tail<'_, D> {
    pub(crate) const EMPTY: Self = Self {
        c: None,
        bias: None,
        residual: None,
        row_scale: None,
        column_scale: None,
        alpha: None,
        beta: None,
        epilogue: EpilogueParams {
            ld_residual: 0,
            batch_stride_residual: 0,
            bias_stride_m: 0,
            bias_stride_n: 0,
            batch_stride_bias: 0,
            row_scale_stride: 0,
            column_scale_stride: 0,
            activation: 0,
            d_dtype: 0, // that of D, as the launch knows
        },
    };
}

/// Launches `entry` and waits; does nothing if the grid is empty.
pub(crate) fn launch<A: Value, B: Value, D: Value>(
    stream: &Stream,
    entry: &MmaEntry,
    problem: &Problem,
    operands: (&Placed<A>, &Placed<B>, &Placed<D>),
    params: GemmParams,
    tail: &Tail<'_, D>,
) {
    stream
        .device()
        .builtin_kernel(&entry.to_string())
        .and_then(|kernel| try_launch(stream, &kernel, entry, problem, operands, params, tail))
        .unwrap_or_else(|error| panic!("{entry}: {error}: {problem:?}"));
}

/// The same for a kernel that may fail.
pub(crate) fn try_launch<A: Value, B: Value, D: Value>(
    stream: &Stream,
    kernel: &Kernel,
    entry: &MmaEntry,
    problem: &Problem,
    (a, b, d): (&Placed<A>, &Placed<B>, &Placed<D>),
    params: GemmParams,
    tail: &Tail<'_, D>,
) -> Result<()> {
    let Some(config) = launch_config(entry, problem) else {
        return Ok(());
    };
    let (a, b) = (
        (problem.k > 0).then_some(&a.view),
        (problem.k > 0).then_some(&b.view),
    );
    let epilogue = EpilogueParams {
        d_dtype: OutputDType::new(D::DTYPE).expect("a float").code(),
        ..tail.epilogue
    };
    let arguments: [&dyn KernelArg; 12] = [
        &a,
        &b,
        &tail.c,
        &&d.view,
        &tail.bias,
        &tail.residual,
        &tail.row_scale,
        &tail.column_scale,
        &tail.alpha,
        &tail.beta,
        &params,
        &epilogue,
    ];
    // SAFETY: the parameters are those of the tensors.
    unsafe { kernel.launch(stream, config, &arguments[..]) }?;
    stream.synchronize()
}

/// Checks the plain GEMM with small integers: exact.
pub(crate) fn product<A: Value, B: Value, D: Value>(
    device: &Device,
    entry: &MmaEntry,
    problem: &Problem,
) {
    let stream = stream(device);
    let operands = problem.operands();
    let (a, b) = problem.place::<A, B>(&stream, entry, &operands);
    let d = poisoned::<D>(&stream, problem);
    let params = problem.params(&a, &b, &d);
    launch(&stream, entry, problem, (&a, &b, &d), params, &Tail::EMPTY);
    let product = problem.product(&operands);
    check(entry, problem, &d, |batch, row, column| {
        product[(batch * problem.m + row) * problem.n + column] as f32
    });
}

/// [`product`] with the entry's types.
pub(crate) fn check_product(device: &Device, entry: &Writing, problem: &Problem) {
    with_types!(entry, product(device, entry, problem));
}

/// An entry, and the dtype of D that its launches have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    entry: MmaEntry,
    pub(crate) output: DType,
}

impl Writing {
    /// The entry for bf16 with this layout and tile.
    pub(crate) fn bf16(trans_a: Transpose, trans_b: Transpose, tile: MmaTile) -> Self {
        let output = DType::Bf16;
        let entry = MmaEntry::of([DType::Bf16; 2], output, (trans_a, trans_b), tile);
        Self {
            entry: entry.expect("it is in the table"),
            output,
        }
    }

    /// What `device` runs, with results in floats. Those in i32 have an epilogue of their own, which
    /// the tests of `Gemm` are about.
    pub(crate) fn all(device: &Device) -> Vec<Self> {
        let entries = MmaEntry::ALL.iter().copied();
        let of_device = entries.filter(|entry| device.arch() >= entry.arch());
        let outputs = [DType::F32, DType::F16, DType::Bf16];
        let all = of_device.flat_map(|entry| outputs.map(|output| Self { entry, output }));
        all.filter(|of| of.entry.writes(of.output)).collect()
    }
}

impl Deref for Writing {
    type Target = MmaEntry;

    fn deref(&self) -> &MmaEntry {
        &self.entry
    }
}

impl fmt::Display for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.entry, self.output)
    }
}
