//! Cutting kernels out of the text of a module.
//!
//! The driver compiles all that it loads, so kernels are loaded one at a time. The text of one
//! kernel is the module's with the lines of all other entries left empty, so that line numbers in
//! reports and logs are those of the file.
//!
//! The cut is made on text, before parsing, because a first launch waits for it. To parse 1 MB
//! takes 140 ms on a busy machine. `sm_90a/gemm.ptx` has 7 MB, one kernel of it 20 to 140 KB.
//!
//! A file can hold kernels of bf16 and of f16 as one text ([`crate::twin`]).

use std::ops::Range;
use std::sync::Arc;

use crate::manifest::KernelEntry;
use crate::twin::as_f16;

/// The text of a module, and where its entries are.
#[derive(Debug)]
pub struct Cut {
    text: Arc<str>,
    entries: Vec<EntryLines>,
}

impl Cut {
    /// Finds the entries of `text`. They begin and end on lines of their own, as compilers write
    /// them.
    pub fn new(text: Arc<str>) -> Self {
        Self {
            entries: entries(&text),
            text,
        }
    }

    /// The whole text.
    pub fn text(&self) -> Arc<str> {
        self.text.clone()
    }

    /// The text of one kernel: the module's, with the lines of every other entry empty.
    pub fn one_kernel(&self, kernel: &KernelEntry) -> String {
        let own = kernel.text_of.as_ref().unwrap_or(&kernel.name);
        let mut alone = String::with_capacity(self.text.len() / 4);
        let mut kept = 0;
        for entry in &self.entries {
            alone.push_str(&self.text[kept..entry.bytes.start]);
            match (*entry.name == **own, &kernel.text_of) {
                (false, _) => alone.extend(std::iter::repeat_n('\n', entry.count)),
                (true, None) => alone.push_str(&self.text[entry.bytes.clone()]),
                (true, Some(_)) => alone.push_str(&as_f16(&self.text[entry.bytes.clone()])),
            }
            kept = entry.bytes.end;
        }
        alone.push_str(&self.text[kept..]);
        alone
    }

    /// The lines of the entry `name`.
    pub fn entry(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| *entry.name == *name)?;
        Some(&self.text[entry.bytes.clone()])
    }

    /// The text without the lines of entries for which `is_left_out` holds.
    pub fn without(&self, is_left_out: impl Fn(&str) -> bool) -> String {
        let mut rest = String::with_capacity(self.text.len());
        let mut kept = 0;
        for entry in self.entries.iter().filter(|entry| is_left_out(&entry.name)) {
            rest.push_str(&self.text[kept..entry.bytes.start]);
            kept = entry.bytes.end;
        }
        rest + &self.text[kept..]
    }

    /// The text with all of these kernels, those too that are stated as another one's text.
    pub fn with_all(&self, kernels: &[KernelEntry]) -> String {
        let of_others = kernels.iter().filter_map(|kernel| kernel.text_of.as_ref());
        let added = of_others.filter_map(|of| self.entry(of)).map(as_f16);
        std::iter::once(self.text.to_string())
            .chain(added)
            .collect()
    }
}

/// Where an entry is in the text of a module: its lines, whole.
#[derive(Debug, PartialEq, Eq)]
struct EntryLines {
    name: Box<str>,
    bytes: Range<usize>,
    count: usize,
}

/// The entries of a text, in order.
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

    fn kernel(name: &str, text_of: Option<&str>) -> KernelEntry {
        KernelEntry {
            name: name.to_owned(),
            text_of: text_of.map(str::to_owned),
            ..KernelEntry::default()
        }
    }

    #[test]
    fn a_kernel_of_f16_is_read_from_the_text_of_bf16() {
        let text = "\
.target sm_90
.global .align 4 .b8 bf16_table[8];
.visible .entry k_bf16()
{
    cvt.rn.bf16x2.f32 %r1, %f1, %f2;
}
.visible .entry k_f32()
{
}
";
        let own = kernel("k_f16", Some("k_bf16"));
        let cut = Cut::new(text.into());
        let want = "\
.target sm_90
.global .align 4 .b8 bf16_table[8];
.visible .entry k_f16()
{
    cvt.rn.f16x2.f32 %r1, %f1, %f2;
}



";
        assert_eq!(cut.one_kernel(&own), want);
        let all = cut.with_all(&[own]);
        let of_bf16 = cut.entry("k_bf16").expect("it is there");
        assert_eq!(all, text.to_owned() + &as_f16(of_bf16));
        assert_eq!(Cut::new(all.into()).without(|name| name == "k_f16"), text);
    }

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
        assert_eq!(cut.one_kernel(&kernel("first", None)), blank(12, 15));
        assert_eq!(cut.one_kernel(&kernel("first_too", None)), blank(6, 11));
    }
}
