//! The files of measurements, one per card and operation: `<folder>/<card>/<operation>.csv`. All
//! have the columns of [`Record`], and a new measurement replaces the rows that it repeats.

use std::cmp::Ordering;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};
use crate::results::{Mode, Report, Row, Side, Unit, Verdict};

/// A line of a file of measurements. Times are those of one launch, in microseconds; numbers have
/// five significant digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The set of cases.
    pub set: String,
    /// The case: `operation/dtype/options/shape`.
    pub case: String,
    /// How launches follow each other.
    pub mode: Mode,
    /// Which of our kernels were measured to find the fastest: a number, `all`, the beginning of a
    /// name, or nothing where the library chose.
    pub candidates: String,
    /// Our median time.
    pub ours_us: f64,
    /// The fastest peer; empty if there is none.
    pub peer: String,
    /// Its median time.
    pub peer_us: Option<f64>,
    /// The peer's time divided by ours: more than 1 means that ours is faster.
    pub ratio: Option<f64>,
    /// The part of the machine that binds, as [`Bound`](crate::results::Bound) names it, or
    /// `weights`: the bandwidth of a copy, for the weights alone.
    pub bound: String,
    /// The share of this bound that ours reaches.
    pub bound_share: Option<f64>,
    /// Our rate in 10^12 units per second.
    pub rate: f64,
    /// The unit of the rate.
    pub unit: Unit,
    /// Our shortest time.
    pub ours_min_us: f64,
    /// Our longest time.
    pub ours_max_us: f64,
    /// The peer's shortest time.
    pub peer_min_us: Option<f64>,
    /// The peer's longest time.
    pub peer_max_us: Option<f64>,
    /// The largest difference between results, divided by the largest result.
    pub difference: Option<f64>,
    /// Whether the row reached its target.
    pub verdict: Verdict,
    /// The clock of the SMs during the measurement.
    pub sm_mhz: Option<f64>,
    /// The clock of the memory.
    pub memory_mhz: Option<u32>,
    /// Repetitions that the medians are of.
    pub repetitions: usize,
    /// Launches between two events.
    pub launches: usize,
    /// Copies of the operands that launches rotate through.
    pub copies: usize,
    /// Our kernel.
    pub kernel: String,
    /// The peer's kernel or algorithm.
    pub peer_kernel: String,
    /// The slower of our kernels: `name us; name us`.
    pub other_kernels: String,
    /// The slower peers, likewise.
    pub other_peers: String,
    /// The peers' versions.
    pub versions: String,
    /// The commit of ours.
    pub commit: String,
    /// UTC.
    pub date: String,
    /// The card's full name.
    pub card: String,
    /// The version of its driver.
    pub driver: String,
    /// The command that measured it.
    pub command: String,
}

