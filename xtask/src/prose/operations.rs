//! Whether each operation is in the README, in a chapter, in the corpus and in tests.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use super::files;

/// The operations that are missing somewhere.
///
/// # Errors
/// A file cannot be read.
pub(super) fn missing(root: &Path) -> io::Result<Vec<String>> {
    let readme = fs::read_to_string(root.join("README.md"))?;
    let chapters = all(root, "docs", "md")?;
    let corpus = all(root, "tests/src/corpus", "rs")?;
    let tests = all(root, "tests/tests", "rs")?;
    let library = fs::read_to_string(root.join("host/src/lib.rs"))?;
    let exported = words(&library);
    let made = corpus.split("::new(").map(last_word);
    let mut names: BTreeSet<&str> = made.filter(|name| exported.contains(name)).collect();
    names.extend(in_table(&readme));
    let places = [
        ("host/src/lib.rs", exported),
        ("docs/", words(&chapters)),
        ("tests/src/corpus/", words(&corpus)),
        ("tests/tests/", words(&tests)),
    ];
    let mut found = Vec::new();
    for (place, words) in places {
        let missing = names.iter().filter(|name| !words.contains(*name));
        found.extend(missing.map(|name| format!("{place}: the operation `{name}` is missing")));
    }
    Ok(found)
}

/// The operations in the README's table.
fn in_table(readme: &str) -> Vec<&str> {
    let (_, section) = readme.split_once("## Operations").unwrap_or_default();
    let rows = section.lines().take_while(|line| !line.starts_with("## "));
    let cells = rows.filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

/// The texts of a folder, one behind the other.
fn all(root: &Path, folder: &str, end: &str) -> io::Result<String> {
    let folder = root.join(folder);
    let paths = files(&folder, end)?;
    paths
        .iter()
        .map(|path| fs::read_to_string(folder.join(path)))
        .collect()
}

fn words(text: &str) -> BTreeSet<&str> {
    let words = text.split(|mark| !is_of_word(mark));
    words.filter(|word| !word.is_empty()).collect()
}

fn last_word(text: &str) -> &str {
    let start = text.trim_end_matches(is_of_word).len();
    &text[start..]
}

fn is_of_word(mark: char) -> bool {
    mark.is_alphanumeric() || mark == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cells_of_the_table_are_operations() {
        let readme = "`A`\n## Operations\n| operation | dtypes |\n|---|---|\n| `B`, `C` | `d` |\n\n\
                      ## Limits\n| `E` | |\n";
        assert_eq!(in_table(readme), ["B", "C"]);
    }
}
