//! A pass over tidy PTX that names what is copied where its copy is read.
//!
//! | copy | is what |
//! |---|---|
//! | `mov.b32`, `mov.b64` of a register | `asm!` reads and writes a register, and LLVM one of its own |
//! | `cvta.global`, `cvta.to.global` | an address, which is the same in the generic and the global space |
//!
//! The copy goes, and its source stands where it was read, if the copy is written once and that can
//! make no difference, for one of two reasons:
//!
//! - All that reads the copy follows it in its basic block, and nothing writes the source before the
//!   last of that. Of addresses and numbers, which no asynchronous instruction reads.
//! - The source is written once, before the first label, so it has one value. Of addresses alone:
//!   of numbers that live long, ptxas 13.0 makes other code (eight products on Hopper).
//!
//! In PTX for more than one architecture copies stay: without them ptxas orders the instructions of
//! five kernels otherwise on sm_90, and of two on sm_80. So do those of functions and of kernels with
//! holes, to which hosts add text.

use std::collections::HashMap;

use ptx_syntax::isa::{Effect, Opcode};

use crate::registers::{bodies, has_label, is_complete_kernel, is_declared_once, is_number, words};

/// LLVM's names of registers that may be copied.
const PREFIXES: [&str; 2] = ["%r", "%rd"];

/// Copies, and whether they are of addresses.
const COPIES: [(&str, bool); 4] = [
    ("mov.b32", false),
    ("mov.b64", false),
    ("cvta.global.u64", true),
    ("cvta.to.global.u64", true),
];

/// Instructions that read registers after the next ones have begun.
const ASYNCHRONOUS: [&str; 2] = ["wgmma.mma_async", "tcgen05"];

/// The text of a module, tidy, without copies that need not be. `portable`: whether it runs on more
/// than one architecture.
pub(crate) fn forward(ptx: &str, portable: bool) -> String {
    bodies(ptx, |head, body| {
        let is_own = |prefix: &&str| is_declared_once(body, prefix) || !body.contains(*prefix);
        if !portable && is_complete_kernel(head, body) && PREFIXES.iter().all(is_own) {
            Body::of(body).forwarded()
        } else {
            body.to_owned()
        }
    })
}

/// A line of a function.
struct Line<'a> {
    text: &'a str,
    block: usize,
}

/// Where a register is named, by lines.
#[derive(Default)]
struct Places {
    written: Vec<usize>,
    read: Vec<usize>,
    /// Read by an instruction that may still read it when the next one writes.
    held: bool,
    /// Named where it is not known what for.
    unknown: bool,
}

struct Body<'a> {
    lines: Vec<Line<'a>>,
    places: HashMap<String, Places>,
    /// The line of the first label.
    first_label: usize,
}

impl<'a> Body<'a> {
    fn of(body: &'a str) -> Self {
        let mut lines = Vec::new();
        let mut places: HashMap<String, Places> = HashMap::new();
        let (mut block, mut first_label) = (0, None);
        for (at, text) in body.lines().enumerate() {
            let code = text
                .split_once("//")
                .map_or(text, |(code, _)| code)
                .trim_end();
            let has_label = has_label(code);
            if has_label {
                first_label.get_or_insert(at);
            }
            block += usize::from(has_label);
            lines.push(Line { text, block });
            block += usize::from(words(code).any(|(_, word)| is_jump(word)));
            let written = written(code).filter(|_| code == text && !has_label);
            let is_held = ASYNCHRONOUS.iter().any(|begin| code.contains(begin));
            for (start, word) in words(text).filter(|(_, word)| is_register(word)) {
                let own = places.entry(word.to_owned()).or_default();
                match &written {
                    Some(written) if written.contains(&start) => own.written.push(at),
                    Some(_) => {
                        own.read.push(at);
                        own.held |= is_held;
                    }
                    None => own.unknown = true,
                }
            }
        }
        let first_label = first_label.unwrap_or(lines.len());
        Self {
            lines,
            places,
            first_label,
        }
    }

