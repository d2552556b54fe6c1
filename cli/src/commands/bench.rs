//! `warpsmith bench`

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;
use serde_json::json;
use warpsmith::Device;
use warpsmith_benches::error::{BenchError, Result as BenchResult};
use warpsmith_benches::gate;
use warpsmith_benches::gemm::{self, GemmOptions};
use warpsmith_benches::operations::{self, Operation, OperationOptions};
use warpsmith_benches::record;
use warpsmith_benches::results::Report;

use super::compute;
use crate::failure::{Outcome, UsageError};
use crate::output::Output;
use crate::threads;

/// Measure operations, GEMMs beside cuBLASLt, and compare measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Gemm(GemmArgs),
    /// Measure attention.
    Attention(OperationArgs),
    /// Measure gradients of attention.
    #[command(name = "attention_grad")]
    AttentionGrad(OperationArgs),
    /// Measure attention of block masks, and its gradients.
    #[command(name = "block_sparse")]
    BlockSparse(OperationArgs),
    /// Measure attention with changed scores, and its gradients.
    #[command(name = "scored_attention")]
    ScoredAttention(OperationArgs),
    /// Measure reductions and scans.
    Reduce(OperationArgs),
    /// Measure softmax, norms, cross-entropy and their gradients.
    Rows(OperationArgs),
    /// Measure layer norm, RMS norm and their gradients: the cases of `rows` whose name contains
    /// "norm" (or the text of --only instead).
    Norm(OperationArgs),
    /// Measure sorts of rows.
    Sort(OperationArgs),
    /// Measure top-k: the first elements of rows in order.
    #[command(name = "topk")]
    TopK(OperationArgs),
    /// Measure elementwise operations.
    Elementwise(OperationArgs),
    /// Measure selections by indices, such as embeddings.
    Gather(OperationArgs),
    /// Measure additions by indices, such as gradients of embeddings.
    Scatter(OperationArgs),
    /// Measure rotary position embeddings.
    Rotary(OperationArgs),
    /// Measure grouped GEMMs, as experts of a mixture compute them.
    Grouped(OperationArgs),
    Compare(CompareArgs),
}

/// Measure GEMMs beside cuBLASLt's.
///
/// Both libraries run alternately in one process. For each GEMM, the algorithms that cuBLASLt's
/// heuristic returns are measured, and the fastest counts. cuBLASLt is loaded at run time
/// (libcublasLt.so on the library path). Without it, and on the emulator, only warpsmith is
/// measured. Layouts are row-major: nt is what BLAS calls TN. If a result is wrong, the exit status
/// is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith bench gemm --set squares --set llm --out results
  warpsmith bench gemm --shape 4096x4096x4096 --shape 128x8192x8192 --precision f16 --layout nn
  warpsmith bench gemm --device emulator --shape 64x64x64 --repetitions 3")]
