//! Control flow: branches, branch tables, loops, calls.

use super::Builder;
use crate::differential::operands::Kind;

/// Deepest nesting of branches and loops.
const MAX_DEPTH: usize = 3;

/// Most branches, loops and calls of a program, and most calls among them. Each costs compile time,
/// and ptxas 13.0 crashes on some programs with many.
const MAX_WAYS: usize = 12;
const MAX_CALLS: usize = 2;

impl Builder<'_> {
    /// A branch, loop or call.
    pub(super) fn control(&mut self, depth: usize, converged: bool) {
        if self.in_function || depth >= MAX_DEPTH || self.ways >= MAX_WAYS {
            return self.form(None);
        }
        self.ways += 1;
        let size = 1 + self.random.below(6 - depth);
        match self.random.below(8) {
            0..=2 => self.branch(size, depth),
            3 | 4 => self.repeat(size, depth, converged),
            5 => self.table(depth, converged),
            _ if self.calls >= MAX_CALLS => self.form(None),
            _ => self.call(converged),
        }
    }

    fn branch(&mut self, size: usize, depth: usize) {
        let (other, end) = (self.label(), self.label());
        // ptxas 13.0 crashes on a call that can never be reached, so no guard is nested within
        // itself.
        let first = self.random.below(4);
        let mut free = (0..4).map(|i| format!("%g{}", (first + i) % 4));
        let guard = free
            .find(|guard| !self.around.contains(guard))
            .unwrap_or_default();
        self.line(&format!("@!{guard} bra {other};"));
        self.around.push(guard);
        self.block(size, depth + 1, false);
        let has_else = self.once_in(2);
        if has_else {
            let uniform = *self.random.choose(&["", ".uni"]);
            self.line(&format!("bra{uniform} {end};"));
        }
        self.place(&other);
        if has_else {
            self.block(size, depth + 1, false);
            self.place(&end);
        }
        self.around.pop();
    }

    /// A loop. In about half of them, the trip count of each thread comes from a register.
    fn repeat(&mut self, size: usize, depth: usize, converged: bool) {
        let start = self.label();
        let counter = format!("%n{}", self.counters);
        self.counters += 1;
        let same = self.once_in(2);
        if same {
            let count = 1 + self.random.below(3);
            self.line(&format!("mov.u32 {counter}, {count};"));
        } else {
            let count = self.pick(Kind::I32);
            self.line(&format!("and.b32 {counter}, {count}, 3;"));
            self.line(&format!("add.u32 {counter}, {counter}, 1;"));
        }
        self.place(&start);
        self.block(size, depth + 1, converged && same);
        self.line(&format!("sub.u32 {counter}, {counter}, 1;"));
        self.line(&format!("setp.ne.u32 %q1, {counter}, 0;"));
        self.line(&format!("@%q1 bra {start};"));
    }

    /// `brx.idx`: the target comes from a register of each thread, or from the block's index.
    fn table(&mut self, depth: usize, converged: bool) {
        let uniform = self.once_in(3);
        let arms: Vec<String> = (0..4).map(|_| self.label()).collect();
        let (targets, end) = (self.label(), self.label());
        self.line(&format!("{targets}: .branchtargets {};", arms.join(", ")));
        if uniform {
            self.line("mov.u32 %r4, %ctaid.x;");
            self.line(&format!("brx.idx.uni %r4, {targets};"));
        } else {
            let index = self.pick(Kind::I32);
            self.line(&format!("and.b32 %r4, {index}, 3;"));
            self.line(&format!("brx.idx %r4, {targets};"));
        }
        for arm in &arms {
            self.place(arm);
            let size = 1 + self.random.below(3);
            self.block(size, depth + 1, converged && uniform);
            let word = if uniform { "bra.uni" } else { "bra" };
            self.line(&format!("{word} {end};"));
        }
        self.place(&end);
    }

    /// A call of a function generated for it: direct, indirect, or recursive.
    fn call(&mut self, converged: bool) {
        self.calls += 1;
        let name = self.function();
        let (number, wide) = (self.pick(Kind::I32), self.pick(Kind::I64));
        let (first, second) = (self.pick(Kind::F32), self.pick(Kind::F64));
        let (result, pair) = (self.pick(Kind::I64), self.pick(Kind::I32));
        let uniform = if converged && self.once_in(2) {
            ".uni"
        } else {
            ""
        };
        self.line("{");
        self.line(".param .b32 p0;\n\t.param .b64 p1;\n\t.param .align 8 .b8 p2[16];");
        self.line(".param .align 8 .b8 x0[16];");
        self.line(&format!(
            "st.param.b32 [p0], {number};\n\tst.param.b64 [p1], {wide};"
        ));
        self.line(&format!(
            "st.param.f32 [p2+4], {first};\n\tst.param.f64 [p2+8], {second};"
        ));
        self.line(&format!("st.param.b32 [p2], {pair};"));
        if self.once_in(3) {
            let (prototype, label) = (self.label(), "(.param .align 8 .b8 _[16])");
            self.line(&format!(
                "{prototype}: .callprototype {label} _ (.param .b32 _, .param .b64 _, \
                 .param .align 8 .b8 _[16]);"
            ));
            self.line(&format!("mov.u64 %d4, {name};"));
            self.line(&format!(
                "call{uniform} (x0), %d4, (p0, p1, p2), {prototype};"
            ));
        } else {
            self.line(&format!("call{uniform} (x0), {name}, (p0, p1, p2);"));
        }
        self.line(&format!("ld.param.b64 {result}, [x0];"));
        self.line(&format!(
            "ld.param.b32 {pair}, [x0+8];\n\tld.param.f32 {first}, [x0+12];"
        ));
        self.line("}");
    }
}