    fn forwarded(mut self) -> String {
        // The source of each register that goes, which may go itself, and lines that go.
        let mut sources: HashMap<String, String> = HashMap::new();
        let mut gone = vec![false; self.lines.len()];
        for (at, is_gone) in gone.iter_mut().enumerate() {
            let Some((to, from, is_address)) = copied(self.lines[at].text) else {
                continue;
            };
            // What it is a copy of by now.
            let from = sources.get(from).map_or(from, String::as_str).to_owned();
            if to != from && self.is_needless(at, to, &from, is_address) {
                let moved = self.places.remove(to).unwrap_or_default();
                let source = self.places.entry(from.clone()).or_default();
                source.read.retain(|line| *line != at);
                source.read.extend(moved.read);
                sources.insert(to.to_owned(), from);
                *is_gone = true;
            }
        }
        let mut out = String::new();
        for (line, _) in self.lines.iter().zip(gone).filter(|(_, is_gone)| !is_gone) {
            let mut done = 0;
            for (start, word) in words(line.text) {
                let mut source = sources.get(word);
                while let Some(next) = source.and_then(|source| sources.get(source)) {
                    source = Some(next);
                }
                if let Some(source) = source {
                    out.extend([&line.text[done..start], source]);
                    done = start + word.len();
                }
            }
            out.extend([&line.text[done..], "\n"]);
        }
        out
    }

    /// Whether `from` can be read in place of `to`, to which line `at` copies it.
    fn is_needless(&self, at: usize, to: &str, from: &str, is_address: bool) -> bool {
        let (Some(to), Some(from)) = (self.places.get(to), self.places.get(from)) else {
            return false;
        };
        let Some(last) = to.read.iter().max() else {
            return false;
        };
        if to.held || to.unknown || from.unknown || to.written != [at] {
            return false;
        }
        let block = self.lines[at].block;
        let follows = |line: &usize| *line > at && self.lines[*line].block == block;
        let is_between = |line: &usize| *line > at && line < last;
        if to.read.iter().all(follows) && !from.written.iter().any(is_between) {
            return true;
        }
        is_address && matches!(from.written[..], [line] if line < at && line < self.first_label)
    }
}

/// Whether the next instruction may be another than that of the next line behind this opcode.
fn is_jump(word: &str) -> bool {
    use Effect::{Calls, Ends, Jumps, Traps};
    let effect = Opcode::of(word).map(|opcode| opcode.facts().effect);
    matches!(effect, Some(Jumps | Calls | Ends | Traps))
}

/// Where in a line registers begin that an instruction writes: those of its first operand, even where
/// that is only read. Nothing unless the line is one instruction, or declares.
fn written(code: &str) -> Option<Vec<usize>> {
    if code.starts_with(".reg ") {
        return Some(Vec::new());
    }
    let instruction = code.strip_suffix(';').filter(|code| !code.contains(';'))?;
    let instruction = match instruction.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ')?.1,
        None => instruction,
    };
    if instruction.starts_with(['{', '.']) || instruction.starts_with("call") {
        return None;
    }
    let Some((_, operands)) = instruction.split_once([' ', '\t']) else {
        return Some(Vec::new());
    };
    // The address of a store.
    if operands.starts_with('[') {
        return Some(Vec::new());
    }
    let end = if operands.starts_with('{') { '}' } else { ',' };
    let first = operands.split(end).next()?;
    let start = first.as_ptr().addr() - code.as_ptr().addr();
    let registers = words(first).filter(|(_, word)| is_register(word));
    Some(registers.map(|(at, _)| start + at).collect())
}

/// The two registers of a copy that is not guarded, and whether it is of an address.
fn copied(line: &str) -> Option<(&str, &str, bool)> {
    let (mnemonic, operands) = line.strip_suffix(';')?.split_once([' ', '\t'])?;
    let &(_, is_address) = COPIES.iter().find(|(copy, _)| *copy == mnemonic)?;
    let (to, from) = operands.split_once(',')?;
    (is_register(to) && is_register(from)).then_some((to, from, is_address))
}

