//! A pass over the PTX that gives every float operation an explicit rounding, so that the PTX alone
//! determines the bits of the results.
//!
//! ptxas may contract a float `add`, `sub` or `mul` without a rounding modifier into an `fma`, so
//! the result would depend on the release of ptxas or of the driver. Contraction is left to llc,
//! where it is visible in the PTX. Operations that llc does not contract get `.rn` here.

const OPERATIONS: [&str; 3] = ["add", "sub", "mul"];
const FLOATS: [&str; 7] = ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"];

/// Adds `.rn` to every float `add`, `sub` and `mul` of `ptx` that has no rounding modifier.
pub(crate) fn pin(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len() + ptx.len() / 64);
    for line in ptx.split_inclusive('\n') {
        match operation_end(line) {
            Some(at) => {
                out.push_str(&line[..at]);
                out.push_str(".rn");
                out.push_str(&line[at..]);
            }
            None => out.push_str(line),
        }
    }
    out
}

/// The position in the line at which `.rn` is to be inserted, if the line needs it.
fn operation_end(line: &str) -> Option<usize> {
    let mut start = line.len() - line.trim_start().len();
    if line[start..].starts_with('@') {
        start += line[start..].find(char::is_whitespace)?;
        start += line[start..].len() - line[start..].trim_start().len();
    }
    let end = start + line[start..].find(|c: char| c.is_whitespace()).unwrap_or(0);
    let mut words = line[start..end].split('.');
    let operation = words.next().filter(|word| OPERATIONS.contains(word))?;
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let last = words.peek().is_none();
        match word {
            "ftz" | "sat" if !last => {}
            float if last && FLOATS.contains(&float) => return Some(start + operation.len()),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_operations_are_pinned_and_nothing_else() {
        let cases = [
            (
                "\tadd.f32 \t%f1, %f2, %f3;\n",
                "\tadd.rn.f32 \t%f1, %f2, %f3;\n",
            ),
            (
                "\t@%p1 mul.ftz.f32 %f1, %f2, %f3;\n",
                "\t@%p1 mul.rn.ftz.f32 %f1, %f2, %f3;\n",
            ),
            ("sub.f64 %d1, %d2, %d3;", "sub.rn.f64 %d1, %d2, %d3;"),
            ("mul.f16x2 %r1, %r2, %r3;", "mul.rn.f16x2 %r1, %r2, %r3;"),
            (
                "\tadd.rn.f32 \t%f1, %f2, %f3;\n",
                "\tadd.rn.f32 \t%f1, %f2, %f3;\n",
            ),
            (
                "\tadd.rz.f32 \t%f1, %f2, %f3;\n",
                "\tadd.rz.f32 \t%f1, %f2, %f3;\n",
            ),
            ("\tadd.s32 \t%r1, %r2, 1;\n", "\tadd.s32 \t%r1, %r2, 1;\n"),
            (
                "\tmul.wide.u32 \t%rd1, %r2, 4;\n",
                "\tmul.wide.u32 \t%rd1, %r2, 4;\n",
            ),
            (
                "\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n",
                "\tfma.rn.f32 \t%f1, %f2, %f3, %f4;\n",
            ),
            (
                "\tatom.global.add.f32 \t%f1, [%rd1], %f2;\n",
                "\tatom.global.add.f32 \t%f1, [%rd1], %f2;\n",
            ),
            ("// add.f32 in a comment\n", "// add.f32 in a comment\n"),
        ];
        for (before, after) in cases {
            assert_eq!(pin(before), after);
        }
    }
}
