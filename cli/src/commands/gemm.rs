//! `warpsmith gemm`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use ndarray::ArrayD;
use warpsmith::{
    Activation, DType, Device, E4m3, E5m2, Element, Float, Gemm, GemmInput, GemmOutput, Stream,
    Tensor,
};

use super::compute::{self, DeviceArgs, Dtype, Input, Report, Rounded, with_dtype};
use crate::failure::{Outcome, UsageError};
use crate::npy::Written;
use crate::output::{Output, OutputFiles};

/// Multiply matrices: D = activation(alpha * A @ B + beta * C + bias) + residual.
///
/// A is [m, k] and B is [k, n]; either may have a leading batch dimension, and a batch of 1 is
/// broadcast. C and the residual broadcast to D. Files are .npy of f16, f32 or f64, in C or Fortran
/// order. A and B are rounded to --dtype; C, bias, residual and D to --out-dtype. D is written as
/// f32. With --dtype f64, everything is in f64, also D. With --dtype i8, files may also be i8 and
/// i32, and D is i32 unless --out-dtype is set.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith gemm A.npy B.npy -o D.npy
  warpsmith gemm A.npy B.npy -o D.npy --c C.npy --alpha 0.5 --beta 2 --trans-b --dtype bf16
  warpsmith gemm X.npy W.npy -o Y.npy --trans-b --bias b.npy --activation gelu --residual X.npy
  warpsmith gemm A.npy B.npy -o D.npy --dtype f64
  warpsmith gemm A_i8.npy B_i8.npy -o D.npy --dtype i8 --trans-b")]
pub(crate) struct Args {
    /// The matrix A.
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// The matrix B.
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// Output file of D.
    #[arg(short, long, value_name = "D.npy")]
    output: PathBuf,
    /// The matrix C, which is added after multiplication by beta.
    #[arg(long, value_name = "C.npy")]
    c: Option<PathBuf>,
    /// Factor of A @ B.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = compute::finite_f64)]
    alpha: f64,
    /// Factor of C [default: 1 with --c].
    #[arg(long, allow_negative_numbers = true, value_parser = compute::finite_f64)]
    beta: Option<f64>,
    /// A is stored transposed: `[k, m]`.
    #[arg(long)]
    trans_a: bool,
    /// B is stored transposed: `[n, k]`.
    #[arg(long)]
    trans_b: bool,
    /// Bias, added per column: `[n]` or `[batch, n]`.
    #[arg(long, value_name = "BIAS.npy")]
    bias: Option<PathBuf>,
    /// Add the bias per row: it is `[m]` or `[batch, m]`.
    #[arg(long, requires = "bias")]
    row_bias: bool,
    /// Activation function, applied after C and the bias are added.
    #[arg(long, value_enum, default_value_t = Function::Identity)]
    activation: Function,
    /// Residual, added after the activation.
    #[arg(long, value_name = "RESIDUAL.npy")]
    residual: Option<PathBuf>,
    /// Dtype to which A and B are rounded.
    #[arg(long, value_enum, default_value_t = InputDtype::F32)]
    dtype: InputDtype,
    /// Dtype to which C, bias, residual and D are rounded [default: f32; f64 with --dtype f64, i32 with
    /// --dtype i8].
    #[arg(long, value_enum)]
    out_dtype: Option<Dtype>,
    /// Precision to which f32 operands are multiplied; for --dtype f32 only [default: full].
    #[arg(long, value_enum)]
    precision: Option<Precision>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Element types of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InputDtype {
    /// IEEE double precision; the only activation is relu.
    F64,
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit float with 4 exponent bits.
    E4m3,
    /// 8-bit float with 5 exponent bits.
    E5m2,
    /// 8-bit integer, with sums in i32; for results in i32, the only activation is relu.
    I8,
}

/// Activation functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Function {
    /// x
    Identity,
    /// max(x, 0)
    Relu,
    /// x Φ(x)
    Gelu,
    /// The tanh approximation of gelu.
    GeluTanh,
    /// x / (1 + exp(-x))
    Silu,
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
}

