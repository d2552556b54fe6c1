//! `warpsmith gemm`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ndarray::ArrayD;
use warpsmith::{Device, Float, Gemm, Stream, Tensor};

use super::compute::{self, DeviceArgs, Dtype, Input, Report, with_dtype};
use crate::failure::{Outcome, UsageError};
use crate::output::{Output, OutputFiles};

/// Multiply matrices: D = alpha * A @ B + beta * C.
///
/// A is [m, k] and B [k, n], or one or both have a batch in front, where a batch of 1 is repeated.
/// C broadcasts to D. Files are .npy of f16, f32 or f64, in C or Fortran order. Operands are
/// rounded to --dtype, the product is computed and written in f32.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith gemm A.npy B.npy -o D.npy
  warpsmith gemm A.npy B.npy -o D.npy --c C.npy --alpha 0.5 --beta 2 --trans-b --dtype bf16")]
pub(crate) struct Args {
    /// A.
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// B.
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// Where D goes.
    #[arg(short, long, value_name = "D.npy")]
    output: PathBuf,
    /// C; needs --beta unless beta is to be 1.
    #[arg(long, value_name = "C.npy")]
    c: Option<PathBuf>,
    /// Factor of the product.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = compute::finite)]
    alpha: f32,
    /// Factor of C [default: 1 with --c].
    #[arg(long, allow_negative_numbers = true, value_parser = compute::finite)]
    beta: Option<f32>,
    /// A is stored transposed: [k, m].
    #[arg(long)]
    trans_a: bool,
    /// B is stored transposed: [n, k].
    #[arg(long)]
    trans_b: bool,
    /// What A and B are rounded to.
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    #[command(flatten)]
    device: DeviceArgs,
}

struct Inputs {
    a: Input,
    b: Input,
    c: Option<Input>,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    if args.c.is_none() && args.beta.is_some_and(|beta| beta != 0.0) {
        return Err(UsageError("--beta needs --c".into()).into());
    }
    compute::check_outputs(&[&args.output])?;
    let inputs = Inputs {
        a: Input::read("A", &args.a)?,
        b: Input::read("B", &args.b)?,
        c: args
            .c
            .as_ref()
            .map(|path| Input::read("C", path))
            .transpose()?,
    };
    inputs.a.expect_rank(&[2, 3])?;
    inputs.b.expect_rank(&[2, 3])?;
    let (device, stream) = args.device.open()?;
    let (d, elapsed) = with_dtype!(args.dtype, multiply(args, &inputs, &device, &stream))?;
    let mut files = OutputFiles::default();
    compute::add_npy(&mut files, &args.output, &d.view())?;
    files.commit()?;
    let shape = |input: &Input| input.array.values.shape().to_vec();
    let mut shapes = vec![("a", shape(&inputs.a)), ("b", shape(&inputs.b))];
    shapes.extend(inputs.c.as_ref().map(|c| ("c", shape(c))));
    shapes.push(("d", d.shape().to_vec()));
    let report = Report {
        operation: "gemm".into(),
        dtype: compute::dtype_name(args.dtype),
        device: &device,
        shapes,
        elapsed,
        files: vec![args.output.clone()],
    };
    report.print(args.device.json, output)?;
    Ok(Outcome::Done)
}

fn multiply<T: Float>(
    args: &Args,
    inputs: &Inputs,
    device: &Device,
    stream: &Stream,
) -> Result<(ArrayD<f32>, Duration)> {
    let transposed = |tensor: Tensor<T>, yes: bool| if yes { tensor.t() } else { tensor };
    let a = transposed(inputs.a.upload(device)?, args.trans_a);
    let b = transposed(inputs.b.upload(device)?, args.trans_b);
    let c = inputs
        .c
        .as_ref()
        .map(|c| c.upload::<f32>(device))
        .transpose()?;
    let mut gemm = Gemm::with_f32_output(&a, &b).alpha(args.alpha);
    if let Some(c) = &c {
        gemm = gemm.beta(args.beta.unwrap_or(1.0), c);
    }
    let (d, elapsed) = compute::timed("gemm", stream, || gemm.run(stream))?;
    Ok((compute::download(&d)?, elapsed))
}
