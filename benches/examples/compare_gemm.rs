//! Products beside cuBLASLt's, interleaved in one process on one GPU.
//!
//! `compare_gemm --set squares --set llm --out FOLDER` prints a table and writes CSV, JSON and
//! plots; `--help` lists sets and options. cuBLASLt is loaded at run time: a folder that holds
//! `libcublasLt.so` must be on the library path. Exit status 1 where a row or a mean falls short.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use warpsmith_benches::bench_device;
use warpsmith_benches::gemm::{self, GemmOptions};

/// Puts products beside cuBLASLt's.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: GemmOptions,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Arguments { options } = Arguments::parse();
    let report = gemm::run(&options, &bench_device()?, &mut std::io::stdout())?;
    Ok(ExitCode::from(u8::from(report.falls_short())))
}
