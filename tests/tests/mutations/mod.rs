//! Bugs planted in working kernels: the emulator must find each one.
//!
//! The kernels are those of `tests/spike` (asynchronous Hopper kernels) and of `ptx` (the
//! library's, launched as its operations launch them). Unchanged, they run clean under all checks
//! and several seeds. `tests/mutations/*.toml` lists edits of their text;
//! each must end in a report, a refusal or a wrong result. How each was caught is kept in
//! `tests/mutations/caught/`, from which the book's page is rendered.
//!
//! Environment variables: `BLESS=1` updates the kept results and the page; `ONLY=part` plants only
//! bugs whose name contains that part; `SHOW=1` prints how each run ended (with `--nocapture`).

mod clean;
mod edit;
mod hopper;
mod library;
mod page;
mod problem;
mod subjects;
mod table;
mod values;

use std::collections::BTreeMap;
use std::ops::Range;

use problem::Problem;
use subjects::Subject;
use table::{Caught, Found, Mutation, TABLES, Table};

/// Number of seeds that are tried for a bug that shows only in some schedules.
const SCHEDULES: u64 = 8;

/// Plants every bug of a table and compares how it was caught with what is kept; returns failures.
fn plant_all(name: &str) -> Vec<String> {
    let bless = std::env::var_os("BLESS").is_some();
    let only = std::env::var("ONLY").unwrap_or_default();
    let table = Table::load(name);
    let kept = match bless {
        true => Found::new(),
        false => table::kept(name),
    };
    let mut problems = BTreeMap::new();
    let mut found = Found::new();
    let mut failures = Vec::new();
    for mutation in &table.mutation {
        if !mutation.name.contains(&only) {
            continue;
        }
        let seeds = match kept.get(&mutation.name) {
            Some(caught) => caught.seed..caught.seed + 1,
            None => 0..SCHEDULES,
        };
        let problem = problems
            .entry(&mutation.kernel)
            .or_insert_with(|| Subject::named(&mutation.kernel).problem());
        let Some(caught) = first_caught(mutation, problem, seeds) else {
            failures.push(format!("{}: not caught", mutation.name));
            continue;
        };
        if !mutation.by.contains(&caught.by) {
            failures.push(format!(
                "{}: {caught:?}, not {:?}",
                mutation.name, mutation.by
            ));
        } else if !bless && kept.get(&mutation.name) != Some(&caught) {
            failures.push(format!("{}: {caught:?} is not what is kept", mutation.name));
        }
        if found.insert(mutation.name.clone(), caught).is_some() {
            failures.push(format!("{}: twice in the table", mutation.name));
        }
    }
    let gone = |name: &&String| only.is_empty() && !found.contains_key(*name);
    for name in kept.keys().filter(gone) {
        failures.push(format!("{name}: kept, but not in the table or not caught"));
    }
    if bless && only.is_empty() && failures.is_empty() {
        table::keep(name, &found);
    }
    failures
}

/// The first of the seeds that shows the bug, and how it was caught.
fn first_caught(mutation: &Mutation, problem: &Problem, mut seeds: Range<u64>) -> Option<Caught> {
    let planted = mutation.plant();
    let text = planted.unwrap_or_else(|error| panic!("{error}"));
    seeds.find_map(|seed| mutation.run(problem, &text, seed))
}

#[test]
fn every_bug_is_caught() {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let tables = TABLES.map(|name| scope.spawn(|| plant_all(name)));
        let joined = tables.map(|table| table.join().expect("a table is gone through"));
        joined.into_iter().flatten().collect()
    });
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(page_path(), page::render()).expect("the page can be written");
    }
}

#[test]
fn the_page_says_how_each_bug_is_caught() {
    if std::env::var_os("BLESS").is_some() {
        return; // The other test writes it.
    }
    let path = page_path();
    let got = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        got == page::render(),
        "docs/mutations.md is not what the tables say; BLESS=1 writes it"
    );
}

fn page_path() -> std::path::PathBuf {
    subjects::root().join("docs/mutations.md")
}

/// Every edit can be applied, whatever the emulator finds afterwards.
#[test]
fn every_bug_can_be_planted() {
    let mutations = TABLES.map(|name| Table::load(name).mutation);
    let errors = mutations
        .iter()
        .flatten()
        .filter_map(|mutation| mutation.plant().err());
    let errors: Vec<String> = errors.collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
