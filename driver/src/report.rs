//! What goes to stderr: notes, and reports of faults.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use warpsmith_emulator::Report;

/// Names the file to which every report is appended: `warpsmith check` reads it.
const REPORTS: &str = "WARPSMITH_REPORTS";

/// Prints a line about the driver itself.
pub(crate) fn note(text: impl fmt::Display) {
    // If stderr is closed, there is nobody to tell.
    writeln!(io::stderr(), "warpsmith: {text}").ok();
}

/// Prints a line about what the driver lacks, the first time that this is asked for.
pub(crate) fn unsupported(what: &'static str) {
    note_once(what, format_args!("{what} is not supported"));
}

/// Prints a line the first time that it is about this.
pub(crate) fn note_once(what: &'static str, text: impl fmt::Display) {
    static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_new = TOLD
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(what);
    if is_new {
        note(text);
    }
}

/// Prints a report, unless one of its kind, kernel and line was printed.
pub(crate) fn once(report: &Report) {
    static TOLD: Mutex<BTreeSet<(String, String, u32)>> = Mutex::new(BTreeSet::new());
    let kind = report.kind.name().to_owned();
    let key = (report.kernel.clone(), kind, report.place.ptx_line);
    let is_new = TOLD
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(key);
    if is_new {
        fault(report);
    }
}

/// Prints the report of a fault.
pub(crate) fn fault(report: impl fmt::Display) {
    writeln!(io::stderr(), "{report}").ok();
    let Some(path) = std::env::var_os(REPORTS) else {
        return;
    };
    let appended = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{report}"));
    if let Err(error) = appended {
        note(format_args!("{}: {error}", path.display()));
    }
}
