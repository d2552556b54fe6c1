//! The compiled kernels are committed and embedded in the host library: they stay small.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of all files below `ptx/`, with the manifest.
const BUDGET: u64 = 12_000_000;

#[test]
fn the_compiled_kernels_are_within_their_budget() {
    let mut files = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx"),
        &mut files,
    );
    files.sort_by(|a, b| b.cmp(a));
    let got: u64 = files.iter().map(|(bytes, _)| bytes).sum();
    assert!(got > 1_000_000, "there are {} files", files.len());
    let mut largest = String::new();
    for (bytes, path) in files.iter().take(8) {
        let _ = write!(largest, "\n{bytes:>10} {}", path.display());
    }
    assert!(
        got < BUDGET,
        "ptx/ has {got} bytes, want less than {BUDGET}; the largest:{largest}"
    );
}

fn collect(folder: &Path, files: &mut Vec<(u64, PathBuf)>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            let bytes = fs::metadata(&path).expect("it is there").len();
            files.push((bytes, path));
        }
    }
}
