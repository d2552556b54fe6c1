//! GEMMs beside cuBLASLt's, interleaved in one process on one GPU.
//!
//! `compare_gemm --set squares --set llm --out FOLDER` prints a table and writes CSV, JSON and
//! plots; `--help` lists sets and options. cuBLASLt is loaded at run time: a folder that holds
//! `libcublasLt.so` must be on the library path. Exit status 1 where a row or a mean falls
//! short, 2 for a machine that cannot be worked with.

use std::process::ExitCode;

use clap::Parser;
use warpsmith_benches::bench_device;
use warpsmith_benches::error::Result;
use warpsmith_benches::gemm::{self, GemmOptions};

/// Puts GEMMs beside cuBLASLt's.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: GemmOptions,
}

fn main() -> ExitCode {
    let Arguments { options } = Arguments::parse();
    match compare(&options) {
        Ok(falls_short) => ExitCode::from(u8::from(falls_short)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare(options: &GemmOptions) -> Result<bool> {
    let report = gemm::run(options, &bench_device()?, &mut std::io::stdout())?;
    Ok(report.falls_short())
}
