//! Markdown as blocks of prose, without code.

use super::habits::Genre;

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// Its path in the repository.
    pub name: String,
    /// Its number of lines.
    pub lines: usize,
    /// Its words with code and marks, as `wc -w` counts them.
    pub all_words: usize,
    /// Whether it has examples in Rust.
    pub has_rust: bool,
    /// Its prose.
    pub blocks: Vec<Block>,
    /// The names by which links name its headings.
    pub anchors: Vec<String>,
    /// Its links: line and target.
    pub links: Vec<(usize, String)>,
    /// The code in its text that may be a path: line and path.
    pub paths: Vec<(usize, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Item,
    Cell,
    Heading,
}

/// A paragraph, an item of a list, a cell of a table or a heading.
#[derive(Debug)]
pub(super) struct Block {
    pub line: usize,
    pub kind: Kind,
    /// Code in it is one word, links are their texts.
    pub text: String,
}

impl Page {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let mut page = Self {
            name: name.to_owned(),
            lines: text.lines().count(),
            all_words: text.split_whitespace().count(),
            has_rust: text.lines().any(|line| line.starts_with("```rust")),
            blocks: Vec::new(),
            anchors: Vec::new(),
            links: Vec::new(),
            paths: Vec::new(),
        };
        let mut fence = None;
        let mut in_comment = false;
        let mut begins_block = true;
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            let line = line.trim();
            let marks = line.chars().take_while(|&mark| mark == '`').count();
            match fence {
                Some(open) if marks >= open => (fence, begins_block) = (None, true),
                Some(_) => {}
                None if marks >= 3 => fence = Some(marks),
                None if in_comment || line.starts_with("<!--") => {
                    in_comment = !line.contains("-->");
                    begins_block = true;
                }
                None => begins_block = page.add(number, line, begins_block),
            }
        }
        for block in &mut page.blocks {
            block.text = plain(&block.text);
        }
        page
    }

    /// Adds a line, and returns whether the next one begins a block.
    fn add(&mut self, number: usize, line: &str, begins_block: bool) -> bool {
        self.links
            .extend(targets(line).map(|target| (number, target)));
        let code = line.split('`').skip(1).step_by(2);
        let paths = code.filter(|code| code.contains('/') && !code.contains(' '));
        self.paths
            .extend(paths.map(|path| (number, path.to_owned())));
        if line.is_empty() {
            return true;
        }
        if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim();
            self.push(number, Kind::Heading, heading);
            self.name_anchor(heading);
            return true;
        }
        if let Some(row) = line.strip_prefix('|') {
            let is_cell =
                |cell: &&str| !cell.is_empty() && !cell.trim_matches([':', '-']).is_empty();
            let row = row.replace("\\|", "\u{a6}");
            let cells = row.split('|').map(str::trim).filter(is_cell);
            cells.for_each(|cell| self.push(number, Kind::Cell, cell));
            return true;
        }
        let item = line
            .strip_prefix("- ")
            .or_else(|| line.strip_prefix("* "))
            .or_else(|| {
                let rest = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
                rest.strip_prefix(". ").filter(|_| rest.len() < line.len())
            });
        match self.blocks.last_mut() {
            Some(block) if !begins_block && item.is_none() => {
                block.text.push(' ');
                block.text += line;
            }
            _ => match item {
                Some(item) => self.push(number, Kind::Item, item),
                None => self.push(number, Kind::Text, line),
            },
        }
        false
    }

    fn push(&mut self, line: usize, kind: Kind, text: &str) {
        let text = text.to_owned();
        self.blocks.push(Block { line, kind, text });
    }

    /// A second heading of one name has `-1` behind it.
    fn name_anchor(&mut self, heading: &str) {
        let name = slug(&without_links(&heading.replace('`', "")));
        let is_same = |anchor: &&String| match anchor.strip_prefix(&name) {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix('-')
                .is_some_and(|rest| rest.parse::<u32>().is_ok()),
            None => false,
        };
        let count = self.anchors.iter().filter(is_same).count();
        self.anchors.push(match count {
            0 => name,
            count => format!("{name}-{count}"),
        });
    }

    /// Whether it is a record of what was tried.
    pub(super) fn is_decision(&self) -> bool {
        self.name.starts_with("docs/decisions/")
    }

    /// The genre of a sentence, which may be the first of a block.
    pub(super) fn genre(&self, is_first: bool) -> Genre {
        if self.name.ends_with(".rs") {
            Genre::Code { is_first }
        } else if self.name == "CHANGELOG.md" || self.is_decision() {
            Genre::History
        } else {
            Genre::Chapter
        }
    }

    /// A finding at a line.
    pub(super) fn at(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.name)
    }
}

