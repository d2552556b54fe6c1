//! A pass over the PTX that makes every store as wide as its register.
//!
//! To store the low half of a register, LLVM emits a store of half the register's width: `st.b32
//! [..], %rd1`. If the register holds a float (the result of a `selp.f64`, for example), ptxas 13.0
//! treats this as a conversion. It then stores the number truncated to an integer instead of its
//! low bits. This pass inserts an integer `cvt`, which rules that out.

/// The prefixes of LLVM's register names that may be wider than a store of them, with their widths
/// in bits.
const WIDE: [(&str, u32); 2] = [("%rd", 64), ("%r", 32)];

/// Moves the low bits of a register into one of the store's width before each such store.
pub(crate) fn narrow(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len() + ptx.len() / 64);
    let mut body = None;
    for line in ptx.split_inclusive('\n') {
        if line.starts_with('{') {
            body = Some(out.len() + line.len());
        }
        if let (Some(store), Some(start)) = (Store::of(line), body) {
            let low = format!("%low{}", store.bits);
            let declaration = format!("\t.reg .b{} \t{low};\n", store.bits);
            if !out[start..].contains(&declaration) {
                out.insert_str(start, &declaration);
            }
            out.push_str(&format!(
                "\tcvt.u{}.u{} \t{low}, {};\n{}{low};\n",
                store.bits, store.of_bits, store.register, store.before
            ));
        } else {
            out.push_str(line);
        }
    }
    out
}

/// A store of only the low bits of a register.
struct Store<'a> {
    /// The line up to the register.
    before: &'a str,
    register: &'a str,
    of_bits: u32,
    bits: u32,
}

impl<'a> Store<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (mnemonic, operands) = line.trim_start().split_once(char::is_whitespace)?;
        let (store, bits) = mnemonic.rsplit_once(".b")?;
        let bits: u32 = bits.parse().ok()?;
        if !(store == "st" || store.starts_with("st.")) {
            return None;
        }
        let from = operands.split_once("], ")?.1;
        let register = from.split_once(';')?.0;
        let width = |&&(prefix, _): &&(&str, u32)| {
            let number = register.strip_prefix(prefix);
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let &(_, of_bits) = WIDE.iter().find(width)?;
        // No register is narrower than 16 bits; a store of 8 bits takes the low half of one.
        let narrowest = bits.max(16);
        (narrowest < of_bits).then(|| Self {
            before: &line[..line.len() - from.len()],
            register,
            of_bits,
            bits: narrowest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_are_moved_before_they_are_stored() {
        let before = "\
.visible .entry f(
\t.param .b64 f_param_0
)
{
\t.reg .b64 \t%rd<3>;
\tselp.f64 \t%rd1, %rd2, %rd1, %p1;
\tst.shared.b32 \t[%rd2+4], %rd1;
\tst.global.b8 \t[%rd2], %r1;
\tst.shared.b32 \t[%rd2], %rd2;
\tst.global.b64 \t[%rd2], %rd1;
\tst.global.b8 \t[%rd2], %rs1;
\tst.shared.v2.b32 \t[%rd2], {%r1, %r2};
\tst.b32 \t[%rd2], 7;
}
";
        let after = "\
.visible .entry f(
\t.param .b64 f_param_0
)
{
\t.reg .b16 \t%low16;
\t.reg .b32 \t%low32;
\t.reg .b64 \t%rd<3>;
\tselp.f64 \t%rd1, %rd2, %rd1, %p1;
\tcvt.u32.u64 \t%low32, %rd1;
\tst.shared.b32 \t[%rd2+4], %low32;
\tcvt.u16.u32 \t%low16, %r1;
\tst.global.b8 \t[%rd2], %low16;
\tcvt.u32.u64 \t%low32, %rd2;
\tst.shared.b32 \t[%rd2], %low32;
\tst.global.b64 \t[%rd2], %rd1;
\tst.global.b8 \t[%rd2], %rs1;
\tst.shared.v2.b32 \t[%rd2], {%r1, %r2};
\tst.b32 \t[%rd2], 7;
}
";
        assert_eq!(narrow(before), after);
    }
}
