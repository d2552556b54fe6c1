//! The book's page on planted bugs, rendered from the tables.

use std::fmt::Write;

use super::subjects::Subject;
use super::table::{self, Caught, Mutation, TABLES, Table};

const HEAD: &str = "\
# Planted bugs

<!-- Made by `BLESS=1 cargo test -p warpsmith-tests mutations::`; do not edit. -->

Each row of this chapter is one bug, planted in the PTX of a kernel that runs clean without it. The \
emulator has to catch it: by a report, by a refusal, or by a wrong result. All checks are on, and \
inputs are small.

The kernels are Hopper kernels of `tests/spike` and kernels of the library, which are launched as the \
operations launch them. Results of the library's kernels are compared bit by bit with the results \
without the bug. Other results are compared with f64 references.

A seed decides the order of warps and of asynchronous work. Where seed 0 does not show a bug, the \
table names the seed that does. `warpsmith run --schedules N` finds it by the same seed.

The edits are in `tests/mutations/*.toml`, and the lines of the reports in `tests/mutations/caught/`. \
A test plants every bug and fails if one is not caught as this chapter states.
";

/// Renders the whole page.
pub(crate) fn render() -> String {
    let mut page = HEAD.to_owned();
    let tables = TABLES.map(|name| (Table::load(name), table::kept(name)));
    page += &summary(&tables);
    for (table, found) in &tables {
        writeln!(page, "\n## {}", table.title).expect("a string takes it");
        for group in table
            .mutation
            .chunk_by(|x, y| module(&x.kernel) == module(&y.kernel))
        {
            // Without blanks around the bars: the table is long.
            page += &format!(
                "\n`{}`:\n\n|bug|caught by|\n|---|---|\n",
                module(&group[0].kernel)
            );
            for mutation in group {
                let caught = found.get(&mutation.name);
                let caught =
                    caught.unwrap_or_else(|| panic!("nothing is kept of `{}`", mutation.name));
                page += &row(mutation, caught);
            }
        }
    }
    page
}

fn module(kernel: &str) -> &'static str {
    let file = Subject::named(kernel).file;
    file.rsplit('/').next().unwrap_or(file)
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
    let seed = match caught.seed {
        0 => String::new(),
        seed => format!(", seed {seed}"),
    };
    format!("|{}|{}{seed}|\n", mutation.what, caught.by)
}