/// Precision to which f32 operands are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Precision {
    /// Full f32, with 24 significant bits.
    Full,
    /// tf32 or better, with at least 11 significant bits, on tensor cores.
    Tf32,
}

impl From<Function> for Activation {
    fn from(function: Function) -> Self {
        match function {
            Function::Identity => Self::Identity,
            Function::Relu => Self::Relu,
            Function::Gelu => Self::Gelu,
            Function::GeluTanh => Self::GeluTanh,
            Function::Silu => Self::Silu,
            Function::Sigmoid => Self::Sigmoid,
            Function::Tanh => Self::Tanh,
        }
    }
}

struct Inputs {
    a: Input,
    b: Input,
    c: Option<Input>,
    bias: Option<Input>,
    residual: Option<Input>,
}

impl Inputs {
    fn read(args: &Args) -> Result<Self> {
        let read = match args.dtype {
            InputDtype::I8 => Input::read_numbers,
            _ => Input::read,
        };
        let optional = |name, path: &Option<PathBuf>| {
            let path = path.as_ref();
            path.map(|path| read(name, path)).transpose()
        };
        let inputs = Self {
            a: read("A", &args.a)?,
            b: read("B", &args.b)?,
            c: optional("C", &args.c)?,
            bias: optional("bias", &args.bias)?,
            residual: optional("residual", &args.residual)?,
        };
        inputs.a.expect_rank(&[2, 3], "")?;
        inputs.b.expect_rank(&[2, 3], "")?;
        Ok(inputs)
    }

    /// Names and shapes of all inputs that are given.
    fn shapes(&self) -> Vec<(&'static str, Vec<usize>)> {
        let all = [
            ("a", Some(&self.a)),
            ("b", Some(&self.b)),
            ("c", self.c.as_ref()),
            ("bias", self.bias.as_ref()),
            ("residual", self.residual.as_ref()),
        ];
        let there = all
            .into_iter()
            .filter_map(|(name, input)| Some((name, input?)));
        there
            .map(|(name, input)| (name, input.array.values.shape().to_vec()))
            .collect()
    }
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    if args.c.is_none() && args.beta.is_some_and(|beta| beta != 0.0) {
        return Err(UsageError("--beta needs --c".into()).into());
    }
    let dtype = dtype_name(args.dtype);
    if args.precision.is_some() && args.dtype != InputDtype::F32 {
        let message = format!("--precision is for --dtype f32, and --dtype is {dtype}");
        return Err(UsageError(message).into());
    }
    compute::check_outputs(&[&args.output])?;
    let inputs = Inputs::read(args)?;
    let (device, stream) = args.device.open()?;
    let mut files = OutputFiles::default();
    let on = (&device, &stream);
    let (shape, elapsed) = match (args.dtype, args.out_dtype) {
        (InputDtype::F64, None) => exactly::<f64, f64>(args, &inputs, on, &mut files)?,
        (InputDtype::I8, None) => exactly::<i8, i32>(args, &inputs, on, &mut files)?,
        (_, out_dtype) => {
            let out_dtype = out_dtype.unwrap_or(Dtype::F32);
            let (d, elapsed) = with_dtype!(out_dtype, write_in(args, &inputs, &device, &stream))?;
            compute::add_npy(&mut files, &args.output, &d.view())?;
            (d.shape().to_vec(), elapsed)
        }
    };
    files.commit()?;
    let mut shapes = inputs.shapes();
    shapes.push(("d", shape));
    let report = Report {
        operation: "gemm".into(),
        dtype,
        device: &device,
        shapes,
        elapsed,
        files: vec![args.output.clone()],
    };
    report.print(&args.device, output)?;
    Ok(Outcome::Done)
}

fn dtype_name(dtype: InputDtype) -> &'static str {
    match dtype {
        InputDtype::F64 => "f64",
        InputDtype::F32 => "f32",
        InputDtype::F16 => "f16",
        InputDtype::Bf16 => "bf16",
        InputDtype::E4m3 => "e4m3",
        InputDtype::E5m2 => "e5m2",
        InputDtype::I8 => "i8",
    }
}

