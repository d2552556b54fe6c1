//! `warpsmith attention`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ndarray::ArrayD;
use warpsmith::{Attention, BlockMask, BlockMaskShape, Device, Float, Layout, Stream, Tensor};

use super::compute::{self, DeviceArgs, Dtype, Input, Report, Rounded, with_dtype};
use crate::failure::{Outcome, UsageError};
use crate::output::{Output, OutputFiles};

/// Scaled dot-product attention: O = softmax(scale * Q @ K^T + mask) @ V.
///
/// Q is [batch, seqlen_q, heads_q, head_dim], K is [batch, seqlen_k, heads_kv, head_dim], and V is
/// [batch, seqlen_k, heads_kv, head_dim_v]. heads_q is a multiple of heads_kv, and head_dim is at
/// most 256. With --cu-seqlens-q, Q is [total, heads_q, head_dim]; with --cu-seqlens-k, K and V are
/// [total, heads_kv, ..]. Files are .npy of f16, f32 or f64, in C or Fortran order. Operands are
/// rounded to --dtype, O to --out-dtype before it is written as f32.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith attention Q.npy K.npy V.npy -o O.npy --causal
  warpsmith attention Q.npy K.npy V.npy -o O.npy --scale 0.125 --lse L.npy --dtype f16
  warpsmith attention Q.npy K.npy V.npy -o O.npy --causal --window-left 1024 --softcap 50
  warpsmith attention Q.npy K.npy V.npy -o O.npy --bias B.npy --mask M.npy --alibi slopes.npy
  warpsmith attention Q.npy K.npy V.npy -o O.npy --block-mask BM.npy --block-size 64,128
  warpsmith attention Q.npy K.npy V.npy -o O.npy --cu-seqlens-q 0,5,9 --cu-seqlens-k 0,7,16")]
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
    /// Output file of O.
    #[arg(short, long, value_name = "O.npy")]
    output: PathBuf,
    /// Causal mask, aligned bottom-right: query i sees keys up to i + seqlen_k - seqlen_q.
    #[arg(long)]
    causal: bool,
    /// Causal mask, aligned top-left: query i sees keys up to i.
    #[arg(long, conflicts_with = "causal")]
    causal_top_left: bool,
    /// Sliding window: number of keys before its own position that a query sees [default: all].
    #[arg(long, value_name = "KEYS", allow_negative_numbers = true, value_parser = keys)]
    window_left: Option<u32>,
    /// Sliding window: number of keys after its own position that a query sees [default: all].
    #[arg(long, value_name = "KEYS", allow_negative_numbers = true, value_parser = keys)]
    #[arg(conflicts_with_all = ["causal", "causal_top_left"])]
    window_right: Option<u32>,
    /// Bounds scores: s becomes softcap * tanh(s / softcap). Above 0.
    #[arg(long, allow_negative_numbers = true, value_parser = compute::finite)]
    softcap: Option<f32>,
    /// Attention sink: an extra logit per query head, `[heads_q]`, without a value.
    #[arg(long, value_name = "S.npy")]
    sink: Option<PathBuf>,
    /// Is added to the scaled scores: a file that broadcasts to `[batch, heads_q, seqlen_q, seqlen_k]`.
    #[arg(long, value_name = "B.npy")]
    bias: Option<PathBuf>,
    /// Hides a key from a query where it is 0: a file of any numbers that broadcasts likewise.
    #[arg(long, value_name = "M.npy")]
    mask: Option<PathBuf>,
    /// Slopes of ALiBi, `[heads_q]` or `[batch, heads_q]`.
    #[arg(long, value_name = "A.npy")]
    alibi: Option<PathBuf>,
    /// Blocks of keys that blocks of queries see, where it is not 0: a file of any numbers,
    /// `[batch or 1, heads_q or 1, blocks of queries, blocks of keys]`.
    #[arg(long, value_name = "BM.npy")]
    block_mask: Option<PathBuf>,
    /// Queries and keys of a block, multiples of 64.
    #[arg(long, value_name = "Q,K", default_value = "128,128", value_parser = block_size)]
    #[arg(requires = "block_mask")]
    block_size: [usize; 2],
    /// Start of each packed sequence of queries, and end of the last one.
    #[arg(long, value_name = "0,N,..", value_delimiter = ',', allow_hyphen_values = true, value_parser = count)]
    cu_seqlens_q: Vec<i32>,
    /// Start of each packed sequence of keys, and end of the last one.
    #[arg(long, value_name = "0,N,..", value_delimiter = ',', allow_hyphen_values = true, value_parser = count)]
    cu_seqlens_k: Vec<i32>,
    /// Number of keys of each sequence that are used, including left padding.
    #[arg(long, value_name = "N,..", value_delimiter = ',', allow_hyphen_values = true, value_parser = count)]
    seqused_k: Vec<i32>,
    /// Number of padding keys at the start of each sequence.
    #[arg(long, value_name = "N,..", value_delimiter = ',', allow_hyphen_values = true, value_parser = count)]
    leftpad_k: Vec<i32>,
    /// Heads come before positions in Q, K, V and O.
    #[arg(long)]
    bhsd: bool,
    /// Factor of the scores [default: 1 / sqrt(head_dim)].
    #[arg(long, allow_negative_numbers = true, value_parser = compute::finite)]
    scale: Option<f32>,
    /// Output file of the log-sum-exp of each row: [batch, heads_q, seqlen_q] or [heads_q, total].
    #[arg(long, value_name = "L.npy")]
    lse: Option<PathBuf>,
    /// Dtype to which Q, K and V are rounded.
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Dtype to which O is rounded [default: --dtype].
    #[arg(long, value_enum)]
    out_dtype: Option<Dtype>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Parses a side of a sliding window. Other programs have -1 for one without a limit.
