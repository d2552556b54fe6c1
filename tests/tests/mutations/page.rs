//! The book's page on planted bugs, rendered from the tables.

use std::fmt::Write;

use super::edit::Changed;
use super::subjects::Subject;
use super::table::{self, Caught, Mutation, TABLES, Table};

/// Number of characters of a PTX line that the page shows.
const SHOWN: usize = 72;

const HEAD: &str = "\
# Planted bugs

<!-- Made by `BLESS=1 cargo test -p warpsmith-tests mutations::`; do not edit. -->

A checker is worth what it finds. Each row of this chapter is one bug, planted in the text of a \
kernel that runs clean without it. The kernels are the proof-of-concept kernels for Hopper in \
`tests/spike` (GEMMs with tensor copies, mbarriers, `wgmma` and clusters; attention; a reduction), \
and kernels of the library, most of them portable, launched as its operations launch them. Inputs \
are small, and all checks are on.

A bug counts as caught in three cases: the emulator reports a fault, it refuses the kernel, or the \
result is wrong. Results of the library's kernels must have the bits that they have without the bug, \
which other tests compare with references; others are compared with references in f64. On the \
emulator a wrong result is as certain as a report, \
since the same seed gives the same bits every time.

Seed 0 runs each warp for long stretches before the next one, and lets asynchronous work land as \
late as it can. Where that does not show a bug, the table names the seed that does. \
`warpsmith run --schedules N` would find it by the same seed.

The bugs are listed in `tests/mutations/*.toml`. A test plants every one of them, and fails if one \
is not caught as this chapter says. In the tables, line numbers are those of the PTX.
";

/// Renders the whole page.
pub(crate) fn render() -> String {
    let mut page = HEAD.to_owned();
    let tables = TABLES.map(|name| (Table::load(name), table::kept(name)));
    page += &summary(&tables);
    for (table, found) in &tables {
        writeln!(page, "\n## {}\n", table.title).expect("a string takes it");
        page += "| bug | kernel and line | before → after | caught by |\n|---|---|---|---|\n";
        for mutation in &table.mutation {
            let caught = found.get(&mutation.name);
            let caught = caught.unwrap_or_else(|| panic!("nothing is kept of `{}`", mutation.name));
            page += &row(mutation, caught);
        }
    }
    page
}

fn summary(tables: &[(Table, table::Found)]) -> String {
    let all: Vec<&Caught> = tables
        .iter()
        .flat_map(|(_, found)| found.values())
        .collect();
    let by = |what: &str| all.iter().filter(|caught| caught.by == what).count();
    let (wrong, refused) = (by(table::WRONG), by(table::REFUSED));
    let reported = all.len() - wrong - refused;
    let seeded = all.iter().filter(|caught| caught.seed != 0).count();
    format!(
        "\n{} bugs: {reported} end in a report, {wrong} in a wrong result, {refused} in a refusal; \
         {seeded} need a seed other than 0.\n",
        all.len()
    )
}

fn row(mutation: &Mutation, caught: &Caught) -> String {
    let (_, changes) = mutation.plant().unwrap_or_else(|error| panic!("{error}"));
    let first = &changes[0];
    let file = Subject::named(&mutation.kernel).file;
    let module = file.rsplit('/').next().unwrap_or(file);
    let others = match changes.len() - 1 {
        0 => String::new(),
        1 => ", and one line more".to_owned(),
        more => format!(", and {more} lines more"),
    };
    let seed = match caught.seed {
        0 => String::new(),
        seed => format!(", seed {seed}"),
    };
    let line = caught
        .line
        .map_or(String::new(), |line| format!(", line {line}"));
    format!(
        "| {} | `{module}` {}{others} | {} | {}{line}{seed} |\n",
        mutation.what,
        first.line,
        change(first),
        caught.by,
    )
}

fn change(changed: &Changed) -> String {
    let after = match changed.after.as_str() {
        "" => "dropped".to_owned(),
        after => code(after),
    };
    format!("{} → {after}", code(&changed.before))
}

/// A line as code; a long line is truncated.
fn code(line: &str) -> String {
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown += " ..";
    }
    format!("`{}`", shown.replace('|', "\\|"))
}
