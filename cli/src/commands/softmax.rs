//! `warpsmith softmax`

use std::path::PathBuf;

use anyhow::Result;
use warpsmith::{LogSoftmax, Softmax};

use super::compute::{self, DeviceArgs, Input, Report};
use crate::failure::Outcome;
use crate::output::{Output, OutputFiles};

/// Softmax of an array along an axis, or its logarithm.
///
/// Files are .npy of f16, f32 or f64, in C or Fortran order; elements are rounded to f32, and the
/// result is written as f32.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith softmax X.npy -o Y.npy
  warpsmith softmax X.npy -o Y.npy --axis 0
  warpsmith softmax X.npy -o Y.npy --log")]
pub(crate) struct Args {
    /// The array.
    #[arg(value_name = "X.npy")]
    x: PathBuf,
    /// Output file of the result.
    #[arg(short, long, value_name = "Y.npy")]
    output: PathBuf,
    /// The axis; negative axes count from the last.
    #[arg(long, allow_negative_numbers = true, default_value_t = -1)]
    axis: isize,
    /// Compute the logarithm of softmax.
    #[arg(long)]
    log: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    compute::check_outputs(&[&args.output])?;
    let input = Input::read("X", &args.x)?;
    let shape = input.array.values.shape().to_vec();
    let (device, stream) = args.device.open()?;
    let x = input.upload::<f32>(&device)?;
    let name = if args.log { "log-softmax" } else { "softmax" };
    let (y, elapsed) = compute::timed(name, &stream, || match args.log {
        true => LogSoftmax::new(&x).axis(args.axis).run(&stream),
        false => Softmax::new(&x).axis(args.axis).run(&stream),
    })?;
    let mut files = OutputFiles::default();
    compute::add_npy(
        &mut files,
        &args.output,
        &compute::download_exact(&y)?.view(),
    )?;
    files.commit()?;
    let report = Report {
        operation: name.into(),
        dtype: "f32",
        device: &device,
        shapes: vec![("x", shape.clone()), ("y", shape)],
        elapsed,
        files: vec![args.output.clone()],
    };
    report.print(&args.device, output)?;
    Ok(Outcome::Done)
}
