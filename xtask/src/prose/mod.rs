//! `cargo xtask prose`: whether the README, the book and the comments of the code are in plain
//! English, and the links of pages lead somewhere.
//!
//! A page is split into blocks (paragraphs, items of lists, cells of tables, headings) without code.
//! Each finding has the form `file:line: message`.

mod comments;
mod habits;
mod links;
mod markdown;
mod operations;

use std::path::{Path, PathBuf};
use std::{fs, io};

use markdown::{Kind, Page};

/// The file that compiles the examples of pages.
const EXAMPLES: &str = "tests/src/lib.rs";
/// Folders that cargo and Git write, and texts that tests compare.
const NO_PROSE: [&str; 3] = ["target", ".git", "fixtures"];
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
        found.extend(riddles(page));
        found.extend(links::broken(page, &pages, root));
        found.extend(links::stale_paths(page, root));
        if page.has_rust && !tested.contains(&format!("\"{}\"", page.name)) {
            let message = format!("its examples are not in {EXAMPLES}, so nothing compiles them");
            found.push(page.at(1, &message));
        }
    }
    for path in files(root, "rs")? {
        let source = fs::read_to_string(root.join(&path))?;
        found.extend(riddles(&comments::page(&path, &source)));
    }
    found.extend(operations::missing(root)?);
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

/// The sentences of `page` that are long or have a habit.
fn riddles(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    for block in &page.blocks {
        for (at, sentence) in block.sentences().enumerate() {
            let words = markdown::words(sentence);
            if words > SENTENCE_WORDS {
                let most = format!("{words} words in a sentence, at most {SENTENCE_WORDS}");
                found.push(page.at(block.line, &format!("{most}: {sentence}")));
            }
            let habits = habits::of(sentence, page.genre(at == 0));
            found.extend(habits.map(|habit| page.at(block.line, &format!("{habit}: {sentence}"))));
        }
    }
    found
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
    let mut names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(String::from)
        .to_vec();
    names.extend(
        files(&root.join("docs"), "md")?
            .into_iter()
            .map(|name| format!("docs/{name}")),
    );
    let read = |name: &String| Ok(Page::new(name, &fs::read_to_string(root.join(name))?));
    names.iter().map(read).collect()
}

/// The paths below `root` that end in `.end`, in order.
fn files(root: &Path, end: &str) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                let name = entry.file_name();
                if !NO_PROSE.iter().any(|no_prose| name == *no_prose) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == end) {
                paths.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    paths.sort();
    Ok(paths)
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
