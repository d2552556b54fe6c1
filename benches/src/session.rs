//! A run: rows as they are measured, on screen and in files.

use std::io::Write;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::plot;
use crate::results::{Report, Row, Skipped, Summary};
use crate::table::{self, Table};

/// Where results go besides the screen.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The folder; nothing is written without one.
    pub folder: Option<&'a Path>,
    /// Name of the files without what stands behind the dot.
    pub name: &'a str,
}

/// Prints a table row by row, and writes the files after each: what was measured is kept where the
/// run is cut short.
pub struct Session<'a> {
    report: Report,
    table: Table,
    /// Of a set: what its geometric mean is to reach.
    target: &'a dyn Fn(&str) -> Option<f64>,
    files: Files<'a>,
    output: &'a mut dyn Write,
    bar: ProgressBar,
}

impl<'a> Session<'a> {
    /// Prints the head. `cases` come.
    ///
    /// # Errors
    /// [`BenchError::File`] where `output` takes nothing.
    pub fn start(
        report: Report,
        table: Table,
        repetitions: usize,
        cases: usize,
        target: &'a dyn Fn(&str) -> Option<f64>,
        files: Files<'a>,
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
            files,
            output,
            bar: progress_bar(cases),
        })
    }

    /// Says what is measured now.
    pub fn announce(&self, case: &str) {
        self.bar.set_message(case.to_owned());
    }

    /// A line between rows.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn note(&mut self, line: &str) -> Result<()> {
        let output = &mut *self.output;
        self.bar.suspend(|| print(output, line))
    }

    /// Takes what became of a case. What ours does not compute is listed and left out.
    ///
    /// # Errors
    /// The one in `measured`, if it is another; what the files give.
    pub fn take(&mut self, set: &str, case: &str, measured: Result<Row>) -> Result<()> {
        let line = match measured {
            Ok(row) => {
                let line = self.table.row(&row);
                self.report.rows.push(row);
                line
            }
            Err(BenchError::Device(error @ warpsmith::Error::Unsupported { .. })) => {
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
        self.write()?;
        self.bar.inc(1);
        Ok(())
    }

    /// Prints the foot, draws the plots, and hands out everything.
    ///
    /// # Errors
    /// [`BenchError::File`], [`BenchError::Plot`].
    pub fn finish(mut self) -> Result<Report> {
        self.bar.finish_and_clear();
        if self.table.is_on_gpu {
            self.report.machine.note_clocks();
        }
        print(self.output, &table::foot(&self.report))?;
        self.write()?;
        if let Some(folder) = self.files.folder {
            let plots = plot::draw(&self.report, folder, self.files.name)?;
            let line = format!("written to {} with {plots} plots", folder.display());
            print(self.output, &line)?;
        }
        Ok(self.report)
    }

    fn write(&self) -> Result<()> {
        match self.files.folder {
            Some(folder) => self.report.write(folder, self.files.name),
            None => Ok(()),
        }
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

/// Of each set, in the order of its first row.
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

/// On stderr; nothing where that is no terminal.
fn progress_bar(cases: usize) -> ProgressBar {
    let bar = ProgressBar::new(cases as u64);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
