//! Tasks of this repository: `cargo xtask kernel softmax`.

mod kernel;
mod sass;

use std::process::ExitCode;

use clap::Parser;

/// Tasks of this repository.
#[derive(Debug, Parser)]
enum Task {
    Kernel(kernel::Args),
}

fn main() -> ExitCode {
    let Task::Kernel(args) = Task::parse();
    match kernel::run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
