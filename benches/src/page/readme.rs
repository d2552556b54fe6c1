//! The tables of the README: which rows of the files stand behind which line.

use std::fs;
use std::path::Path;

use super::{File, Spread, counted, digits};
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
    mode: Mode,
}

impl Line {
    const fn of(label: &'static str, operation: &'static str, set: &'static str) -> Self {
        Self {
            label,
            operation,
            set,
            only: &[],
            mode: Mode::Alone,
        }
    }

    const fn only(self, only: &'static [&'static str]) -> Self {
        Self { only, ..self }
    }

    const fn in_a_row(self) -> Self {
        let mode = Mode::InARow;
        Self { mode, ..self }
    }

    const fn in_graphs(self) -> Self {
        let mode = Mode::Graph;
        Self { mode, ..self }
    }

    /// Its rows on a card. Of several choices of our kernel, the best of all counts.
    fn rows<'a>(&self, card: &str, files: &'a [File]) -> Vec<&'a Record> {
        let is_its_file = |file: &&File| file.card == card && file.operation == self.operation;
        let file = files.iter().find(is_its_file);
        let records = file.map_or(&[][..], |file| &file.records);
        let is_its_row = |record: &&Record| {
            record.set == self.set
                && record.mode == self.mode
                && self.only.iter().all(|text| record.case.contains(text))
        };
        let mut rows: Vec<&Record> = records.iter().filter(is_its_row).collect();
        if rows.iter().any(|record| record.candidates == "all") {
            rows.retain(|record| record.candidates == "all");
        }
        counted(&rows)
    }
}

/// A column: of a card, by ratio or by share of the bound.
#[derive(Clone, Copy, Debug)]
struct Column {
    name: &'static str,
    card: &'static str,
    number: fn(&Record) -> Option<f64>,
}

const RATIO: Column = Column {
    name: "ours / the best peer",
    card: "h200",
    number: |record| record.ratio,
};
const SHARE: Column = Column {
    name: "share of a copy",
    card: "h200",
    // Work of a graph is too small for a bandwidth.
    number: |record| record.bound_share.filter(|_| record.mode != Mode::Graph),
};

/// A table between `<!-- results:begin NAME -->` and `<!-- results:end -->`.
#[derive(Clone, Copy, Debug)]
struct Table {
    name: &'static str,
    columns: &'static [Column],
    lines: &'static [Line],
}

