//! The fuzz targets without a fuzzer: its saved inputs, and seeded mutations of real PTX.

#[allow(unreachable_pub)] // the targets are a library of their own for the fuzzer
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Contents of a folder's files, in the order of their names.
fn contents(folder: &Path) -> Vec<Vec<u8>> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths
        .iter()
        .map(|path| std::fs::read(path).expect("the file can be read"))
        .collect()
}

#[test]
fn what_the_fuzzer_kept_does_no_harm() {
    for (name, run) in [
        ("parse", targets::parse as fn(&[u8])),
        ("load", targets::load),
        ("launch", targets::launch),
    ] {
        for data in contents(&root().join("fuzz/corpus").join(name)) {
            run(&data);
        }
    }
}

/// Pseudo-random numbers below `end`, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * end as u64) >> 32) as usize
    }
}

/// The words of the fuzzer's dictionary.
fn words() -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(root().join("fuzz/ptx.dict")).expect("it is there");
    text.lines()
        .filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'))
        .map(|word| {
            word.replace("\\\"", "\"")
                .replace("\\x0a", "\n")
                .into_bytes()
        })
        .collect()
}

/// Mutates a text in one place.
fn damage(text: &mut Vec<u8>, other: &[u8], words: &[Vec<u8>], random: &mut Random) {
    if text.is_empty() {
        return;
    }
    let at = random.below(text.len());
    let end = (at + 1 + random.below(40)).min(text.len());
    match random.below(7) {
        0 => text[at] = random.below(256) as u8,
        1 => drop(text.drain(at..end)),
        2 => text.truncate(at),
        3 => {
            let word = &words[random.below(words.len())];
            drop(text.splice(at..at, word.iter().copied()));
        }
        4 => {
            // Replaces a word by another one.
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._%$:".contains(byte);
            let start = at - text[..at].iter().rev().take_while(|b| is_word(b)).count();
            let stop = at + text[at..].iter().take_while(|b| is_word(b)).count();
            let word = &words[random.below(words.len())];
            drop(text.splice(start..stop, word.iter().copied()));
        }
        5 => {
            let piece = text[at..end].to_vec();
            let to = random.below(text.len());
            drop(text.splice(to..to, piece));
        }
        _ => {
            let from = random.below(other.len());
            let piece = &other[from..(from + 200).min(other.len())];
            drop(text.splice(at..end, piece.iter().copied()));
        }
    }
}

#[test]
fn damaged_kernels_do_no_harm() {
    let mut texts = contents(&root().join("tests/corpus/ptx"));
    texts.extend(contents(&root().join("emulator/tests/pass")));
    texts.retain(|text| (100..6000).contains(&text.len()));
    assert!(texts.len() > 40);
    let words = words();
    // `FUZZ_ROUNDS=1000000` runs longer; the seed is that number, so each number tries other texts.
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(Ok(4000), |rounds| rounds.parse());
    let rounds = rounds.expect("FUZZ_ROUNDS is a number");
    let mut random = Random(rounds as u64);
    for round in 0..rounds {
        let mut text = texts[random.below(texts.len())].clone();
        let other = &texts[random.below(texts.len())];
        for _ in 0..=random.below(4) {
            damage(&mut text, other, &words, &mut random);
        }
        let run = [
            targets::parse,
            targets::load,
            targets::load,
            targets::launch,
        ][round % 4];
        run(&text);
    }
}
