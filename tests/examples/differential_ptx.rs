//! Writes the modules of the differential suite into a folder, for `ptxas` or another compiler:
//! `cargo run -p warpsmith-tests --example differential_ptx -- FOLDER`.

use std::path::PathBuf;

use warpsmith_tests::differential::program::{self, PROGRAMS, Vocabulary};
use warpsmith_tests::differential::{asynchronous, engine, forms};

/// Programs with asynchronous copies that are written.
const ASYNCHRONOUS: u64 = 256;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| {
        eprintln!("usage: differential_ptx FOLDER");
        std::process::exit(2)
    }));
    std::fs::create_dir_all(&folder)?;
    let all: Vec<_> = forms::families()
        .into_iter()
        .flat_map(|f| f.forms)
        .collect();
    for (i, forms) in all.chunks(engine::MODULE).enumerate() {
        std::fs::write(
            folder.join(format!("forms_{i:03}.ptx")),
            engine::form_module(forms),
        )?;
    }
    let vocabulary = Vocabulary::new();
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|seed| program::generate(seed, &vocabulary))
        .collect();
    for (i, programs) in programs.chunks(engine::MODULE).enumerate() {
        let file = folder.join(format!("programs_{i:03}.ptx"));
        std::fs::write(file, engine::program_module(programs))?;
    }
    let copying: Vec<_> = (0..ASYNCHRONOUS).map(asynchronous::generate).collect();
    for (i, programs) in copying.chunks(engine::MODULE).enumerate() {
        let file = folder.join(format!("asynchronous_{i:03}.ptx"));
        std::fs::write(file, asynchronous::module(programs))?;
    }
    let counts = (all.len(), programs.len(), copying.len());
    println!(
        "{} forms, {} programs, {} with copies",
        counts.0, counts.1, counts.2
    );
    Ok(())
}
