//! What a run measures. [`record`](crate::record) has the files in which it is saved.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::timing::Times;

/// The target of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Target {
    /// The least ratio of the peer's time to ours.
    pub ratio: Option<f64>,
    /// The share of the copy bandwidth that counts as reaching the target too.
    pub or_share_of_copy: Option<f64>,
}

/// Whether a target was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Reached.
    Pass,
    /// Not reached.
    Short,
    /// The results differ by more than the rounding of their formats explains.
    Wrong,
    /// There is no target, or nothing to compare with.
    None,
}

impl Verdict {
    /// The word for it in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Short => "SHORT",
            Self::Wrong => "WRONG",
            Self::None => "",
        }
    }
}

/// One side of a comparison. Times are those of one launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// The library: `warpsmith`, `cuBLASLt 13.1.0`.
    pub name: String,
    /// The algorithm or kernel that it chose, if known.
    pub choice: Option<String>,
    /// Median time.
    pub ms: f64,
    /// Shortest time.
    pub min_ms: f64,
    /// Longest time.
    pub max_ms: f64,
}

impl Side {
    /// The side of `name`, which took `times`.
    pub fn new(name: &str, choice: Option<String>, times: &Times) -> Self {
        Self {
            name: name.to_owned(),
            choice,
            ms: times.median_ms,
            min_ms: times.min_ms,
            max_ms: times.max_ms,
        }
    }
}

/// The unit of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Floating-point operations: TFLOP/s.
    #[default]
    Flops,
    /// Bytes that have to be read and written: TB/s.
    Bytes,
}

impl Unit {
    /// The name of 10^12 units per second in tables and on axes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flops => "TFLOP/s",
            Self::Bytes => "TB/s",
        }
    }
}

/// How launches follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    /// One at a time, with other contestants between two of ours; work of less than 50 us several
    /// times between two events.
    #[default]
    #[serde(rename = "alone")]
    Alone,
    /// At least as many in a row as `--launches` says.
    #[serde(rename = "in a row")]
    InARow,
    /// In a CUDA graph, which is replayed.
    #[serde(rename = "graph")]
    Graph,
}

impl Mode {
    /// The words for it in titles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::InARow => "in a row",
            Self::Graph => "in a graph",
        }
    }
}

/// A lower bound on the time of a case: the time that one part of the machine needs, whatever the
/// kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The part: `memory` (the bandwidth of a copy), `peak` (of the tensor cores or of the SMs at
    /// the highest clock), `tensor` (80 % of that), `exp2`.
    pub name: String,
    /// The time that it needs at least.
    pub ms: f64,
}

/// The measurement of one case, ours and the peers'.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The set that it belongs to.
    pub set: String,
    /// Slash path of the case, as criterion names it.
    pub case: String,
    /// How launches follow each other.
    pub mode: Mode,
    /// Which of our kernels were measured to find the fastest: a number, `all`, the beginning of a
    /// name, or nothing where the library chose.
    pub candidates: String,
    /// Floating-point operations of one launch.
    pub flops: f64,
    /// Bytes that one launch has to read and write at least.
    pub bytes: f64,
    /// Ours.
    pub ours: Side,
    /// Ours with other kernels, fastest first, if these were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slower_ours: Vec<Side>,
    /// The fastest peer; absent if there is none.
    pub peer: Option<Side>,
    /// The slower peers, fastest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slower_peers: Vec<Side>,
    /// The unit of rates.
    pub unit: Unit,
    /// The lower bounds on the time, the longest (the one that binds) first; empty if not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// The largest difference between results, divided by the largest result.
    pub difference: Option<f64>,
    /// The difference that the rounding of the formats explains.
    pub difference_allowed: f64,
    /// The SM clock during the measurement.
    pub sm_clock_mhz: Option<f64>,
    /// The share of the copy bandwidth that ours reaches, for cases that are bound by memory (for
    /// GEMMs, counting the weights only).
    pub share_of_copy: Option<f64>,
    /// Launches between two events.
    pub launches: usize,
    /// Copies of the operands that launches rotated through.
    pub copies: usize,
    /// Repetitions over which the medians are taken.
    pub repetitions: usize,
    /// Its target.
    pub target: Target,
}