impl Record {
    /// The record of a row of `report`.
    pub fn of(report: &Report, row: &Row) -> Self {
        let peer = row.peer.as_ref();
        let us = |ms: f64| rounded(ms * 1e3);
        let bound = row.bound();
        let machine = &report.machine;
        let smi: Vec<&str> = machine
            .nvidia_smi
            .iter()
            .flat_map(|smi| smi.split(", "))
            .collect();
        let memory_mhz = smi.get(2).and_then(|clock| clock.strip_suffix(" MHz"));
        let choice = |side: Option<&Side>| side.and_then(|side| side.choice.clone());
        let of_kernel = |side: &Side| (side.choice.clone().unwrap_or_default(), side.ms);
        let of_peer = |side: &Side| (side.name.clone(), side.ms);
        Self {
            set: row.set.clone(),
            case: row.case.clone(),
            mode: row.mode,
            candidates: row.candidates.clone(),
            ours_us: us(row.ours.ms),
            peer: peer.map(|peer| peer.name.clone()).unwrap_or_default(),
            peer_us: peer.map(|peer| us(peer.ms)),
            ratio: row.ratio().map(rounded),
            bound: bound.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            bound_share: bound.map(|(_, share)| rounded(share)),
            rate: rounded(row.rate(row.ours.ms)),
            unit: row.unit,
            ours_min_us: us(row.ours.min_ms),
            ours_max_us: us(row.ours.max_ms),
            peer_min_us: peer.map(|peer| us(peer.min_ms)),
            peer_max_us: peer.map(|peer| us(peer.max_ms)),
            difference: row.difference.map(rounded),
            verdict: row.verdict(),
            sm_mhz: row.sm_clock_mhz.map(rounded),
            memory_mhz: memory_mhz.and_then(|mhz| mhz.parse().ok()),
            repetitions: row.repetitions,
            launches: row.launches,
            copies: row.copies,
            kernel: row.ours.choice.clone().unwrap_or_default(),
            peer_kernel: choice(peer).unwrap_or_default(),
            other_kernels: listed(row.slower_ours.iter().map(of_kernel)),
            other_peers: listed(row.slower_peers.iter().map(of_peer)),
            versions: report.peer.clone(),
            commit: machine.commit.clone().unwrap_or_default(),
            date: machine.date.clone(),
            card: machine.device.clone(),
            driver: smi
                .first()
                .map(|version| (*version).to_owned())
                .unwrap_or_default(),
            command: machine.command.clone(),
        }
    }

    /// Whether `other` measured the same case in the same way, on whatever card.
    pub fn is_case_of(&self, other: &Self) -> bool {
        self.mode == other.mode
            && self.set == other.set
            && self.case == other.case
            && self.candidates == other.candidates
    }

    /// Whether it makes `older` superfluous: it is of the same case and card, and beside all its
    /// peers.
    fn replaces(&self, older: &Self) -> bool {
        let peers: Vec<&str> = self.peers().collect();
        self.is_case_of(older)
            && self.card == older.card
            && older.peers().all(|peer| peers.contains(&peer))
    }

    /// The ratio, if the peer is not another kernel of ours.
    pub fn ratio_to_others(&self) -> Option<f64> {
        self.ratio.filter(|_| !self.peer.starts_with("warpsmith"))
    }

    /// The case without its last part, the shape.
    pub fn kind(&self) -> &str {
        self.case.rsplit_once('/').map_or("", |(kind, _)| kind)
    }

    /// The names of all peers without versions, the fastest first.
    pub fn peers(&self) -> impl Iterator<Item = &str> {
        let others = self.other_peers.split("; ");
        let others = others.map(|other| other.rsplit_once(' ').map_or(other, |(name, _)| name));
        let all = std::iter::once(self.peer.as_str()).chain(others);
        all.filter(|peer| !peer.is_empty())
            .map(|peer| match peer.rsplit_once(' ') {
                Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => name,
                _ => peer,
            })
    }

    /// The order of lines: by set, case with numbers by size, mode and candidates; of the same
    /// measurement the newest comes first.
    fn order(&self, other: &Self) -> Ordering {
        (self.set.cmp(&other.set))
            .then_with(|| natural(&self.case, &other.case))
            .then_with(|| self.mode.cmp(&other.mode))
            .then_with(|| self.candidates.cmp(&other.candidates))
            .then_with(|| self.card.cmp(&other.card))
            .then_with(|| other.date.cmp(&self.date))
    }
}

/// `value` with five significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn listed(sides: impl Iterator<Item = (String, f64)>) -> String {
    let sides = sides.map(|(name, ms)| format!("{name} {}", rounded(ms * 1e3)));
    sides.collect::<Vec<_>>().join("; ")
}

