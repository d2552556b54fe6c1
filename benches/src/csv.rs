//! Results as comma-separated values, for people and plotting tools.

use std::fmt::Write;

use crate::machine::{Machine, SMI_QUERY};
use crate::results::{Report, Row, Skipped, Unit};

/// The text of the CSV file: the machine in lines that begin with `#`, then the rows.
pub fn text(report: &Report) -> String {
    let Machine { device, date, .. } = &report.machine;
    let absent = || "unknown".to_owned();
    let commit = report.machine.commit.clone().unwrap_or_else(absent);
    let smi = report.machine.nvidia_smi.clone().unwrap_or_else(absent);
    let mut text = format!(
        "# {device}, {date}, commit {commit}, beside {}\n# {SMI_QUERY}: {smi}\n{}\n",
        report.peer,
        csv_header(report.rows.first().map(|row| row.unit).unwrap_or_default()),
    );
    for row in &report.rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", csv_line(row));
    }
    for Skipped { set, case, .. } in &report.skipped {
        let _ = writeln!(text, "# not computed: {set} {case}");
    }
    text
}

fn csv_header(unit: Unit) -> String {
    let unit = unit.column();
    format!(
        "set,case,ours_ms,ours_min_ms,ours_max_ms,ours_{unit},peer_ms,peer_min_ms,peer_max_ms,\
         peer_{unit},ratio,share_of_copy,difference,sm_clock_mhz,repetitions,launches,copies,\
         verdict,ours_choice,peer_choice,peer,slower_peers_ms,bound,share_of_bound"
    )
}

fn csv_line(row: &Row) -> String {
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or(String::new(), |value| format!("{value:.digits$}"))
    };
    let peer = row.peer.as_ref();
    let bound = row.bounds.first();
    let slower_peers = row.slower_peers.iter();
    let slower_peers: Vec<String> = slower_peers
        .map(|side| format!("{}={:.5}", side.name, side.ms))
        .collect();
    [
        row.set.clone(),
        row.case.clone(),
        format!("{:.5}", row.ours.ms),
        format!("{:.5}", row.ours.min_ms),
        format!("{:.5}", row.ours.max_ms),
        format!("{:.2}", row.rate(row.ours.ms)),
        optional(peer.map(|peer| peer.ms), 5),
        optional(peer.map(|peer| peer.min_ms), 5),
        optional(peer.map(|peer| peer.max_ms), 5),
        optional(peer.map(|peer| row.rate(peer.ms)), 2),
        optional(row.ratio(), 4),
        optional(row.share_of_copy, 4),
        row.difference
            .map_or(String::new(), |difference| format!("{difference:.2e}")),
        optional(row.sm_clock_mhz, 0),
        row.repetitions.to_string(),
        row.launches.to_string(),
        row.copies.to_string(),
        row.verdict().name().to_lowercase(),
        row.ours.choice.clone().unwrap_or_default(),
        peer.and_then(|peer| peer.choice.clone())
            .unwrap_or_default(),
        peer.map(|peer| peer.name.clone()).unwrap_or_default(),
        slower_peers.join(" "),
        bound.map_or(String::new(), |bound| bound.name.clone()),
        optional(bound.map(|bound| bound.ms / row.ours.ms), 4),
    ]
    .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{report, row};

    #[test]
    fn csv_has_a_line_a_row_with_as_many_fields_as_the_header() {
        let mut without_peer = row("gemm/f32/nn/m1_n1_k1", 1.0);
        without_peer.peer = None;
        let text = text(&report(vec![
            row("gemm/f32/nn/m2_n2_k2", 1.0),
            without_peer,
        ]));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let fields: Vec<usize> = lines.map(|line| line.split(',').count()).collect();
        assert_eq!(fields, [24, 24, 24], "{text}");
    }
}
