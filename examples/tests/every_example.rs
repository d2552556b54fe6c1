//! Every numbered example runs, and agrees with what it computes.

use std::path::Path;
use std::process::Command;

/// What an example prints.
fn run(name: &str) -> String {
    // Cargo puts tests into `deps`, and examples beside that folder.
    let test = std::env::current_exe().expect("this program has a path");
    let built = test.parent().and_then(Path::parent).expect("it is in deps");
    let program = built.join("examples").join(name);
    let output = Command::new(&program).output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `cargo test` builds examples, `cargo test --test ..` does not",
            program.display()
        )
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn every_example_ends_without_an_error() {
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
        run(&name);
    }
}

/// The lines between `from` and `to` in the README.
fn in_readme<'a>(readme: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let (_, rest) = readme.split_once(from).expect("the README has it");
    rest.split_once(to).expect("it ends").0.lines().collect()
}

/// Lines of code, without comments and attributes.
fn code<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with(['/', '#']);
    lines.map(str::trim).filter(is_code).collect()
}

#[test]
fn the_readme_shows_the_kernel_and_the_reports_of_example_05() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = |path: &str| std::fs::read_to_string(root.join(path)).expect("a text");
    let readme = text("README.md");
    let printed = run("05_find_the_bug");
    let mut shown = in_readme(&readme, "```text\n", "```\n");
    shown.extend(in_readme(&readme, "--example 05_find_the_bug\n", "$ "));
    for line in shown {
        assert!(
            printed.lines().any(|full| full.starts_with(line)),
            "no `{line}` in\n{printed}"
        );
    }
    let source = text("examples/kernels/src/reverse.rs");
    let kernel = in_readme(&readme, "## A kernel of your own\n\n```rust\n", "```\n");
    assert_eq!(code(kernel.into_iter()), code(source.lines()));
}
