//! Tasks of this repository: `cargo xtask kernel softmax`.

mod hook;
mod kernel;
mod prose;
mod sass;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Tasks of this repository.
#[derive(Debug, Parser)]
enum Task {
    Kernel(kernel::Args),
    /// Check the sentences of pages and comments, and the tables, links and operations of pages.
    Prose,
    /// Install Git hooks: format and prose before a commit, and the form of its subject.
    Hook,
    /// Check that a commit message begins with `area: verb object`.
    Subject {
        /// The file of the message.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(task: Task) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match task {
        Task::Kernel(args) => kernel::run(&args),
        Task::Prose => {
            let found = prose::findings(&root)?;
            found.iter().for_each(|finding| println!("{finding}"));
            Ok(found.is_empty())
        }
        Task::Hook => {
            for path in hook::install(&root)? {
                println!("{}", path.display());
            }
            Ok(true)
        }
        Task::Subject { file } => {
            hook::check_subject(&std::fs::read_to_string(file)?)?;
            Ok(true)
        }
    }
}
