//! Kernels of f16 as the text of kernels of bf16.
//!
//! Many kernels of f16 differ from those of bf16 in the type that instructions and names have. A
//! file can hold both as one text ([`KernelEntry::text_of`](crate::manifest::KernelEntry::text_of)).
//! A comment behind an instruction marks a line that differs in more, or in nothing:
//!
//! | bf16 | f16 |
//! |---|---|
//! | `cvt.rn.bf16x2.f32 d, a, b; // bf16` | the same |
//! | `shl.b32 d, a, 16; // low` | `{.reg .b16 h; mov.b32 {h, _}, a; cvt.f32.f16 d, h;}` |
//! | `and.b32 d, a, -65536; // high` | `{.reg .b16 h; mov.b32 {_, h}, a; cvt.f32.f16 d, h;}` |

/// Marks a line that is the same in the kernel of f16.
const SAME: &str = "// bf16";
/// Marks a line that widens the lower half of a word.
const LOW: &str = "// low";
/// Marks a line that widens the upper half of a word.
const HIGH: &str = "// high";

/// The comments that have a meaning to [`as_f16`].
pub const MARKS: [&str; 3] = [SAME, LOW, HIGH];

/// The text or the name of a kernel of bf16, as that of the same kernel of f16.
pub fn as_f16(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let widened = [(LOW, "{h, _}"), (HIGH, "{_, h}")]
            .into_iter()
            .find_map(|(mark, halves)| widening(line, mark, halves));
        match widened {
            Some(widened) => out.push_str(&widened),
            None if line.trim_end().ends_with(SAME) => out.push_str(line),
            None => out.push_str(&line.replace("bf16", "f16")),
        }
    }
    out
}

/// The line of f16 that widens one of the `halves` of a word, if that of bf16 ends in `mark`.
fn widening(line: &str, mark: &str, halves: &str) -> Option<String> {
    let code = line.trim_end().strip_suffix(mark)?;
    let (blank, code) = code.split_at(code.len() - code.trim_start().len());
    let (_, operands) = code.split_once(' ')?;
    let mut operands = operands.trim_start().split(", ");
    let (to, from) = (operands.next()?, operands.next()?);
    Some(format!(
        "{blank}{{.reg .b16 h; mov.b32 {halves}, {from}; cvt.f32.f16 {to}, h;}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_bf16_becomes_one_of_f16() {
        let bf16 = "\
.visible .entry k_bf16()
\tcvt.rn.bf16x2.f32 %r1, %r2, %r3;
\tcvt.rn.bf16x2.f32 %r1, %r2, %r3; // bf16
\tshl.b32 %r4, %r5, 16; // low
\tand.b32 %r4, %r5, -65536; // high
\tshl.b32 \t%r4, %r5, 16;
";
        let f16 = "\
.visible .entry k_f16()
\tcvt.rn.f16x2.f32 %r1, %r2, %r3;
\tcvt.rn.bf16x2.f32 %r1, %r2, %r3; // bf16
\t{.reg .b16 h; mov.b32 {h, _}, %r5; cvt.f32.f16 %r4, h;}
\t{.reg .b16 h; mov.b32 {_, h}, %r5; cvt.f32.f16 %r4, h;}
\tshl.b32 \t%r4, %r5, 16;
";
        assert_eq!(as_f16(bf16), f16);
        assert_eq!(as_f16("softmax_bf16"), "softmax_f16");
    }
}