/// Compares texts, the numbers in them by their size.
fn natural(x: &str, y: &str) -> Ordering {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (mut x, mut y) = (x, y);
    loop {
        let (Some(first_x), Some(first_y)) = (x.chars().next(), y.chars().next()) else {
            return x.len().cmp(&y.len());
        };
        let ((number_x, rest_x), (number_y, rest_y)) = match (digits(x), digits(y)) {
            (0, _) | (_, 0) => (
                x.split_at(first_x.len_utf8()),
                y.split_at(first_y.len_utf8()),
            ),
            (in_x, in_y) => (x.split_at(in_x), y.split_at(in_y)),
        };
        let size = |text: &str| text.parse::<u128>().ok();
        let order = size(number_x)
            .cmp(&size(number_y))
            .then_with(|| number_x.cmp(number_y));
        if order != Ordering::Equal {
            return order;
        }
        (x, y) = (rest_x, rest_y);
    }
}

/// The folder of a card's files, from its full name: `NVIDIA H100 80GB HBM3` is in `h100`. It ends
/// with the first word that has a digit.
pub fn card_folder(card: &str) -> String {
    let card = card.trim_start_matches("NVIDIA ").to_lowercase();
    let words: Vec<&str> = card.split(|c: char| !c.is_alphanumeric()).collect();
    let has_digit = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    let end = words
        .iter()
        .position(has_digit)
        .map_or(words.len(), |idx| idx + 1);
    words[..end].join("-")
}

/// The file of an operation on a card.
pub fn path(folder: &Path, card: &str, operation: &str) -> PathBuf {
    let card = folder.join(card_folder(card));
    card.join(format!("{operation}.csv"))
}

/// Most bytes of a file of measurements that are read: some hundred times those of our largest.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a file of measurements.
///
/// # Errors
/// [`BenchError::File`], which it is too if the file has more than 64 MiB;
/// [`BenchError::NotResults`].
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let mut bytes = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    let read = read.and_then(|size| match size as u64 <= MOST_BYTES {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {MOST_BYTES} bytes, which is the most that is read"),
        )),
    });
    read.map_err(BenchError::file(path))?;
    let mut reader = csv::Reader::from_reader(bytes.as_slice());
    let not_results = |source| BenchError::NotResults {
        path: path.to_owned(),
        source,
    };
    // Without rows, the header says what the file is.
    let names = reader.headers().map_err(not_results)?.clone();
    if names.get(0) != Some("set") {
        return Err(not_results(
            io::Error::other("it has no column `set`").into(),
        ));
    }
    reader
        .deserialize()
        .collect::<std::result::Result<_, _>>()
        .map_err(not_results)
}

