//! The book's guide to a first kernel, done word by word: its commands are run, and its files are
//! written.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cuda_builder::toolchain::DeviceToolchain;

use crate::support::{Folder, warpsmith};

/// Does what a block says, in `folder`; returns the folder of the next block.
fn play(folder: &Path, language: &str, block: &str) -> PathBuf {
    match language {
        "console" => block
            .lines()
            .filter_map(|line| line.strip_prefix("$ "))
            .fold(folder.to_owned(), |folder, line| command(&folder, line)),
        "rust,ignore" => {
            write(folder, block);
            folder.to_owned()
        }
        _ => folder.to_owned(),
    }
}

fn command(folder: &Path, line: &str) -> PathBuf {
    if let Some(into) = line.strip_prefix("cd ") {
        return folder.join(into);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = match words[0] {
        "warpsmith" => env!("CARGO_BIN_EXE_warpsmith"),
        other => other,
    };
    let started = Instant::now();
    // Built here once, and then only what changed. What the repository needs is here already.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide-target");
    let output = Command::new(program)
        .args(&words[1..])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "`{line}`:\n{said}");
    writeln!(
        io::stderr(),
        "`{line}`: {:.1} s",
        started.elapsed().as_secs_f64()
    )
    .ok();
    if words[..] == ["cargo", "test"] {
        assert!(said.contains("1 passed"), "no test ran:\n{said}");
    }
    folder.to_owned()
}

/// Writes the file that the block's first line names, or adds to its end.
fn write(folder: &Path, block: &str) {
    let (first, rest) = block.split_once('\n').expect("a line that names the file");
    let name = first.strip_prefix("// ").expect("a comment");
    let (path, before) = match name.strip_suffix(", at its end") {
        Some(path) => {
            let path = folder.join(path);
            let before = fs::read_to_string(&path).expect("the file is there");
            (path, before + "\n")
        }
        None => (folder.join(name), String::new()),
    };
    fs::write(&path, before + rest).expect("the folder is there");
}

#[test]
fn the_guide_leads_to_green_tests() {
    if let Err(missing) = DeviceToolchain::discover() {
        let required = std::env::var_os("WARPSMITH_REQUIRE_DEVICE_TOOLCHAIN").is_some();
        assert!(!required, "{missing}");
        writeln!(io::stderr(), "skipped: {missing}").ok();
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/writing-a-kernel.md");
    let page = fs::read_to_string(page).expect("the page is there");
    // The same folder each time, so that cargo knows what it has built.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("nobody else uses it");
    }
    fs::create_dir_all(&folder).expect("a folder");
    let mut current = folder.clone();
    let mut rest = page.as_str();
    while let Some((_, after)) = rest.split_once("\n```") {
        let (language, after) = after.split_once('\n').expect("a line");
        let (block, after) = after.split_once("```\n").expect("the block ends");
        current = play(&current, language, block);
        rest = after;
    }
    assert_ne!(current, folder, "the page makes a crate");
}

#[test]
fn a_crate_that_cannot_be_made_is_wrong_usage_and_nothing_is_written() {
    let folder = Folder::new();
    let new = |name: &str, options: &[&str]| {
        let path = folder.path(name).into_os_string();
        let options = options.iter().map(|option| (*option).into());
        warpsmith(["new".into(), path].into_iter().chain(options))
    };
    new("", &[]).failed(2, &["is there already"]);
    new("1st", &[]).failed(2, &["`1st` is not a crate's name"]);
    let elsewhere = env!("CARGO_TARGET_TMPDIR");
    new("kernels", &["--path", elsewhere]).failed(2, &["is not a clone of warpsmith"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}
