//! The tables of mutations, and the record of how each was caught.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::edit::{self, Edit};
use super::problem::{Outcome, Problem};
use super::subjects::{Subject, root};

/// The tables, in the order of the page.
pub(crate) const TABLES: [&str; 4] = ["gemm", "cluster", "attention", "portable"];
/// Value of [`Caught::by`] if there was no report, but the result was wrong.
pub(crate) const WRONG: &str = "wrong result";
/// Value of [`Caught::by`] if the module or the launch was refused.
pub(crate) const REFUSED: &str = "refused";

/// A file of mutations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// Heading on the page.
    pub(crate) title: String,
    pub(crate) mutation: Vec<Mutation>,
}

/// A bug, and the edits that plant it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    pub(crate) name: String,
    /// Name of a [`Subject`].
    pub(crate) kernel: String,
    /// What the bug is, in words.
    pub(crate) what: String,
    /// Ways in which it may be caught: names of faults, [`WRONG`], [`REFUSED`].
    pub(crate) by: Vec<String>,
    pub(crate) edit: Vec<Edit>,
}

/// How a mutation was caught.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Caught {
    /// Name of the fault, [`WRONG`] or [`REFUSED`].
    pub(crate) by: String,
    /// The first seed that reveals it.
    pub(crate) seed: u64,
    /// The line that the report names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
}

/// How mutations were caught, by name of the mutation.
pub(crate) type Found = BTreeMap<String, Caught>;

impl Table {
    pub(crate) fn load(name: &str) -> Self {
        let path = folder().join(name).with_extension("toml");
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// The kept results of a table.
pub(crate) fn kept(name: &str) -> Found {
    let path = kept_at(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 writes it", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes the results of a table.
pub(crate) fn keep(name: &str, found: &Found) {
    let text = toml::to_string(found).expect("plain values have a text");
    let path = kept_at(name);
    std::fs::create_dir_all(path.parent().expect("it lies in a folder"))
        .expect("the folder can be made");
    std::fs::write(path, text).expect("the table can be written");
}

fn kept_at(name: &str) -> PathBuf {
    folder().join("caught").join(name).with_extension("toml")
}

fn folder() -> PathBuf {
    root().join("tests/mutations")
}

impl Mutation {
    /// The edited text.
    ///
    /// # Errors
    /// A pattern that does not match the text.
    pub(crate) fn plant(&self) -> Result<String, String> {
        let text = Subject::named(&self.kernel).text();
        edit::apply(&text, &self.edit).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Runs the edited text with one seed.
    pub(crate) fn run(&self, problem: &Problem, text: &str, seed: u64) -> Option<Caught> {
        let outcome = problem.run(text, seed);
        if std::env::var_os("SHOW").is_some() {
            println!("{} with seed {seed}: {outcome}\n", self.name);
        }
        let (by, line) = match outcome {
            Outcome::Clean => return None,
            Outcome::Wrong(_) => (WRONG, None),
            Outcome::Refused(_) => (REFUSED, None),
            Outcome::Fault(report) => (report.kind.name(), Some(report.place.ptx_line)),
        };
        Some(Caught {
            by: by.to_owned(),
            seed,
            line,
        })
    }
}
