//! Fits the constants of GEMM's cost model to result files of `compare_gemm`, best of runs with
//! `--all-candidates`, and prints those that change, with the error before and after.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use warpsmith::fitting::{MachineModel, h200};
use warpsmith_benches::error::Result;
use warpsmith_benches::{fit, record};

/// Fits the constants of GEMM's cost model to measurements on an H200.
#[derive(Debug, Parser)]
struct Arguments {
    /// Result files of GEMM.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/h200/gemm.csv"))]
    files: Vec<PathBuf>,
    /// Only print the error of the constants as they are.
    #[arg(long)]
    check: bool,
}

/// Products and kernels that are listed as the worst.
const WORST: usize = 25;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { files, check }: &Arguments) -> Result<()> {
    let mut records = Vec::new();
    for file in files {
        records.extend(record::read(file)?);
    }
    let (samples, device) = (fit::samples(&records), h200());
    let before = fit::fit(&samples, &device, &MachineModel::H200);
    let (used, all) = (before.ratios.len(), samples.len());
    println!("{used} of {all} measured kernels are candidates");
    println!("loss {:.4}, the worst choices:", before.loss);
    for choice in before.choices.iter().take(WORST) {
        let p = &choice.problem;
        let [first, fastest] = &choice.names;
        println!(
            "  {:.3} m{} n{} k{} {first}, fastest {fastest}",
            choice.loss, p.m, p.n, p.k
        );
    }
    println!("error {:.4}, the worst estimates by times:", before.error);
    for (sample, ratio) in before.ratios.iter().take(WORST) {
        let p = &sample.problem;
        println!("  {ratio:.3} {} m{} n{} k{}", sample.kernel, p.m, p.n, p.k);
    }
    if *check {
        return Ok(());
    }
    let fitted = fit::fitted(&samples, &device, &MachineModel::H200);
    let after = fit::fit(&samples, &device, &fitted);
    println!("loss {:.4}, error {:.4} with", after.loss, after.error);
    let old = fit::constants(&MachineModel::H200);
    for ((path, new), (_, old)) in fit::constants(&fitted).iter().zip(&old) {
        if new != old {
            println!("  {path}: {new} instead of {old}");
        }
    }
    Ok(())
}