/// Writes D in its own type; returns its shape, and the time.
fn exactly<In: GemmInput<In> + Rounded, Out: GemmOutput + Rounded + Written>(
    args: &Args,
    inputs: &Inputs,
    (device, stream): (&Device, &Stream),
    files: &mut OutputFiles,
) -> Result<(Vec<usize>, Duration)> {
    let (d, elapsed) = multiply::<In, Out>(args, inputs, device, stream)?;
    let d = compute::download_exact(&d)?;
    compute::add_npy(files, &args.output, &d.view())?;
    Ok((d.shape().to_vec(), elapsed))
}

fn write_in<Out: Float + Rounded>(
    args: &Args,
    inputs: &Inputs,
    device: &Device,
    stream: &Stream,
) -> Result<(ArrayD<f32>, Duration)> {
    let multiply = match args.dtype {
        InputDtype::F64 => {
            let message = "--out-dtype is for the other dtypes: D of --dtype f64 is f64";
            return Err(UsageError(message.into()).into());
        }
        InputDtype::F32 => multiply::<f32, Out>,
        InputDtype::F16 => multiply::<half::f16, Out>,
        InputDtype::Bf16 => multiply::<half::bf16, Out>,
        InputDtype::E4m3 => multiply::<E4m3, Out>,
        InputDtype::E5m2 => multiply::<E5m2, Out>,
        InputDtype::I8 => multiply::<i8, Out>,
    };
    let (d, elapsed) = multiply(args, inputs, device, stream)?;
    Ok((compute::download(&d)?, elapsed))
}

/// A factor in the type that it has beside `Out`.
fn factor<Out: GemmOutput>(name: &str, value: f64) -> Result<Out::Factor, UsageError> {
    let factor = Out::Factor::rounded_from(value);
    if Out::DTYPE == DType::I32 && factor.widened() != value {
        let message = format!("{name} is {value:?}, want an integer of i32, as D is");
        return Err(UsageError(message));
    }
    if !factor.widened().is_finite() {
        let message = format!("{name} is {value:?}, want a number that is finite in f32");
        return Err(UsageError(message));
    }
    Ok(factor)
}

fn multiply<In: GemmInput<In> + Rounded, Out: GemmOutput + Rounded>(
    args: &Args,
    inputs: &Inputs,
    device: &Device,
    stream: &Stream,
) -> Result<(Tensor<Out>, Duration)> {
    fn transposed<T: Element>(tensor: Tensor<T>, yes: bool) -> Tensor<T> {
        if yes { tensor.t() } else { tensor }
    }
    let a = transposed(inputs.a.upload::<In>(device)?, args.trans_a);
    let b = transposed(inputs.b.upload::<In>(device)?, args.trans_b);
    let upload = |input: &Option<Input>| {
        let input = input.as_ref();
        input.map(|input| input.upload::<Out>(device)).transpose()
    };
    let (c, bias) = (upload(&inputs.c)?, upload(&inputs.bias)?);
    let residual = upload(&inputs.residual)?;
    let mut gemm = Gemm::new(&a, &b)
        .output::<Out>()
        .alpha(factor::<Out>("--alpha", args.alpha)?)
        .activation(args.activation.into());
    if args.precision == Some(Precision::Tf32) {
        gemm = gemm.precision(warpsmith::Precision::Tf32);
    }
    if let Some(c) = &c {
        gemm = gemm.beta(factor::<Out>("--beta", args.beta.unwrap_or(1.0))?, c);
    }
    gemm = match &bias {
        Some(bias) if args.row_bias => gemm.row_bias(bias),
        Some(bias) => gemm.column_bias(bias),
        None => gemm,
    };
    if let Some(residual) = &residual {
        gemm = gemm.residual(residual);
    }
    compute::timed("gemm", stream, || gemm.run(stream))
}
