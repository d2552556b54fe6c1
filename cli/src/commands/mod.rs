//! The commands, one file each.

mod attention;
mod bench;
mod build;
mod check;
mod completions;
mod compute;
mod demo;
mod devices;
mod doctor;
mod explain;
mod gemm;
mod lint;
mod new;
mod reduce;
mod run;
mod softmax;

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::failure::Outcome;
use crate::output::Output;

/// The commands, in the order of the help text.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Gemm(gemm::Args),
    Attention(Box<attention::Args>),
    Reduce(reduce::Args),
    Softmax(softmax::Args),
    Bench(bench::Args),
    Run(run::Args),
    Check(check::Args),
    New(new::Args),
    Build(build::Args),
    Lint(lint::Args),
    Explain(explain::Args),
    Devices(devices::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(&self, output: &mut Output) -> Result<Outcome> {
        match self {
            Command::Demo(args) => demo::run(args, output),
            Command::Gemm(args) => gemm::run(args, output),
            Command::Attention(args) => attention::run(args, output),
            Command::Reduce(args) => reduce::run(args, output),
            Command::Softmax(args) => softmax::run(args, output),
            Command::Bench(args) => bench::run(args, output),
            Command::Run(args) => run::run(args, output),
            Command::Check(args) => check::run(args, output),
            Command::New(args) => new::run(args, output),
            Command::Build(args) => build::run(args, output),
            Command::Devices(args) => devices::run(args, output),
            Command::Doctor(args) => doctor::run(args, output),
            Command::Lint(args) => lint::run(args, output),
            Command::Explain(args) => explain::run(args, output),
            Command::Completions(args) => completions::run(args, output),
        }
    }
}

/// The text of a PTX file. Errors contain the file's name.
fn read_text(path: &Path) -> Result<String> {
    let bytes = read_bounded(path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).ok().with_context(|| {
        format!(
            "{} is not PTX: it is not text (a cubin or a fatbin?)",
            path.display()
        )
    })
}

/// Reads a text file up to a size limit, so that endless or huge files are refused.
fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    const LIMIT: u64 = 256 << 20;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(
        bytes.len() as u64 <= LIMIT,
        "it is larger than {LIMIT} bytes, which is the most that is read"
    );
    Ok(bytes)
}

/// Reads and parses a PTX file.
fn read_module(path: &Path) -> Result<ptx_syntax::ast::Module> {
    let text = read_text(path)?;
    ptx_syntax::parse(&text).with_context(|| format!("{} is not PTX", path.display()))
}
