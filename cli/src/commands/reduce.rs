//! `warpsmith reduce`

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpsmith::{Reduce, ReduceOp};

use super::compute::{self, DeviceArgs, Input, Report};
use crate::failure::Outcome;
use crate::output::{Output, OutputFiles};

/// Reduce an array over one axis, or over everything.
///
/// Files are .npy of f16, f32 or f64, in C or Fortran order; elements are rounded to f32. Values
/// are written as f32, indices as i64. Of equal elements the lowest index counts, and a NaN counts
/// as the largest and as the smallest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith reduce sum X.npy -o Y.npy
  warpsmith reduce argmax X.npy -o Y.npy --axis -1")]
pub(crate) struct Args {
    /// What to compute.
    #[arg(value_parser = operations())]
    op: ReduceOp,
    /// The array.
    #[arg(value_name = "X.npy")]
    x: PathBuf,
    /// Where the result goes.
    #[arg(short, long, value_name = "Y.npy")]
    output: PathBuf,
    /// The axis to reduce; negative ones count from the last [default: everything].
    #[arg(long, allow_negative_numbers = true)]
    axis: Option<i64>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Reads the operations by the names that `spec` gives them.
fn operations() -> impl TypedValueParser<Value = ReduceOp> {
    PossibleValuesParser::new(ReduceOp::ALL.map(ReduceOp::name)).try_map(|name| {
        let named = ReduceOp::ALL.into_iter().find(|op| op.name() == name);
        named.ok_or("no reduction has this name")
    })
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    compute::check_outputs(&[&args.output])?;
    let input = Input::read("X", &args.x)?;
    let shape = input.array.values.shape().to_vec();
    let axis = args
        .axis
        .map(|axis| compute::resolve_axis(axis, shape.len()))
        .transpose()?;
    let (device, stream) = args.device.open()?;
    let x = input.upload::<f32>(&device)?;
    let op = args.op;
    let mut reduce = Reduce::new(op, &x);
    if let Some(axis) = axis {
        reduce = reduce.axis(axis);
    }
    let mut files = OutputFiles::default();
    let (elapsed, shape_y) = if op.is_index() {
        let run = || reduce.run_indices(&stream);
        let (y, elapsed) = compute::timed(op.name(), &stream, run)?;
        let y = compute::download_exact(&y)?;
        compute::add_npy(&mut files, &args.output, &y.view())?;
        (elapsed, y.shape().to_vec())
    } else {
        let (y, elapsed) = compute::timed(op.name(), &stream, || reduce.run(&stream))?;
        let y = compute::download_exact(&y)?;
        compute::add_npy(&mut files, &args.output, &y.view())?;
        (elapsed, y.shape().to_vec())
    };
    files.commit()?;
    let report = Report {
        operation: op.name().into(),
        dtype: "f32",
        device: &device,
        shapes: vec![("x", shape), ("y", shape_y)],
        elapsed,
        files: vec![args.output.clone()],
    };
    report.print(args.device.json, output)?;
    Ok(Outcome::Done)
}
