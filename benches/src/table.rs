//! Results as a table of text.

use crate::machine::{Machine, SMI_QUERY};
use crate::results::{Report, Row, Side, Skipped, Summary, Unit};

/// The columns of numbers; the case's name comes before them and the verdict after them.
const COLUMNS: [(&str, Column); 10] = [
    ("ours us", Column::Always),
    (RATE, Column::Always),
    ("peer us", Column::WithPeer),
    (RATE, Column::WithPeer),
    ("ratio", Column::WithPeer),
    ("of copy", Column::OnGpu),
    ("of roof", Column::OnGpu),
    ("differ", Column::WithPeer),
    ("MHz", Column::OnGpu),
    ("bound", Column::WithBounds),
];

/// Placeholder for the name of the unit of rates.
const RATE: &str = "rate";

#[derive(Clone, Copy)]
enum Column {
    Always,
    WithPeer,
    OnGpu,
    WithBounds,
}

/// The form of a table: columns that would be empty are left out.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Whether a row may have a peer.
    pub has_peer: bool,
    /// Whether the times are those of a GPU.
    pub is_on_gpu: bool,
    /// Whether rows have lower bounds on their times.
    pub has_bounds: bool,
    /// The unit of rates.
    pub unit: Unit,
}

impl Table {
    /// The lines above the rows: the machine, the peer and the names of the columns.
    pub fn head(&self, machine: &Machine, peer: &str, repetitions: usize) -> String {
        let copy = match machine.copy_bytes_per_s {
            Some(rate) => format!(", copies at {:.2} TB/s", rate / 1e12),
            None => String::new(),
        };
        let Machine { device, arch, .. } = machine;
        let name = |name: &str| match name {
            RATE => self.unit.name().to_owned(),
            name => name.to_owned(),
        };
        let names = self.line("case", COLUMNS.map(|(column, _)| name(column)), "");
        format!(
            "{device} ({arch}){copy}: warpsmith beside {peer}, median of {repetitions}\n{names}"
        )
    }

    /// One row.
    pub fn row(&self, row: &Row) -> String {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let percent = |share: Option<f64>| match share {
            Some(share) => format!("{:.1} %", share * 100.0),
            None => "-".to_owned(),
        };
        let rate = |ms: Option<f64>| match ms.map(|ms| row.rate(ms)) {
            Some(rate) if rate < 0.1 => format!("{rate:.5}"),
            Some(rate) if rate < 10.0 => format!("{rate:.2}"),
            rate => number(rate, 1),
        };
        let peer_ms = row.peer.as_ref().map(|peer| peer.ms);
        let bound = row.bounds.first().map(|bound| bound.name.clone());
        let differ = row.difference.map(|difference| format!("{difference:.0e}"));
        let fields = [
            number(Some(row.ours.ms * 1e3), 2),
            rate(Some(row.ours.ms)),
            number(peer_ms.map(|ms| ms * 1e3), 2),
            rate(peer_ms),
            number(row.ratio(), 3),
            percent(row.share_of_copy),
            percent(row.bounds.first().map(|bound| bound.ms / row.ours.ms)),
            differ.unwrap_or_else(|| "-".to_owned()),
            number(row.sm_clock_mhz, 0),
            bound.unwrap_or_else(|| "-".to_owned()),
        ];
        let mut remark = row.verdict().name().to_owned();
        if let Some(peer) = row.peer.as_ref().filter(|_| !row.slower_peers.is_empty()) {
            remark += &format!("  {}", peer.name);
            for side in &row.slower_peers {
                remark += &format!("; {} {:.2} us", side.name, side.ms * 1e3);
            }
        }
        let line = self.line(&row.case, fields, &remark);
        let of_kernels = row.of_kernels().into_iter().flatten();
        std::iter::once(line)
            .chain(of_kernels.map(|side| Self::of_kernel(row, side)))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The line of one of several kernels of ours.
    fn of_kernel(row: &Row, side: &Side) -> String {
        let ratio = row.peer.as_ref().map(|peer| peer.ms / side.ms);
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let kernel = side.choice.as_deref().unwrap_or_default();
        format!("{:>57.2}{ratio:>9}  {kernel}", side.ms * 1e3)
    }

    fn line(&self, case: &str, fields: [String; 10], remark: &str) -> String {
        let is_shown = |column: Column| match column {
            Column::Always => true,
            Column::WithPeer => self.has_peer,
            Column::OnGpu => self.is_on_gpu,
            Column::WithBounds => self.has_bounds,
        };
        let shown = fields.into_iter().zip(COLUMNS);
        let shown = shown.filter(|(_, (_, column))| is_shown(*column));
        let numbers: String = shown.map(|(field, _)| format!("{field:>9}")).collect();
        format!("{case:<48}{numbers}  {remark}")
            .trim_end()
            .to_owned()
    }
}

/// The line of a case that was not measured.
pub fn skipped(Skipped { case, reason, .. }: &Skipped) -> String {
    format!("{case:<48} not computed: {reason}")
}

/// The summary of one set.
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

/// The lines below the rows.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{report, row};

    #[test]
    fn columns_stand_under_their_names_and_empty_ones_are_left_out() {
        for (has_peer, is_on_gpu, columns) in [(true, true, 9), (false, true, 5), (false, false, 2)]
        {
            let table = Table {
                has_peer,
                is_on_gpu,
                has_bounds: false,
                unit: Unit::Flops,
            };
            let machine = report(Vec::new()).machine;
            let head = table.head(&machine, "a peer", 31);
            let names = head.lines().nth(1).expect("a line of names");
            let line = table.row(&row("gemm/bf16/nt/m1_n1_k1", 1.0));
            let line = line.trim_end_matches("pass").trim_end();
            assert_eq!(
                names.chars().count(),
                line.chars().count(),
                "{names}\n{line}"
            );
            assert_eq!(names.chars().count(), 48 + 9 * columns);
        }
    }

    #[test]
    fn other_kernels_stand_below_with_their_ratios() {
        let table = Table {
            has_peer: true,
            is_on_gpu: true,
            has_bounds: false,
            unit: Unit::Flops,
        };
        let mut one = row("gemm/bf16/nt/m1_n1_k1", 0.5);
        assert_eq!(table.row(&one).lines().count(), 1);
        one.ours.choice = Some("fast".into());
        one.slower_ours = vec![Side {
            choice: Some("slow".into()),
            ms: 1.25,
            ..one.ours.clone()
        }];
        let text = table.row(&one);
        let below: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            below,
            [["500.00", "2.000", "fast"], ["1250.00", "0.800", "slow"]]
        );
    }
}
