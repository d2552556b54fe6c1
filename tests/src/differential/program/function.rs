//! Functions that programs call.

use std::fmt::Write;

use super::module::declarations;
use super::{Builder, all_registers, register};
use crate::differential::operands::Kind;

impl Builder<'_> {
    /// Writes a function that takes a 32-bit number, a 64-bit number and 16 bytes, and returns 16
    /// bytes. One in three calls itself, up to three times. Returns its name.
    pub(super) fn function(&mut self) -> String {
        let name = format!("f{}_{}", self.seed, self.functions.len());
        let outer = std::mem::take(&mut self.text);
        self.in_function = true;
        let statements = 2 + self.random.below(6);
        self.block(statements, 0, false);
        let recursion = if self.once_in(3) {
            self.recursion(&name)
        } else {
            String::new()
        };
        self.in_function = false;
        let body = std::mem::replace(&mut self.text, outer);
        let mut text = format!(
            ".func (.param .align 8 .b8 x0[16]) {name}(.param .b32 p0, .param .b64 p1, \
             .param .align 8 .b8 p2[16])\n{{\n"
        );
        text.push_str(&declarations(0));
        text.push_str("\tld.param.b32 %r0, [p0];\n\tld.param.b64 %d0, [p1];\n");
        text.push_str("\tld.param.v2.b32 {%r1, %r2}, [p2];\n\tld.param.f64 %d1, [p2+8];\n");
        text.push_str(&first_values());
        text.push_str(&body);
        text.push_str(&recursion);
        let [wide, half, word] = [Kind::I64, Kind::F32, Kind::I32].map(|kind| self.pick(kind));
        let float = self.pick(Kind::F64);
        let _ = writeln!(text, "\txor.b64 {wide}, {wide}, {float};");
        let _ = writeln!(text, "\tst.param.b64 [x0], {wide};");
        let _ = writeln!(
            text,
            "\tst.param.b32 [x0+8], {word};\n\tst.param.f32 [x0+12], {half};"
        );
        let last = *self.random.choose(&["ret", "ret.uni"]);
        let _ = writeln!(text, "\t{last};\n}}");
        self.functions.push(text);
        name
    }

    /// A recursive call, with a smaller recursion count than the first parameter.
    fn recursion(&mut self, name: &str) -> String {
        let (wide, word) = (self.pick(Kind::I64), self.pick(Kind::I32));
        let mut text = String::new();
        let mut line = |s: &str| {
            text.push('\t');
            text.push_str(s);
            text.push('\n');
        };
        line("and.b32 %r0, %r0, 3;\n\tsetp.eq.u32 %q2, %r0, 0;\n\t@%q2 bra $DONE;");
        line("sub.u32 %r0, %r0, 1;\n\t{");
        line(".param .b32 c0;\n\t.param .b64 c1;\n\t.param .align 8 .b8 c2[16];");
        line(".param .align 8 .b8 y0[16];");
        line(&format!(
            "st.param.b32 [c0], %r0;\n\tst.param.b64 [c1], {wide};"
        ));
        line(&format!(
            "st.param.v2.b32 [c2], {{{word}, %r1}};\n\tst.param.f64 [c2+8], %d1;"
        ));
        line(&format!("call (y0), {name}, (c0, c1, c2);"));
        line(&format!(
            "ld.param.b64 %d5, [y0];\n\tadd.u64 {wide}, {wide}, %d5;"
        ));
        line(&format!("ld.param.b32 {word}, [y0+8];\n\t}}\n$DONE:"));
        text
    }
}

/// Initialises all registers from the parameters.
fn first_values() -> String {
    let mut text = String::from("\tsetp.nan.f64 %q0, %d1, %d1;\n");
    let _ = writeln!(text, "\tselp.b64 %d1, {}, %d1, %q0;", super::NAN_F64);
    text.push_str("\tcvt.u16.u32 %h0, %r0;\n\tcvt.u16.u32 %h1, %r1;\n");
    for (kind, index) in all_registers() {
        let name = register(kind, index);
        let source = index % 3;
        let _ = match kind {
            Kind::I16 => writeln!(text, "\tadd.u16 {name}, %h{}, {index};", index % 2),
            Kind::F64 => writeln!(text, "\tmov.b64 {name}, %d1;"),
            Kind::I64 => writeln!(text, "\tadd.u64 {name}, %d0, {index};"),
            kind if kind.bits() == 16 => writeln!(text, "\tmov.b16 {name}, %h{};", index % 2),
            _ => writeln!(text, "\tadd.u32 {name}, %r{source}, {index};"),
        };
    }
    for guard in 0..4 {
        let name = register(Kind::I32, guard);
        let _ = writeln!(text, "\tsetp.lt.s32 %g{guard}, {name}, 0;");
    }
    text
}
