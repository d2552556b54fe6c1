//! A run of measurements: shows rows and saves them as they are measured.

use std::io::Write;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::record::{self, Record};
use crate::results::{Report, Row, Skipped, Summary};
use crate::table::{self, Table};

/// The file of an operation on a card in `folder`. A missing folder is made before anything is
/// measured, so that no measurement is lost.
///
/// # Errors
/// [`BenchError::File`] if the folder cannot be made, errors of [`record::read`] if the file is
/// there and not one of measurements.
pub fn prepare_file(folder: Option<&Path>, card: &str, operation: &str) -> Result<Option<PathBuf>> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let path = record::path(folder, card, operation);
    let place = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(place).map_err(BenchError::file(place))?;
    if path.exists() {
        record::read(&path)?;
    }
    Ok(Some(path))
}

/// Prints a table row by row and writes each row to the file, so that an interrupted run keeps what
/// it has measured.
pub struct Session<'a> {
    report: Report,
    table: Table,
    /// The target of a set's geometric mean.
    target: &'a dyn Fn(&str) -> Option<f64>,
    file: Option<PathBuf>,
    output: &'a mut dyn Write,
    bar: ProgressBar,
}

impl<'a> Session<'a> {
    /// Prints the head of the table. `cases` is the number of cases that will be measured.
    ///
    /// # Errors
    /// [`BenchError::File`] if writing to `output` fails.
    pub fn start(
        report: Report,
        table: Table,
        repetitions: usize,
        cases: usize,
        target: &'a dyn Fn(&str) -> Option<f64>,
        file: Option<PathBuf>,
        output: &'a mut dyn Write,
    ) -> Result<Self> {
        print(
            output,
            &table.head(&report.machine, &report.peer, repetitions),
        )?;
        Ok(Self {
            report,
            table,
            target,
            file,
            output,
            bar: progress_bar(cases),
        })
    }

    /// Shows which case is being measured.
    pub fn announce(&self, case: &str) {
        self.bar.set_message(case.to_owned());
    }

    /// Prints a line between rows.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn note(&mut self, line: &str) -> Result<()> {
        let output = &mut *self.output;
        self.bar.suspend(|| print(output, line))
    }

    /// Records the result of a case. A case that ours does not compute is listed and left out.
    ///
    /// # Errors
    /// Any other error in `measured`, and those of writing the files.
    pub fn take(&mut self, set: &str, case: &str, measured: Result<Row>) -> Result<()> {
        let is_row = measured.is_ok();
        let line = match measured {
            Ok(row) => {
                let line = self.table.row(&row);
                self.report.rows.push(row);
                line
            }
            Err(BenchError::Device(error)) if error.is_unsupported() => {
                let skipped = Skipped {
                    set: set.to_owned(),
                    case: case.to_owned(),
                    reason: error.to_string(),
                };
                let line = table::skipped(&skipped);
                self.report.skipped.push(skipped);
                line
            }
            Err(error) => return Err(error),
        };
        self.note(&line)?;
        self.report.summaries = summaries(&self.report, self.target);
        if let (true, Some(file), Some(row)) = (is_row, &self.file, self.report.rows.last()) {
            record::merge(file, &[Record::of(&self.report, row)])?;
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Prints the foot of the table, and returns the whole report.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn finish(mut self) -> Result<Report> {
        self.bar.finish_and_clear();
        if self.table.is_on_gpu {
            self.report.machine.note_clocks();
        }
        print(self.output, &table::foot(&self.report))?;
        if let Some(file) = &self.file {
            let line = format!("written to {}", file.display());
            print(self.output, &line)?;
        }
        Ok(self.report)
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({} rows)", self.report.rows.len())
    }
}

/// A report without rows.
pub fn empty_report(machine: Machine, peer: String) -> Report {
    Report {
        machine,
        peer,
        summaries: Vec::new(),
        rows: Vec::new(),
        skipped: Vec::new(),
    }
}

/// The summary of each set, in the order of the sets' first rows.
fn summaries(report: &Report, target: &dyn Fn(&str) -> Option<f64>) -> Vec<Summary> {
    let mut summaries: Vec<Summary> = Vec::new();
    for row in &report.rows {
        if summaries.iter().all(|summary| summary.set != row.set) {
            summaries.push(Summary::of(&row.set, target(&row.set), &report.rows));
        }
    }
    summaries
}

fn print(output: &mut dyn Write, text: &str) -> Result<()> {
    writeln!(output, "{text}")
        .and_then(|()| output.flush())
        .map_err(BenchError::file("output"))
}

/// A progress bar on stderr; nothing is shown if that is not a terminal.
fn progress_bar(cases: usize) -> ProgressBar {
    let bar = ProgressBar::new(cases as u64);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
