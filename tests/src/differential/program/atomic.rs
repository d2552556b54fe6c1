//! `atom` and `red` whose results do not depend on the order of threads. They work on the thread's
//! own memory, or are commutative operations on cells that are used with that one operation only.

use super::memory::{element_bytes, space_of, vector, vector_of};
use super::{Builder, CELLS};
use crate::differential::operands::Kind;

/// Operations that give the same result in every order. Cell `i` is used with operation `i` only.
/// The bound of `inc` and `dec` is always the same.
const COMMUTING: [&str; 19] = [
    "add.u32", "add.s32", "add.u64", "min.u32", "max.u32", "min.s32", "max.s32", "min.u64",
    "max.u64", "min.s64", "max.s64", "and.b32", "or.b32", "xor.b32", "and.b64", "or.b64",
    "xor.b64", "inc.u32", "dec.u32",
];

impl Builder<'_> {
    /// An atomic operation.
    pub(super) fn atomic(&mut self) {
        if self.in_function {
            return self.form(None);
        }
        if self.once_in(3) {
            self.common_cell();
        } else {
            self.own_cell();
        }
    }

    /// All threads update the same cell, each with its own value.
    fn common_cell(&mut self) {
        let index = self.random.below(COMMUTING.len().min(CELLS));
        let op = COMMUTING[index];
        let kind = match op.ends_with("64") {
            true => Kind::I64,
            false => Kind::I32,
        };
        let value = match index {
            17 | 18 => "1000".to_owned(),
            _ => self.pick(kind),
        };
        let (space, base) = *self
            .random
            .choose(&[("global", "%base3"), ("shared", "%r10")]);
        let order = *self
            .random
            .choose(&["", ".relaxed.gpu", ".relaxed.cta", ".release.gpu"]);
        // A cell of the grid is shared with threads of other blocks.
        let order = if space == "global" {
            order.replace("cta", "gpu")
        } else {
            order.to_owned()
        };
        let guard = if self.once_in(3) {
            self.some_guard()
        } else {
            String::new()
        };
        let place = 8 * index;
        if self.once_in(4) {
            let free = if kind == Kind::I64 { "%d4" } else { "%r4" };
            self.line(&format!(
                "{guard}atom{order}.{space}.{op} {free}, [{base}+{place}], {value};"
            ));
        } else {
            self.line(&format!(
                "{guard}red{order}.{space}.{op} [{base}+{place}], {value};"
            ));
        }
    }

    /// Any atomic operation, on memory that only this thread uses.
    fn own_cell(&mut self) {
        let name = self
            .vocabulary
            .name("atomic", &mut self.random, |_| true)
            .to_owned();
        let words: Vec<&str> = name.split('.').collect();
        let (opcode, count) = (words[0], vector_of(&name));
        let op = *words
            .iter()
            .find(|word| OPERATIONS.contains(word))
            .unwrap_or(&"add");
        let ty = *words
            .iter()
            .rev()
            .find(|word| TYPES.contains(word))
            .unwrap_or(&"b32");
        let kind = kind_of(ty);
        let bytes = element_bytes(ty) * count;
        let address = self.own_address(words.iter().find_map(|word| space_of(word)), bytes);
        let operand = self.operand(kind, count);
        self.first_value(op, ty, kind, count, &address, &operand);
        let mut operands = format!("[{address}], {operand}");
        if op == "cas" {
            let new = self.operand(kind, count);
            operands = format!("{operands}, {new}");
        }
        if opcode == "atom" {
            let targets = vector(&self.pick_distinct_or_free(kind, count));
            self.line(&format!("{name} {targets}, {operands};"));
            if kind == Kind::F64 {
                self.settle_nan(kind, &targets);
            }
        } else {
            self.line(&format!("{name} {operands};"));
        }
        if kind == Kind::F64 {
            let space = space_word(&address);
            self.line(&format!("ld{space}.f64 %d7, [{address}];"));
            self.settle_nan(kind, "%d7");
            self.line(&format!("st{space}.f64 [{address}], %d7;"));
        }
    }

    /// A generic or state-space address of the thread's own memory, aligned to `bytes`.
    fn own_address(&mut self, space: Option<&'static str>, bytes: usize) -> String {
        let places = |size: usize| size / bytes;
        match space {
            Some("shared") => {
                let at = self.random.below(places(16)) * bytes;
                format!("%r9+{at}")
            }
            Some(_) => {
                let at = self.random.below(places(super::OWN_BYTES)) * bytes;
                format!("%base2+{at}")
            }
            None if self.once_in(2) => {
                self.line("cvt.u64.u32 %d6, %r9;\n\tcvta.shared.u64 %d6, %d6;");
                let at = self.random.below(places(16)) * bytes;
                format!("%d6+{at}")
            }
            None => {
                self.line("cvta.global.u64 %d6, %base2;");
                let at = self.random.below(places(super::OWN_BYTES)) * bytes;
                format!("%d6+{at}")
            }
        }
    }

    fn operand(&mut self, kind: Kind, count: usize) -> String {
        let all: Vec<String> = (0..count).map(|_| self.pick(kind)).collect();
        vector(&all)
    }

    /// Different registers; if the pool has too few, the free scratch registers.
    fn pick_distinct_or_free(&mut self, kind: Kind, count: usize) -> Vec<String> {
        if count == 1 || count <= 3 {
            return self.pick_distinct(kind, count);
        }
        let prefix = if kind.bits() == 16 { "%h" } else { "%r" };
        (12..12 + count).map(|i| format!("{prefix}{i}")).collect()
    }

    /// Sets the initial value of the cell: keeps it, or stores a register. For `cas` it is often
    /// the value that is compared with; for floats always a number of the type.
    fn first_value(
        &mut self,
        op: &str,
        ty: &str,
        kind: Kind,
        count: usize,
        address: &str,
        operand: &str,
    ) {
        let is_float = !matches!(kind, Kind::I16 | Kind::I32 | Kind::I64);
        if !is_float && self.once_in(2) {
            return;
        }
        let stored = match op == "cas" && self.once_in(2) {
            true => operand.to_owned(),
            false => self.operand(kind, count),
        };
        let vector = match count {
            1 => "",
            2 => ".v2",
            _ => ".v4",
        };
        let bits = 8 * element_bytes(ty);
        if count == 8 {
            let halves: Vec<String> = stored
                .trim_matches(['{', '}'])
                .split(", ")
                .map(str::to_owned)
                .collect();
            self.line(&format!(
                "st.global.v4.b16 [{address}], {{{}}};",
                halves[..4].join(", ")
            ));
            let (base, at) = address.split_once('+').unwrap_or((address, "0"));
            let next = at.parse::<usize>().unwrap_or(0) + 8;
            self.line(&format!(
                "st.global.v4.b16 [{base}+{next}], {{{}}};",
                halves[4..].join(", ")
            ));
            return;
        }
        let space = space_word(address);
        self.line(&format!("st{space}{vector}.b{bits} [{address}], {stored};"));
    }
}

const OPERATIONS: [&str; 10] = [
    "and", "or", "xor", "exch", "cas", "add", "min", "max", "inc", "dec",
];

const TYPES: [&str; 14] = [
    "b16", "b32", "b64", "u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16",
    "bf16x2", "b128",
];

/// The state space of an address, as plain accesses spell it.
fn space_word(address: &str) -> &'static str {
    if address.starts_with("%r9") {
        ".shared"
    } else if address.starts_with("%base2") {
        ".global"
    } else {
        ""
    }
}

/// The kind of register that holds a type.
fn kind_of(ty: &str) -> Kind {
    match ty {
        "b16" => Kind::I16,
        "b64" | "u64" | "s64" => Kind::I64,
        "f32" => Kind::F32,
        "f64" => Kind::F64,
        "f16" => Kind::F16,
        "bf16" => Kind::Bf16,
        "f16x2" => Kind::F16x2,
        "bf16x2" => Kind::Bf16x2,
        _ => Kind::I32,
    }
}
