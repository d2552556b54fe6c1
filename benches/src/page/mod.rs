//! `docs/results.md` and the table of speed in the README, made from the files of measurements.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::{BenchError, Result};
use crate::record::{self, Record};
use crate::results::Mode;

pub mod readme;

/// The measurements of one operation on one card.
#[derive(Clone, Debug)]
pub struct File {
    /// The card's folder.
    pub card: String,
    /// The operation.
    pub operation: String,
    /// In the file's order.
    pub records: Vec<Record>,
}

/// Reads all files of `folder`: by operation, then by card, newer cards first.
///
/// # Errors
/// As [`record::read`].
pub fn read_all(folder: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for card in names(folder)?.iter().rev() {
        for name in names(&folder.join(card))? {
            let path = folder.join(card).join(&name);
            files.push(File {
                card: card.clone(),
                operation: name.trim_end_matches(".csv").to_owned(),
                records: record::read(&path)?,
            });
        }
    }
    // Stable: the order of cards stays.
    files.sort_by(|x, y| x.operation.cmp(&y.operation));
    Ok(files)
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let entries = fs::read_dir(folder)?;
        let name =
            |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        entries.map(name).collect()
    };
    let mut names = read().map_err(BenchError::file(folder))?;
    names.sort();
    Ok(names)
}

/// How much faster ours is than the best peer, over rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The geometric mean.
    pub mean: f64,
    /// A tenth of the rows is below.
    pub tenth: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// The spread of `numbers`; `None` of none.
    pub fn of(numbers: impl Iterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        let logarithms: f64 = numbers.iter().map(|number| number.ln()).sum();
        Some(Self {
            mean: (logarithms / numbers.len() as f64).exp(),
            tenth: *numbers.get(numbers.len() / 10)?,
            least: *numbers.first()?,
            greatest: *numbers.last()?,
        })
    }

    fn of_ratios<'a>(records: impl Iterator<Item = &'a Record>) -> Option<Self> {
        let records: Vec<&Record> = records.collect();
        let records = counted(&records).into_iter();
        Self::of(records.filter_map(Record::ratio_to_others))
    }
}

/// The rows that count: of a case that was measured beside more and beside fewer peers, the row
/// beside more.
fn counted<'a>(rows: &[&'a Record]) -> Vec<&'a Record> {
    fn peers(record: &Record) -> usize {
        record.peers().count()
    }
    let rows_that_count = rows.iter().filter(|record| {
        let same = rows.iter().filter(|other| other.is_case_of(record));
        same.map(|other| peers(other)).max() == Some(peers(record))
    });
    rows_that_count.copied().collect()
}

const HEAD: &str = "\
# Results

This page is made by `cargo run -p warpsmith-benches --bin results` from \
[the files of measurements](../benches/results). Do not edit it.

## How to read this

The ratio is the time of the fastest peer divided by our time. More than 1 means that ours is faster. \
[Measuring](benches.md) says what is kept out of the times.

The first table of a card has a row for each set of cases. `tenth` is the tenth percentile of the \
ratios. `worst` is the case of the least ratio. `bound` is the mean share of the machine's limit that \
ours reaches ([which limits](benches.md#beside-torch)). A commit with `+` had changes that were not \
committed.

The second table lists the cases whose ratio is below 1.00, at most the 10 slowest. The linked file has \
all cases with all columns.
";

/// The text of the page.
pub fn text(files: &[File]) -> String {
    let mut text = HEAD.to_owned();
    let mut operation = "";
    for file in files {
        if file.operation != operation {
            operation = &file.operation;
            text += &format!("\n## {operation}\n");
        }
        text += &section(file);
    }
    text
}

/// The part of one card.
fn section(file: &File) -> String {
    let File {
        card,
        operation,
        records,
    } = file;
    let name = records.first().map_or("", |record| &record.card);
    let path = format!("../benches/results/{card}/{operation}.csv");
    let mut text = format!(
        "\n### {operation} on {name}\n\n[{} cases]({path})",
        records.len()
    );
    if let Some(Spread { mean, tenth, .. }) = Spread::of_ratios(records.iter()) {
        let _ = write!(
            text,
            ": geometric mean {mean:.2}, tenth percentile {tenth:.2}"
        );
    }
    text += ".\n\n| set | cases | mean | tenth | worst | bound | command | commit |\n\
             |---|--:|--:|--:|---|---|---|---|\n";
    let same_set = |x: &Record, y: &Record| x.set == y.set;
    for set in records.chunk_by(same_set) {
        // Modes and candidates of one case are next to each other.
        let mut kinds: Vec<_> = set.iter().map(kind_of).collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds {
            let rows = set.iter().filter(|record| kind_of(record) == kind);
            text += &set_line(&rows.collect::<Vec<_>>());
        }
    }
    text + &below_one(records)
}

/// What splits a set into rows of the first table.
fn kind_of(record: &Record) -> (Mode, &str) {
    (record.mode, &record.candidates)
}

/// The row of a set in one mode.
fn set_line(rows: &[&Record]) -> String {
    let Some(newest) = rows.iter().max_by_key(|record| &record.date) else {
        return String::new();
    };
    let mode = match newest.mode {
        Mode::Alone => String::new(),
        mode => format!(", {}", mode.name()),
    };
    let candidates = match newest.candidates.as_str() {
        "" => String::new(),
        "1" => ", our first kernel".to_owned(),
        number => format!(", the best of {number} kernels"),
    };
    let spread = Spread::of_ratios(rows.iter().copied());
    let number = |number: fn(&Spread) -> f64| {
        spread.map_or_else(dash, |spread| format!("{:.2}", number(&spread)))
    };
    format!(
        "|{}{mode}{candidates}|{}|{}|{}|{}|{}|`{}`|{}|\n",
        newest.set,
        rows.len(),
        number(|spread| spread.mean),
        number(|spread| spread.tenth),
        worst(rows).map_or_else(dash, worst_cell),
        bound_cell(rows).unwrap_or_else(dash),
        newest.command,
        commit(newest),
    )
}

