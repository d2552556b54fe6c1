//! Makes `docs/results.md` and the table of speed in `README.md` from `benches/results`, and the
//! plots if it is asked to.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use warpsmith_benches::error::{BenchError, Result};
use warpsmith_benches::page::{self, readme};

/// Makes docs/results.md and the table of speed in README.md from benches/results.
#[derive(Debug, Parser)]
struct Arguments {
    /// The folder of the project.
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    root: Box<Path>,
    /// Draw the plots in docs/plots too.
    #[arg(long)]
    plots: bool,
}

fn main() -> ExitCode {
    match write(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(Arguments { root, plots }: &Arguments) -> Result<()> {
    let files = page::read_all(&root.join("benches/results"))?;
    let save = |path: &Path, text: String| {
        fs::write(path, text).map_err(|source| BenchError::File {
            path: path.to_owned(),
            source,
        })
    };
    save(&root.join("docs/results.md"), page::text(&files))?;
    let path = root.join("README.md");
    let text = readme::rewritten(&path, &files)?;
    save(&path, text)?;
    if *plots {
        page::draw_plots(&files, &root.join("docs/plots"))?;
    }
    Ok(())
}