fn keys(text: &str) -> Result<u32, String> {
    compute::not_negative(text, "; leave it out for no limit")
}

/// Parses the extents of a block.
fn block_size(text: &str) -> Result<[usize; 2], String> {
    let want = || "want two numbers, Q,K".to_owned();
    let (q, k) = text.split_once(',').ok_or_else(want)?;
    let extent = |text: &str| text.trim().parse().map_err(|_| want());
    Ok([extent(q)?, extent(k)?])
}

/// Parses a position or a number of keys.
fn count(text: &str) -> Result<i32, String> {
    let count: u32 = compute::not_negative(text, "")?;
    i32::try_from(count).map_err(|_| format!("want {} or less", i32::MAX))
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
    let of_q = (&args.cu_seqlens_q, "--cu-seqlens-q");
    let of_keys = (&args.cu_seqlens_k, "--cu-seqlens-k");
    for (input, (bounds, option)) in inputs.iter().zip([of_q, of_keys, of_keys]) {
        match bounds.is_empty() {
            true => input.expect_rank(&[4], &format!(", or 3 with {option}"))?,
            false => input.expect_rank(&[3], &format!(" with {option}"))?,
        }
    }
    let read = |name, path: &Option<PathBuf>| {
        let input = path.as_ref().map(|path| Input::read_numbers(name, path));
        input.transpose()
    };
    let others = Others {
        sink: read("S", &args.sink)?,
        bias: read("B", &args.bias)?,
        mask: read("M", &args.mask)?,
        alibi: read("A", &args.alibi)?,
        block_mask: read("BM", &args.block_mask)?,
    };
    let (device, stream) = args.device.open()?;
    let (o, lse, elapsed) =
        with_dtype!(args.dtype, attend(args, &inputs, &others, &device, &stream))?;
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
        operation: if args.causal || args.causal_top_left {
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
    report.print(&args.device, output)?;
    Ok(Outcome::Done)
}

/// Inputs beside Q, K and V.
struct Others {
    sink: Option<Input>,
    bias: Option<Input>,
    mask: Option<Input>,
    alibi: Option<Input>,
    block_mask: Option<Input>,
}

/// The mask of the blocks that a file shows.
fn block_mask(input: &Input, [q, k]: [usize; 2], stream: &Stream) -> Result<BlockMask> {
    input.expect_rank(&[4], "")?;
    let shown = &input.array.values;
    let [batch, heads, rows, columns] = [0, 1, 2, 3].map(|axis| shown.shape()[axis]);
    let shape = BlockMaskShape::new(rows.saturating_mul(q), columns.saturating_mul(k))
        .batch(batch)
        .heads(heads)
        .blocks(q, k);
    let lines = shown.rows().into_iter();
    let lists: Vec<Vec<u32>> = lines
        .map(|line| {
            let blocks = (0..).zip(line).filter(|(_, x)| **x != 0.0);
            blocks.map(|(block, _)| block).collect()
        })
        .collect();
    BlockMask::from_lists(&shape, &lists, stream).map_err(|error| by_option(error.into()))
}

/// O, lse, and the run time.
type Attended = (ArrayD<f32>, ArrayD<f32>, Duration);

fn attend<T: Float + Rounded>(
    args: &Args,
    [q, k, v]: &[Input; 3],
    others: &Others,
    device: &Device,
    stream: &Stream,
) -> Result<Attended> {
    let (q, k, v) = (q.upload::<T>(device)?, k.upload(device)?, v.upload(device)?);
    let upload = |input: &Option<Input>| {
        let tensor = input.as_ref().map(|input| input.upload::<f32>(device));
        tensor.transpose()
    };
    let (sink, bias, slopes) = (
        upload(&others.sink)?,
        upload(&others.bias)?,
        upload(&others.alibi)?,
    );
    let mask = others.mask.as_ref().map(|mask| {
        let shown = mask.array.values.mapv(|x| u8::from(x != 0.0));
        Tensor::from_ndarray(device, &shown)
    });
    let mask = mask.transpose()?;
    let blocks = (others.block_mask.as_ref())
        .map(|input| block_mask(input, args.block_size, stream))
        .transpose()?;
    let mut attention = Attention::new(&q, &k, &v).window(args.window_left, args.window_right);
    if args.causal {
        attention = attention.causal();
    }
    if args.causal_top_left {
        attention = attention.causal_top_left();
    }
    if args.bhsd {
        attention = attention.layout(Layout::Bhsd);
    }
    if let Some(scale) = args.scale {
        attention = attention.softmax_scale(scale);
    }
    if let Some(softcap) = args.softcap {
        attention = attention.softcap(softcap);
    }
    if let Some(sink) = &sink {
        attention = attention.sink(sink);
    }
    if let Some(bias) = &bias {
        attention = attention.bias(bias);
    }
    if let Some(mask) = &mask {
        attention = attention.mask(mask);
    }
    if let Some(slopes) = &slopes {
        attention = attention.alibi(slopes);
    }
    if let Some(blocks) = &blocks {
        attention = attention.block_mask(blocks);
    }
    if !args.cu_seqlens_q.is_empty() {
        attention = attention.cu_seqlens_q(&args.cu_seqlens_q);
    }
    if !args.cu_seqlens_k.is_empty() {
        attention = attention.cu_seqlens_k(&args.cu_seqlens_k);
    }
    if !args.seqused_k.is_empty() {
        attention = attention.seqused_k(&args.seqused_k);
    }
    if !args.leftpad_k.is_empty() {
        attention = attention.leftpad_k(&args.leftpad_k);
    }
    with_dtype!(
        args.out_dtype.unwrap_or(args.dtype),
        compute_in(attention, stream)
    )
}

fn compute_in<Out: Float>(
    attention: Attention<'_, impl Float>,
    stream: &Stream,
) -> Result<Attended> {
    let attention = attention.output::<Out>().lse();
    let run = || attention.run(stream);
    let attended = compute::timed("attention", stream, run);
    let (results, elapsed) = attended.map_err(by_option)?;
    let (o, lse) = (
        compute::download(&results.o)?,
        compute::download(&results.lse)?,
    );
    Ok((o, lse, elapsed))
}

/// A factor, or lengths, that do not fit are options.
fn by_option(error: anyhow::Error) -> anyhow::Error {
    use warpsmith::{ArgumentError, Error, ShapeError};
    match error.downcast_ref().map(Error::root) {
        Some(
            Error::Argument(ArgumentError::Value { .. }) | Error::Shape(ShapeError::Length { .. }),
        ) => UsageError(error.to_string()).into(),
        _ => error,
    }
}
