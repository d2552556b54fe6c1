//! `docs/results.md` and the tables of the README, made from the files of measurements.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::{BenchError, Result};
use crate::record::{self, Record};

pub mod readme;

/// A table of more rows has the worst of each kind only.
const MOST_ROWS: usize = 24;

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

`cargo run -p warpsmith-benches --bin results` makes this page and the tables of the README from \
[the files of measurements](../benches/results). Do not edit it.

## How to read this

A row is one case on one card: our time, the fastest peer with its time, and the ratio. \
The ratio is the peer's time divided by ours, so more than 1 means that ours is faster. \
The bound is the share of the machine's limit that ours reaches ([which limits](benches.md#beside-torch)); \
`peak` is the rate at the highest clock, and `weights` is the bandwidth at which weights are read. \
A table of more than 24 rows shows the worst row of each kind; all rows are in the file. \
[Measuring](benches.md) says what is kept out of the times.
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
    let mut text = format!("\n### {operation} on {name}\n\n{} rows", records.len());
    text += &match Spread::of_ratios(records.iter()) {
        Some(Spread { mean, tenth, .. }) => {
            format!(": geometric mean {mean:.2}, tenth percentile {tenth:.2}")
        }
        None => String::new(),
    };
    text += &match worst(records.iter()) {
        Some(Record {
            case,
            ours_us,
            peer,
            peer_us: Some(peer_us),
            ratio: Some(ratio),
            ..
        }) => {
            let (ours, theirs) = (digits(*ours_us), digits(*peer_us));
            format!(", worst {ratio:.2} (`{case}`: {ours} µs, {peer} {theirs})")
        }
        _ => String::new(),
    };
    text += &format!(". [All columns]({path}).\n");
    let mut rest: &[Record] = records;
    while let Some(first) = rest.first() {
        // Modes and candidates of one case are next to each other, so a set is split into tables.
        let in_set = rest
            .iter()
            .take_while(|record| record.set == first.set)
            .count();
        let (set, others) = rest.split_at(in_set);
        rest = others;
        let mut kinds: Vec<_> = set
            .iter()
            .map(|record| (record.mode, &record.candidates))
            .collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds {
            let rows = set
                .iter()
                .filter(|record| (record.mode, &record.candidates) == kind);
            text += &table(&rows.collect::<Vec<_>>());
        }
    }
    text
}

/// The row of the least ratio.
fn worst<'a>(records: impl Iterator<Item = &'a Record>) -> Option<&'a Record> {
    let ratios = records.filter_map(|record| Some((record.ratio_to_others()?, record)));
    let least = ratios.min_by(|(x, _), (y, _)| x.total_cmp(y));
    least.map(|(_, record)| record)
}

/// The table of the rows of a set in one mode.
fn table(rows: &[&Record]) -> String {
    let Some(newest) = rows.iter().max_by_key(|record| &record.date) else {
        return String::new();
    };
    let candidates = match newest.candidates.as_str() {
        "" => String::new(),
        "1" => ", our first kernel".to_owned(),
        number => format!(", the best of {number} kernels of ours"),
    };
    let mut text = format!(
        "\n**{}**, {}{candidates}: `{}`",
        newest.set,
        newest.mode.name(),
        newest.command
    );
    if let Some(Spread { mean, tenth, .. }) = Spread::of_ratios(rows.iter().copied()) {
        let _ = write!(
            text,
            ", geometric mean {mean:.2}, tenth percentile {tenth:.2}"
        );
    }
    text += "\n\n| case | ours µs | best peer | peer µs | ratio | bound | commit |\n\
             |---|--:|---|--:|--:|---|---|\n";
    if rows.len() <= MOST_ROWS {
        rows.iter().for_each(|record| text += &line(record, ""));
        return text;
    }
    let mut kinds: Vec<&str> = rows.iter().map(|record| record.kind()).collect();
    kinds.dedup();
    for kind in kinds {
        let of_kind = || rows.iter().copied().filter(|record| record.kind() == kind);
        if let Some(record) = worst(of_kind()).or(of_kind().next()) {
            text += &line(record, &format!(", worst of {}", of_kind().count()));
        }
    }
    text
}

fn line(record: &Record, remark: &str) -> String {
    let (_, case) = record.case.split_once('/').unwrap_or_default();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let (commit, dirty) = record
        .commit
        .split_once('-')
        .unwrap_or((&record.commit, ""));
    let bound = record
        .bound_share
        .map(|share| format!("{} {}", digits(share), record.bound));
    format!(
        "| {case}{remark} | {} | {} | {} | {} | {} | {}{} |\n",
        digits(record.ours_us),
        or_dash(Some(record.peer.clone()).filter(|peer| !peer.is_empty())),
        or_dash(record.peer_us.map(digits)),
        or_dash(record.ratio.map(|ratio| format!("{ratio:.2}"))),
        or_dash(bound),
        commit.chars().take(7).collect::<String>(),
        if dirty.is_empty() { "" } else { " (changed)" },
    )
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
/// [`BenchError::Plot`], [`BenchError::File`].
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