impl Row {
    /// The peer's time divided by ours: 1 means equally fast, more means that ours is faster.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|peer| peer.ms / self.ours.ms)
    }

    /// Ours with each kernel, fastest first, if more than one was asked for.
    pub(crate) fn of_kernels(&self) -> Option<impl Iterator<Item = &Side>> {
        let is_one = self.slower_ours.is_empty();
        (!is_one).then(|| std::iter::once(&self.ours).chain(&self.slower_ours))
    }

    /// The rate of a side that took `ms`, in 10^12 units per second.
    pub fn rate(&self, ms: f64) -> f64 {
        let count = match self.unit {
            Unit::Flops => self.flops,
            Unit::Bytes => self.bytes,
        };
        count / ms / 1e9
    }

    /// The part of the machine that binds, and the share of it that ours reaches.
    pub fn bound(&self) -> Option<(&str, f64)> {
        match (self.unit, self.share_of_copy) {
            (Unit::Flops, Some(share)) => Some(("weights", share)),
            _ => {
                let bound = self.bounds.first()?;
                Some((&bound.name, bound.ms / self.ours.ms))
            }
        }
    }

    /// Whether it reached its target.
    pub fn verdict(&self) -> Verdict {
        if self
            .difference
            .is_some_and(|difference| difference > self.difference_allowed)
        {
            return Verdict::Wrong;
        }
        let reached = |got: Option<f64>, want: Option<f64>| Some(got? >= want?);
        let by_ratio = reached(self.ratio(), self.target.ratio);
        let by_share = reached(self.share_of_copy, self.target.or_share_of_copy);
        match (by_ratio, by_share) {
            (None, None) => Verdict::None,
            (Some(true), _) | (_, Some(true)) => Verdict::Pass,
            _ => Verdict::Short,
        }
    }
}

/// The summary of a set's rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The set.
    pub set: String,
    /// Geometric mean of the rows' ratios.
    pub geometric_mean: Option<f64>,
    /// The target of the geometric mean.
    pub target: Option<f64>,
    /// Rows that pass their own targets.
    pub passed: usize,
    /// All rows.
    pub rows: usize,
}

impl Summary {
    /// The summary of those of `rows` that belong to `set`.
    pub fn of(set: &str, target: Option<f64>, rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.set == set).collect();
        let ratios: Option<Vec<f64>> = rows.iter().map(|row| row.ratio()).collect();
        let mean = |ratios: Vec<f64>| {
            let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            (logarithms / ratios.len() as f64).exp()
        };
        let failed = |row: &&&Row| matches!(row.verdict(), Verdict::Short | Verdict::Wrong);
        Self {
            set: set.to_owned(),
            geometric_mean: ratios.filter(|ratios| !ratios.is_empty()).map(mean),
            target,
            passed: rows.len() - rows.iter().filter(failed).count(),
            rows: rows.len(),
        }
    }

    /// Whether the geometric mean reached its target.
    pub fn verdict(&self) -> Verdict {
        match (self.geometric_mean, self.target) {
            (Some(mean), Some(target)) if mean >= target => Verdict::Pass,
            (Some(_), Some(_)) => Verdict::Short,
            _ => Verdict::None,
        }
    }
}

/// A case that ours does not compute.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skipped {
    /// Its set.
    pub set: String,
    /// Its name.
    pub case: String,
    /// Why.
    pub reason: String,
}

/// Everything that one run measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// The peer, or why there is none.
    pub peer: String,
    /// One summary per set.
    pub summaries: Vec<Summary>,
    /// In the order of measurement.
    pub rows: Vec<Row>,
    /// The cases that were not measured.
    pub skipped: Vec<Skipped>,
}

impl Report {
    /// Whether a row's answers are wrong.
    pub fn is_wrong(&self) -> bool {
        self.rows.iter().any(|row| row.verdict() == Verdict::Wrong)
    }

