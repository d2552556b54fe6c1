//! Register names that are short.
//!
//! LLVM numbers the registers of a function in the order in which it made them, to `%r3224` and
//! further, and their names were two fifths of our text. Here the letter says what a register holds,
//! and the most used registers have a single digit:
//!
//! | a register of | is LLVM's | and here |
//! |---|---|---|
//! | a predicate | `%p12` | `p2`, `q2` |
//! | 16 bits | `%rs12` | `h2` |
//! | 32 bits | `%r12` | `r2`, then other small letters, then capitals from `N` on |
//! | 64 bits | `%rd12` | `D2`, then other capitals to `M` |
//!
//! In a kernel that is complete the letters alone are names too, of the registers that are named most
//! often. Where a host adds text, it may have its own use for them.
//!
//! Of names of one length the earlier ones come first in the text. A letter with numbers that is a
//! name of something else in the module (a kernel `h2`, a register `p1` in `asm!`) names no register,
//! and where `asm!` declares what is called as LLVM's registers are, those keep their names.
//!
//! Each register keeps a name of its own. Giving a name to the next value once one is dead would be
//! shorter, but ptxas 13.0 allocates by names: it spills in 75 of our 309 kernels then. What the names
//! are does not matter to it, to the bit.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::tidy::is_of_name;

/// What LLVM's names begin with, and the letters in place of that.
const CLASSES: [(&str, &str); 4] = [
    ("%p", "pq"),
    ("%rs", "h"),
    ("%r", "rstuvwxyzabcdefgijklmnoNOPQRSTUVWXYZ"),
    ("%rd", "DEFGHIJKLMABC"),
];

/// The text of a module, tidy, with short names of registers.
pub(crate) fn shorten(ptx: &str) -> String {
    let taken = taken(ptx);
    let alone = alone(ptx);
    bodies(ptx, |head, body| {
        let single = |letter: &char| is_complete_kernel(head, body) && !alone.contains(*letter);
        Body::of(body).shortened(&taken, single)
    })
}

/// Whether a body is that of a kernel to which no host adds text. `head`: the text before it.
pub(crate) fn is_complete_kernel(head: &str, body: &str) -> bool {
    // The last one before the body is what the body is of.
    head.rfind(".entry ") > head.rfind(".func ") && !body.contains("// hole")
}

/// Returns a module with what `new` makes of each function's body, of which it gets the text before
/// it from the body before on, and the body without its braces.
pub(crate) fn bodies(ptx: &str, new: impl Fn(&str, &str) -> String) -> String {
    let mut out = String::with_capacity(ptx.len());
    let (mut head, mut body) = (0, 0);
    let mut depth = 0_usize;
    let mut end = 0;
    for line in ptx.split_inclusive('\n') {
        let start = end;
        end += line.len();
        if depth == 0 {
            out.push_str(line);
            if line == "{\n" {
                (body, depth) = (end, 1);
            }
            continue;
        }
        // Braces of scopes; those of vectors open and close in one line.
        depth += line.matches('{').count();
        depth -= line.matches('}').count().min(depth);
        if depth == 0 {
            out.push_str(&new(&ptx[head..body], &ptx[body..start]));
            out.push_str(line);
            head = end;
        }
    }
    if depth > 0 {
        out.push_str(&ptx[body..]);
    }
    out
}

/// Letters that stand with a number, or are declared with numbers (`.reg .b32 a<4>`), anywhere in a
/// module.
fn taken(ptx: &str) -> String {
    let letter = |(start, word): (usize, &str)| {
        let letter = word.chars().next().filter(char::is_ascii_alphabetic)?;
        let number = &word[1..];
        let declares = number.is_empty() && ptx[start + 1..].starts_with('<');
        // Behind a dot it is a part of an instruction: `.v2`, `.b32`.
        let is_name = !ptx[..start].ends_with('.');
        (is_name && (declares || is_number(number))).then_some(letter)
    };
    words(ptx).filter_map(letter).collect()
}

/// Letters that are words of a module, other than parts of an instruction.
fn alone(ptx: &str) -> String {
    let alone = words(ptx).filter(|&(start, word)| word.len() == 1 && !ptx[..start].ends_with('.'));
    alone.map(|(_, word)| word).collect()
}

/// What stands between the braces of a function.
struct Body<'a> {
    text: &'a str,
    /// LLVM's registers by their class.
    registers: [Vec<Register<'a>>; CLASSES.len()],
}

#[derive(Clone, Copy)]
struct Register<'a> {
    name: &'a str,
    uses: usize,
    /// Where it is named first.
    first: usize,
}