impl Block {
    /// Its sentences: each ends with a full stop, a question or exclamation mark before a blank.
    pub(super) fn sentences(&self) -> impl Iterator<Item = &str> {
        let mut rest = self.text.as_str();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let ends = rest
                .char_indices()
                .filter(|(_, mark)| matches!(mark, '.' | '!' | '?'));
            let mut ends = ends.map(|(at, _)| {
                // Marks that close something belong to the sentence.
                let closing = rest[at + 1..]
                    .chars()
                    .take_while(|mark| ")*\"'_".contains(*mark));
                at + 1 + closing.count()
            });
            let end = ends
                .find(|&end| rest[end..].starts_with(' '))
                .unwrap_or(rest.len());
            let (sentence, after) = rest.split_at(end);
            rest = after.trim_start();
            Some(sentence)
        })
    }
}

/// Words that have a letter or a digit.
pub(super) fn words(text: &str) -> usize {
    let words = text.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

/// A heading's name in links, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let is_kept = |mark: &char| mark.is_alphanumeric() || matches!(mark, ' ' | '-' | '_');
    let kept = heading.chars().filter(is_kept).flat_map(char::to_lowercase);
    kept.map(|mark| if mark == ' ' { '-' } else { mark })
        .collect()
}

/// The targets of a line's links.
fn targets(line: &str) -> impl Iterator<Item = String> {
    let mut without_code = String::new();
    for (at, part) in line.split('`').enumerate() {
        without_code += if at % 2 == 0 { part } else { "code" };
    }
    let links: Vec<String> = without_code
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect();
    links.into_iter()
}

/// Text without the marks of links and emphasis. Code is kept as one word.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            out.extend(
                part.chars()
                    .filter(|mark| mark.is_alphanumeric() || "-_".contains(*mark)),
            );
            continue;
        }
        out += &part.replace("**", "");
    }
    without_links(&out)
}

/// Text with the texts of links in place of links.
fn without_links(text: &str) -> String {
    let mut out = text.to_owned();
    while let Some((before, rest)) = out.split_once("](") {
        let Some((_, after)) = rest.split_once(')') else {
            break;
        };
        let Some(open) = before.rfind('[') else { break };
        let mark = before[..open].trim_end_matches('!').len();
        out = format!("{}{}{after}", &before[..mark], &before[open + 1..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &Page) -> Vec<&str> {
        page.blocks
            .iter()
            .map(|block| block.text.as_str())
            .collect()
    }

    #[test]
    fn a_page_is_split_into_blocks_without_code() {
        let text = "# A `b` c\n\nOne [two](x.md#y)\nthree `a b`.\n- item\n  more\n\n```rust\ncode\n```\n\
                    | a | b |\n|---|--:|\n| 1 | 2 |\n<!-- no\nno -->\nlast\n";
        let page = Page::new("p.md", text);
        let want = [
            "A b c",
            "One two three ab.",
            "item more",
            "a",
            "b",
            "1",
            "2",
            "last",
        ];
        assert_eq!(texts(&page), want);
        let lines: Vec<usize> = page.blocks.iter().map(|block| block.line).collect();
        assert_eq!(lines, [1, 3, 5, 11, 11, 13, 13, 16]);
        assert_eq!(page.links, [(3, "x.md#y".to_owned())]);
        assert_eq!(page.anchors, ["a-b-c"]);
    }

    #[test]
    fn a_sentence_ends_at_a_mark_before_a_blank() {
        let block = Block {
            line: 1,
            kind: Kind::Text,
            text: "It takes 1.5 s. (Or 2.) Why?".into(),
        };
        let sentences: Vec<&str> = block.sentences().collect();
        assert_eq!(sentences, ["It takes 1.5 s.", "(Or 2.)", "Why?"]);
        assert_eq!(words("a – 1.5 b"), 3);
    }

    #[test]
    fn headings_of_one_name_are_counted() {
        let page = Page::new("p.md", "# A\n## B: c\n## A\n");
        assert_eq!(page.anchors, ["a", "b-c", "a-1"]);
    }
}
