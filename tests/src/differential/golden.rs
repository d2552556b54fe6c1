//! The answers of real hardware, as hashes: `golden/h200.txt`.
//!
//! There is one line for each line of the table, `forms <tab> line <tab> answers <tab> hashes`,
//! with a hash for each form, and one line for every 64 programs, `programs <tab> first <tab>
//! answers <tab> hashes`. A `-` means that there is no answer. Lines that start with `#` say where
//! the answers are from.

use std::collections::BTreeMap;

/// The committed answers.
pub const H200: &str = include_str!("../../golden/h200.txt");

/// FNV-1a of words, byte by byte from the lowest.
#[must_use]
pub fn hash(words: &[u64]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A seed for a random generator, derived from a name.
#[must_use]
pub fn seed(name: &str) -> u64 {
    let words: Vec<u64> = name.bytes().map(u64::from).collect();
    hash(&words)
}

/// The hash that is kept of one answer.
#[must_use]
pub fn short(words: &[u64]) -> u32 {
    let hash = hash(words);
    (hash ^ hash >> 32) as u32
}

/// Hashes of answers that belong together; `None` if there is no answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Number of words that were hashed, in all answers.
    pub words: usize,
    /// The hash of each answer.
    pub hashes: Vec<Option<u32>>,
}

/// Answers by `forms` or `programs`, and by line or first program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Golden(pub BTreeMap<(String, String), Answers>);

impl Golden {
    /// Reads a golden file; the error is a line that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        let answers = lines.map(|line| parse_line(line).ok_or_else(|| line.to_owned()));
        answers.collect::<Result<_, _>>().map(Self)
    }

    /// The text of a golden file, with a comment at the top.
    #[must_use]
    pub fn to_text(&self, comment: &str) -> String {
        let comment = comment.lines().map(|line| format!("# {line}\n"));
        let lines = self.0.iter().map(|((kind, name), answers)| {
            let word = |hash: &Option<u32>| hash.map_or("-".to_owned(), |h| format!("{h:08x}"));
            let hashes: Vec<String> = answers.hashes.iter().map(word).collect();
            format!("{kind}\t{name}\t{}\t{}\n", answers.words, hashes.join(" "))
        });
        comment.chain(lines).collect()
    }
}

fn parse_line(line: &str) -> Option<((String, String), Answers)> {
    let mut fields = line.split('\t');
    let key = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let words = fields.next()?.parse().ok()?;
    let hash = |word: &str| match word {
        "-" => Some(None),
        word => u32::from_str_radix(word, 16).ok().map(Some),
    };
    let hashes = fields.next()?.split(' ').map(hash).collect::<Option<_>>()?;
    Some((key, Answers { words, hashes }))
}
