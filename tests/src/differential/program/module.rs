//! The text around a body: declarations, initial values, results.

use std::fmt::Write;

use super::{BLOCK, Builder, CELLS, OWN_BYTES, all_registers, register, registers, row_words};
use super::{GRID, POOLS};
use crate::differential::operands::Kind;

/// Declarations that all programs of a module share.
pub const PREAMBLE: &str = "\
.const .align 16 .b8 table[256] = {
	3,141,59,26,53,58,97,93,238,46,26,43,38,32,79,50,
	0,0,0,0,0,0,248,127,255,255,255,127,0,0,128,63,
	88,209,7,164,128,98,8,153,86,28,32,52,130,53,66,117,
	17,6,79,82,148,86,11,252,136,96,174,145,247,208,181,98,
	1,0,0,0,0,0,0,128,0,60,0,188,128,63,128,191,
	27,18,28,45,90,45,23,53,60,28,74,71,13,52,66,24,
	255,127,255,255,0,128,1,0,0,0,192,127,0,0,128,255,
	9,87,64,33,75,90,3,5,10,58,20,97,49,44,59,230,
	78,164,6,28,62,8,99,86,28,3,48,253,42,117,6,79,
	0,0,0,0,0,0,240,191,0,0,0,0,0,0,224,65,
	82,148,8,65,13,27,18,98,60,83,45,34,90,211,70,11,
	5,4,3,2,1,0,255,254,253,252,251,250,249,248,247,246,
	64,201,56,12,45,64,91,28,74,71,13,52,66,24,37,46,
	0,4,255,3,1,124,0,252,127,0,128,0,129,127,255,255,
	69,53,11,58,209,74,94,45,92,30,78,16,40,62,8,99,
	86,28,3,48,253,42,117,6,79,82,14,8,65,13,27,1
};
";

/// Declares the registers of a kernel or function.
pub(super) fn declarations(counters: usize) -> String {
    let mut text = String::from("\t.reg .pred %p<4>, %g<4>, %q<3>;\n\t.reg .b16 %h<24>;\n");
    let _ = writeln!(
        text,
        "\t.reg .b32 %r<24>, %n<{}>;\n\t.reg .b64 %d<24>, %base<8>;",
        counters + 1
    );
    for (kind, count) in POOLS {
        let name = register(kind, 0);
        let prefix = name.trim_end_matches('0');
        let _ = writeln!(text, "\t.reg .b{} {prefix}<{count}>;", kind.bits());
    }
    text
}

/// Computes addresses. `%base0` is the thread's row of inputs, `%base1` its row of outputs,
/// `%base2` its own global memory, `%base3` the grid's cells, `%base4` local memory, `%base5` the
/// constants. `%r0` is the thread, `%r2` its place in `exchange`, `%r9` its own shared memory,
/// `%r10` the block's cells.
fn prologue() -> String {
    let mut text = String::new();
    let mut line = |s: &str| {
        let _ = writeln!(text, "\t{s}");
    };
    {
        line(&format!(".shared .align 16 .b8 exchange[{}];", 16 * BLOCK));
        line(&format!(".shared .align 16 .b8 own[{}];", 16 * BLOCK));
        line(&format!(".shared .align 16 .b8 cells[{}];", 8 * CELLS));
        line(".local .align 16 .b8 scratch[64];");
        for (base, name) in [(0, "inputs"), (1, "outputs"), (2, "memory")] {
            line(&format!("ld.param.u64 %base{base}, [{name}];"));
            line(&format!("cvta.to.global.u64 %base{base}, %base{base};"));
        }
        line("mov.u32 %r0, %tid.x;\n\tmov.u32 %r1, %ctaid.x;");
        line(&format!("mad.lo.u32 %r1, %r1, {BLOCK}, %r0;"));
        line(&format!("mul.wide.u32 %d2, %r1, {};", 8 * row_words()));
        line("add.u64 %base0, %base0, %d2;\n\tadd.u64 %base1, %base1, %d2;");
        let cells = OWN_BYTES * (BLOCK * GRID) as usize;
        line(&format!("add.u64 %base3, %base2, {cells};"));
        line(&format!("mul.wide.u32 %d2, %r1, {OWN_BYTES};"));
        line("add.u64 %base2, %base2, %d2;\n\tmov.u64 %base4, scratch;\n\tmov.u64 %base5, table;");
        line("mov.u32 %r3, exchange;\n\tshl.b32 %r9, %r0, 4;\n\tadd.u32 %r2, %r3, %r9;");
        line("mov.u32 %r10, own;\n\tadd.u32 %r9, %r10, %r9;\n\tmov.u32 %r10, cells;");
        for i in 0..8 {
            line(&format!(
                "st.local.u64 [scratch+{}], {};",
                8 * i,
                i * 0x0101
            ));
        }
        line("ld.global.v2.u64 {%d4, %d5}, [%base0];");
        line("st.shared.v2.u64 [%r9], {%d4, %d5};\n\tst.shared.v2.u64 [%r2], {%d5, %d4};");
        line(&format!("setp.lt.u32 %p0, %r0, {CELLS};"));
        line("shl.b32 %r4, %r0, 3;\n\tadd.u32 %r4, %r10, %r4;");
        line("mul.wide.u32 %d4, %r0, 0x1234567;\n\t@%p0 st.shared.u64 [%r4], %d4;");
    }
    text
}