const TABLES: [Table; 3] = [
    Table {
        name: "gemm",
        columns: &[
            Column {
                name: "H200",
                ..RATIO
            },
            Column {
                name: "H100",
                card: "h100",
                ..RATIO
            },
        ],
        lines: &[
            Line::of("squares, 1024 to 16384, bf16 and f16", "gemm", "squares"),
            Line::of("other layouts, bf16", "gemm", "transposes"),
            Line::of(
                "layers of 8B and 70B models, m 128 to 16384, bf16",
                "gemm",
                "llm",
            ),
            Line::of("the same layers, m 1 to 64", "gemm", "decode"),
            Line::of("tf32, 4096 and 8192", "gemm", "tf32"),
            Line::of("e4m3, 4096 to 16384, fast accumulation", "gemm", "fp8").only(&["e4m3_fast"]),
            Line::of("e4m3, likewise, promoted", "gemm", "fp8").only(&["e4m3/"]),
            Line::of("bias and gelu fused", "gemm", "fused").only(&["bias_gelu/m"]),
            Line::of("batch of 64 × 512³", "gemm", "batch"),
            Line::of(
                "[groups of rows](docs/grouped-gemm.md) (experts), 8,192 to 32,768 rows",
                "grouped",
                "prefill",
            ),
            Line::of("groups, 16 to 512 rows", "grouped", "decode"),
            Line::of(
                "f32 in full precision, 4096, portable kernel",
                "gemm",
                "f32",
            ),
            Line::of("[int8](docs/gemm-hopper.md#int8) in i32", "gemm", "int8"),
            Line::of("[f64](docs/gemm-mma.md#f64)", "gemm", "f64"),
            Line::of(
                "kernels for sm_80, beside CUTLASS's and Triton's for sm_80",
                "gemm",
                "ampere",
            ),
        ],
    },
    Table {
        name: "attention",
        columns: &[RATIO],
        lines: &[
            Line::of(
                "bf16, seqlen 512 to 16384, full, head_dim 64",
                "attention",
                "squares",
            )
            .only(&["full", "/d64/"]),
            Line::of("the same, head_dim 128", "attention", "squares").only(&["full", "/d128/"]),
            Line::of("the same, head_dim 256", "attention", "squares").only(&["full", "/d256/"]),
            Line::of("causal, all three", "attention", "squares").only(&["causal"]),
            Line::of(
                "f16, full and causal, beside cuDNN",
                "attention",
                "squares_f16",
            ),
            Line::of(
                "64 query heads on 8, causal, seqlen 2048 to 32768",
                "attention",
                "gqa",
            ),
            Line::of("prompts of uneven lengths, packed", "attention", "varlen"),
            Line::of(
                "window of 1024, causal, beside FlashAttention-2",
                "attention",
                "window",
            ),
            Line::of(
                "[decoding](docs/attention-decode.md), 1 query",
                "attention",
                "decode",
            )
            .only(&["/q1/"]),
            Line::of("4 queries", "attention", "decode").only(&["/q4/"]),
            Line::of("16 queries", "attention", "decode").only(&["/q16/"]),
            Line::of("64 queries", "attention", "decode").only(&["/q64/"]),
            Line::of(
                "kernels for sm_80, beside FlashAttention-2",
                "attention",
                "sm80",
            ),
            Line::of(
                "[gradients](docs/attention-backward.md), full, head_dim 64 and 128",
                "attention_grad",
                "squares",
            )
            .only(&["full"]),
            Line::of("gradients, causal", "attention_grad", "squares").only(&["causal"]),
            Line::of("gradients, 64 query heads on 8", "attention_grad", "gqa"),
            Line::of(
                "gradients at head_dim 256, by `mma.sync`",
                "attention_grad",
                "wide",
            ),
        ],
    },
    Table {
        name: "memory",
        columns: &[SHARE, RATIO],
        lines: &[
            Line::of(
                "whole tensors of 2^30 elements to one number",
                "reduce",
                "whole",
            ),
            Line::of("rows and columns of 16k × 16k", "reduce", "matrix"),
            Line::of("the same, in a row", "reduce", "matrix").in_a_row(),
            Line::of("16 × 2^24 and 2^24 × 16", "reduce", "flat"),
            Line::of("the same, in a row", "reduce", "flat").in_a_row(),
            Line::of("scan of 2^30", "reduce", "scan"),
            Line::of(
                "sums of 256 to 262,144, in a graph",
                "reduce",
                "small_graphs",
            )
            .in_graphs(),
            Line::of(
                "softmax, bf16, 512 MiB, n 256 to 262,144",
                "rows",
                "softmax",
            ),
            Line::of("softmax, in a row", "rows", "softmax").in_a_row(),
            Line::of("layer norm", "rows", "norm").only(&["/layer_norm/"]),
            Line::of("layer norm, in a row", "rows", "norm")
                .only(&["/layer_norm/"])
                .in_a_row(),
            Line::of("RMS norm", "rows", "norm").only(&["/rms_norm/"]),
            Line::of("RMS norm, in a row", "rows", "norm")
                .only(&["/rms_norm/"])
                .in_a_row(),
            Line::of(
                "norms of the sum with a residual, in a row",
                "rows",
                "residual",
            )
            .in_a_row(),
            Line::of("gradient of softmax", "rows", "grad").only(&["/softmax_grad/"]),
            Line::of("gradients of norms", "rows", "grad").only(&["_norm_grad/"]),
            Line::of("gradients of all three, in a row", "rows", "grad").in_a_row(),
            Line::of(
                "rows of 320 to 20,480, no powers of two, in a row",
                "rows",
                "lengths",
            )
            .in_a_row(),
            Line::of(
                "cross-entropy with its gradient, vocabulary 32,000 to 256,000",
                "rows",
                "cross_entropy",
            ),
            Line::of(
                "softmax and layer norm of few rows, in a graph",
                "rows",
                "small_graphs",
            )
            .in_graphs(),
            Line::of("functions", "elementwise", "functions"),
            Line::of("functions, in a row", "elementwise", "functions").in_a_row(),
            Line::of(
                "functions of 256 to 262,144, in a graph",
                "elementwise",
                "small_graphs",
            )
            .in_graphs(),
            Line::of("casts", "elementwise", "casts"),
            Line::of("chains of eight functions", "elementwise", "chains"),
            Line::of(
                "transpositions, permutations",
                "elementwise",
                "permutations",
            ),
            Line::of("rows of a table by indices", "gather", "embedding"),
            Line::of("rotary embeddings", "rotary", "heads"),
            Line::of("rows put by indices", "scatter", "set"),
            Line::of(
                "rows added by indices, deterministic",
                "scatter",
                "embedding",
            ),
            Line::of("the same, few rows get most", "scatter", "hot"),
            Line::of("top-k of rows of 32,768", "topk", "rows"),
            Line::of("top-k of a router's 64 to 256 experts", "topk", "router"),
            Line::of("top-k of few rows of 128,256", "topk", "vocabulary"),
            Line::of("top-k, k 256 to 2,048", "topk", "many"),
        ],
    },
];

