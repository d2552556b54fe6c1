//! Memory of a thread, and values that go from thread to thread.

use super::{BLOCK, Builder};
use crate::differential::operands::Kind;

impl Builder<'_> {
    /// Stores to and loads from the thread's own memory, at a place that a register says.
    pub(super) fn memory(&mut self) {
        let place = self.pick(Kind::I32);
        let (ty, kind) = *self.random.choose(&[
            ("u8", Kind::I16),
            ("s8", Kind::I32),
            ("u16", Kind::I32),
            ("s16", Kind::I32),
            ("b32", Kind::F32),
            ("u32", Kind::I64),
            ("s32", Kind::I64),
            ("b64", Kind::I64),
        ]);
        let (target, source) = (self.pick(kind), self.pick(kind));
        self.line(&format!("and.b32 %r4, {place}, 56;"));
        self.line("cvt.u64.u32 %d4, %r4;\n\tadd.u64 %d4, %d3, %d4;");
        let stored = ty.replace('s', "u");
        self.line(&format!("st.local.{stored} [%d4], {source};"));
        let offset = self.random.below(8 / width(ty)) * width(ty);
        let fixed = 8 * self.random.below(8);
        self.line(&format!("ld.local.{ty} {target}, [scratch+{fixed}];"));
        let other = self.pick(kind);
        self.line(&format!("ld.local.{ty} {other}, [%d4+{offset}];"));
    }

    /// Reads of special registers.
    pub(super) fn special(&mut self) {
        let name = *self
            .random
            .choose(&["%tid.x", "%laneid", "%ctaid.x", "%ntid.x", "%nctaid.x"]);
        let target = self.pick(Kind::I32);
        self.line(&format!("mov.u32 %r4, {name};"));
        self.line(&format!("xor.b32 {target}, {target}, %r4;"));
    }

    /// Shuffles, votes and shared memory; all threads of the block are here.
    pub(super) fn exchange(&mut self) {
        match self.random.below(6) {
            0 | 1 => self.shuffle(),
            2 => self.vote(),
            3 => self.reduce(),
            _ => self.share(),
        }
    }

    fn shuffle(&mut self) {
        let mode = *self.random.choose(&["idx", "up", "down", "bfly"]);
        let (kind, guard) = (*self.random.choose(&[Kind::I32, Kind::F32]), self.guard());
        let (target, source) = (self.pick(kind), self.pick(kind));
        // Segments of 32, 16 and 8 lanes; `up` is bounded from below.
        let segment = *self.random.choose(&[0x00_u32, 0x10, 0x18]);
        let bound = segment << 8 | if mode == "up" { 0 } else { 0x1f };
        let lane = if self.random.below(2) == 0 {
            self.random.below(32).to_string()
        } else {
            let place = self.pick(Kind::I32);
            self.line(&format!("and.b32 %r5, {place}, 31;"));
            "%r5".to_owned()
        };
        self.line(&format!(
            "shfl.sync.{mode}.b32 {target}|{guard}, {source}, {lane}, {bound}, 0xffffffff;"
        ));
    }

    fn vote(&mut self) {
        let (p, q) = (self.guard(), self.guard());
        match *self.random.choose(&["all", "any", "uni", "ballot"]) {
            "ballot" => {
                let target = self.pick(Kind::I32);
                self.line(&format!("vote.sync.ballot.b32 {target}, {p}, 0xffffffff;"));
            }
            mode => self.line(&format!("vote.sync.{mode}.pred {q}, !{p}, 0xffffffff;")),
        }
    }

    fn reduce(&mut self) {
        let op = *self.random.choose(&[
            "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32",
            "xor.b32",
        ]);
        let (target, source) = (self.pick(Kind::I32), self.pick(Kind::I32));
        self.line(&format!("redux.sync.{op} {target}, {source}, 0xffffffff;"));
    }

    /// Each thread writes 16 bytes and reads another's.
    fn share(&mut self) {
        let distance = 1 + self.random.below(BLOCK as usize - 1);
        self.line(&format!("add.u32 %r4, %r0, {distance};"));
        self.line(&format!("rem.u32 %r4, %r4, {BLOCK};"));
        self.line("shl.b32 %r4, %r4, 4;\n\tadd.u32 %r4, %r3, %r4;");
        let [a, b, c, d] = [0; 4].map(|_| self.pick(Kind::I32));
        let (wide, wider) = (self.pick(Kind::I64), self.pick(Kind::I64));
        match self.random.below(4) {
            0 => {
                self.line(&format!("st.shared.b32 [%r2], {a};\n\tbar.sync 0;"));
                self.line(&format!("ld.shared.b32 {b}, [%r4];\n\tbar.sync 0;"));
            }
            1 => {
                self.line(&format!(
                    "st.shared.v2.b64 [%r2], {{{wide}, {wider}}};\n\tbar.sync 0;"
                ));
                self.line("ld.shared.v2.b64 {%d4, %d5}, [%r4];\n\tbar.sync 0;");
                self.line(&format!("xor.b64 {wide}, %d4, %d5;"));
            }
            2 => {
                self.line(&format!("st.shared.v4.b32 [%r2], {{{a}, {b}, {c}, {d}}};"));
                self.line("bar.sync 0;\n\tld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];");
                self.line("bar.sync 0;");
                self.line(&format!("mov.b32 {a}, %r5;\n\tadd.u32 {b}, %r6, %r7;"));
                self.line(&format!("xor.b32 {c}, {c}, %r8;"));
            }
            _ => {
                // Sums do not depend on the order of the threads.
                self.line(&format!("st.shared.b32 [%r2], {a};\n\tbar.sync 0;"));
                self.line(&format!("red.shared.add.u32 [%r4], {b};"));
                self.line(&format!(
                    "bar.sync 0;\n\tld.shared.b32 {c}, [%r2];\n\tbar.sync 0;"
                ));
            }
        }
    }
}

/// Bytes of a type.
fn width(ty: &str) -> usize {
    match &ty[1..] {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        _ => 8,
    }
}
