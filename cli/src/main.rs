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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The arguments of a line of documentation that calls the program.
    fn arguments(line: &str) -> Option<Vec<&str>> {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let calls = ["warpsmith ", "cargo run -- ", "cargo run --release -- "];
        let rest = calls.iter().find_map(|call| line.strip_prefix(call))?;
        let rest = rest.split(" #").next()?;
        let words = rest.split_whitespace();
        (!rest.starts_with('=')).then(|| std::iter::once("warpsmith").chain(words).collect())
    }

    #[test]
    fn commands_of_the_documentation_parse() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = 0;
        for folder in ["", "cli", "docs"] {
            for entry in std::fs::read_dir(root.join(folder)).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.extension().is_none_or(|extension| extension != "md") {
                    continue;
                }
                let page = std::fs::read_to_string(&path).expect("a page");
                for arguments in page.lines().filter_map(arguments) {
                    found += 1;
                    if let Err(error) = Cli::try_parse_from(&arguments) {
                        panic!("{}: {}: {error}", path.display(), arguments.join(" "));
                    }
                }
            }
        }
        assert!(found > 15, "{found}");
    }
}
