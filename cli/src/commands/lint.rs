//! `warpsmith lint`

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use ptx_syntax::lint::{LintOptions, Severity, lint_with};

use super::read_module;
use crate::failure::{Outcome, UsageError};
use crate::output::Output;

/// Check PTX files for patterns that make a kernel wrong or slow.
///
/// Prints one finding per line, `file:line: severity[rule]: text`. The exit status is 1 if there is
/// an error among them (with --deny-warnings, also for a warning).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  warpsmith lint kernel.ptx
  warpsmith lint --allow-local --min-severity warning ptx/sm_75/*.ptx
  warpsmith lint --rounding kernel.ptx
  warpsmith lint --json kernel.ptx | jq .rule")]
pub(crate) struct Args {
    /// The PTX files.
    #[arg(required = true, value_name = "FILE.ptx")]
    files: Vec<PathBuf>,
    /// Allow local memory in every kernel.
    #[arg(long)]
    allow_local: bool,
    /// Warn of floats that ptxas may contract into an fma: their bits are not defined.
    #[arg(long)]
    rounding: bool,
    /// Fail on warnings too.
    #[arg(long)]
    deny_warnings: bool,
    /// Hide findings below this severity: note, warning or error.
    #[arg(long, value_name = "SEVERITY", default_value = "note")]
    min_severity: String,
    /// Print each finding as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Outcome> {
    let least: Severity = args.min_severity.parse().map_err(UsageError)?;
    let failing = if args.deny_warnings {
        Severity::Warning
    } else {
        Severity::Error
    };
    let options = LintOptions::default()
        .allow_local(args.allow_local)
        .rounding(args.rounding);
    let mut outcome = Outcome::Done;
    for path in &args.files {
        let module = read_module(path)?;
        for finding in lint_with(&module, &options) {
            if finding.severity >= failing {
                outcome = Outcome::FoundFaults;
            }
            if finding.severity < least {
                continue;
            }
            if args.json {
                let mut line = serde_json::to_value(&finding)?;
                line["file"] = path.display().to_string().into();
                writeln!(output, "{line}")?;
            } else {
                writeln!(output, "{}:{finding}", path.display())?;
            }
        }
    }
    Ok(outcome)
}
