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
fn play(folder: PathBuf, language: &str, block: &str) -> PathBuf {
    match language {
        "console" => return console(folder, block),
        "rust,ignore" => file(&folder, block),
        "diff" => edit(&folder, block),
        _ => {}
    }
    folder
}

/// Runs the commands of a block. The lines below a command are what it prints, among others.
fn console(mut folder: PathBuf, block: &str) -> PathBuf {
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ").expect("a command");
        let mut wanted = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            wanted.push(line);
        }
        match command.strip_prefix("cd ") {
            Some(into) => folder.push(into),
            None => run(&folder, command, &wanted),
        }
    }
    folder
}

fn run(folder: &Path, line: &str, wanted: &[&str]) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let program = match words[0] {
        "warpsmith" => env!("CARGO_BIN_EXE_warpsmith"),
        other => other,
    };
    let started = Instant::now();
    let output = Command::new(program)
        .args(&words[1..])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target())
        // What the crate needs is what the repository needs, which is here.
        .env("CARGO_NET_OFFLINE", "true")
        // Debug builds have lines, which the report names.
        .env_remove("CARGO_PROFILE_DEV_DEBUG")
        .output()
        .expect("the program starts");
    let seconds = started.elapsed().as_secs_f64();
    writeln!(io::stderr(), "`{line}`: {seconds:.1} s").ok();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    let fails = wanted.iter().any(|line| line.contains("FAILED"));
    assert_ne!(output.status.success(), fails, "`{line}`:\n{said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "`{line}`: no `{wanted}` in\n{said}");
    }
}

/// The file that the block's first line names is as the block shows it, or is written.
fn file(folder: &Path, block: &str) {
    let (first, shown) = block.split_once('\n').expect("a line that names the file");
    let path = folder.join(first.strip_prefix("// ").expect("a comment"));
    if path.exists() {
        let there = fs::read_to_string(&path).expect("a text");
        assert_eq!(shown, there, "{}", path.display());
    } else {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::write(path, shown).expect("the folder is there");
    }
}

/// Makes the edit of the file that the block's first line names.
fn edit(folder: &Path, block: &str) {
    let (first, lines) = block.split_once('\n').expect("a line that names the file");
    let path = folder.join(first.trim());
    let of = |sign: char| -> String {
        let lines = lines.lines().filter_map(|line| line.strip_prefix(sign));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let (old, new) = (of('-'), of('+'));
    let text = fs::read_to_string(&path).expect("the file is there");
    assert_eq!(text.matches(&old).count(), 1, "{old} is not in {text}");
    fs::write(path, text.replace(&old, &new)).expect("the file can be written");
}

/// Where the crate is built: `WARPSMITH_GUIDE_TARGET`, in which CI keeps the crates of others.
fn target() -> PathBuf {
    let named = std::env::var_os("WARPSMITH_GUIDE_TARGET").map(PathBuf::from);
    named.unwrap_or_else(|| temporary("guide-target"))
}

/// A folder that is the same each time, so that cargo knows what it has built there.
fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_guide_is_right_word_by_word() {
    if let Err(missing) = DeviceToolchain::discover() {
        let required = std::env::var_os("WARPSMITH_REQUIRE_DEVICE_TOOLCHAIN").is_some();
        assert!(!required, "{missing}");
        writeln!(io::stderr(), "skipped: {missing}").ok();
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/writing-a-kernel.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let folder = temporary("guide");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the old folder can be removed");
    }
    fs::create_dir_all(&folder).expect("a folder");
    let mut current = folder.clone();
    let mut rest = page.as_str();
    while let Some((_, after)) = rest.split_once("\n```") {
        let (language, after) = after.split_once('\n').expect("a line");
        let (block, after) = after.split_once("```\n").expect("the block ends");
        current = play(current, language, block);
        rest = after;
    }
    assert_ne!(current, folder, "the page makes a crate");
    // The code of `cargo bench`, without a build in its profile.
    run(
        &current,
        "cargo bench --profile dev",
        &["emulator (sm_90): "],
    );
}

#[test]
fn a_crate_that_cannot_be_made_is_wrong_usage_and_nothing_is_written() {
    let folder = Folder::new();
    let new = |name: &str, options: &[&str]| {
        let path = folder.path(name).into_os_string();
        let options = options.iter().map(|option| (*option).into());
        warpsmith(["new".into(), path].into_iter().chain(options))
    };
    new("", &[]).failed(2, &["exists", "name a new folder"]);
    for (wrong, right) in [
        ("1st", "kernels-1st"),
        ("my kernels", "my-kernels"),
        ("fn", "kernels-fn"),
        ("cuda-std", "kernels-cuda-std"),
        ("\u{fc}", "my-kernels"),
    ] {
        let words = [format!("`{wrong}` cannot be a crate's name; `{right}` can")];
        new(wrong, &[]).failed(2, &words.each_ref().map(String::as_str));
    }
    let elsewhere = env!("CARGO_TARGET_TMPDIR");
    new("kernels", &["--path", elsewhere]).failed(2, &["is not a clone of warpsmith"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}
