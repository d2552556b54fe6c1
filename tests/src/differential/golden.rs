//! What real hardware answered, as hashes: `golden/h200.txt`.
//!
//! One line a form, `form <tab> name <tab> answers <tab> hash`, and one a program,
//! `program <tab> seed <tab> answers <tab> hash`; lines that start with `#` say where they are from.

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

/// A start for a random generator, from a name.
#[must_use]
pub fn seed(name: &str) -> u64 {
    let words: Vec<u64> = name.bytes().map(u64::from).collect();
    hash(&words)
}

/// How many answers, and their hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Words hashed.
    pub words: usize,
    /// The hash.
    pub hash: u64,
}

impl Answer {
    /// The answer that `words` are.
    #[must_use]
    pub fn of(words: &[u64]) -> Self {
        Self {
            words: words.len(),
            hash: hash(words),
        }
    }
}

/// Answers by `form` or `program` and name or seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Golden(pub BTreeMap<(String, String), Answer>);

impl Golden {
    /// Reads the text of a golden file; a line that does not read is returned as the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        let answers = lines.map(|line| parse_line(line).ok_or_else(|| line.to_owned()));
        answers.collect::<Result<_, _>>().map(Self)
    }

    /// The text of a golden file under a comment.
    #[must_use]
    pub fn to_text(&self, comment: &str) -> String {
        let comment = comment.lines().map(|line| format!("# {line}\n"));
        let lines = self.0.iter().map(|((kind, name), answer)| {
            format!("{kind}\t{name}\t{}\t{:016x}\n", answer.words, answer.hash)
        });
        comment.chain(lines).collect()
    }
}

fn parse_line(line: &str) -> Option<((String, String), Answer)> {
    let mut fields = line.split('\t');
    let key = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let words = fields.next()?.parse().ok()?;
    let hash = u64::from_str_radix(fields.next()?, 16).ok()?;
    Some((key, Answer { words, hash }))
}