    /// Whether a row or a mean misses its target, or was not measured.
    pub fn falls_short(&self) -> bool {
        let rows = self.rows.iter().map(Row::verdict);
        let means = self.summaries.iter().map(Summary::verdict);
        let misses = |verdict| matches!(verdict, Verdict::Short | Verdict::Wrong);
        rows.chain(means).any(misses) || !self.skipped.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of the set `s` that took `ours_ms`, beside a peer of 1 ms.
    pub(crate) fn row(case: &str, ours_ms: f64) -> Row {
        let side = |ms| Side {
            name: "x".into(),
            choice: None,
            ms,
            min_ms: ms,
            max_ms: ms,
        };
        Row {
            set: "s".into(),
            case: case.into(),
            mode: Mode::Alone,
            candidates: String::new(),
            flops: 2e9,
            bytes: 1e6,
            ours: side(ours_ms),
            slower_ours: Vec::new(),
            peer: Some(side(1.0)),
            slower_peers: Vec::new(),
            unit: Unit::Flops,
            bounds: vec![Bound {
                name: "peak".into(),
                ms: 0.5,
            }],
            difference: Some(0.0),
            difference_allowed: 1e-3,
            sm_clock_mhz: Some(1980.0),
            share_of_copy: None,
            launches: 1,
            copies: 1,
            repetitions: 31,
            target: Target {
                ratio: Some(0.97),
                or_share_of_copy: None,
            },
        }
    }

    /// A report of rows.
    pub(crate) fn report(rows: Vec<Row>) -> Report {
        Report {
            machine: Machine {
                device: "a device".into(),
                arch: "sm_90".into(),
                multiprocessors: 1,
                l2_bytes: Some(1 << 20),
                sm_clock_mhz: Some(1000),
                copy_bytes_per_s: Some(1e12),
                cuda: None,
                nvidia_smi: None,
                date: "2026-11-21T00:00:00Z".into(),
                commit: None,
                command: "bench s".into(),
            },
            peer: "a peer".into(),
            summaries: vec![Summary::of("s", Some(1.0), &rows)],
            rows,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn a_row_passes_by_its_ratio_or_by_its_share_and_not_with_wrong_answers() {
        assert_eq!(row("a", 1.03).verdict(), Verdict::Pass);
        assert_eq!(row("a", 1.04).verdict(), Verdict::Short);
        let mut decode = row("a", 1.04);
        decode.share_of_copy = Some(0.91);
        assert_eq!(decode.verdict(), Verdict::Short);
        decode.target.or_share_of_copy = Some(0.9);
        assert_eq!(decode.verdict(), Verdict::Pass);
        decode.difference = Some(f64::INFINITY);
        assert_eq!(decode.verdict(), Verdict::Wrong);
        let mut alone = row("a", 1.0);
        alone.peer = None;
        assert_eq!(alone.verdict(), Verdict::None);
    }

    #[test]
    fn a_report_falls_short_with_its_first_row_mean_or_case_that_does() {
        assert!(!report(vec![row("a", 0.9)]).falls_short());
        assert!(report(vec![row("a", 0.9), row("b", 1.2)]).falls_short());
        let only_the_mean = report(vec![row("a", 1.02)]);
        assert!(only_the_mean.falls_short() && !only_the_mean.is_wrong());
        let mut skipping = report(vec![row("a", 0.9)]);
        skipping.skipped.push(Skipped {
            set: "s".into(),
            case: "b".into(),
            reason: "no kernel".into(),
        });
        assert!(skipping.falls_short());
    }

    #[test]
    fn the_mean_is_geometric_and_needs_every_ratio() {
        let mut rows = vec![row("a", 0.5), row("b", 2.0)];
        let summary = Summary::of("s", Some(1.0), &rows);
        assert!(
            summary
                .geometric_mean
                .is_some_and(|mean| (mean - 1.0).abs() < 1e-12)
        );
        assert_eq!((summary.passed, summary.rows), (1, 2));
        rows[0].peer = None;
        assert_eq!(Summary::of("s", Some(1.0), &rows).geometric_mean, None);
    }
}
