//! Results as a table of text.

use crate::machine::{Machine, SMI_QUERY};
use crate::results::{Report, Row, Skipped, Summary};

/// What stands above the rows: the machine, the peer and the names of the columns.
pub fn head(machine: &Machine, peer: &str, repetitions: usize) -> String {
    let copy = match machine.copy_bytes_per_s {
        Some(rate) => format!(", copies at {:.2} TB/s", rate / 1e12),
        None => String::new(),
    };
    format!(
        "{} ({}){copy}: warpsmith beside {peer}, median of {repetitions}\n{}",
        machine.device,
        machine.arch,
        line([
            "case", "ours us", "TFLOP/s", "peer us", "TFLOP/s", "ratio", "of copy", "of roof",
            "differ", "MHz", ""
        ])
    )
}

/// One row.
pub fn row(row: &Row) -> String {
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
    };
    let peer_ms = row.peer.as_ref().map(|peer| peer.ms);
    let rate = row.flops / row.ours.ms * 1e3;
    let rate_of = |ms: f64| match row.tflops(ms) {
        rate if rate < 1.0 => format!("{rate:.5}"),
        rate => format!("{rate:.1}"),
    };
    line([
        &row.case,
        &format!("{:.2}", row.ours.ms * 1e3),
        &rate_of(row.ours.ms),
        &optional(peer_ms.map(|ms| ms * 1e3), 2),
        &peer_ms.map_or_else(|| "-".to_owned(), rate_of),
        &optional(row.ratio(), 3),
        &percent(row.share_of_copy),
        &percent(row.roofline_flops_per_s.map(|roof| rate / roof)),
        &row.difference
            .map_or_else(|| "-".to_owned(), |x| format!("{x:.0e}")),
        &optional(row.sm_clock_mhz, 0),
        row.verdict().name(),
    ])
}

/// A case that was not measured.
pub fn skipped(Skipped { case, reason, .. }: &Skipped) -> String {
    format!("{case:<48} not computed: {reason}")
}

/// One set.
pub fn summary(summary: &Summary) -> String {
    let mean = match (summary.geometric_mean, summary.target) {
        (None, _) => "no peer".to_owned(),
        (Some(mean), None) => format!("geometric mean {mean:.3}"),
        (Some(mean), Some(target)) => {
            let verdict = summary.verdict().name();
            format!("geometric mean {mean:.3} (want {target:.2}: {verdict})")
        }
    };
    let Summary {
        set, passed, rows, ..
    } = summary;
    format!("{set}: {mean}, {} of {rows} rows short", rows - passed)
}

/// What stands below the rows.
pub fn foot(report: &Report) -> String {
    let mut lines: Vec<String> = report.summaries.iter().map(summary).collect();
    if !report.skipped.is_empty() {
        lines.push(format!("{} cases not computed", report.skipped.len()));
    }
    if let Some(smi) = &report.machine.nvidia_smi {
        lines.push(format!("{SMI_QUERY}: {smi}"));
    }
    lines.join("\n")
}

fn line(fields: [&str; 11]) -> String {
    let [case, numbers @ .., verdict] = fields;
    let numbers = numbers.map(|number| format!("{number:>9}")).join("");
    format!("{case:<48}{numbers}  {verdict}")
        .trim_end()
        .to_owned()
}
