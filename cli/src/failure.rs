//! How a command ends: exit codes, errors as one line on stderr, and reports of the emulator.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use thiserror::Error;
use warpsmith_emulator::{LaunchError, Report};

/// How a command that ran to its end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success: exit code 0.
    Done,
    /// The command ran and found faults in what it checked (`lint`, `doctor`): exit code 1.
    FoundFaults,
    /// A program's kernels had faults, which were reported: exit code 3.
    FoundFaultsInKernels,
    /// A program that was run ended with this exit code.
    Exited(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::FoundFaults => ExitCode::from(FAILURE),
            Outcome::FoundFaultsInKernels => ExitCode::from(FAULT),
            Outcome::Exited(code) => ExitCode::from(code),
        }
    }
}

/// A command line that has to be another, which clap alone cannot detect: exit code 2. A failure
/// that other files or another machine would mend is not wrong usage.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// How to reproduce a fault: context of an error, which is printed at the end of a fault's report.
#[derive(Clone, Debug)]
pub(crate) struct Reproduce {
    pub(crate) seed: u64,
    /// Number of schedules that ran, including the one that failed.
    pub(crate) ran: u64,
    /// Number of schedules requested.
    pub(crate) count: u64,
    /// Options that reproduce the fault.
    pub(crate) options: String,
}

impl fmt::Display for Reproduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count > 1 {
            let Self { ran, count, .. } = self;
            writeln!(f, "  = note: found in schedule {ran} of {count}")?;
        }
        write!(f, "  = note: to reproduce: {}", self.options)
    }
}

/// The instructions that a warp was allowed: context of the error of a warp that wanted more, which
/// is printed at the end of its report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed(pub(crate) u64);

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(budget) = self;
        write!(
            f,
            "  = note: a loop without an end? --instruction-budget N allows a block more than {budget}"
        )
    }
}

const FAILURE: u8 = 1;
const USAGE: u8 = 2;
const FAULT: u8 = 3;

/// Prints clap's message (help and version too) and returns its exit code.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(FAILURE),
        _ if error.use_stderr() => ExitCode::from(USAGE),
        _ => ExitCode::SUCCESS,
    }
}

/// Prints `error: ..` with its causes on one line and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    if broken_pipe {
        return ExitCode::SUCCESS;
    }
    let fault = fault_of(error);
    let text = match fault {
        // A report has several lines: the place of the fault, and notes.
        Some(report) => {
            let allowed = error.downcast_ref::<Allowed>().map(ToString::to_string);
            let reproduce = error.downcast_ref::<Reproduce>().map(ToString::to_string);
            let notes = allowed.into_iter().chain(reproduce);
            notes.fold(report.to_string(), |text, note| format!("{text}\n{note}"))
        }
        None => format!("error: {}", one_line(error)),
    };
    // If stderr is closed, only the exit code reports the failure.
    writeln!(io::stderr(), "{}", text.trim_end()).ok();
    ExitCode::from(match error {
        _ if fault.is_some() => FAULT,
        _ if is_usage(error) => USAGE,
        _ => FAILURE,
    })
}

/// Whether the command line is at fault.
fn is_usage(error: &anyhow::Error) -> bool {
    let is_name_or_axis = |cause: &(dyn std::error::Error + 'static)| {
        matches!(
            cause.downcast_ref().map(warpsmith::Error::root),
            Some(
                warpsmith::Error::Device(warpsmith::DeviceError::Unknown { .. })
                    | warpsmith::Error::Shape(warpsmith::ShapeError::Axis { .. })
            )
        )
    };
    error.is::<UsageError>() || error.chain().any(is_name_or_axis)
}

/// The emulator's report among an error's causes.
pub(crate) fn fault_of(error: &anyhow::Error) -> Option<&Report> {
    error.chain().find_map(kernel_fault)
}

/// The emulator's report, if that is what this is.
fn kernel_fault<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e Report> {
    match cause.downcast_ref::<warpsmith::Error>()?.root() {
        warpsmith::Error::Emulator(warpsmith::EmulatorError::Launch(error)) => match &**error {
            LaunchError::Fault(report) => Some(report),
            _ => None,
        },
        _ => None,
    }
}

/// The chain of causes, joined by colons; a cause that its parent already quotes is left out.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.ends_with(&text) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&text);
    }
    let words: Vec<&str> = line
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    // Messages may quote contents of files: strip control characters that a terminal would obey.
    words
        .join(" ")
        .chars()
        .flat_map(|c| {
            let (plain, escaped) = match c.is_control() {
                true => (None, Some(c.escape_default())),
                false => (Some(c), None),
            };
            plain.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}