impl<'a> Body<'a> {
    fn of(text: &'a str) -> Self {
        let mut found: HashMap<&str, (usize, Register<'_>)> = HashMap::new();
        for (first, name) in words(text) {
            if let Some(class) = class(name) {
                let uses = 0;
                let new = Register { name, uses, first };
                found.entry(name).or_insert((class, new)).1.uses += 1;
            }
        }
        let mut registers = [const { Vec::new() }; CLASSES.len()];
        for (class, register) in found.into_values() {
            registers[class].push(register);
        }
        Self { text, registers }
    }

    /// `single`: which letters may be names on their own.
    fn shortened(self, taken: &str, single: impl Fn(&char) -> bool) -> String {
        let mut names = HashMap::new();
        let mut declared = HashMap::new();
        for ((prefix, letters), registers) in CLASSES.into_iter().zip(self.registers) {
            if !is_declared_once(self.text, prefix) {
                continue;
            }
            let free = |letter: &char| !taken.contains(*letter);
            let alone: Vec<char> = letters.chars().filter(&single).collect();
            let letters: Vec<char> = letters.chars().filter(free).collect();
            if let Some(class) = Class::of(registers, &letters, &alone) {
                declared.insert(prefix, class.declarators());
                names.extend(class.names);
            }
        }
        let mut out = String::with_capacity(self.text.len());
        for line in self.text.split_inclusive('\n') {
            if let Some((head, prefix)) = declaration(line)
                && let Some(declarators) = declared.get(prefix)
            {
                out.extend([head, "\t", declarators, ";\n"]);
                continue;
            }
            let mut copied = 0;
            for (start, word) in words(line) {
                if let Some(name) = names.get(word) {
                    out.extend([&line[copied..start], name]);
                    copied = start + word.len();
                }
            }
            out.push_str(&line[copied..]);
        }
        out
    }
}

/// Names of the registers of one class.
struct Class<'a> {
    names: Vec<(&'a str, String)>,
    /// Letters that are names without a number.
    alone: Vec<char>,
    /// Letters, and one more than the highest number behind each.
    ends: Vec<(char, usize)>,
}

impl<'a> Class<'a> {
    /// Nothing where there are no registers, or no letters for them.
    fn of(mut registers: Vec<Register<'a>>, letters: &[char], alone: &[char]) -> Option<Self> {
        /// From so many uses on a digit less pays for `,r` where the register is declared.
        const PAYS: usize = 3;
        registers.sort_by_key(|register| (Reverse(register.uses), register.first));
        let paying = registers
            .iter()
            .take_while(|register| register.uses >= PAYS);
        let alone = &alone[..paying.count().min(alone.len())];
        let (most_used, rest) = registers.split_at_mut(alone.len());
        most_used.sort_by_key(|register| register.first);
        let named = most_used.iter().zip(alone);
        let mut names: Vec<(&str, String)> = named
            .map(|(register, letter)| (register.name, letter.to_string()))
            .collect();
        let most = rest.len().div_ceil(10).min(letters.len());
        let count = (1..=most).min_by_key(|&count| length(rest, count));
        if count.is_none() && (names.is_empty() || !rest.is_empty()) {
            return None;
        }
        let ends = numbered(rest, &letters[..count.unwrap_or(0)], &mut names);
        let alone = alone.to_vec();
        Some(Self { names, alone, ends })
    }

