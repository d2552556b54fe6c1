//! Communication between threads: within a warp, and through shared memory. All threads of the
//! block execute these statements.

use super::{BLOCK, Builder};
use crate::differential::operands::Kind;

/// Barriers of all threads use ids below this. A warp that only arrives (`bar.arrive`) goes on and
/// must not meet the others at the same barrier, so `hand_over` uses the two ids that are left.
const BARRIERS: usize = 14;

impl Builder<'_> {
    /// Shuffles, votes and the like, by the whole warp or by its halves.
    pub(super) fn warp(&mut self) {
        if !self.once_in(6) {
            return self.collective("0xffffffff");
        }
        let (other, end) = (self.label(), self.label());
        self.line("and.b32 %r4, %r0, 16;\n\tsetp.ne.u32 %q2, %r4, 0;");
        self.line(&format!("@%q2 bra {other};"));
        self.collective("0x0000ffff");
        self.line(&format!("bra {end};"));
        self.place(&other);
        self.collective("0xffff0000");
        self.place(&end);
        self.line("bar.warp.sync 0xffffffff;");
    }

    /// An instruction that the threads of `members` execute together.
    fn collective(&mut self, members: &str) {
        let name = self
            .vocabulary
            .name("warp", &mut self.random, |_| true)
            .to_owned();
        let words: Vec<&str> = name.split('.').collect();
        match words[0] {
            "shfl" => self.shuffle(&name, words[2], members),
            "vote" => self.vote(&name, words[2], members),
            "match" => self.matching(&name, words[1], members),
            "redux" => {
                let (target, source) = (self.pick(Kind::I32), self.pick(Kind::I32));
                self.line(&format!("{name} {target}, {source}, {members};"));
            }
            "elect" => {
                let target = self.pick(Kind::I32);
                self.line(&format!("{name} {target}|%q0, {members};"));
                self.keep("%q0");
            }
            _ => self.line(&format!("{name} {members};")),
        }
    }

    /// Stores a predicate: ptxas 13.0 moves a vote into the branch that uses its result, where
    /// fewer lanes may take part.
    fn keep(&mut self, predicate: &str) {
        self.line(&format!("selp.u32 %r4, 1, 0, {predicate};"));
        self.line("st.shared.u32 [%r9], %r4;");
    }

    fn shuffle(&mut self, name: &str, mode: &str, members: &str) {
        let (kind, guard) = (*self.random.choose(&[Kind::I32, Kind::F32]), self.guard());
        let (target, source) = (self.pick(kind), self.pick(kind));
        // Segments of 32, 16 and 8 lanes; `up` is bounded from below. Half a warp stays within
        // itself.
        let segments: &[u32] = if members == "0xffffffff" {
            &[0x00, 0x10, 0x18]
        } else {
            &[0x10, 0x18]
        };
        let segment = *self.random.choose(segments);
        let bound = segment << 8 | if mode == "up" { 0 } else { 0x1f };
        let span = if members == "0xffffffff" { 32 } else { 16 };
        let lane = if self.once_in(2) {
            self.random.below(span).to_string()
        } else {
            let place = self.pick(Kind::I32);
            self.line(&format!("and.b32 %r5, {place}, {};", span - 1));
            "%r5".to_owned()
        };
        let both = match self.once_in(3) {
            true => String::new(),
            false => format!("|{guard}"),
        };
        self.line(&format!(
            "{name} {target}{both}, {source}, {lane}, {bound}, {members};"
        ));
    }

    fn vote(&mut self, name: &str, mode: &str, members: &str) {
        let (p, q) = (self.guard(), self.guard());
        if mode == "ballot" {
            let target = self.pick(Kind::I32);
            self.line(&format!("{name} {target}, {p}, {members};"));
            self.line(&format!("st.shared.u32 [%r9], {target};"));
        } else {
            let sign = if self.once_in(2) { "!" } else { "" };
            self.line(&format!("{name} {q}, {sign}{p}, {members};"));
            self.keep(&q);
        }
    }

    /// Takes values from a small range, so that some match.
    fn matching(&mut self, name: &str, mode: &str, members: &str) {
        let target = self.pick(Kind::I32);
        let (source, free) = match name.ends_with("b64") {
            true => (self.pick(Kind::I64), "%d4"),
            false => (self.pick(Kind::I32), "%r4"),
        };
        let (bits, mask) = (&name[name.len() - 2..], *self.random.choose(&[0, 1, 3]));
        self.line(&format!("and.b{bits} {free}, {source}, {mask};"));
        if mode == "all" {
            self.line(&format!("{name} {target}|%q0, {free}, {members};"));
            self.keep("%q0");
        } else {
            self.line(&format!("{name} {target}, {free}, {members};"));
        }
    }

    /// Communication through shared memory between barriers, and barriers that reduce.
    pub(super) fn exchange(&mut self) {
        match self.random.below(8) {
            0 | 1 => self.share_words(),
            2 | 3 => self.share_any(),
            4 => self.hand_over(),
            5 => self.order(),
            _ => self.barrier_reduction(),
        }
    }

    /// A barrier of all threads, with any id below [`BARRIERS`], with or without a thread count.
    fn barrier(&mut self) {
        let fits = |name: &str| name.contains(".sync");
        let name = self
            .vocabulary
            .name("block", &mut self.random, fits)
            .to_owned();
        let id = self.random.below(BARRIERS);
        let count = match self.once_in(3) {
            true => format!(", {BLOCK}"),
            false => String::new(),
        };
        self.line(&format!("{name} {id}{count};"));
    }

    fn barrier_reduction(&mut self) {
        let fits = |name: &str| name.contains(".red");
        let name = self
            .vocabulary
            .name("block", &mut self.random, fits)
            .to_owned();
        let (p, target, id) = (
            self.guard(),
            self.pick(Kind::I32),
            self.random.below(BARRIERS),
        );
        let sign = if self.once_in(2) { "!" } else { "" };
        let count = match self.once_in(3) {
            true => format!(", {BLOCK}"),
            false => String::new(),
        };
        if name.contains("popc") {
            self.line(&format!("{name} {target}, {id}{count}, {sign}{p};"));
        } else {
            let q = self.guard();
            self.line(&format!("{name} {q}, {id}{count}, {sign}{p};"));
        }
    }

    /// Computes in `%r4` the address of another thread's 16 bytes.
    fn another(&mut self) {
        let distance = 1 + self.random.below(BLOCK as usize - 1);
        self.line(&format!("add.u32 %r4, %r0, {distance};"));
        self.line(&format!("rem.u32 %r4, %r4, {BLOCK};"));
        self.line("shl.b32 %r4, %r4, 4;\n\tadd.u32 %r4, %r3, %r4;");
    }

    /// Each thread writes words and reads those of another thread.
    fn share_words(&mut self) {
        self.another();
        let [a, b, c, d] = [0; 4].map(|_| self.pick(Kind::I32));
        let (wide, wider) = (self.pick(Kind::I64), self.pick(Kind::I64));
        match self.random.below(4) {
            0 => {
                self.line(&format!("st.shared.b32 [%r2], {a};"));
                self.barrier();
                self.line(&format!("ld.shared.b32 {b}, [%r4];"));
            }
            1 => {
                self.line(&format!("st.shared.v2.b64 [%r2], {{{wide}, {wider}}};"));
                self.barrier();
                self.line("ld.shared.v2.b64 {%d4, %d5}, [%r4];");
                self.line(&format!("xor.b64 {wide}, %d4, %d5;"));
            }
            2 => {
                self.line(&format!("st.shared.v4.b32 [%r2], {{{a}, {b}, {c}, {d}}};"));
                self.barrier();
                self.line("ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];");
                self.line(&format!("mov.b32 {a}, %r5;\n\tadd.u32 {b}, %r6, %r7;"));
                self.line(&format!("xor.b32 {c}, {c}, %r8;"));
            }
            _ => {
                // Sums do not depend on the order of the threads.
                self.line(&format!("st.shared.b32 [%r2], {a};"));
                self.barrier();
                self.line(&format!("red.shared.add.u32 [%r4], {b};"));
                self.barrier();
                self.line(&format!("ld.shared.b32 {c}, [%r2];"));
            }
        }
        self.barrier();
    }

    /// Loads what another thread stored, by any pair of instructions.
    fn share_any(&mut self) {
        let shared = |name: &str| name.contains(".shared");
        let store = self
            .vocabulary
            .name("store", &mut self.random, shared)
            .to_owned();
        let load = self
            .vocabulary
            .name("load", &mut self.random, shared)
            .to_owned();
        self.another();
        self.store_to(&store, "%r2");
        self.barrier();
        self.load_from(&load, "%r4");
        self.barrier();
    }

    /// The first warp writes and arrives; the others wait and read.
    fn hand_over(&mut self) {
        let family = *self.random.choose(&["bar.", "barrier."]);
        let named =
            |what: &'static str| move |name: &str| name.starts_with(family) && name.contains(what);
        let arrive = self
            .vocabulary
            .name("block", &mut self.random, named(".arrive"))
            .to_owned();
        let sync = self
            .vocabulary
            .name("block", &mut self.random, named(".sync"))
            .to_owned();
        let (value, target) = (self.pick(Kind::I32), self.pick(Kind::I32));
        let (writer, end, id) = (self.label(), self.label(), BARRIERS + self.random.below(2));
        self.line("setp.lt.u32 %q2, %r0, 32;\n\tand.b32 %r4, %r0, 31;");
        self.line("shl.b32 %r4, %r4, 4;\n\tadd.u32 %r4, %r3, %r4;");
        self.line(&format!("@%q2 bra {writer};"));
        self.line(&format!("{sync} {id}, {BLOCK};"));
        self.line(&format!("ld.shared.b32 {target}, [%r4];"));
        self.line(&format!("bra.uni {end};"));
        self.place(&writer);
        self.line(&format!("st.shared.b32 [%r2], {value};"));
        self.line(&format!("{arrive} {id}, {BLOCK};"));
        self.place(&end);
        self.barrier();
    }

    /// An instruction that orders or hints, and changes no value.
    pub(super) fn order(&mut self) {
        let name = self
            .vocabulary
            .name("order", &mut self.random, |_| true)
            .to_owned();
        let word = name.split('.').next().unwrap_or_default();
        match word {
            "prefetch" if name.contains(".local") => self.line(&format!("{name} [%base4];")),
            "prefetch" | "prefetchu" => self.line(&format!("{name} [%base0];")),
            "applypriority" => {
                self.line("and.b64 %d4, %base0, -128;");
                self.line(&format!("{name} [%d4], 128;"));
            }
            "nanosleep" => {
                let nanoseconds = self.random.below(50);
                self.line(&format!("{name} {nanoseconds};"));
            }
            _ => self.line(&format!("{name};")),
        }
    }
}
