//! Edits of a kernel's text, line by line, so that line numbers do not change.
//!
//! A pattern is compared with a whole line, without its comment, with single blanks and one blank
//! after each comma. In a pattern, `<name>` stands for one operand and `<name*>` for any text; the
//! same name stands for the same text, and the replacement may use it. So patterns do not depend on
//! register numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One edit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The pattern.
    pub(crate) find: String,
    /// Which of the matching lines to edit, counted from 1; all if empty.
    #[serde(default)]
    pub(crate) nth: Vec<usize>,
    /// The replacement; if empty, the line is deleted.
    pub(crate) with: String,
}

type Names = BTreeMap<String, String>;

/// Applies edits to a text.
///
/// # Errors
/// A pattern that matches fewer lines than `nth` names, or an edit that changes nothing.
pub(crate) fn apply(text: &str, edits: &[Edit]) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for edit in edits {
        let pattern = squeeze(&edit.find);
        let matched: Vec<(usize, Names)> = lines
            .iter()
            .enumerate()
            .filter_map(|(index, line)| Some((index, matches(&pattern, &squeeze(line))?)))
            .collect();
        let wanted: Vec<usize> = match edit.nth[..] {
            [] => (1..=matched.len()).collect(),
            _ => edit.nth.clone(),
        };
        if wanted.is_empty() || wanted.iter().any(|nth| *nth == 0 || *nth > matched.len()) {
            let found = matched.len();
            return Err(format!(
                "`{pattern}`: {found} lines match, wanted {wanted:?}"
            ));
        }
        for nth in wanted {
            let (index, names) = &matched[nth - 1];
            let before = squeeze(&lines[*index]);
            let after = fill(&edit.with, names)?;
            if before == after {
                return Err(format!("`{pattern}` is replaced by itself"));
            }
            lines[*index] = after;
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// A line without its comment, with single blanks and one blank after each comma.
fn squeeze(line: &str) -> String {
    let code = line.split("//").next().unwrap_or_default();
    let code = code.replace(',', ", ");
    code.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the placeholders of a pattern stand for, if it matches the whole line.
fn matches(pattern: &str, line: &str) -> Option<Names> {
    let mut names = Names::new();
    extend(pattern, line, &mut names).then_some(names)
}

fn extend(pattern: &str, line: &str, names: &mut Names) -> bool {
    let Some((literal, name, rest)) = placeholder(pattern) else {
        return pattern == line;
    };
    let Some(line) = line.strip_prefix(literal) else {
        return false;
    };
    let (name, longest) = match name.strip_suffix('*') {
        Some(name) => (name, line.len()),
        None => {
            let end = line.find([' ', ',', ';', '[', ']', '{', '}']);
            (name, end.unwrap_or(line.len()))
        }
    };
    if let Some(known) = names.get(name) {
        let known = known.clone();
        return line
            .strip_prefix(known.as_str())
            .is_some_and(|tail| extend(rest, tail, names));
    }
    for end in (1..=longest)
        .rev()
        .filter(|end| line.is_char_boundary(*end))
    {
        names.insert(name.to_owned(), line[..end].to_owned());
        if extend(rest, &line[end..], names) {
            return true;
        }
        names.remove(name);
    }
    false
}

/// The text before the first placeholder, the placeholder's name, and the rest.
fn placeholder(pattern: &str) -> Option<(&str, &str, &str)> {
    let (literal, tail) = pattern.split_once('<')?;
    let (name, rest) = tail.split_once('>')?;
    Some((literal, name, rest))
}

fn fill(replacement: &str, names: &Names) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = replacement;
    while let Some((literal, name, tail)) = placeholder(rest) {
        let value = names.get(name);
        let value = value.ok_or_else(|| format!("`{replacement}` names <{name}>, which is new"))?;
        out += literal;
        out += value;
        rest = tail;
    }
    Ok(out + rest)
}

#[test]
fn a_pattern_takes_operands_and_gives_them_back() {
    let edit = |find: &str, nth: &[usize], with: &str| Edit {
        find: find.into(),
        nth: nth.to_vec(),
        with: with.into(),
    };
    let text = "\tadd.s32 \t%r1, %r2, 4; // one\n\tbar.sync 0;\n\tadd.s32 \t%r3, %r3, 4;\n";
    let got = apply(text, &[edit("add.s32 <d>, <d>, 4;", &[], "<d>;")]).unwrap();
    assert_eq!(
        got,
        "\tadd.s32 \t%r1, %r2, 4; // one\n\tbar.sync 0;\n%r3;\n"
    );
    let got = apply(text, &[edit("add.s32 <a*>, 4;", &[1], "")]).unwrap();
    assert_eq!(got, "\n\tbar.sync 0;\n\tadd.s32 \t%r3, %r3, 4;\n");
    assert!(apply(text, &[edit("bar.sync <n>;", &[2], "")]).is_err());
    assert!(apply(text, &[edit("bar.sync 0;", &[], "bar.sync 0;")]).is_err());
    assert!(apply(text, &[edit("bar.sync 0;", &[], "<n>")]).is_err());
}
