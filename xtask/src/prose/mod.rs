//! `cargo xtask prose`: whether the README and the book are in plain English, and their links lead
//! somewhere.
//!
//! A page is split into blocks (paragraphs, items of lists, cells of tables, headings) without code.
//! Each finding has the form `file:line: message`.

mod habits;
mod links;
mod markdown;

use std::path::{Path, PathBuf};
use std::{fs, io};

use markdown::{Kind, Page};

/// The file that compiles the examples of pages.
const EXAMPLES: &str = "tests/src/lib.rs";
/// Words of a sentence.
const SENTENCE_WORDS: usize = 30;
/// Lines of the README.
const README_LINES: usize = 150;
/// Words of a cell of the README's tables.
const README_CELL_WORDS: usize = 12;
/// Words of an entry of the changelog.
const ENTRY_WORDS: usize = 25;
/// Words of `docs/` without the decisions, as `wc -w` counts them.
const DOCS_WORDS: usize = 50_000;

/// What is wrong with the pages of the repository at `root`.
///
/// # Errors
/// A page cannot be read.
pub(crate) fn findings(root: &Path) -> io::Result<Vec<String>> {
    let pages = read_all(root)?;
    let tested = fs::read_to_string(root.join(EXAMPLES))?;
    let mut found = Vec::new();
    for page in &pages {
        match page.name.as_str() {
            "README.md" => {
                if page.lines > README_LINES {
                    let most = format!("line {}, at most {README_LINES}", page.lines);
                    found.push(page.at(page.lines, &most));
                }
                found.extend(long_blocks(page, Kind::Cell, README_CELL_WORDS));
            }
            "CHANGELOG.md" => found.extend(long_blocks(page, Kind::Item, ENTRY_WORDS)),
            _ => {}
        }
        for block in &page.blocks {
            for sentence in block.sentences() {
                let words = markdown::words(sentence);
                if words > SENTENCE_WORDS {
                    let most = format!("{words} words in a sentence, at most {SENTENCE_WORDS}");
                    found.push(page.at(block.line, &format!("{most}: {sentence}")));
                }
                let sentence_kinds = habits::of(sentence, page.tells_history());
                found.extend(
                    sentence_kinds
                        .map(|habit| page.at(block.line, &format!("{habit}: {sentence}"))),
                );
            }
        }
        found.extend(links::broken(page, &pages, root));
        found.extend(links::stale_paths(page, root));
        if page.has_rust && !tested.contains(&format!("\"{}\"", page.name)) {
            let message = format!("its examples are not in {EXAMPLES}, so nothing compiles them");
            found.push(page.at(1, &message));
        }
    }
    let is_counted = |page: &&Page| page.name.starts_with("docs/") && !page.is_decision();
    let words: usize = pages
        .iter()
        .filter(is_counted)
        .map(|page| page.all_words)
        .sum();
    if words > DOCS_WORDS {
        found.push(format!("docs/: {words} words, at most {DOCS_WORDS}"));
    }
    Ok(found)
}

/// The blocks of a kind that have more words than `most`.
fn long_blocks(page: &Page, kind: Kind, most: usize) -> impl Iterator<Item = String> {
    let blocks = page.blocks.iter().filter(move |block| block.kind == kind);
    let long = blocks.filter(move |block| markdown::words(&block.text) > most);
    long.map(move |block| {
        let words = markdown::words(&block.text);
        let message = format!(
            "{words} words in a cell or an entry, at most {most}: {}",
            block.text
        );
        page.at(block.line, &message)
    })
}

/// All pages, by name.
fn read_all(root: &Path) -> io::Result<Vec<Page>> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(PathBuf::from)
        .into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(root.join(path))?;
        Ok(Page::new(&path.to_string_lossy().replace('\\', "/"), &text))
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_plain_and_its_links_lead_somewhere() -> io::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = findings(&root)?;
        assert!(
            found.is_empty(),
            "{} findings\n{}",
            found.len(),
            found.join("\n")
        );
        Ok(())
    }

    #[test]
    fn cells_and_items_are_counted_apart() {
        let page = Page::new(
            "p.md",
            "| a b c | d |\n\n- one two three\n\nfour five six\n",
        );
        let cells: Vec<String> = long_blocks(&page, Kind::Cell, 2).collect();
        assert_eq!(
            cells,
            ["p.md:1: 3 words in a cell or an entry, at most 2: a b c"]
        );
        assert_eq!(long_blocks(&page, Kind::Item, 2).count(), 1);
        assert_eq!(long_blocks(&page, Kind::Item, 3).count(), 0);
    }
}
