//! `warpsmith explain`

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use ptx_syntax::explain::explain;

use super::read_module;
use crate::failure::Outcome;
use crate::output::Output;

/// Show the resources and instructions of the kernels in a PTX file.
///
/// For each kernel: parameters, launch bounds, virtual registers by type, and shared and local
/// memory. Also the number of instructions of each class in the text (a static count, not an
/// execution).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith explain kernel.ptx
  warpsmith explain kernel.ptx --kernel gemm_f32
  warpsmith explain kernel.ptx --json | jq '.kernels[].static_shared_bytes'")]
pub(crate) struct Args {
    /// The PTX file.
    #[arg(value_name = "FILE.ptx")]
    file: PathBuf,
    /// Show only this kernel.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let module = read_module(&args.file)?;
    let mut report = explain(&module);
    if let Some(wanted) = &args.kernel {
        let names: Vec<_> = report
            .kernels
            .iter()
            .map(|kernel| kernel.name.clone())
            .collect();
        report.kernels.retain(|kernel| kernel.name == *wanted);
        ensure!(
            !report.kernels.is_empty(),
            "{} has no kernel `{wanted}`; it has: {}",
            args.file.display(),
            names.join(", ")
        );
    }
    if args.json {
        writeln!(output, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(output, "{report}")?;
    }
    Ok(Outcome::Done)
}