impl Builder<'_> {
    /// The kernel around the body, after the functions that it calls.
    pub(super) fn kernel(&mut self) -> String {
        let body = std::mem::take(&mut self.text);
        let mut text: String = self.functions.concat();
        let _ = writeln!(
            text,
            ".visible .entry program_{}(.param .u64 inputs, .param .u64 outputs, \
             .param .u64 memory, .param .align 16 .b8 block[64])\n{{",
            self.seed
        );
        text.push_str(&declarations(self.counters));
        text.push_str(&prologue());
        for (slot, (kind, index)) in all_registers().enumerate() {
            let (bits, name) = (kind.bits(), register(kind, index));
            let _ = writeln!(text, "\tld.global.b{bits} {name}, [%base0+{}];", 8 * slot);
        }
        for guard in 0..4 {
            let name = register(Kind::I32, guard);
            let _ = writeln!(text, "\tsetp.lt.s32 %g{guard}, {name}, 0;");
        }
        text.push_str("\tbar.sync 0;\n");
        text.push_str(&body);
        text.push_str(&self.epilogue());
        text
    }

    /// Stores all results; in some programs, some threads exit before everything is stored.
    fn epilogue(&mut self) -> String {
        let mut text = String::from("\tbar.sync 0;\n");
        let _ = writeln!(text, "\tand.b32 %r4, %r0, {};", CELLS - 1);
        text.push_str("\tshl.b32 %r4, %r4, 3;\n\tadd.u32 %r4, %r10, %r4;\n");
        text.push_str("\tld.shared.u64 %d4, [%r4];\n");
        let _ = writeln!(text, "\tst.global.u64 [%base1+{}], %d4;", 8 * registers());
        let leaves_after = match self.once_in(4) {
            true => Some(self.random.below(registers())),
            false => None,
        };
        for (slot, (kind, index)) in all_registers().enumerate() {
            let (bits, name) = (kind.bits(), register(kind, index));
            if bits < 64 {
                let _ = writeln!(text, "\tcvt.u64.u{bits} %d4, {name};");
                let _ = writeln!(text, "\tst.global.u64 [%base1+{}], %d4;", 8 * slot);
            } else {
                let _ = writeln!(text, "\tst.global.u64 [%base1+{}], {name};", 8 * slot);
            }
            if leaves_after == Some(slot) {
                let guard = self.guard();
                let _ = writeln!(text, "\t@{guard} exit;");
            }
        }
        let last = *self.random.choose(&["ret", "ret.uni", "exit"]);
        let _ = writeln!(text, "\t{last};\n}}");
        text
    }
}
