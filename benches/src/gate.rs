//! The regression gate: compares two result files and finds what became slower.
//!
//! The two files may come from different machines and days, but the peer was measured together with
//! ours each time. A row therefore counts as slower only if its time got worse by more than the
//! tolerance. Where both files have the peer, its ratio to the peer has to be worse too.

use std::fmt;

use serde::Serialize;

use crate::record::Record;
use crate::results::Verdict;

/// How a row got worse.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// It takes longer.
    Slower {
        /// New time over old time.
        times: f64,
    },
    /// Its answers are wrong, whatever they were before.
    Wrong,
    /// The newer file lacks it.
    Gone,
}

/// A row that is worse than it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// Its set.
    pub set: String,
    /// Its case.
    pub case: String,
    /// How it is worse.
    #[serde(flatten)]
    pub change: Change,
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, case, change } = self;
        match change {
            Change::Slower { times } => write!(f, "{set} {case}: takes {times:.3} times as long"),
            Change::Wrong => write!(f, "{set} {case}: its answers are wrong"),
            Change::Gone => write!(f, "{set} {case}: is in the old results only"),
        }
    }
}

/// The rows that are worse in `new` than in `old`, in the order of `old`, and the wrong ones of
/// `new`. A tolerance of 0.03 allows a row to take 3 % longer.
pub fn regressions(old: &[Record], new: &[Record], tolerance: f64) -> Vec<Regression> {
    let of = |row: &Record, change: Change| Regression {
        set: row.set.clone(),
        case: row.case.clone(),
        change,
    };
    let mut found = Vec::new();
    for before in old {
        // A case may be there several times: each has to be as fast.
        let same = || new.iter().filter(|row| row.is_case_of(before));
        let change = match same().next() {
            None => Some(Change::Gone),
            Some(_) => same().find_map(|after| change(before, after, tolerance)),
        };
        found.extend(change.map(|change| of(before, change)));
    }
    for row in new {
        let is_new = !old.iter().any(|before| row.is_case_of(before));
        if is_new && row.verdict == Verdict::Wrong {
            found.push(of(row, Change::Wrong));
        }
    }
    found
}

fn change(before: &Record, after: &Record, tolerance: f64) -> Option<Change> {
    if after.verdict == Verdict::Wrong {
        return Some(Change::Wrong);
    }
    let times = after.ours_us / before.ours_us;
    let fell_behind = match (before.ratio, after.ratio) {
        (Some(before), Some(after)) => before / after > 1.0 + tolerance,
        _ => true,
    };
    // A time that is NaN counts as slower.
    let is_slower = times.is_nan() || times > 1.0 + tolerance;
    (is_slower && fell_behind).then_some(Change::Slower { times })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Row;
    use crate::results::tests::{report, row};

    fn found(before: Vec<Row>, after: Vec<Row>) -> Vec<String> {
        let records = |rows: Vec<Row>| -> Vec<Record> {
            let report = report(rows);
            report
                .rows
                .iter()
                .map(|row| Record::of(&report, row))
                .collect()
        };
        let found = regressions(&records(before), &records(after), 0.03);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_that_takes_longer_than_the_tolerance_is_named() {
        let before = vec![row("a", 1.0), row("b", 1.0), row("c", 1.0)];
        let after = vec![row("c", 0.5), row("b", 1.02), row("a", 1.04)];
        assert_eq!(found(before, after), ["s a: takes 1.040 times as long"]);
    }

    #[test]
    fn wrong_answers_of_a_new_row_are_named() {
        let mut wrong = row("b", 0.1);
        wrong.difference = Some(1.0);
        let after = vec![row("a", 1.0), wrong];
        assert_eq!(
            found(vec![row("a", 1.0)], after),
            ["s b: its answers are wrong"]
        );
    }

    #[test]
    fn each_row_of_a_name_counts() {
        let before = vec![row("a", 1.0), row("a", 1.0)];
        let after = vec![row("a", 1.0), row("a", 100.0)];
        let slower = "s a: takes 100.000 times as long";
        assert_eq!(found(before, after.clone()), [slower, slower]);
        assert_eq!(found(vec![row("a", 1.0)], after), [slower]);
    }

    #[test]
    fn a_slower_machine_is_not_a_slower_row() {
        let mut after = row("a", 1.2);
        after.peer.as_mut().expect("a peer").ms = 1.2;
        assert!(found(vec![row("a", 1.0)], vec![after.clone()]).is_empty());
        after.peer = None;
        assert_eq!(found(vec![row("a", 1.0)], vec![after]).len(), 1);
    }

    #[test]
    fn a_faster_peer_is_not_a_slower_row() {
        let mut after = row("a", 1.0);
        after.peer.as_mut().expect("a peer").ms = 0.5;
        assert!(found(vec![row("a", 1.0)], vec![after]).is_empty());
    }

    #[test]
    fn missing_rows_and_wrong_answers_are_regressions() {
        let mut wrong = row("b", 0.1);
        wrong.difference = Some(1.0);
        let before = vec![row("a", 1.0), row("b", 1.0)];
        let want = [
            "s a: is in the old results only",
            "s b: its answers are wrong",
        ];
        assert_eq!(found(before, vec![wrong]), want);
    }

    #[test]
    fn a_time_that_is_not_a_number_is_a_regression() {
        let mut after = row("a", f64::NAN);
        after.peer = None;
        assert_eq!(found(vec![row("a", 1.0)], vec![after]).len(), 1);
    }
}
