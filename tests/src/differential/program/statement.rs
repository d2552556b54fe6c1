//! Statements: single instructions, reinterpretations, comparisons, branches, loops.

use super::{Builder, NAN_F64};
use crate::differential::forms::Form;
use crate::differential::operands::Kind;

/// Nesting of branches and loops.
const MAX_DEPTH: usize = 2;

impl Builder<'_> {
    /// `statements` statements. `converged` says that all threads of the block get here together.
    pub(super) fn block(&mut self, statements: usize, depth: usize, converged: bool) {
        let mut left = statements;
        while left > 0 {
            let size = 2 + self.random.below(6);
            match self.random.below(24) {
                0 if depth < MAX_DEPTH => self.branch(size, depth),
                1 if depth < MAX_DEPTH => self.repeat(size, depth, converged),
                2 | 3 if converged => self.exchange(),
                4 => self.compare(),
                5 => self.reinterpret(),
                6 => self.memory(),
                7 => self.special(),
                _ => self.form(),
            }
            left -= 1;
        }
    }

    /// A single instruction with every modifier, under a guard now and then.
    fn form(&mut self) {
        let form = self.vocabulary.choose(&mut self.random).clone();
        let kind = self.result_kind(&form);
        let target = self.pick(kind);
        let mut body = form.body.replace("$d", &target);
        for (operand, kind) in ["$a", "$b", "$c", "$e"].iter().zip(&form.inputs) {
            let source = self.pick(*kind);
            if *kind == Kind::Place {
                let place = format!("%r{}", 12 + operand.as_bytes()[1] % 8);
                self.line(&format!("and.b32 {place}, {source}, 31;"));
                body = body.replace(operand, &place);
            } else {
                body = body.replace(operand, &source);
            }
        }
        let mut guard = String::new();
        if body.matches(';').count() == 1 && self.random.below(6) == 0 {
            let (name, sign) = (
                self.guard(),
                if self.random.below(2) == 0 { "" } else { "!" },
            );
            guard = format!("@{sign}{name} ");
        }
        let Some(body) = settled(&body, &guard) else {
            return;
        };
        self.line(&body);
        let word = form.name.split('.').next().unwrap_or_default();
        let open_nan =
            matches!(word, "neg" | "abs") && !matches!(kind, Kind::I16 | Kind::I32 | Kind::I64);
        if kind == Kind::F64 || open_nan {
            self.settle_nan(kind, &target);
        }
    }

    /// Makes a NaN in a register the one that programs know; of pairs, both halves are looked at.
    fn settle_nan(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::F64 => {
                self.line(&format!("setp.nan.f64 %q0, {name}, {name};"));
                self.line(&format!("selp.b64 {name}, {NAN_F64}, {name}, %q0;"));
            }
            Kind::F32 => {
                self.line(&format!("setp.nan.f32 %q0, {name}, {name};"));
                self.line(&format!("selp.b32 {name}, 0x7fffffff, {name}, %q0;"));
            }
            Kind::F16 | Kind::Bf16 => {
                let ty = if kind == Kind::F16 { "f16" } else { "bf16" };
                self.line(&format!("setp.nan.{ty} %q0, {name}, {name};"));
                self.line(&format!("selp.b16 {name}, 0x7fff, {name}, %q0;"));
            }
            _ => {
                let ty = if kind == Kind::F16x2 {
                    "f16x2"
                } else {
                    "bf16x2"
                };
                self.line(&format!("setp.nan.{ty} %q0|%q1, {name}, {name};"));
                self.line(&format!("mov.b32 {{%h4, %h5}}, {name};"));
                self.line("selp.b16 %h4, 0x7fff, %h4, %q0;");
                self.line("selp.b16 %h5, 0x7fff, %h5, %q1;");
                self.line(&format!("mov.b32 {name}, {{%h4, %h5}};"));
            }
        }
    }

    /// Which pool a result goes to.
    fn result_kind(&mut self, form: &Form) -> Kind {
        let words: Vec<&str> = form.name.split('.').collect();
        let first = form.inputs.first().copied().unwrap_or(Kind::I32);
        let is_plain = !matches!(words[0], "cvt" | "set" | "setp" | "testp");
        if is_plain && first.bits() == form.output_bits {
            return if matches!(first, Kind::Amount | Kind::Place) {
                Kind::I32
            } else {
                first
            };
        }
        let named = words.len().checked_sub(2).map_or("", |i| words[i]);
        match (named, form.output_bits) {
            ("f16", 16) => Kind::F16,
            ("bf16", 16) => Kind::Bf16,
            ("f32" | "tf32", 32) => Kind::F32,
            ("f16x2", 32) => Kind::F16x2,
            ("bf16x2", 32) => Kind::Bf16x2,
            ("f64", 64) => Kind::F64,
            (_, 16) => Kind::I16,
            (_, 64) => Kind::I64,
            _ => Kind::I32,
        }
    }

    /// The bits of one register taken as something else of the same width.
    fn reinterpret(&mut self) {
        let pools = [
            (16, [Kind::I16, Kind::F16, Kind::Bf16, Kind::I16]),
            (32, [Kind::I32, Kind::F32, Kind::F16x2, Kind::Bf16x2]),
            (64, [Kind::I64, Kind::F64, Kind::I64, Kind::F64]),
        ];
        let (bits, kinds) = *self.random.choose(&pools);
        let (to, from) = (*self.random.choose(&kinds), *self.random.choose(&kinds));
        let (target, source) = (self.pick(to), self.pick(from));
        self.line(&format!("mov.b{bits} {target}, {source};"));
        if to == Kind::F64 {
            self.settle_nan(to, &target);
        }
    }

    /// New guards, and what selects by them.
    fn compare(&mut self) {
        let (a, b) = (self.pick(Kind::I32), self.pick(Kind::I32));
        let (x, y) = (self.pick(Kind::F32), self.pick(Kind::F32));
        let [p, q, r] = [self.guard(), self.guard(), self.guard()];
        match self.random.below(5) {
            0 => self.line(&format!("setp.lt.s32 {p}, {a}, {b};")),
            1 => {
                let op = *self.random.choose(&["and", "or", "xor"]);
                self.line(&format!("setp.ge.{op}.u32 {p}, {a}, {b}, {r};"));
            }
            2 if p != q => {
                let op = *self.random.choose(&["and", "or", "xor"]);
                self.line(&format!("setp.leu.{op}.f32 {p}|{q}, {x}, {y}, !{r};"));
            }
            3 => {
                let op = *self.random.choose(&["and", "or", "xor"]);
                self.line(&format!("{op}.pred {p}, {q}, {r};"));
            }
            _ => {
                let target = self.pick(Kind::I32);
                self.line(&format!("selp.b32 {target}, {a}, {b}, {p};"));
                self.line(&format!("not.pred {q}, {r};"));
            }
        }
    }

    fn branch(&mut self, size: usize, depth: usize) {
        let (other, end) = (self.label(), self.label());
        let guard = self.guard();
        self.line(&format!("@!{guard} bra {other};"));
        self.block(size, depth + 1, false);
        let has_else = self.random.below(2) == 0;
        if has_else {
            self.line(&format!("bra {end};"));
        }
        self.text.push_str(&format!("{other}:\n"));
        if has_else {
            self.block(size, depth + 1, false);
            self.text.push_str(&format!("{end}:\n"));
        }
    }

    /// A loop; as often as not, each thread goes round as often as a register says.
    fn repeat(&mut self, size: usize, depth: usize, converged: bool) {
        let start = self.label();
        let counter = format!("%n{}", self.counters);
        self.counters += 1;
        let same = self.random.below(2) == 0;
        if same {
            let count = 1 + self.random.below(3);
            self.line(&format!("mov.u32 {counter}, {count};"));
        } else {
            let count = self.pick(Kind::I32);
            self.line(&format!("and.b32 {counter}, {count}, 3;"));
            self.line(&format!("add.u32 {counter}, {counter}, 1;"));
        }
        self.text.push_str(&format!("{start}:\n"));
        self.block(size, depth + 1, converged && same);
        self.line(&format!("sub.u32 {counter}, {counter}, 1;"));
        self.line(&format!("setp.ne.u32 %q1, {counter}, 0;"));
        self.line(&format!("@%q1 bra {start};"));
    }
}

/// The instruction under its guard, unless ptxas 13.0 makes something else of it than PTX says:
/// under a guard, `set` between types changes the old value where the guard is false; `set` to a
/// float gives an integer 1 in places, and is left out (`None`); `min` and `max` of one register
/// with itself are taken for that register, whose NaN they should make canonical.
fn settled(body: &str, guard: &str) -> Option<String> {
    let (name, operands) = body.split_once(' ')?;
    let words: Vec<&str> = name.split('.').collect();
    let operands: Vec<&str> = operands.trim_end_matches(';').split(", ").collect();
    let ty = words[words.len() - 1];
    match (words[0], operands.as_slice()) {
        ("set", _) if matches!(words[words.len() - 2], "f32" | "f16" | "bf16") => None,
        ("set", _) => Some(body.to_owned()),
        ("min" | "max", [d, a, b]) if a == b && ty.contains('f') => {
            let bits = match ty {
                "f16" | "bf16" => 16,
                "f64" => 64,
                _ => 32,
            };
            Some(format!("{guard}mov.b{bits} {d}, {a};"))
        }
        _ => Some(format!("{guard}{body}")),
    }
}
