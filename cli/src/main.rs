//! The program `warpsmith`: builds GPU kernels written in Rust, inspects them, and runs them on a
//! GPU or on the emulator.
//!
//! To add a command, add a file in `commands/` with an `Args` struct (its doc comment is the help
//! text) and `run(&Args, &mut Output) -> anyhow::Result<Outcome>`, and a variant and an arm in
//! `commands/mod.rs`. Everything that a command prints goes through [`output::Output`]. A failure
//! is an `anyhow` error, which is printed as one line on stderr.
#![deny(unsafe_code)]

mod commands;
mod failure;
mod memory;
mod npy;
mod output;
mod progress;
mod threads;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use commands::Command;
use output::Output;

/// Build, inspect, run and check GPU kernels written in Rust.
///
/// Every command that computes runs on a GPU or on the emulator, which needs no GPU; `--device`
/// selects one.
#[derive(Debug, Parser)]
#[command(
    name = "warpsmith",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Exit status: 0 done; 1 it failed: a file, a device or memory is not there or not \
                  as it has to be, or a check found something; 2 wrong usage: the command line \
                  has to be another; 3 the emulator found a fault in a kernel."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::report_usage(&error),
    };
    let mut output = Output::stdout();
    let result = cli.command.run(&mut output).and_then(|outcome| {
        output.flush()?;
        Ok(outcome)
    });
    match result {
        Ok(outcome) => outcome.into(),
        Err(error) => failure::report(&error),
    }
}
