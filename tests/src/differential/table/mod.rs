//! The table of instructions: which forms PTX has for sm_90, written as patterns.
//!
//! `plain.txt` has instructions that compute from their operands alone, `machine.txt` those that
//! need something around them, and `elsewhere.txt` the opcodes that neither of them has. Single
//! instructions, random programs and the coverage all use these files.

use std::collections::BTreeMap;

use super::forms::{Form, Output};
use super::operands::Kind;

const PLAIN: &str = include_str!("plain.txt");
const MACHINE: &str = include_str!("machine.txt");
const ELSEWHERE: &str = include_str!("elsewhere.txt");

/// A line of the table, which stands for all its forms.
#[derive(Clone, Debug)]
pub struct Line {
    /// The section that it is in.
    pub section: String,
    /// Why it is there, in sections that give a reason.
    pub reason: String,
    /// The whole line, which serves as its name.
    pub text: String,
    /// The mnemonics that its pattern expands to.
    pub names: Vec<String>,
}

impl Line {
    /// The forms of a line of `plain.txt`.
    #[must_use]
    pub fn forms(&self) -> Vec<Form> {
        let (_, rest) = self.text.split_once(" : ").unwrap_or_default();
        let (kinds, body) = match rest.split_once(" | ") {
            Some((kinds, body)) => (kinds, Some(body)),
            None => (rest, None),
        };
        let (result, operands) = kinds.split_once(" = ").unwrap_or_default();
        let inputs: Vec<Kind> = operands.split(' ').map(kind).collect();
        let output = match result {
            "P" => Output::Predicate,
            "P2" => Output::Predicates,
            other => Output::Value(kind(other)),
        };
        let approximate = self.section == "approximate";
        self.names
            .iter()
            .map(|name| Form::new(name, body, &inputs, output, approximate))
            .collect()
    }

    /// Whether programs leave it out.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self.section.as_str(), "alone" | "approximate")
    }
}

/// Lines of `plain.txt`: instructions that compute from their operands alone.
#[must_use]
pub fn plain() -> Vec<Line> {
    lines(PLAIN)
}

/// Lines of `machine.txt`: instructions that need something around them.
#[must_use]
pub fn machine() -> Vec<Line> {
    lines(MACHINE)
}

/// Opcodes that the other two files do not have, each with the reason.
#[must_use]
pub fn elsewhere() -> Vec<(String, String)> {
    let line = |line: Line| {
        let words = line.text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        words
            .into_iter()
            .map(move |word| (word, line.section.clone()))
    };
    lines(ELSEWHERE).into_iter().flat_map(line).collect()
}

fn kind(word: &str) -> Kind {
    Kind::from_word(word).unwrap_or_else(|| panic!("`{word}` is no kind of operand"))
}

fn lines(text: &str) -> Vec<Line> {
    let mut words = BTreeMap::new();
    let (mut section, mut reason) = (String::new(), String::new());
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
        } else if let Some((word, alternatives)) = line.split_once(" := ") {
            words.insert(word.to_owned(), alternatives.to_owned());
        } else if let Some((name, why)) = line.strip_prefix('[').and_then(|l| l.split_once(']')) {
            section = name.to_owned();
            reason = why.trim().to_owned();
        } else {
            let pattern = line.split(" : ").next().unwrap_or_default();
            lines.push(Line {
                section: section.clone(),
                reason: reason.clone(),
                text: line.to_owned(),
                names: expand(pattern, &words),
            });
        }
    }
    lines
}

/// The words that a pattern expands to, in order.
fn expand(pattern: &str, words: &BTreeMap<String, String>) -> Vec<String> {
    let Some((head, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (choice, tail) = rest.split_once('}').unwrap_or((rest, ""));
    let choice = words.get(choice).map_or(choice, String::as_str);
    let tails = expand(tail, words);
    choice
        .split('|')
        .flat_map(|word| tails.iter().map(move |tail| format!("{head}{word}{tail}")))
        .collect()
}
