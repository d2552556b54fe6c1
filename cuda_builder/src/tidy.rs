//! Shortens the PTX text without changing its meaning.
//!
//! PTX is committed, embedded in programs, and compiled by the driver while a program waits, so its
//! size matters. This pass removes two fifths of LLVM's text, and nothing that a reader needs:
//!
//! | in LLVM's text | what remains |
//! |---|---|
//! | comments, blank lines, indentation | nothing, except `// hole ..`: where fragments go, and `// once`: what is read once |
//! | blanks after commas and before the tab after a mnemonic | nothing; in `asm!` a blank, no tab |
//! | the function in names of parameters, `gemm_finish_bf16_param_0` | `$a0` |
//! | labels of a function, `$L__BB12_3` | `$a` to `$z`, `$A` to `$Z`, then two letters, `aA` to `ZZ` |
//! | `.ptr .align 1`, which promises nothing | nothing |
//! | `.uni` of a jump without a condition: threads that are together stay so anyway | nothing |
//! | bits of an f32, `0f3F000000`, where decimals say it shorter and as exactly | `0.5` |
//! | `mov.b32 %r7,31;` for an operand that may be a constant | the operand `31` ([`crate::constants`]) |
//!
//! Parameters and labels are local to their function, and names from Rust contain no `$`, so the
//! short names are as unique as the long ones. Labels have no digits, parameters have. Labels of two
//! letters end in a capital, so they are no mnemonics (`or`), and none is a word of the module.

use std::collections::{HashMap, HashSet};

use ptx_syntax::ast::READS_ONCE;

use crate::registers::words;

/// The beginnings of comments that have a meaning: they mark a hole, and what is read once.
const MEANT: [&str; 2] = ["// hole ", READS_ONCE];

/// Returns the shortened text of a module.
pub(crate) fn tidy(ptx: &str) -> String {
    let mut tidy = String::with_capacity(ptx.len());
    let mut param = String::new();
    let taken: HashSet<&str> = words(ptx).map(|(_, word)| word).collect();
    let mut labels = Labels::new(&taken);
    for line in ptx.lines() {
        // A string may contain anything, so a line with one is kept as it is.
        if line.contains('"') {
            tidy.push_str(line.trim_end());
            tidy.push('\n');
            continue;
        }
        let comment = line
            .find("//")
            .filter(|&start| !MEANT.iter().any(|meant| line[start..].starts_with(meant)));
        let code = comment.map_or(line, |start| &line[..start]).trim();
        if code.is_empty() {
            continue;
        }
        if let Some(function) = function(code) {
            param = format!("{function}_param_");
            labels = Labels::new(&taken);
        }
        let code = code.replace(" \t", "\t").replace(", ", ",");
        let code = code.replace(" .ptr .align 1 ", " ");
        let code = match code.strip_prefix("bra.uni\t") {
            Some(label) => format!("bra\t{label}"),
            None => code,
        };
        let code = renamed(&code, &param, |_| Some(0), |number| format!("$a{number}"));
        let of_function = |rest: &str| {
            let digits = digits(rest);
            rest[digits..].starts_with('_').then_some(digits + 1)
        };
        let code = renamed(&code, "$L__BB", of_function, |number| labels.short(number));
        tidy.push_str(&decimal(&code).unwrap_or(code));
        tidy.push('\n');
    }
    tidy
}

/// The name of the function whose declaration begins in this line.
fn function(line: &str) -> Option<&str> {
    let after = match (line.split_once(".entry "), line.split_once(".func ")) {
        (Some((_, after)), _) => after,
        // The return value is in parentheses before the name.
        (None, Some((_, after))) => after.rsplit(") ").next()?,
        (None, None) => return None,
    };
    let name = after.trim_start();
    let end = name.find(|c| !is_of_name(c)).unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

pub(crate) fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$%".contains(c)
}

/// The number of digits at the beginning of `text`.
fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len())
}

