//! Cutting one kernel out of the text of a module.
//!
//! The driver compiles all that it loads, so kernels are loaded one at a time. The text of one
//! kernel is the module's with the lines of all other entries left empty, so that line numbers in
//! reports and logs are those of the file.
//!
//! The cut is made on text, before parsing, because a first launch waits for it. To parse 1 MB
//! takes 140 ms on a busy machine. `sm_90a/gemm.ptx` has 7 MB, one kernel of it 20 to 140 KB.

use std::ops::Range;
use std::sync::Arc;

/// The text of a module, and where its entries are.
pub(super) struct Cut {
    text: Arc<str>,
    entries: Vec<EntryLines>,
}

impl Cut {
    pub(super) fn new(text: Arc<str>) -> Self {
        Self {
            entries: entries(&text),
            text,
        }
    }

    /// The whole text.
    pub(super) fn text(&self) -> Arc<str> {
        self.text.clone()
    }

    /// The text with the lines of every entry but `name` empty.
    pub(super) fn one_kernel(&self, name: &str) -> String {
        let mut alone = String::with_capacity(self.text.len() / 4);
        let mut kept = 0;
        for other in self.entries.iter().filter(|entry| *entry.name != *name) {
            alone.push_str(&self.text[kept..other.bytes.start]);
            alone.extend(std::iter::repeat_n('\n', other.count));
            kept = other.bytes.end;
        }
        alone.push_str(&self.text[kept..]);
        alone
    }
}

/// Where an entry is in the text of a module: its lines, whole.
#[derive(Debug, PartialEq, Eq)]
struct EntryLines {
    name: Box<str>,
    bytes: Range<usize>,
    count: usize,
}

/// The entries of a text, in order. They begin and end on lines of their own, as compilers write
/// them; [`super::embedded`] looks at what is cut out.
fn entries(text: &str) -> Vec<EntryLines> {
    let mut entries: Vec<EntryLines> = Vec::new();
    let (mut depth, mut end) = (0_usize, 0);
    // Whether the last entry goes on.
    let mut is_open = false;
    for line in text.split_inclusive('\n') {
        let begin = end;
        end += line.len();
        let code = line.split("//").next().unwrap_or_default();
        let head = code.split_once(".entry");
        if let Some((_, head)) = head.filter(|_| depth == 0 && !is_open) {
            let mut words = head.trim_start().split(['(', ' ', '\t', '{', '\n']);
            entries.push(EntryLines {
                name: words.next().unwrap_or_default().into(),
                bytes: begin..end,
                count: 0,
            });
            is_open = true;
        }
        let count = |brace| code.bytes().filter(|&byte| byte == brace).count();
        depth = (depth + count(b'{')).saturating_sub(count(b'}'));
        if let Some(entry) = entries.last_mut().filter(|_| is_open) {
            entry.bytes.end = end;
            entry.count += 1;
            is_open = depth > 0 || !code.contains('}');
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kernel_is_cut_out_with_what_is_shared_and_its_line_numbers() {
        let text = "\
.version 7.0
.target sm_75
.global .align 4 .b8 table[8]; // { not a body
.func helper() {
    { ret; }
}
.visible .entry first(
    .param .u64 x
)
{
    { ret; }
}
.visible .entry first_too()
{
    ret;
}
";
        let blank = |first: usize, last: usize| -> String {
            let lines = text.lines().enumerate();
            let lines = lines.map(|(i, line)| {
                if (first..=last).contains(&i) {
                    ""
                } else {
                    line
                }
            });
            lines.map(|line| format!("{line}\n")).collect()
        };
        let cut = Cut::new(text.into());
        assert_eq!(cut.one_kernel("first"), blank(12, 15));
        assert_eq!(cut.one_kernel("first_too"), blank(6, 11));
    }
}