/// The text of a table.
fn table(table: &Table, files: &[File]) -> String {
    let names: String = table
        .columns
        .iter()
        .map(|column| format!(" {} |", column.name))
        .collect();
    let marks = "---|".repeat(table.columns.len());
    let mut text = format!("| set |{names}\n|---|{marks}\n");
    for line in table.lines {
        let cell = |column: &Column| {
            let rows = line.rows(column.card, files);
            let numbers = rows.into_iter().filter_map(column.number);
            format!(" {} |", in_words(Spread::of(numbers)))
        };
        let cells: String = table.columns.iter().map(cell).collect();
        text += &format!("| {} |{cells}\n", line.label);
    }
    text
}

/// The geometric mean, then the least and the greatest number.
fn in_words(spread: Option<Spread>) -> String {
    match spread {
        None => String::new(),
        Some(Spread {
            mean,
            least,
            greatest,
            ..
        }) => match (digits(least), digits(greatest)) {
            (least, greatest) if least == greatest => least,
            (least, greatest) => format!("{}, {least} to {greatest}", digits(mean)),
        },
    }
}

/// The README with the tables that the files make.
///
/// # Errors
/// [`BenchError::File`], which it is too if a marker is missing.
pub fn rewritten(path: &Path, files: &[File]) -> Result<String> {
    let mut text = fs::read_to_string(path).map_err(BenchError::file(path))?;
    for of in &TABLES {
        text = replaced(&text, of.name, &table(of, files)).ok_or_else(|| {
            let message = format!("it has no part between {} and {END}", begin(of.name));
            BenchError::file(path)(std::io::Error::other(message))
        })?;
    }
    Ok(text)
}

const END: &str = "<!-- results:end -->";

fn begin(name: &str) -> String {
    format!("<!-- results:begin {name} -->")
}

/// `text` with `table` between the markers of `name`; `None` if there are none.
fn replaced(text: &str, name: &str, table: &str) -> Option<String> {
    let begin = begin(name);
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_the_markers_is_replaced_and_nothing_else() {
        let text = "a\n<!-- results:begin x -->old<!-- results:end -->\nb";
        let new = "a\n<!-- results:begin x -->\n\nnew\n<!-- results:end -->\nb";
        assert_eq!(replaced(text, "x", "new").as_deref(), Some(new));
        assert_eq!(replaced(new, "x", "new").as_deref(), Some(new));
        assert_eq!(replaced(text, "y", "new"), None);
        assert_eq!(replaced("<!-- results:begin x -->", "x", "new"), None);
    }

    #[test]
    fn every_line_has_rows() -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let files = super::super::read_all(&folder)?;
        for line in TABLES.iter().flat_map(|table| table.lines) {
            assert!(!line.rows("h200", &files).is_empty(), "{line:?}");
        }
        Ok(())
    }
}
