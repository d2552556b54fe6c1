//! Statements: single instructions, reinterpretations, predicates.

use super::{Builder, NAN_F64};
use crate::differential::forms::Form;
use crate::differential::operands::Kind;

/// Sections of `plain.txt`.
const PLAIN: [&str; 7] = [
    "integer", "bits", "select", "compare", "float", "half", "convert",
];

impl Builder<'_> {
    /// Generates statements. `converged` says that all threads of the block execute them together.
    pub(super) fn block(&mut self, statements: usize, depth: usize, converged: bool) {
        for _ in 0..statements {
            let category = self.category;
            if self.once_in(2) && category != "mixed" {
                match category {
                    "memory" => self.memory(),
                    "atomic" => self.atomic(),
                    "warp" if converged => self.warp(),
                    "block" if converged => self.exchange(),
                    "control" => self.control(depth, converged),
                    _ if PLAIN.contains(&category) => self.form(Some(category)),
                    _ => self.form(None),
                }
            } else {
                self.any(depth, converged);
            }
        }
    }

    /// A statement of any category.
    fn any(&mut self, depth: usize, converged: bool) {
        match self.random.below(32) {
            0 | 1 => self.control(depth, converged),
            2 if converged => self.warp(),
            3 if converged => self.exchange(),
            4 => self.predicates(),
            5 => self.reinterpret(),
            6 => self.memory(),
            7 => self.special(),
            8 => self.atomic(),
            _ => self.form(None),
        }
    }

    /// A single instruction with any modifiers, sometimes under a guard.
    pub(super) fn form(&mut self, section: Option<&str>) {
        let form = self.vocabulary.form(section, &mut self.random).clone();
        let kind = form.output.kind();
        let target = self.pick(kind);
        let mut body = form.body.replace("$d", &target);
        // PTX has no immediates for pairs of 16-bit floats, nor for video instructions.
        let immediate = body.matches(';').count() == 1
            && !form.name.contains("16x2")
            && !form.name.starts_with("v");
        for (i, kind) in form.inputs.iter().enumerate() {
            let operand = ["$a", "$b", "$c", "$e"][i];
            let source = self.pick(*kind);
            let source = if *kind == Kind::Place {
                let place = format!("%r{}", 12 + i);
                self.line(&format!("and.b32 {place}, {source}, 31;"));
                place
            } else if i > 0 && immediate && self.once_in(8) {
                self.immediate(*kind).unwrap_or(source)
            } else {
                source
            };
            body = body.replace(operand, &source);
        }
        let word = form.name.split('.').next().unwrap_or_default();
        if word == "cnot" {
            body = self.hidden_cnot(&form, &body, &target);
        }
        let single = body.matches(';').count() == 1;
        let guard = match single && self.once_in(6) {
            true => self.some_guard(),
            false => String::new(),
        };
        self.line(&settled(&body, &guard));
        let is_float = !matches!(kind, Kind::I16 | Kind::I32 | Kind::I64);
        if kind == Kind::F64 || (is_float && matches!(word, "neg" | "abs")) {
            self.settle_nan(kind, &target);
        }
    }

    /// `@%g0 ` or `@!%g0 `, with any guard.
    pub(super) fn some_guard(&mut self) -> String {
        let sign = if self.once_in(2) { "" } else { "!" };
        format!("@{sign}{} ", self.guard())
    }

    /// An immediate in place of an operand.
    fn immediate(&mut self, kind: Kind) -> Option<String> {
        let value = match self.once_in(2) {
            true => *self.random.choose(&kind.specials()),
            false => kind.random(&mut self.random),
        };
        Some(match kind {
            Kind::I16 => format!("{}", value as i16),
            Kind::I32 => format!("{}", value as i32),
            Kind::I64 => format!("{}", value as i64),
            Kind::Amount => format!("{}", value & 0x7f),
            Kind::F32 => format!("0f{value:08x}"),
            Kind::F64 if f64::from_bits(value).is_nan() => return None,
            Kind::F64 => format!("0d{value:016x}"),
            _ => return None,
        })
    }

    /// With ptxas 13.0, a 16-bit shift by the result of `cnot` reads a register that never received
    /// the amount. So the result is first combined with another value.
    fn hidden_cnot(&mut self, form: &Form, body: &str, target: &str) -> String {
        let bits = form.output_bits();
        let free = match bits {
            16 => "%h4",
            32 => "%r4",
            _ => "%d4",
        };
        let other = self.pick(form.output.kind());
        let body = body.replacen(target, free, 1);
        format!("{body}\n\txor.b{bits} {target}, {free}, {other};")
    }

    /// Replaces a NaN in a register by the fixed one of all programs; in pairs, each half is
    /// replaced.
    pub(super) fn settle_nan(&mut self, kind: Kind, name: &str) {
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

    /// Reinterprets the bits of registers as another type, splits and joins them.
    pub(super) fn reinterpret(&mut self) {
        if self.once_in(3) {
            return self.repack();
        }
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

    /// `mov` to and from a vector.
    fn repack(&mut self) {
        let (wide, narrow, half) = (
            self.pick(Kind::I64),
            self.pick(Kind::I32),
            self.pick(Kind::I16),
        );
        let halves = self.pick_distinct(Kind::I16, 4).join(", ");
        let words = self.pick_distinct(Kind::I32, 2).join(", ");
        match self.random.below(6) {
            0 => self.line(&format!("mov.b64 {{{halves}}}, {wide};")),
            1 => self.line(&format!("mov.b64 {wide}, {{{halves}}};")),
            2 => self.line(&format!("mov.b64 {{{words}}}, {wide};")),
            3 => self.line(&format!("mov.b64 {wide}, {{{words}}};")),
            4 => self.line(&format!("mov.b32 {{%h4, {half}}}, {narrow};")),
            _ => self.line(&format!("mov.b32 {narrow}, {{{half}, {half}}};")),
        }
    }

    /// Computes new guards, and selects by them.
    pub(super) fn predicates(&mut self) {
        let (a, b) = (self.pick(Kind::I32), self.pick(Kind::I32));
        let (x, y) = (self.pick(Kind::F32), self.pick(Kind::F32));
        let [p, q, r] = [self.guard(), self.guard(), self.guard()];
        let op = *self.random.choose(&["and", "or", "xor"]);
        match self.random.below(6) {
            0 => self.line(&format!("setp.lt.s32 {p}, {a}, {b};")),
            1 => self.line(&format!("setp.ge.{op}.u32 {p}, {a}, {b}, {r};")),
            2 if p != q => self.line(&format!("setp.leu.{op}.f32 {p}|{q}, {x}, {y}, !{r};")),
            3 => self.line(&format!("{op}.pred {p}, {q}, {r};")),
            4 => self.line(&format!("mov.pred {p}, {q};")),
            _ => {
                let target = self.pick(Kind::I32);
                self.line(&format!("selp.b32 {target}, {a}, {b}, {p};"));
                self.line(&format!("not.pred {q}, {r};"));
            }
        }
    }

    /// Reads of special registers.
    fn special(&mut self) {
        if self.in_function {
            return self.reinterpret();
        }
        let name = *self.random.choose(&super::SPECIAL);
        let target = self.pick(Kind::I32);
        self.line(&format!("mov.u32 %r4, {name};"));
        self.line(&format!("xor.b32 {target}, {target}, %r4;"));
    }
}

/// The instruction under its guard, unless ptxas 13.0 compiles it to something else than PTX says.
/// Under a guard, `set` between types and video instructions change the old value also if the guard
/// is false. And `min` and `max` of a register with itself are replaced by that register, although
/// they should make its NaN canonical.
fn settled(body: &str, guard: &str) -> String {
    let Some((name, operands)) = body.split_once(' ') else {
        return body.to_owned();
    };
    let words: Vec<&str> = name.split('.').collect();
    let operands: Vec<&str> = operands.trim_end_matches(';').split(", ").collect();
    let ty = words[words.len() - 1];
    match (words[0], operands.as_slice()) {
        ("set", _) => body.to_owned(),
        (word, _) if word.starts_with('v') => body.to_owned(),
        ("min" | "max", [d, a, b]) if a == b && ty.contains('f') => {
            let bits = match ty {
                "f16" | "bf16" => 16,
                "f64" => 64,
                _ => 32,
            };
            format!("{guard}mov.b{bits} {d}, {a};")
        }
        _ => format!("{guard}{body}"),
    }
}