/// The text of a file with these records.
///
/// # Errors
/// Those of a text in memory: none that are known.
pub fn text(records: &[Record]) -> csv::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    records
        .iter()
        .try_for_each(|record| writer.serialize(record))?;
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds `new` to the file, which is made if it is missing. Each replaces the records that have the
/// same set, case, mode, candidates and card, and no peer that the new one lacks.
///
/// # Errors
/// As [`read`].
pub fn merge(path: &Path, new: &[Record]) -> Result<()> {
    let mut records = match path.exists() {
        true => read(path)?,
        false => Vec::new(),
    };
    records.retain(|old| !new.iter().any(|new| new.replaces(old)));
    records.extend_from_slice(new);
    records.sort_by(Record::order);
    let written = text(&records).map_err(io::Error::from);
    written
        .and_then(|text| fs::write(path, text))
        .map_err(BenchError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{report, row};

    /// The record of a case that took `ours_ms` beside peers, the fastest first.
    fn record(case: &str, ours_ms: f64, peers: &[&str]) -> Record {
        let mut row = row(case, ours_ms);
        let side = |name: &&str| Side {
            name: (*name).to_owned(),
            ms: 1.0,
            ..Side::default()
        };
        row.peer = peers.first().map(side);
        row.slower_peers = peers.iter().skip(1).map(side).collect();
        Record::of(&report(Vec::new()), &row)
    }

    /// Our times after both were merged into a new file.
    fn merged(old: &[Record], new: &[Record]) -> Result<Vec<f64>> {
        let folder = tempfile::tempdir().map_err(BenchError::file("a temporary folder"))?;
        let path = folder.path().join("s.csv");
        merge(&path, old)?;
        merge(&path, new)?;
        Ok(read(&path)?.iter().map(|record| record.ours_us).collect())
    }

    #[test]
    fn records_are_read_as_they_were_written() -> Result<()> {
        let folder = tempfile::tempdir().map_err(BenchError::file("a temporary folder"))?;
        let path = folder.path().join("s.csv");
        let mut one = record("s/a, \"b\"/n8", 0.012_345_67, &["torch", "cuBLASLt 13.1.0"]);
        one.kernel = "a\nb".into();
        merge(&path, std::slice::from_ref(&one))?;
        assert_eq!(one.ours_us, 12.346);
        assert_eq!(one.peers().collect::<Vec<_>>(), ["torch", "cuBLASLt"]);
        assert_eq!(read(&path)?, [one]);
        Ok(())
    }

    #[test]
    fn a_measurement_replaces_its_own_case_and_keeps_the_others() -> Result<()> {
        let old = [record("s/n16", 1.0, &["x"]), record("s/n8", 2.0, &["x"])];
        assert_eq!(
            merged(&old, &[record("s/n16", 3.0, &["x"])])?,
            [2000.0, 3000.0]
        );
        let mut others = [
            old[0].clone(),
            old[0].clone(),
            old[0].clone(),
            old[0].clone(),
        ];
        others[0].mode = Mode::Graph;
        others[1].candidates = "all".into();
        others[2].card = "another".into();
        others[3].set = "t".into();
        for other in others {
            assert_eq!(merged(&old[..1], &[other])?.len(), 2);
        }
        Ok(())
    }

    #[test]
    fn a_measurement_beside_fewer_peers_does_not_replace_one_beside_more() -> Result<()> {
        let both = record("s/n8", 1.0, &["torch", "quack 0.6"]);
        for (peers, left) in [
            (&["torch"][..], 2),
            (&[], 2),
            (&["quack 0.7", "torch"], 1),
            (&["quack", "torch", "cupy"], 1),
        ] {
            let new = record("s/n8", 2.0, peers);
            assert_eq!(
                merged(std::slice::from_ref(&both), &[new])?.len(),
                left,
                "{peers:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn numbers_in_names_are_in_the_order_of_their_size() {
        let names = ["a", "a/n2", "a/n10", "a/n10_k1", "b/x9", "b/x10/y"];
        for pair in names.windows(2) {
            assert_eq!(natural(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(natural(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(natural("é9", "é9"), Ordering::Equal);
    }

    #[test]
    fn a_card_has_a_short_name() {
        for (card, folder) in [
            ("NVIDIA H200", "h200"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA A100-SXM4-80GB", "a100"),
            ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
            ("warpsmith emulator", "warpsmith-emulator"),
        ] {
            assert_eq!(card_folder(card), folder);
        }
    }

    #[test]
    fn what_is_no_file_of_measurements_is_refused() -> Result<()> {
        let folder = tempfile::tempdir().map_err(BenchError::file("a temporary folder"))?;
        let path = folder.path().join("s.csv");
        for text in ["", "{}", "a,b\n1,2\n", "set,case\n1,2\n"] {
            fs::write(&path, text).map_err(BenchError::file(&path))?;
            let error = read(&path).expect_err(text).to_string();
            assert!(error.contains("is not a result file"), "{error}");
        }
        for bytes in [MOST_BYTES + 1, 1 << 40] {
            let file = fs::File::create(&path).map_err(BenchError::file(&path))?;
            file.set_len(bytes).map_err(BenchError::file(&path))?;
            let error = read(&path).expect_err("zeros").to_string();
            assert!(error.contains("larger than 67108864 bytes"), "{error}");
        }
        Ok(())
    }
}