fn is_register(word: &str) -> bool {
    let mut numbers = PREFIXES
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix));
    numbers.any(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of a kernel with this body.
    fn kernel(body: &str) -> String {
        let declared = ".reg .b32\t%r<99>;\n.reg .b64\t%rd<9>;\n";
        format!(".version 7.8\n.visible .entry f(\n)\n{{\n{declared}{body}ret;\n}}\n")
    }

    const ADDRESS: &str = "ld.param.b64\t%rd1,[$a0];\n";

    #[test]
    fn what_is_copied_is_read_in_place_of_the_copy() {
        let cases = [
            (
                "mov.b32\t%r1,%r2;\nadd.s32\t%r2,%r1,%r1;\n",
                "add.s32\t%r2,%r2,%r2;\n",
            ),
            (
                "mov.b32\t%r1,%r2;\nmov.b32\t%r3,%r1;\nmov.b32 {%r4,%r5},%rd1;\nst.b32 [%rd2],%r3;\n",
                "mov.b32 {%r4,%r5},%rd1;\nst.b32 [%rd2],%r2;\n",
            ),
            // In a loop, since it does not outlive the round.
            (
                "$a:\nmov.b64\t%rd1,%rd2;\nadd.s64\t%rd2,%rd1,1;\n@%p1 bra\t$a;\n",
                "$a:\nadd.s64\t%rd2,%rd2,1;\n@%p1 bra\t$a;\n",
            ),
            (
                "cvta.global.u64\t%rd3,%rd2;\n@%p1 prefetch.global.L2 [%rd3+8];\n",
                "@%p1 prefetch.global.L2 [%rd2+8];\n",
            ),
            // An address that stays what it is.
            (
                "ld.param.b64\t%rd1,[$a0];\n$a:\ncvta.to.global.u64 %rd2,%rd1;\n$b:\n\
                 cvta.global.u64\t%rd3,%rd2;\nbra\t$c;\n$c:\nld.global.b32\t%r1,[%rd3];\nbra\t$a;\n",
                "ld.param.b64\t%rd1,[$a0];\n$a:\n$b:\n\
                 bra\t$c;\n$c:\nld.global.b32\t%r1,[%rd1];\nbra\t$a;\n",
            ),
        ];
        for (before, after) in cases {
            assert_eq!(forward(&kernel(before), false), kernel(after));
            assert_eq!(forward(&kernel(before), true), kernel(before));
        }
    }

    #[test]
    fn copies_that_may_differ_stay() {
        let mov = "mov.b32\t%r1,%r2;\n";
        let read = "st.b32 [%rd1],%r1;\n";
        let cvta = "cvta.to.global.u64\t%rd2,%rd1;\n";
        let load = "ld.global.b32\t%r1,[%rd2];\n";
        for body in [
            // The source is written before the copy is read, or may be.
            format!("{mov}add.s32\t%r2,%r2,1;\n{read}"),
            format!("{mov}@%p1 mov.b32\t%r2,0;\n{read}"),
            format!("{mov}ld.v2.b32\t{{%r3,%r2}},[%rd1];\n{read}"),
            format!("{mov}shfl.sync.up.b32 %r2|%p1,%r3,1,0,-1;\n{read}"),
            format!("$a:\n{read}{mov}add.s32\t%r2,%r2,1;\nbra\t$a;\n"),
            format!("{mov}{{ .reg .b32 t; mov.b32 %r2,t; }}\n{read}"),
            // The copy is written elsewhere, or read in another block.
            format!("{mov}mov.b32\t%r1,0;\n{read}"),
            format!("@%p1 mov.b32\t%r1,%r2;\n{read}"),
            format!("{mov}@%p1 bra\t$a;\n{read}$a:\n"),
            format!("{mov}$a:\n{read}"),
            format!("{mov}again: add.s32\t%r3,%r3,1;\n{read}"),
            format!("{mov}call f,(%r1);\n"),
            // Read until a wait that is further down.
            format!("{mov}wgmma.mma_async.f {{%r3}},{{%r1}},%rd1,1;\nmov.b32\t%r2,0;\n"),
            // A comment that means something, a scope of its own, no register.
            format!("{mov}{read}ld.global.b32 %r3,[%rd1]; // once %r1\n"),
            format!("{mov}{{ .reg .b32 %r<3>; {read} }}\n"),
            "mov.b32\t%r1,%tid.x;\nst.b32 [%rd1],%r1;\n".to_owned(),
            "mov.b32\t%r1,5;\nst.b32 [%rd1],%r1;\n".to_owned(),
            // An address that is written twice, in a loop, or behind its copy.
            format!("{ADDRESS}{cvta}$a:\n{load}add.s64\t%rd1,%rd1,4;\nbra\t$a;\n"),
            format!("$a:\n{ADDRESS}{cvta}bra\t$b;\n$b:\n{load}bra\t$a;\n"),
            format!("{cvta}{ADDRESS}$a:\n{load}"),
            // Another space's address is another number.
            format!("cvta.shared.u64\t%rd2,%rd1;\n{load}"),
            format!("cvta.to.shared.u64\t%rd2,%rd1;\n{load}"),
        ] {
            let text = kernel(&body);
            assert_eq!(forward(&text, false), text);
        }
    }

    #[test]
    fn functions_and_kernels_with_holes_stay() {
        let text = kernel("mov.b32\t%r1,%r2;\nst.b32 [%rd1],%r1;\n");
        for other in [
            text.replace(".visible .entry", ".func"),
            text.replace("ret;", "ret; // hole x"),
        ] {
            assert_eq!(forward(&other, false), other);
        }
    }
}
