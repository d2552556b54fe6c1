//! The table of operations, with their errors against the reference.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use ndarray::ArrayD;
use serde_json::{Value, json};
use warpsmith::reference::Expected;

use crate::commands::compute::milliseconds;
use crate::output::Output;

/// One operation.
pub(super) struct Row {
    pub(super) operation: &'static str,
    pub(super) shape: String,
    pub(super) elapsed: Duration,
    /// Largest difference to the reference.
    pub(super) max_error: f64,
    /// Largest bound.
    pub(super) bound: f64,
    /// Largest ratio of an element's error to its bound.
    pub(super) share: f64,
}

impl Row {
    /// Checks `got` against the reference; an element outside of its bound is an error.
    pub(super) fn judge(
        operation: &'static str,
        shape: String,
        elapsed: Duration,
        got: &ArrayD<f32>,
        want: &Expected,
    ) -> Result<Self> {
        let agreement = want
            .compare(&got.mapv(f64::from).view())
            .with_context(|| format!("{operation} is not what the reference says"))?;
        Ok(Self {
            operation,
            shape,
            elapsed,
            max_error: agreement.max_error,
            bound: want.largest_bound(),
            share: agreement.max_ratio,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "operation": self.operation,
            "shape": self.shape,
            "time_ms": milliseconds(self.elapsed),
            "max_error": self.max_error,
            "max_bound": self.bound,
            "max_error_over_bound": self.share,
        })
    }
}

/// Prints the rows under a heading.
pub(super) fn print(rows: &[Row], device: &str, output: &mut Output) -> Result<()> {
    let mut cells = vec![
        [
            "operation",
            "shape",
            "device",
            "time",
            "largest error",
            "largest bound",
            "error/bound",
        ]
        .map(String::from),
    ];
    cells.extend(rows.iter().map(|row| {
        [
            row.operation.to_owned(),
            row.shape.clone(),
            device.to_owned(),
            format!("{:.3} ms", milliseconds(row.elapsed)),
            format!("{:.1e}", row.max_error),
            format!("{:.1e}", row.bound),
            format!("{:.4}", row.share),
        ]
    }));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..7).map(|column| width(column).unwrap_or(0)).collect();
    for row in &cells {
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0..=2 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        writeln!(output, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}
