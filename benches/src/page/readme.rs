//! The README's table of speed and its list of slower operations.

use std::fs;
use std::path::Path;

use super::{File, Spread, counted};
use crate::error::{BenchError, Result};
use crate::record::Record;
use crate::results::Mode;

/// Which rows a line is of.
#[derive(Clone, Copy, Debug)]
struct Line {
    label: &'static str,
    operation: &'static str,
    set: &'static str,
    /// Each of these texts is in the names of its cases.
    only: &'static [&'static str],
}

impl Line {
    const fn of(label: &'static str, operation: &'static str, set: &'static str) -> Self {
        Self {
            label,
            operation,
            set,
            only: &[],
        }
    }

    const fn only(self, only: &'static [&'static str]) -> Self {
        Self { only, ..self }
    }

    /// Its rows on a card. Launches alone count, if there are any. Of
    /// several choices of our kernel, the best of all counts.
    fn rows<'a>(&self, card: &str, files: &'a [File]) -> Vec<&'a Record> {
        let is_its_file = |file: &&File| file.card == card && file.operation == self.operation;
        let file = files.iter().find(is_its_file);
        let records = file.map_or(&[][..], |file| &file.records);
        let is_its_row = |record: &&Record| {
            record.set == self.set && self.only.iter().all(|text| record.case.contains(text))
        };
        let mut rows: Vec<&Record> = records.iter().filter(is_its_row).collect();
        if rows.iter().any(|record| record.mode == Mode::Alone) {
            rows.retain(|record| record.mode == Mode::Alone);
        }
        if rows.iter().any(|record| record.candidates == "all") {
            rows.retain(|record| record.candidates == "all");
        }
        counted(&rows)
    }
}

/// A set whose mean is below is in [`SLOW`].
#[cfg(test)]
const SLOW_BELOW: f64 = 0.97;

/// The rows of the table of speed, and the peers that they were measured beside.
const FAST: [(Line, &str); 5] = [
    (
        Line::of(
            "GEMM, bf16 and f16, squares 1024 to 16384",
            "gemm",
            "squares",
        ),
        "cuBLASLt",
    ),
    (
        Line::of(
            "attention, bf16, full, head_dim 64 to 256",
            "attention",
            "squares",
        )
        .only(&["full"]),
        "FlashAttention-3, cuDNN",
    ),
    (
        Line::of("attention gradients, causal", "attention_grad", "squares").only(&["causal"]),
        "cuDNN, FlashAttention-2",
    ),
    (
        Line::of("sums of rows and columns, 16k × 16k", "reduce", "matrix"),
        "torch, torch.compile, CUB by CuPy",
    ),
    (
        Line::of("softmax of rows, bf16", "rows", "softmax"),
        "torch, torch.compile, QuACK",
    ),
];

/// Every set of an H200 whose mean is below 0.97, and one that is near.
const SLOW: [Line; 7] = [
    Line::of("permutations", "elementwise", "random"),
    Line::of("short sorts", "sort", "rows"),
    Line::of("few blocks", "block_sparse", "blocks"),
    Line::of("sm_80 attention gradients", "attention_grad", "sm80"),
    Line::of("f64 products", "gemm", "f64"),
    Line::of("f32 products", "gemm", "f32"),
    Line::of("attention of 16 queries", "attention", "decode").only(&["/q16/"]),
];

/// The spread of a line's ratios on an H200.
fn spread(line: &Line, files: &[File]) -> Option<Spread> {
    let rows = line.rows("h200", files).into_iter();
    Spread::of(rows.filter_map(|record| record.ratio))
}

/// The table of [`FAST`].
fn fast(files: &[File]) -> String {
    let mut text = "\
| on an H200 | beside the fastest of | times as fast | least to greatest |
|---|---|--:|---|
"
    .to_owned();
    for (line, peers) in &FAST {
        if let Some(Spread {
            mean,
            least,
            greatest,
            ..
        }) = spread(line, files)
        {
            let numbers = format!("{mean:.2} | {least:.2} to {greatest:.2}");
            text += &format!("| {} | {peers} | {numbers} |\n", line.label);
        }
    }
    text
}

/// The sentence of [`SLOW`].
fn slow(files: &[File]) -> String {
    let with_number = |line: &Line| {
        let mean = spread(line, files).map_or(f64::NAN, |spread| spread.mean);
        format!("{} ({mean:.2})", line.label)
    };
    format!(
        "**Slower:** {}.\n",
        SLOW.map(|line| with_number(&line)).join(", ")
    )
}

/// The README with the parts that the files make.
///
/// # Errors
/// [`BenchError::File`], which it is too if a marker is missing.
pub fn rewritten(path: &Path, files: &[File]) -> Result<String> {
    let text = fs::read_to_string(path).map_err(BenchError::file(path))?;
    let speed = format!("{}\n{}", fast(files), slow(files));
    replaced(&text, &speed).ok_or_else(|| {
        let message = format!("it has no part between {BEGIN} and {END}");
        BenchError::file(path)(std::io::Error::other(message))
    })
}

const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";

/// `text` with `part` between the markers; `None` if there are none.
fn replaced(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{part}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_between_the_markers_is_replaced_and_nothing_else() {
        let text = "a\n<!-- results:begin -->old<!-- results:end -->\nb";
        let new = "a\n<!-- results:begin -->\n\nnew\n<!-- results:end -->\nb";
        assert_eq!(replaced(text, "new").as_deref(), Some(new));
        assert_eq!(replaced(new, "new").as_deref(), Some(new));
        assert_eq!(replaced("<!-- results:begin -->", "new"), None);
    }

    fn committed() -> Result<Vec<File>> {
        super::super::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results"))
    }

    #[test]
    fn every_line_has_rows_and_slow_ones_are_slow() -> Result<()> {
        let files = committed()?;
        for (line, _) in &FAST {
            assert!(spread(line, &files).is_some(), "{line:?}");
        }
        for line in &SLOW {
            let spread = spread(line, &files).map(|spread| spread.mean);
            assert!(
                spread.is_some_and(|mean| mean < 1.0),
                "{line:?}: {spread:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn the_list_of_slower_operations_leaves_out_none() -> Result<()> {
        let files = committed()?;
        for file in files.iter().filter(|file| file.card == "h200") {
            for set in file.records.chunk_by(|x, y| x.set == y.set) {
                let rows: Vec<&Record> = set.iter().collect();
                let ratios = counted(&rows).into_iter().filter_map(|record| record.ratio);
                let is_slow = Spread::of(ratios).is_some_and(|spread| spread.mean < SLOW_BELOW);
                let (operation, set) = (&file.operation, &set[0].set);
                let is_listed = |line: &Line| line.operation == *operation && line.set == *set;
                assert!(!is_slow || SLOW.iter().any(is_listed), "{operation} {set}");
            }
        }
        Ok(())
    }
}
