//! `warpsmith build`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use cuda_builder::{Arch, BuildReport, CudaBuilder, Error, PtxasCheck};
use serde_json::json;

use crate::failure::{Outcome, UsageError};
use crate::output::Output;
use crate::progress::Spinner;

/// Compile a kernel crate to PTX and a manifest.
///
/// Writes `<DIR>/<arch>/<family>.ptx` and `<DIR>/manifest.json`, all of them or, on failure, none.
/// Needs the device toolchain (`warpsmith doctor` tells whether it is installed), but no GPU and no
/// CUDA toolkit.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith build my-kernels
  warpsmith build my-kernels --arch sm_80 --arch sm_90a -o ptx
  warpsmith build my-kernels --family gemm -o ptx
  warpsmith build my-kernels --dump-ir ir")]
pub(crate) struct Args {
    /// The directory of the crate.
    #[arg(value_name = "CRATE", default_value = ".")]
    krate: PathBuf,
    /// Output directory; default: `ptx` in the crate.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Architecture to compile for; may be repeated. PTX for sm_75 runs on everything newer.
    #[arg(long = "arch", value_name = "ARCH", default_value = "sm_75")]
    archs: Vec<Arch>,
    /// Do not contract a*b+c to a fused multiply-add.
    #[arg(long)]
    no_contract: bool,
    /// Build only this family of kernels, and leave the others in DIR unchanged. May be repeated.
    #[arg(long = "family", value_name = "FAMILY")]
    families: Vec<String>,
    /// Compile with overflow checks and debug assertions, which trap.
    #[arg(long)]
    checked: bool,
    /// Cargo features of the crate, separated by commas.
    #[arg(long, value_name = "FEATURES", value_delimiter = ',')]
    features: Vec<String>,
    /// Disable the crate's default features.
    #[arg(long)]
    no_default_features: bool,
    /// Write `.loc` directives, which map PTX to source lines.
    #[arg(long)]
    line_info: bool,
    /// Write `kernels.rs`, Rust functions that launch the kernels, to the output directory.
    #[arg(long)]
    launches: bool,
    /// Write kernels of bf16 and f16 that differ in the type alone as one text, which is loaded with
    /// its manifest.
    #[arg(long)]
    fold_halves: bool,
    /// Write the LLVM IR before and after optimisation, and the PTX (also one that is refused), to
    /// this directory.
    #[arg(long, value_name = "DIR")]
    dump_ir: Option<PathBuf>,
    /// Cargo's target directory for the build; default: `target/warpsmith` in the crate.
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Fail if Cargo.lock would have to change.
    #[arg(long)]
    locked: bool,
    /// Fail if there is no ptxas to check the result.
    #[arg(long, conflicts_with = "no_ptxas")]
    require_ptxas: bool,
    /// Do not check the result with ptxas.
    #[arg(long)]
    no_ptxas: bool,
    /// Print each kernel as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| args.krate.join("ptx"));
    let started = Instant::now();
    let archs: Vec<&str> = args.archs.iter().map(|arch| arch.name()).collect();
    let message = format!("building {} for {}", args.krate.display(), archs.join(", "));
    let spinner = Spinner::start(message);
    let built = builder(args).copy_to(&folder).build();
    drop(spinner);
    let report = built.map_err(explained)?;
    for module in &report.modules {
        let path = folder.join(&module.entry.path);
        for kernel in &module.entry.kernels {
            let usage = module
                .assembled
                .as_ref()
                .and_then(|a| a.kernels.get(&kernel.name));
            if args.json {
                let line = json!({
                    "file": path.display().to_string(),
                    "kernel": kernel,
                    "registers": usage.map(|usage| usage.registers),
                });
                writeln!(output, "{line}")?;
            } else {
                let registers = usage.map_or("-".into(), |usage| usage.registers.to_string());
                writeln!(
                    output,
                    "{}  {}  {registers} registers, {} bytes of shared memory",
                    path.display(),
                    kernel.name,
                    kernel.static_shared_bytes
                )?;
            }
        }
    }
    if !args.json {
        summary(output, &report, started.elapsed())?;
    }
    Ok(Outcome::Done)
}

fn builder(args: &Args) -> CudaBuilder {
    let ptxas = match (args.require_ptxas, args.no_ptxas) {
        (true, _) => PtxasCheck::Required,
        (false, true) => PtxasCheck::Never,
        (false, false) => PtxasCheck::IfFound,
    };
    let mut builder = CudaBuilder::new(&args.krate)
        .archs(args.archs.iter().copied())
        .contract(!args.no_contract)
        .release(!args.checked)
        .features(&args.features)
        .default_features(!args.no_default_features)
        .line_info(args.line_info)
        .launches(args.launches)
        .locked(args.locked)
        .fold_halves(args.fold_halves)
        .ptxas(ptxas);
    for family in &args.families {
        builder = builder.family(family);
    }
    if let Some(folder) = &args.target_dir {
        builder = builder.target_dir(folder);
    }
    match &args.dump_ir {
        Some(folder) => builder.dump_ir(folder),
        None => builder,
    }
}

fn summary(output: &mut Output, report: &BuildReport, elapsed: Duration) -> Result<()> {
    let toolchain = &report.toolchain;
    writeln!(
        output,
        "{} modules in {:.1} s by rustc {} and LLVM {}, {}",
        report.modules.len(),
        elapsed.as_secs_f64(),
        toolchain.rustc_version,
        toolchain.llvm_version,
        match &report.ptxas {
            Some(ptxas) => format!("checked by ptxas {}", ptxas.version),
            None => "not checked by ptxas".into(),
        }
    )?;
    Ok(())
}

/// Prints a tool's output to stderr unchanged, and reduces the error itself to one line. An option
/// that the crate does not fit is wrong usage.
fn explained(error: Error) -> anyhow::Error {
    let detail = match &error {
        Error::Tool { cause, .. } => cause.clone(),
        Error::Refused {
            refusals, lines, ..
        } => refusals
            .iter()
            .map(|refusal| format!("  {refusal}\n"))
            .chain([lines.clone()])
            .collect(),
        Error::Option { option, reason } => {
            let option = option.replace('_', "-");
            return UsageError(format!("--{option}: {reason}")).into();
        }
        _ => return error.into(),
    };
    // If stderr is closed, there is nobody to tell.
    writeln!(io::stderr(), "{}", detail.trim_end()).ok();
    match &error {
        Error::Tool {
            step,
            tool,
            file,
            status,
            ..
        } => anyhow!(
            "{step}: {} failed on {} ({status}); what it printed is above",
            tool.display(),
            file.display()
        ),
        Error::Refused {
            arch,
            family,
            refusals,
            ..
        } => anyhow!(
            "lint: {arch}/{family}.ptx breaks {} rule(s); they are listed above",
            refusals.len()
        ),
        _ => error.into(),
    }
}
