//! Draws the plots of a result file again.
//!
//! `plot_results FILE.json` reads what `compare_gemm --out` wrote, and writes the plots beside it.

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use warpsmith_benches::{plot, results::Report};

/// Draws the plots of a result file again.
#[derive(Debug, Parser)]
struct Arguments {
    /// A `.json` of results.
    file: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { file } = Arguments::parse();
    let report = Report::read(&file)?;
    let folder = file.parent().ok_or("the file is in no folder")?;
    let name = file.file_stem().ok_or("the file has no name")?;
    let plots = plot::draw(&report, folder, &name.to_string_lossy())?;
    println!("{plots} plots in {}", folder.display());
    Ok(())
}