struct GemmArgs {
    #[command(flatten)]
    options: GemmOptions,
    /// Where to measure: gpu, gpu:N, emulator, or auto (a GPU if there is one, else the emulator).
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Print all measurements as one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Only warpsmith is measured, with its share of the machine's peak.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith bench attention --set squares --only d128
  warpsmith bench elementwise --device emulator
Beside other libraries, in one process, with python3 and torch, from a checkout:
  cargo build --release -p warpsmith-benches --example compare_peers
  python3 benches/peers/compare.py attention --set squares --out results")]
struct OperationArgs {
    #[command(flatten)]
    options: OperationOptions,
    /// Where to measure: gpu, gpu:N, emulator, or auto (a GPU if there is one, else the emulator).
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Print all measurements as one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// List the cases that got slower between two result files.
///
/// A case got slower if its time grew by more than the tolerance. If both files contain the peer,
/// its speed relative to the peer must also have fallen by more than the tolerance: this excludes
/// slower machines. Cases that are missing in NEW, and wrong results, are listed as well. If a case
/// is listed, the exit status is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith bench compare benches/results/h200/gemm.csv results/h200/gemm.csv
  warpsmith bench compare old.csv new.csv --tolerance 0.1 --json")]
struct CompareArgs {
    /// The earlier results, as `warpsmith bench gemm --out` writes them.
    #[arg(value_name = "OLD.csv")]
    old: PathBuf,
    /// The later results.
    #[arg(value_name = "NEW.csv")]
    new: PathBuf,
    /// Relative slowdown that is tolerated: 0.03 is 3 %.
    #[arg(long, value_name = "SHARE", default_value_t = 0.03, allow_negative_numbers = true, value_parser = tolerance)]
    tolerance: f64,
    /// Print each case that got slower as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> std::result::Result<f64, String> {
    match compute::finite(text) {
        Ok(share) if (0.0..=10.0).contains(&share) => Ok(share.into()),
        _ => Err("want a share from 0 to 10: 0.03 is 3 %".into()),
    }
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    match &args.what {
        What::Gemm(args) => gemm(args, output),
        What::Attention(args) => operation(&operations::attention::ATTENTION, args, output),
        What::AttentionGrad(args) => {
            operation(&operations::attention_grad::ATTENTION_GRAD, args, output)
        }
        What::BlockSparse(args) => operation(&operations::block_sparse::BLOCK_SPARSE, args, output),
        What::ScoredAttention(args) => operation(
            &operations::scored_attention::SCORED_ATTENTION,
            args,
            output,
        ),
        What::Reduce(args) => operation(&operations::reduce::REDUCE, args, output),
        What::Rows(args) => operation(&operations::rows::ROWS, args, output),
        What::Norm(args) => norm(args, output),
        What::Sort(args) => operation(&operations::sort::SORT, args, output),
        What::TopK(args) => operation(&operations::topk::TOPK, args, output),
        What::Elementwise(args) => operation(&operations::elementwise::ELEMENTWISE, args, output),
        What::Gather(args) => operation(&operations::gather::GATHER, args, output),
        What::Scatter(args) => operation(&operations::scatter::SCATTER, args, output),
        What::Rotary(args) => operation(&operations::rotary::ROTARY, args, output),
        What::Grouped(args) => operation(&operations::grouped::GROUPED, args, output),
        What::Compare(args) => compare(args, output),
    }
}

fn gemm(args: &GemmArgs, output: &mut Output) -> Result<Outcome> {
    let device = Device::from_name(&args.device)?;
    measured(args.json, output, |table| {
        gemm::run(&args.options, &device, table)
    })
}

fn operation(
    operation: &'static Operation,
    args: &OperationArgs,
    output: &mut Output,
) -> Result<Outcome> {
    let device = Device::from_name(&args.device)?;
    measured(args.json, output, |table| {
        operation.run(&args.options, &device, None, table)
    })
}

/// The cases of `rows` that are norms.
fn norm(args: &OperationArgs, output: &mut Output) -> Result<Outcome> {
    let device = Device::from_name(&args.device)?;
    let mut options = args.options.clone();
    if options.sets.is_empty() && !device.is_emulator() {
        options.sets = ["norm", "grad"].map(str::to_owned).into();
    }
    if options.only.is_empty() {
        options.only = "norm".to_owned();
    }
    measured(args.json, output, |table| {
        operations::rows::ROWS.run(&options, &device, None, table)
    })
}

/// Prints a table, or all measurements as JSON.
fn measured(
    as_json: bool,
    output: &mut Output,
    measure: impl FnOnce(&mut dyn Write) -> BenchResult<Report>,
) -> Result<Outcome> {
    threads::start()?;
    let mut nowhere = std::io::sink();
    let table: &mut dyn Write = if as_json { &mut nowhere } else { output };
    let report = measure(table).map_err(by_fault)?;
    if report.rows.is_empty() {
        bail!("no case was computed");
    }
    if as_json {
        writeln!(output, "{}", serde_json::to_string(&report)?)?;
    }
    Ok(match report.is_wrong() {
        true => Outcome::FoundFaults,
        false => Outcome::Done,
    })
}

fn compare(args: &CompareArgs, output: &mut Output) -> Result<Outcome> {
    let (old, new) = (record::read(&args.old)?, record::read(&args.new)?);
    if old.is_empty() {
        let path = args.old.display();
        bail!("{path} has no rows to compare with");
    }
    let regressions = gate::regressions(&old, &new, args.tolerance);
    for regression in &regressions {
        match args.json {
            true => writeln!(output, "{}", json!(regression))?,
            false => writeln!(output, "{regression}")?,
        }
    }
    if !args.json {
        let (found, rows) = (regressions.len(), old.len());
        writeln!(output, "{found} of {rows} cases got worse")?;
    }
    Ok(match regressions.is_empty() {
        true => Outcome::Done,
        false => Outcome::FoundFaults,
    })
}

/// Maps errors to exit codes: an invalid choice of cases or of a name is wrong usage; other
/// errors stay unchanged.
fn by_fault(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Device(error) => error.into(),
        BenchError::NoCase { .. }
        | BenchError::NoSet { .. }
        | BenchError::NoKernel { .. }
        | BenchError::TooLargeForEmulator { .. } => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}
