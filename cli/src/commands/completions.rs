//! `warpsmith completions`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::failure::Outcome;
use crate::output::{Output, OutputFiles};

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith completions bash -o ~/.local/share/bash-completion/completions/warpsmith
  warpsmith completions zsh > ~/.zfunc/_warpsmith")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
    /// Write the script to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "warpsmith", &mut script);
    let Some(path) = &args.output else {
        output.write_all(&script)?;
        return Ok(Outcome::Done);
    };
    let mut files = OutputFiles::default();
    files.add(path, |file| Ok(file.write_all(&script)?))?;
    files.commit()?;
    Ok(Outcome::Done)
}
