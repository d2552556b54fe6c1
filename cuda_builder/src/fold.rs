//! States kernels of bf16 and of f16 as one text where they differ in the type alone.

use ptx_syntax::cut::Cut;
use ptx_syntax::manifest::{ModuleEntry, hash};
use ptx_syntax::twin::as_f16;

/// Leaves out of `ptx` each kernel whose text is that of a kernel of bf16 but for the type, and says
/// so in `entry`.
pub(crate) fn apply(ptx: &str, entry: &mut ModuleEntry) -> String {
    let cut = Cut::new(ptx.into());
    let names: Vec<String> = entry.kernels.iter().map(|it| it.name.clone()).collect();
    for kernel in &mut entry.kernels {
        let own = cut.entry(&kernel.name).map(without_functions);
        let is_same = |of: &&String| {
            **of != kernel.name
                && as_f16(of) == kernel.name
                && cut.entry(of).map(|text| without_functions(&as_f16(text))) == own
        };
        kernel.text_of = names.iter().find(is_same).cloned();
    }
    let is_folded = |name: &str| {
        let mut kernels = entry.kernels.iter();
        kernels.any(|kernel| kernel.name == name && kernel.text_of.is_some())
    };
    let rest = cut.without(is_folded);
    entry.hash = hash(&rest);
    rest
}

/// The text without the numbers of functions in llc's names of labels (`$L__BB7_2`).
fn without_functions(text: &str) -> String {
    const LABEL: &str = "$L__BB";
    let mut pieces = text.split(LABEL);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(LABEL);
        out.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx_syntax::manifest::KernelEntry;

    fn entry(names: &[&str]) -> ModuleEntry {
        let kernel = |name: &&str| KernelEntry {
            name: (*name).to_owned(),
            ..KernelEntry::default()
        };
        ModuleEntry {
            path: "sm_90/k.ptx".to_owned(),
            arch: "sm_90".to_owned(),
            hash: String::new(),
            kernels: names.iter().map(kernel).collect(),
            fragments: Vec::new(),
        }
    }

    fn kernel(name: &str, function: u32, body: &str) -> String {
        format!(
            ".visible .entry {name}()\n{{\n$L__BB{function}_1:\n{body}\nbra $L__BB{function}_1;\n}}\n"
        )
    }

    #[test]
    fn kernels_that_differ_in_the_type_alone_become_one_text() {
        let bf16 = kernel("k_bf16", 0, "cvt.rn.bf16x2.f32 %r1, %f1, %f2;");
        let f16 = kernel("k_f16", 1, "cvt.rn.f16x2.f32 %r1, %f1, %f2;");
        let other = kernel("other_f16", 2, "add.f16 %rs1, %rs2, %rs3;");
        let wide = kernel("other_bf16", 3, "add.f32 %f1, %f2, %f3;");
        let ptx = format!(".target sm_90\n{bf16}{f16}{other}{wide}");
        let mut entry = entry(&["k_bf16", "k_f16", "other_f16", "other_bf16"]);
        let folded = apply(&ptx, &mut entry);
        assert_eq!(folded, format!(".target sm_90\n{bf16}{other}{wide}"));
        assert_eq!(entry.hash, hash(&folded));
        let text_of: Vec<_> = entry
            .kernels
            .iter()
            .map(|it| it.text_of.as_deref())
            .collect();
        assert_eq!(text_of, [None, Some("k_bf16"), None, None]);
        let whole = Cut::new(folded.into()).with_all(&entry.kernels);
        assert_eq!(
            without_functions(&whole).len(),
            without_functions(&ptx).len()
        );
    }
}
