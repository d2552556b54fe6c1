//! The README shows what the program prints.

use std::path::Path;

use crate::support::{command, ran};

/// The commands of the README that run the program, each with the lines that are shown below it.
fn commands(text: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut commands = Vec::new();
    let (_, rest) = text
        .split_once("```console\n")
        .expect("a block of commands");
    let (block, _) = rest.split_once("```\n").expect("the block ends");
    for part in block.split("$ ").skip(1) {
        let mut lines = part.lines();
        let line = lines.next().expect("a command");
        if let Some(arguments) = line.strip_prefix("cargo run --release -- ") {
            commands.push((arguments.split(' ').collect(), lines.collect()));
        }
    }
    commands
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("README.md")).expect("the README is there");
    let commands = commands(&text);
    assert!(commands.len() >= 2, "{commands:?}");
    for (arguments, shown) in commands {
        let ran = ran(command().args(&arguments).current_dir(&root));
        let printed = ran.stdout + &ran.stderr;
        assert!(!shown.is_empty(), "{arguments:?}");
        for line in shown {
            assert!(
                printed.lines().any(|full| full.starts_with(line)),
                "{arguments:?}: no `{line}` in\n{printed}"
            );
        }
    }
}