fn dash() -> String {
    "–".to_owned()
}

/// The row of the least ratio.
fn worst<'a>(rows: &[&'a Record]) -> Option<&'a Record> {
    let ratios = rows
        .iter()
        .filter_map(|record| Some((record.ratio_to_others()?, *record)));
    let least = ratios.min_by(|(x, _), (y, _)| x.total_cmp(y));
    least.map(|(_, record)| record)
}

/// A case with its times.
fn worst_cell(record: &Record) -> String {
    let (ratio, peer_us) = (
        record.ratio.unwrap_or_default(),
        record.peer_us.unwrap_or_default(),
    );
    let (ours, theirs) = (digits(record.ours_us), digits(peer_us));
    format!(
        "{ratio:.2}: {}, {ours} µs, {} {theirs} µs",
        case(record),
        record.peer
    )
}

/// A case without its operation.
fn case(record: &Record) -> &str {
    record.case.split_once('/').unwrap_or_default().1
}

/// The geometric mean of the shares of the bound that most rows have.
fn bound_cell(rows: &[&Record]) -> Option<String> {
    let count = |bound: &str| rows.iter().filter(|record| record.bound == bound).count();
    let bounds = rows.iter().map(|record| record.bound.as_str());
    let bound = bounds.max_by_key(|bound| count(bound))?;
    let rows = rows.iter().filter(|record| record.bound == bound);
    let mean = Spread::of(rows.filter_map(|record| record.bound_share))?.mean;
    Some(format!("{} {bound}", digits(mean)))
}

/// The commit's first seven digits, and `+` if files were changed.
fn commit(record: &Record) -> String {
    match record.commit.split_once('-') {
        Some((commit, _)) => commit.chars().take(7).chain(['+']).collect(),
        None => record.commit.chars().take(7).collect(),
    }
}

/// Most cases of the second table.
const SLOWEST: usize = 10;

/// The table of the cases whose ratio is printed as less than 1.00, the slowest first.
fn below_one(records: &[Record]) -> String {
    let all: Vec<&Record> = records.iter().collect();
    let is_below = |record: &&Record| record.ratio_to_others().is_some_and(|ratio| ratio < 0.995);
    let mut below: Vec<&Record> = counted(&all).into_iter().filter(is_below).collect();
    let ratio = |record: &Record| record.ratio.unwrap_or_default();
    below.sort_by(|x, y| ratio(x).total_cmp(&ratio(y)));
    if below.is_empty() {
        return "\nNo case is below 1.00.\n".to_owned();
    }
    let shown = match below.len() {
        0..=SLOWEST => String::new(),
        _ => format!("; the {SLOWEST} slowest"),
    };
    let mut text = format!("\n{} cases are below 1.00{shown}:\n\n", below.len());
    // Without blanks around the bars: the table is long.
    text += "|set|case|ours µs|peer|peer µs|ratio|\n|---|---|--:|---|--:|--:|\n";
    for record in below.into_iter().take(SLOWEST) {
        let ours = digits(record.ours_us);
        let peer = format!(
            "{}|{}",
            record.peer,
            digits(record.peer_us.unwrap_or_default())
        );
        let ratio = ratio(record);
        let _ = writeln!(
            text,
            "|{}|{}|{ours}|{peer}|{ratio:.2}|",
            record.set,
            case(record)
        );
    }
    text
}

/// A number with as many digits as matter.
fn digits(number: f64) -> String {
    match number {
        0.0..0.01 => format!("{number:.4}"),
        0.0..10.0 => format!("{number:.2}"),
        0.0..1000.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// The plots of the pages: an operation, a set and the type of operands, in `docs/plots`.
pub const PLOTS: [(&str, &str, &str); 7] = [
    ("gemm", "squares", "bf16"),
    ("attention", "squares", "bf16"),
    ("attention", "decode", "bf16"),
    ("attention_grad", "squares", "bf16"),
    ("elementwise", "functions", "f32"),
    ("reduce", "matrix", "f32"),
    ("rows", "softmax", "bf16"),
];

/// Draws [`PLOTS`] of the newest card's measurements, one launch at a time, and returns their paths.
///
/// # Errors
/// [`BenchError::File`].
pub fn draw_plots(files: &[File], folder: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).map_err(BenchError::file(folder))?;
    let draw = |(operation, set, dtype): (&str, &str, &str)| {
        let path = folder.join(format!("{operation}_{set}_{dtype}.svg"));
        let begin = format!("{operation}/{dtype}/");
        let file = files.iter().find(|file| file.operation == operation);
        let is_drawn = |record: &&Record| {
            record.set == set
                && record.mode == Default::default()
                && record.case.starts_with(&begin)
        };
        let rows: Vec<&Record> = file
            .iter()
            .flat_map(|file| &file.records)
            .filter(is_drawn)
            .collect();
        let card = rows.first().map_or("", |record| &record.card);
        let title = format!("{operation}, {set}, {dtype}: {card}");
        crate::plot::draw(&path, &title, &counted(&rows)).map(|()| path)
    };
    PLOTS.into_iter().map(draw).collect()
}
