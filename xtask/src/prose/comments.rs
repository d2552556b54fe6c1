//! The comments of a Rust file as a page. Lines keep their numbers, and code becomes empty lines.

use super::markdown::Page;

/// Blanks before a comment that begins a block of code.
const CODE_BLANKS: &str = "   ";

/// The page of `source`. Comments behind code are not on it.
pub(super) fn page(name: &str, source: &str) -> Page {
    let mut begins_block = true;
    let mut in_code = false;
    let mut text = String::new();
    for line in source.lines() {
        let comment = comment(line.trim());
        in_code = comment.starts_with(CODE_BLANKS) && (begins_block || in_code);
        begins_block = comment.trim().is_empty();
        if !in_code {
            text += comment.trim_start();
        }
        text.push('\n');
    }
    Page::new(name, &text)
}

/// The text of a comment; empty for code.
fn comment(line: &str) -> &str {
    let marks = ["//!", "///", "//"];
    let text = marks.into_iter().find_map(|mark| line.strip_prefix(mark));
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_keep_their_lines() {
        let source = "//! One\n//! two.\n//!\n//!    code\nfn f() { // no\n    // Three.\n}\n";
        let page = page("a.rs", source);
        let blocks = page.blocks.iter();
        let blocks: Vec<_> = blocks
            .map(|block| (block.line, block.text.as_str()))
            .collect();
        assert_eq!(blocks, [(1, "One two."), (6, "Three.")]);
    }
}
