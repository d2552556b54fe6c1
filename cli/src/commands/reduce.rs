//! `warpsmith reduce`

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpsmith::{Device, Element, Reduce, ReduceOp, Reducible, Tensor};

use super::compute::{self, DeviceArgs, Input, Report};
use crate::failure::{Outcome, UsageError};
use crate::npy::{self, Numbers};
use crate::output::{Output, OutputFiles};

/// Reduce an array over all elements, one axis or several axes.
///
/// Files are .npy of f16, f32, f64 or integers, in C or Fortran order; floats are rounded to f32, or
/// kept in f64 with --f64. Values are written in that dtype; indices, counts and truth values as i64.
/// Integers are reduced in i64, which wraps, and written as i64. Their mean, norm2, logsumexp,
/// variance and std are computed and written in f64, and everything with --f64.
/// Among equal elements, argmax and argmin return the lowest index; NaN counts as the largest and
/// as the smallest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith reduce sum X.npy -o Y.npy
  warpsmith reduce argmax X.npy -o Y.npy --axis -1
  warpsmith reduce variance X.npy -o Y.npy --axis 0 --axis 1 --ddof 1 --f64")]
pub(crate) struct Args {
    /// The operation.
    #[arg(value_parser = operations())]
    op: ReduceOp,
    /// The array.
    #[arg(value_name = "X.npy")]
    x: PathBuf,
    /// Output file of the result.
    #[arg(short, long, value_name = "Y.npy")]
    output: PathBuf,
    /// The axis to reduce; may be repeated. Negative axes count from the last [default: all axes].
    #[arg(long, allow_negative_numbers = true)]
    axis: Vec<isize>,
    /// Compute and write in f64.
    #[arg(long)]
    f64: bool,
    /// Keep the reduced axes as dimensions of extent 1.
    #[arg(long)]
    keep_dims: bool,
    /// Divide by n - N in variance and std (delta degrees of freedom).
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        value_parser = degrees
    )]
    ddof: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Parses degrees of freedom.
fn degrees(text: &str) -> Result<u64, String> {
    compute::not_negative(text, "")
}

/// Parser of the operations, by their names in `abi`.
fn operations() -> impl TypedValueParser<Value = ReduceOp> {
    PossibleValuesParser::new(ReduceOp::ALL.map(ReduceOp::name)).try_map(|name| {
        let named = ReduceOp::ALL.into_iter().find(|op| op.name() == name);
        named.ok_or("no reduction has this name")
    })
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let has_ddof = matches!(args.op, ReduceOp::Variance | ReduceOp::Std);
    if args.ddof != 0 && !has_ddof {
        let message = format!("--ddof is for variance and std, not for {}", args.op.name());
        return Err(UsageError(message).into());
    }
    compute::check_outputs(&[&args.output])?;
    let input = match npy::read_floats_or_integers(&args.x)? {
        Numbers::Floats(array) => Input::of("X", array),
        Numbers::Integers(x) => {
            let upload = |device: &Device| Ok(Tensor::from_ndarray(device, &x)?);
            let is_real = args.f64 || !args.op.is_of_integers();
            return match is_real && !args.op.is_index() {
                true => reduce::<i64, f64>(args, upload, output),
                false => reduce::<i64, i64>(args, upload, output),
            };
        }
    };
    match (args.f64, args.op.is_index()) {
        (true, true) => reduce::<f64, i64>(args, |device| input.upload(device), output),
        (true, false) => reduce::<f64, f64>(args, |device| input.upload(device), output),
        (false, true) => reduce::<f32, i64>(args, |device| input.upload(device), output),
        (false, false) => reduce::<f32, f32>(args, |device| input.upload(device), output),
    }
}

/// Reduces elements of `T` to results of `O`.
fn reduce<T, O>(
    args: &Args,
    upload: impl FnOnce(&Device) -> Result<Tensor<T>>,
    output: &mut Output,
) -> Result<Outcome>
where
    T: Reducible,
    O: Element + npy::Written,
{
    let (device, stream) = args.device.open()?;
    let x = upload(&device)?;
    let op = args.op;
    let mut reduce = Reduce::new(op, &x).ddof(args.ddof);
    if !args.axis.is_empty() {
        reduce = reduce.axes(&args.axis);
    }
    if args.keep_dims {
        reduce = reduce.keep_dims();
    }
    let mut files = OutputFiles::default();
    let run = || reduce.output::<O>().run(&stream);
    let (y, elapsed) = compute::timed(op.name(), &stream, run)?;
    let y = compute::download_exact(&y)?;
    compute::add_npy(&mut files, &args.output, &y.view())?;
    files.commit()?;
    let report = Report {
        operation: op.name().into(),
        dtype: T::DTYPE.name(),
        device: &device,
        shapes: vec![("x", x.shape().to_vec()), ("y", y.shape().to_vec())],
        elapsed,
        files: vec![args.output.clone()],
    };
    report.print(&args.device, output)?;
    Ok(Outcome::Done)
}
