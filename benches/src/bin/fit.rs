//! Fits the constants of GEMM's cost model to result files of `compare_gemm`, best of runs with
//! `--all-candidates`, and prints those that change, with the error before and after.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use warpsmith::fitting::{MachineModel, h200};
use warpsmith_benches::error::Result;
use warpsmith_benches::fit::Fit;
use warpsmith_benches::{fit, record};

/// Fits the constants of GEMM's cost model to measurements on an H200.
#[derive(Debug, Parser)]
struct Arguments {
    /// Result files of GEMM.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/h200/gemm.csv"))]
    files: Vec<PathBuf>,
    /// Fit only constants whose path contains one of these.
    #[arg(long, value_name = "TEXT", value_delimiter = ',', default_value = "/")]
    only: Vec<String>,
    /// Only print how good the constants are as they are.
    #[arg(long)]
    check: bool,
}

/// Products and kernels that are listed as the worst.
const WORST: usize = 60;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { files, only, check }: &Arguments) -> Result<()> {
    let mut records = Vec::new();
    for file in files {
        records.extend(record::read(file)?);
    }
    let (samples, device) = (fit::samples(&records), h200());
    let before = fit::fit(&samples, &device, &MachineModel::H200);
    let (used, all) = (before.ratios.len(), samples.len());
    println!("{used} of {all} measured kernels are candidates");
    report(&before);
    if *check {
        return Ok(());
    }
    let fitted = fit::fitted(&samples, &device, &MachineModel::H200, only);
    let after = fit::fit(&samples, &device, &fitted);
    report(&after);
    println!("with");
    let old = fit::constants(&MachineModel::H200);
    for ((path, new), (_, old)) in fit::constants(&fitted).iter().zip(&old) {
        if new != old {
            println!("  {path}: {new} instead of {old}");
        }
    }
    Ok(())
}

/// Prints how good a model is, and where it is worst.
fn report(fit: &Fit) {
    println!("loss {:.4}, the worst choices:", fit.loss);
    for choice in fit.choices.iter().take(WORST) {
        let p = &choice.problem;
        let [first, fastest] = &choice.names;
        println!(
            "  {:.3} m{} n{} k{} {first}, fastest {fastest}",
            choice.loss, p.m, p.n, p.k
        );
    }
    println!("error {:.4}, the worst estimates by times:", fit.error);
    for (sample, ratio) in fit.ratios.iter().take(WORST) {
        let p = &sample.problem;
        println!("  {ratio:.3} {} m{} n{} k{}", sample.kernel, p.m, p.n, p.k);
    }
}
