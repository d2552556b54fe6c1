//! Every numbered example runs, and agrees with what it computes.

use std::path::Path;
use std::process::Command;

#[test]
fn every_example_ends_without_an_error() {
    // Cargo puts tests into `deps`, and examples beside that folder.
    let test = std::env::current_exe().expect("this program has a path");
    let built = test.parent().and_then(Path::parent).expect("it is in deps");
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).read_dir();
    let mut names: Vec<String> = folders
        .expect("the examples are there")
        .map(|entry| entry.expect("a folder").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    names.sort();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        let program = built.join("examples").join(&name);
        let output = Command::new(&program).output().unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `cargo test` builds examples, `cargo test --test ..` does not",
                program.display()
            )
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
    }
}