/// Returns `line` with each name that consists of `prefix` and a number in place of which there is
/// what `short` makes of the number. `skip` returns the length of what is between the prefix and the
/// number, or `None` where it is a different name.
fn renamed(
    line: &str,
    prefix: &str,
    skip: impl Fn(&str) -> Option<usize>,
    mut short: impl FnMut(&str) -> String,
) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(prefix).filter(|_| !prefix.is_empty()) {
        let (before, name) = (&rest[..at], &rest[at + prefix.len()..]);
        let number = skip(name).map(|skip| name[skip..].split_at(digits(&name[skip..])));
        let number = number.filter(|(number, after)| {
            !before.ends_with(is_of_name) && !number.is_empty() && !after.starts_with(is_of_name)
        });
        out.push_str(before);
        match number {
            Some((number, _)) => out.push_str(&short(number)),
            None => out.push_str(prefix),
        }
        rest = number.map_or(name, |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// The short names of a function's labels, in the order in which they are named first.
struct Labels<'a> {
    taken: &'a HashSet<&'a str>,
    names: HashMap<String, String>,
    /// How many names were given, or are taken.
    next: usize,
}

impl<'a> Labels<'a> {
    fn new(taken: &'a HashSet<&'a str>) -> Self {
        let names = HashMap::new();
        Self {
            taken,
            names,
            next: 0,
        }
    }

    fn short(&mut self, number: &str) -> String {
        if let Some(name) = self.names.get(number) {
            return name.clone();
        }
        loop {
            let name = label(self.next);
            self.next += 1;
            if !self.taken.contains(name.as_str()) {
                self.names.insert(number.to_owned(), name.clone());
                return name;
            }
        }
    }
}

/// `$a` to `$Z`, `aA` to `ZA`, `aB` to `ZZ`, then with more letters behind a `$`.
fn label(number: usize) -> String {
    const ONE: usize = 52;
    const TWO: usize = ONE * 26;
    match number {
        ONE.. if number - ONE < TWO => {
            let second = letters((number - ONE) / ONE).to_uppercase();
            letters((number - ONE) % ONE) + &second
        }
        ONE.. => format!("${}", letters(number - TWO)),
        _ => format!("${}", letters(number)),
    }
}

/// A number by letters: `a` to `z`, `A` to `Z`, `aa`, `ba`.
fn letters(mut number: usize) -> String {
    const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut out = String::new();
    loop {
        out.push(char::from(LETTERS[number % LETTERS.len()]));
        if number < LETTERS.len() {
            return out;
        }
        number = number / LETTERS.len() - 1;
    }
}

/// An instruction with numbers of f32 in decimals, where it has such.
fn decimal(code: &str) -> Option<String> {
    let (head, operands) = code.split_once('\t')?;
    // Of a register without a type a decimal would be the bits of an f64; 0 is 0 of any type.
    let is_float = head.ends_with(".f32");
    if !(is_float || head.ends_with("mov.b32")) || !operands.contains("0f") {
        return None;
    }
    let shorter = |operand: &str| {
        let bits =
            u32::from_str_radix(operand.trim_end_matches(';').strip_prefix("0f")?, 16).ok()?;
        let number = f32::from_bits(bits);
        let text = match bits {
            0 if !is_float => "0".to_owned(),
            _ if !is_float || number.is_nan() || bits == (-0.0_f32).to_bits() => return None,
            // All digits of the number, which as an f64 it is exactly.
            _ => format!("{:?}", f64::from(number)),
        };
        let is_plain = |c: char| c.is_ascii_digit() || ".-".contains(c);
        let end = if operand.ends_with(';') { ";" } else { "" };
        (text.len() < "0f00000000".len() && text.chars().all(is_plain)).then(|| text + end)
    };
    let operands = operands.split(',');
    let operands = operands.map(|operand| shorter(operand).unwrap_or_else(|| operand.to_owned()));
    Some(format!(
        "{head}\t{}",
        operands.collect::<Vec<String>>().join(",")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_goes_and_what_is_called_stays_unique() {
        let ptx = "\
//
// Generated by LLVM NVPTX Back-End
//

.version 7.8
.target sm_75 \n
.file\t1 \"//there, a.rs\"
.visible .entry f(
\t.param .u64 .ptr .align 1 f_param_0,
\t.param .align 8 .b8 f_param_10[88]
)
{
\tld.param.b64 \t%rd1, [f_param_10+80]; // a pointer
\tmov.b32 %r3, %r4; // hole value %r3 <- %r4
\t// begin inline asm
\tmov.b32 {%r1, %r2}, %rd1;
\tprefetch.global.L2 [%rd1]; // once
\t// end inline asm
$L__BB0_2:
\t@%p1 bra \t$L__BB0_2;
\tbra.uni \t$L__BB0_10;
\tmov.u64 \t%rd2, buf_param_1;
\tmov.u64 \t%rd3, f_param_1x;
\tret;
}
.extern .func  (.param .b32 func_retval0) vprintf
(
\t.param .b64 vprintf_param_0
)
;
";
        let tidied = "\
.version 7.8
.target sm_75
.file\t1 \"//there, a.rs\"
.visible .entry f(
.param .u64 $a0,
.param .align 8 .b8 $a10[88]
)
{
ld.param.b64\t%rd1,[$a10+80];
mov.b32 %r3,%r4; // hole value %r3 <- %r4
mov.b32 {%r1,%r2},%rd1;
prefetch.global.L2 [%rd1]; // once
$a:
@%p1 bra\t$a;
bra\t$b;
mov.u64\t%rd2,buf_param_1;
mov.u64\t%rd3,f_param_1x;
ret;
}
.extern .func  (.param .b32 func_retval0) vprintf
(
.param .b64 $a0
)
;
";
        assert_eq!(tidy(ptx), tidied);
    }

    #[test]
    fn numbers_are_in_decimals_where_that_is_as_exact() {
        let cases = [
            (
                "fma.rn.f32\t%r1,%r2,0f3F800000,0fBF000000;",
                "fma.rn.f32\t%r1,%r2,1.0,-0.5;",
            ),
            (
                "@%p1 selp.f32\t%r1,0f00000000,0f80000000,%p2;",
                "@%p1 selp.f32\t%r1,0.0,0f80000000,%p2;",
            ),
            (
                "max.f32\t%r1,%r2,0fFF800000;",
                "max.f32\t%r1,%r2,0fFF800000;",
            ),
            (
                "mul.rn.f32\t%r1,%r2,0f3FB8AA3B;",
                "mul.rn.f32\t%r1,%r2,0f3FB8AA3B;",
            ),
            (
                "mul.rn.f32\t%r1,%r2,0f7F000000;",
                "mul.rn.f32\t%r1,%r2,0f7F000000;",
            ),
            (
                "add.rn.f32\t%r1,%r2,0f00000001;",
                "add.rn.f32\t%r1,%r2,0f00000001;",
            ),
            ("mov.b32\t%r1,0f00000000;", "mov.b32\t%r1,0;"),
            ("mov.b32\t%r1,0f3F800000;", "mov.b32\t%r1,0f3F800000;"),
            (
                "fma.rn.f64\t%rd1,%rd2,0d3FF0000000000000,%rd3;",
                "fma.rn.f64\t%rd1,%rd2,0d3FF0000000000000,%rd3;",
            ),
            (
                "add.rn.f32 %r1,%r2,0f3F800000;",
                "add.rn.f32 %r1,%r2,0f3F800000;",
            ),
        ];
        for (code, want) in cases {
            assert_eq!(decimal(code).as_deref().unwrap_or(code), want);
        }
    }

    #[test]
    fn labels_are_unique_and_no_words_of_the_module() {
        let names: Vec<String> = (0..4000).map(label).collect();
        assert_eq!(
            [0, 51, 52, 103, 104].map(label),
            ["$a", "$Z", "aA", "ZA", "aB"]
        );
        assert_eq!([1403, 1404].map(label), ["ZZ", "$aa"]);
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());

        let taken = HashSet::from(["$b", "bA"]);
        let mut labels = Labels::new(&taken);
        let given: Vec<String> = (0..60).map(|n: u32| labels.short(&n.to_string())).collect();
        assert_eq!(given[..2], ["$a", "$c"]);
        assert_eq!(given[50..53], ["$Z", "aA", "cA"]);
        assert_eq!(labels.short("1"), "$c");
    }

    #[test]
    fn numbers_have_letters_of_their_own() {
        let names: Vec<String> = (0..6000).map(letters).collect();
        assert_eq!([0, 25, 26, 51].map(|i| &names[i][..]), ["a", "z", "A", "Z"]);
        assert_eq!(
            [52, 53, 104, 2755].map(|i| &names[i][..]),
            ["aa", "ba", "ab", "ZZ"]
        );
        let unique: HashSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn functions_are_found_by_their_declarations() {
        assert_eq!(function(".visible .entry a_b("), Some("a_b"));
        assert_eq!(
            function(".func  (.param .b32 func_retval0) _ZN1x1yE("),
            Some("_ZN1x1yE")
        );
        assert_eq!(function(".func plain("), Some("plain"));
        assert_eq!(function("call.uni plain,"), None);
    }
}