    /// `r<100>,s<10>,r,s`
    fn declarators(&self) -> String {
        let each = self.ends.iter().filter(|(_, end)| *end > 0);
        let each = each.map(|(letter, end)| format!("{letter}<{end}>"));
        let alone = self.alone.iter().map(char::to_string);
        each.chain(alone).collect::<Vec<String>>().join(",")
    }
}

/// Adds names of a letter and a number, the shortest ones for the registers that come first. Returns
/// the letters, and one more than the highest number behind each.
fn numbered<'a>(
    mut rest: &mut [Register<'a>],
    letters: &[char],
    names: &mut Vec<(&'a str, String)>,
) -> Vec<(char, usize)> {
    let mut ends: Vec<(char, usize)> = letters.iter().map(|&letter| (letter, 0)).collect();
    let mut numbers = 0..10;
    while !rest.is_empty() {
        let group;
        (group, rest) = rest.split_at_mut((numbers.len() * letters.len()).min(rest.len()));
        group.sort_by_key(|register| register.first);
        for (at, register) in group.iter().enumerate() {
            let number = numbers.start + at % numbers.len();
            let (letter, end) = &mut ends[at / numbers.len()];
            *end = number + 1;
            names.push((register.name, format!("{letter}{number}")));
        }
        numbers = numbers.end..numbers.end * 10;
    }
    ends
}

/// Digits of all names with so many letters, of the most used first, and what declares the letters.
fn length(registers: &[Register<'_>], letters: usize) -> usize {
    const DECLARATOR: usize = ",r<10>".len();
    let mut digits = 0;
    let mut shorter = 10 * letters;
    let mut length = 1;
    for (rank, register) in registers.iter().enumerate() {
        if rank >= shorter {
            shorter *= 10;
            length += 1;
        }
        digits += register.uses * length;
    }
    digits + letters * DECLARATOR
}

/// Whether a line has a label, alone or before an instruction.
pub(crate) fn has_label(code: &str) -> bool {
    code.replace("::", "").contains(':')
}

/// `.reg .b32` and `%r` of LLVM's declaration `.reg .b32\t%r<24>;`.
fn declaration(line: &str) -> Option<(&str, &str)> {
    let (head, declarator) = line.split_once('\t')?;
    let (prefix, _) = declarator.split_once('<')?;
    head.starts_with(".reg ").then_some((head, prefix))
}

/// Whether LLVM declares the registers of a class, and nothing else declares one of such a name.
pub(crate) fn is_declared_once(body: &str, prefix: &str) -> bool {
    let llvms = body.lines().filter_map(declaration);
    let statements = body
        .split(';')
        .filter(|statement| statement.contains(".reg"));
    let is_of = |&(_, name): &(usize, &str)| {
        let number = name.strip_prefix(prefix);
        number.is_some_and(|number| number.is_empty() || is_number(number))
    };
    let all = statements.flat_map(words).filter(is_of);
    llvms.filter(|&(_, own)| own == prefix).count() == 1 && all.count() == 1
}

/// The class of a name of LLVM's.
fn class(name: &str) -> Option<usize> {
    let is_of = |&(prefix, _): &(&str, &str)| name.strip_prefix(prefix).is_some_and(is_number);
    CLASSES.iter().position(is_of)
}

pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Names and numbers in a text, and where they begin.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(|c| !is_of_name(c));
    let start = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    words
        .filter(|word| !word.is_empty())
        .map(move |word| (start(word), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
.version 7.8
.file\t1 \"{\"
.visible .entry f(
.param .u64 $a0
)
{
.reg .pred\t%p<2>;
.reg .b16\t%rs<2>;
.reg .b32\t%r<24>;
.reg .b64\t%rd<3>;
ld.param.b64\t%rd2,[$a0];
mov.u32\t%r1,%tid.x;
mov.b32\t%r2,0;
mov.b32 {%r3,%r4},%rd2;
{ .reg .b32 %s<2>; add.s32 %s1,%r2,%r2; mov.b32 %r5,%s1; }
{
.reg .pred %q;
@%p1 mov.b32 %r6,%r2; // hole load1 %r7 %r8 <- %rd2
}
mov.b32\t{%r9,%r10},%rd1;
mov.b32\t%r11,%r12;
cvt.u16.u32\t%rs1,%r11;
}
.func g()
{
ret;
}
";

    #[test]
    fn each_register_gets_a_short_name_of_its_own() {
        let short = "\
.version 7.8
.file\t1 \"{\"
.visible .entry f(
.param .u64 $a0
)
{
.reg .pred\tp<1>;
.reg .b16\th<1>;
.reg .b32\tr<12>;
.reg .b64\tD<2>;
ld.param.b64\tD0,[$a0];
mov.u32\tr0,%tid.x;
mov.b32\tr1,0;
mov.b32 {r2,r3},D0;
{ .reg .b32 %s<2>; add.s32 %s1,r1,r1; mov.b32 r4,%s1; }
{
.reg .pred %q;
@p0 mov.b32 r5,r1; // hole load1 r6 r7 <- D0
}
mov.b32\t{r8,r10},D1;
mov.b32\tr9,r11;
cvt.u16.u32\th0,r9;
}
.func g()
{
ret;
}
";
        assert_eq!(shorten(MODULE), short);
    }

    /// A module whose functions have 90 registers.
    fn many(before: &str, inside: &str) -> String {
        let many: Vec<String> = (1..=90)
            .map(|n| format!("add.s32\t%r{n},%r{n},%r{n};"))
            .collect();
        let many = many.join("\n");
        format!("{before}{{\n.reg .b32\t%r<91>;\n{inside}\n{many}\n}}\n")
    }

    #[test]
    fn letters_of_other_names_are_left_to_them() {
        let cases = [
            (".visible .entry t3()\n", "ret; // hole"),
            (".shared .align 4 .b8 t3[4];\n", "ret;"),
            (".func g()\n{\ncall t3;\n}\n", "ret;"),
            ("", "mov.b32 %r1,t3;"),
            ("", "{ .reg .pred t3; @t3 ret; }"),
            ("", "{ .reg .b32 t<4>; mov.b32 %r1,%r2; }"),
            ("", "{ .reg .b32 t4<4>; mov.b32 %r1,%r2; }"),
            ("", "t3: bra t3;"),
        ];
        for (before, inside) in cases {
            let text = many(before, inside);
            assert_eq!(taken(&text).replace('t', ""), "", "{text}");
            let short = shorten(&text);
            let letters: Vec<char> = "rsuvwxyza".chars().collect();
            let declared: Vec<String> = letters.iter().map(|l| format!("{l}<10>")).collect();
            assert!(
                short.contains(&format!(".reg .b32\t{};\n", declared.join(","))),
                "{short}"
            );
            assert!(short.contains("add.s32\ta9,a9,a9;\n"), "{short}");
            assert_eq!(short.matches("t3").count(), text.matches("t3").count());
        }
    }

    #[test]
    fn parts_of_instructions_and_other_names_take_no_letter() {
        let text = "ld.global.v2.b32 {%r1,%t2},[$a1+0]; mov.f32 %low16,0f3F800000; x<2> ab1 p q1a";
        assert_eq!(taken(text), "x");
    }

    #[test]
    fn names_like_llvms_that_asm_declares_keep_theirs() {
        for scope in [
            "{ .reg .b32 %r<4>; mov.b32 %r3,0; }",
            "{ .reg .b32 %u, %r3; mov.b32 %r3,0; }",
            "{\n.reg .b32\t%r<4>;\nmov.b32 %r3,0;\n}",
        ] {
            let text = many("", scope);
            assert_eq!(shorten(&text), text);
        }
        let text = "{\nmov.b32 %r3,0;\n}\n";
        assert_eq!(shorten(text), text);
    }

    #[test]
    fn the_most_used_have_one_digit_and_as_many_letters_as_pay() {
        let lines = |numbers: std::ops::RangeInclusive<u32>| -> String {
            numbers.map(|n| format!("mov.b32\t%r{n},1;\n")).collect()
        };
        let text = format!(
            "{{\n.reg .b32\t%r<14>;\n{}{}}}\n",
            lines(1..=13),
            lines(4..=13)
        );
        let short = shorten(&text);
        assert!(
            short.starts_with("{\n.reg .b32\tr<13>;\nmov.b32\tr10,1;\n"),
            "{short}"
        );
        assert_eq!(short.matches("\tr0,").count(), 2, "{short}");
        assert_eq!(short.matches("\tr12,").count(), 1, "{short}");
    }

    #[test]
    fn letters_alone_name_the_most_used_of_a_complete_kernel() {
        let body = "{\n.reg .pred\t%p<2>;\n.reg .b32\t%r<4>;\n\
            add.s32\t%r1,%r2,%r2;\nadd.s32\t%r3,%r2,%r3;\nadd.s32\t%r1,%r1,%r3;\n\
            @%p1 ret;\n}\n";
        let kernel = format!(".visible .entry f()\n{body}");
        let short = "{\n.reg .pred\tp<1>;\n.reg .b32\tr,s,t;\n\
            add.s32\tr,s,s;\nadd.s32\tt,s,t;\nadd.s32\tr,r,t;\n@p0 ret;\n}\n";
        assert_eq!(shorten(&kernel), format!(".visible .entry f()\n{short}"));
        // A letter that is a word elsewhere is left to that, one behind a dot is not.
        let scope = "{ .reg .pred s; mov.u32 %r2,%tid.t; }";
        let with = kernel.replace("@%p1", &format!("{scope}\n@%p1"));
        assert!(shorten(&with).contains("add.s32\tr,t,t;\n"), "{with}");
        // Text that a host completes.
        for other in [
            format!(".func f()\n{body}"),
            kernel.replace("@%p1 ret;", "@%p1 ret; // hole x"),
        ] {
            let short = shorten(&other);
            assert!(short.contains(".reg .b32\tr<3>;\n"), "{short}");
        }
    }

    #[test]
    fn a_body_without_an_end_stays() {
        let text = "{\nmov.b32\t%r7,0;\n";
        assert_eq!(shorten(text), text);
    }
}
