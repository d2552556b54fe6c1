//! The PTX of a kernel that runs one instruction on arrays of operands.

use std::fmt::Write;

use super::forms::Form;

/// The header of a module.
pub const HEADER: &str = ".version 8.6\n.target sm_90\n.address_size 64\n";

/// A kernel `name(inputs, outputs, count)` for one-dimensional launches. Thread `i` below `count`
/// reads operand `k` from element `k * count + i` of the 64-bit array `inputs`, and writes element
/// `i` of the 64-bit array `outputs`.
#[must_use]
pub fn kernel(name: &str, form: &Form) -> String {
    let mut text = String::new();
    let mut line = |s: &str| {
        text.push_str(s);
        text.push('\n');
    };
    line(&format!(
        ".visible .entry {name}(.param .u64 inputs, .param .u64 outputs, .param .u32 count)\n{{"
    ));
    line("\t.reg .pred %p<4>;\n\t.reg .b16 %h<16>;\n\t.reg .b32 %r<24>;\n\t.reg .b64 %d<24>;");
    line("\tld.param.u64 %d0, [inputs];\n\tld.param.u64 %d1, [outputs];");
    line("\tld.param.u32 %r0, [count];");
    line("\tcvta.to.global.u64 %d0, %d0;\n\tcvta.to.global.u64 %d1, %d1;");
    line("\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;");
    line("\tmad.lo.s32 %r1, %r1, %r2, %r3;\n\tsetp.ge.u32 %p0, %r1, %r0;\n\t@%p0 bra $done;");
    line("\tmul.wide.u32 %d2, %r1, 8;\n\tmul.wide.u32 %d3, %r0, 8;");
    line("\tadd.s64 %d1, %d1, %d2;\n\tadd.s64 %d0, %d0, %d2;");
    let mut body = form.body.clone();
    for (k, kind) in form.inputs.iter().enumerate() {
        let wide = format!("%d{}", 10 + k);
        line(&format!(
            "\tld.global.u64 {wide}, [%d0];\n\tadd.s64 %d0, %d0, %d3;"
        ));
        let narrow = match kind.bits() {
            16 => format!("%h{}", 10 + k),
            32 => format!("%r{}", 10 + k),
            _ => wide.clone(),
        };
        if kind.bits() < 64 {
            line(&format!("\tcvt.u{}.u64 {narrow}, {wide};", kind.bits()));
        }
        body = body.replace(&format!("${}", ["a", "b", "c", "e"][k]), &narrow);
    }
    let output = match form.output_bits() {
        16 => "%h9",
        32 => "%r9",
        _ => "%d9",
    };
    let _ = writeln!(text, "\t{}", body.replace("$d", output));
    if form.output_bits() < 64 {
        let _ = writeln!(text, "\tcvt.u64.u{} %d9, {output};", form.output_bits());
    }
    text.push_str("\tst.global.u64 [%d1], %d9;\n$done:\n\tret;\n}\n");
    text
}
