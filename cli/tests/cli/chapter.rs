//! The book's chapter on testing without a GPU shows what the program prints, and the files that it
//! names. With `BLESS=1` in the environment the chapter is written anew instead.

use std::path::{Path, PathBuf};

use crate::support::command;

/// Times differ from run to run.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']);
    let mut out: Vec<&str> = Vec::new();
    for word in words {
        if word.trim_end().trim_end_matches(',') == "ms" && !out.is_empty() {
            out.pop();
            out.push("TIME ");
        }
        out.push(word);
    }
    out.concat()
}

/// What a terminal shows after each command of a block, with the commands themselves.
fn played(root: &Path, block: &str) -> String {
    let mut shown = String::new();
    let mut status = 0;
    for line in block.lines().filter(|line| line.starts_with("$ ")) {
        shown += &format!("{line}\n");
        if line == "$ echo $?" {
            shown += &format!("{status}\n");
            continue;
        }
        let mut words = line.split_whitespace().skip(1);
        assert_eq!(words.next(), Some("warpsmith"), "{line}");
        let output = command().args(words).current_dir(root).output();
        let output = output.expect("the program starts");
        status = output.status.code().expect("no signal ended it");
        shown += &String::from_utf8(output.stdout).expect("UTF-8");
        shown += &String::from_utf8(output.stderr).expect("UTF-8");
    }
    shown
}

/// What a block should be: of commands what they print, of a file that its first line names that file.
/// `None` for any other block.
fn real(root: &Path, language: &str, block: &str) -> Option<String> {
    if language == "console" {
        return Some(played(root, block));
    }
    let (first, _) = block.split_once('\n')?;
    let file = first.trim_start_matches(['/', '#', ' ']);
    let text = std::fs::read_to_string(root.join(file)).ok()?;
    Some(format!("{first}\n{text}"))
}

#[test]
fn the_chapter_shows_what_the_program_prints() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("docs/testing-without-a-gpu.md");
    let text = std::fs::read_to_string(&path).expect("the chapter is there");
    let mut new = String::new();
    let mut blocks = 0;
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("\n```") {
        let (language, after) = after.split_once('\n').expect("the line ends");
        let (block, after) = after.split_once("```\n").expect("the block ends");
        let real = real(&root, language, block);
        let real = real.inspect(|_| blocks += 1);
        let real = real.unwrap_or_else(|| block.to_owned());
        if std::env::var_os("BLESS").is_none() {
            assert_eq!(without_times(block), without_times(&real));
        }
        // What is as good as what is there stays, so that times do not change for nothing.
        let kept = match without_times(block) == without_times(&real) {
            true => block,
            false => &real,
        };
        new += &format!("{before}\n```{language}\n{kept}```\n");
        rest = after;
    }
    new += rest;
    assert!(blocks >= 16, "{blocks} blocks");
    if new != text {
        std::fs::write(&path, new).expect("the chapter can be written");
    }
}

#[test]
fn only_times_are_left_out() {
    let line = "k on emulator, 1.25 ms\n  12 ms of 3 bytes\n";
    assert_eq!(
        without_times(line),
        "k on emulator, TIME ms\n  TIME ms of 3 bytes\n"
    );
}

/// Every example's PTX is there, and its launch file is about it.
#[test]
fn every_example_is_in_the_chapter() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let chapter = std::fs::read_to_string(root.join("docs/testing-without-a-gpu.md"));
    let chapter = chapter.expect("the chapter is there");
    let folders = std::fs::read_dir(root.join("examples/check")).expect("the examples are there");
    let mut count = 0;
    for folder in folders {
        let folder = folder.expect("an entry");
        let name = folder.file_name().to_string_lossy().into_owned();
        let run = format!("examples/check/{name}/kernel.ptx examples/check/{name}/launch.toml");
        assert!(chapter.contains(&run), "{name} is not run");
        count += 1;
    }
    assert!(count >= 6, "{count} examples");
}
