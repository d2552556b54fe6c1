//! `warpsmith attention`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ndarray::ArrayD;
use warpsmith::{Attention, Device, Float, Stream};

use super::compute::{self, DeviceArgs, Dtype, Input, Report, Rounded, with_dtype};
use crate::failure::Outcome;
use crate::output::{Output, OutputFiles};

/// Attend: O = softmax(scale * Q @ K^T) @ V.
///
/// Q is [batch, seqlen_q, heads_q, head_dim], K [batch, seqlen_k, heads_kv, head_dim], V [batch,
/// seqlen_k, heads_kv, head_dim_v]; heads_q is a multiple of heads_kv, and head_dim at most 256.
/// Files are .npy of f16, f32 or f64, in C or Fortran order. Operands are rounded to --dtype, which
/// O has too before it is written as f32.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith attention Q.npy K.npy V.npy -o O.npy --causal
  warpsmith attention Q.npy K.npy V.npy -o O.npy --scale 0.125 --lse L.npy --dtype f16")]
pub(crate) struct Args {
    /// Queries.
    #[arg(value_name = "Q.npy")]
    q: PathBuf,
    /// Keys.
    #[arg(value_name = "K.npy")]
    k: PathBuf,
    /// Values.
    #[arg(value_name = "V.npy")]
    v: PathBuf,
    /// Where O goes.
    #[arg(short, long, value_name = "O.npy")]
    output: PathBuf,
    /// Query i sees keys up to i + seqlen_k - seqlen_q only.
    #[arg(long)]
    causal: bool,
    /// Factor of the scores [default: 1 / sqrt(head_dim)].
    #[arg(long, allow_negative_numbers = true)]
    scale: Option<f32>,
    /// Where the logarithms of the rows' sums go, as [batch, heads_q, seqlen_q].
    #[arg(long, value_name = "L.npy")]
    lse: Option<PathBuf>,
    /// What Q, K and V are rounded to.
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let mut places = vec![args.output.clone()];
    places.extend(args.lse.clone());
    compute::check_outputs(&places.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let inputs = [
        Input::read("Q", &args.q)?,
        Input::read("K", &args.k)?,
        Input::read("V", &args.v)?,
    ];
    for input in &inputs {
        input.expect_rank(&[4])?;
    }
    let (device, stream) = args.device.open()?;
    let (o, lse, elapsed) = with_dtype!(args.dtype, attend(args, &inputs, &device, &stream))?;
    let mut files = OutputFiles::default();
    compute::add_npy(&mut files, &args.output, &o.view())?;
    if let Some(path) = &args.lse {
        compute::add_npy(&mut files, path, &lse.view())?;
    }
    files.commit()?;
    let names = ["q", "k", "v"];
    let mut shapes: Vec<(&'static str, Vec<usize>)> = names
        .into_iter()
        .zip(&inputs)
        .map(|(name, input)| (name, input.array.values.shape().to_vec()))
        .collect();
    shapes.push(("o", o.shape().to_vec()));
    let report = Report {
        operation: if args.causal {
            "causal attention"
        } else {
            "attention"
        }
        .into(),
        dtype: compute::dtype_name(args.dtype),
        device: &device,
        shapes,
        elapsed,
        files: places,
    };
    report.print(args.device.json, output)?;
    Ok(Outcome::Done)
}

fn attend<T: Float + Rounded>(
    args: &Args,
    [q, k, v]: &[Input; 3],
    device: &Device,
    stream: &Stream,
) -> Result<(ArrayD<f32>, ArrayD<f32>, Duration)> {
    let (q, k, v) = (q.upload::<T>(device)?, k.upload(device)?, v.upload(device)?);
    let mut attention = Attention::new(&q, &k, &v);
    if args.causal {
        attention = attention.causal();
    }
    if let Some(scale) = args.scale {
        attention = attention.softmax_scale(scale);
    }
    let run = || attention.run_with_lse(stream);
    let ((o, lse), elapsed) = compute::timed("attention", stream, run)?;
    Ok((compute::download(&o)?, compute::download(&lse)?, elapsed))
}
