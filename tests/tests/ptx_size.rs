//! The compiled kernels are committed and embedded in the host library: they stay small.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[expect(dead_code, reason = "its `main` runs as a build script only")]
#[path = "../../host/build.rs"]
mod build_script;

/// The most bytes of all files below `ptx/`, with the manifest.
const TEXT_BYTES: u64 = 24_000_000;
/// The most bytes of the same files as the library embeds them, compressed by zlib.
const COMPRESSED_BYTES: u64 = 6_000_000;

#[test]
fn the_compiled_kernels_are_within_their_budget() {
    let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ptx");
    let mut files = Vec::new();
    build_script::collect(&ptx, &ptx, &mut files).expect("the folder can be read");
    let packed = tempfile::tempdir().expect("a folder for temporary files");
    build_script::table(None, &files, packed.path()).expect("the files can be compressed");
    let bytes = |path: &Path| fs::metadata(path).expect("it is there").len();
    let mut sizes: Vec<(u64, u64, &str)> = Vec::new();
    for (index, (name, path)) in files.iter().enumerate() {
        let packed = packed.path().join(format!("embedded_{index}.z"));
        sizes.push((bytes(path), bytes(&packed), name));
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let text: u64 = sizes.iter().map(|(text, ..)| text).sum();
    let compressed: u64 = sizes.iter().map(|(_, compressed, _)| compressed).sum();
    assert!(text > 1_000_000, "there are {} files", files.len());
    let mut all = format!(
        "ptx/ has {text} bytes of text, want less than {TEXT_BYTES}; compressed {compressed}, want \
         less than {COMPRESSED_BYTES}; the largest:"
    );
    for (text, compressed, name) in sizes.iter().take(8) {
        let _ = write!(all, "\n{text:>10} {compressed:>9} {name}");
    }
    println!("{all}");
    assert!(text < TEXT_BYTES && compressed < COMPRESSED_BYTES, "{all}");
}
