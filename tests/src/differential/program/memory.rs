//! Loads and stores of every width in every state space, at fixed and at computed addresses;
//! address conversions.

use super::Builder;
use crate::differential::operands::Kind;

/// Memory that a program may access: an address, generic or in its state space, and a size.
struct Place {
    base: String,
    bytes: usize,
    wide: bool,
    /// Its state space.
    space: &'static str,
}

impl Builder<'_> {
    /// A load, a store, or a use of addresses.
    pub(super) fn memory(&mut self) {
        if self.in_function {
            return self.form(None);
        }
        match self.random.below(8) {
            0 => self.address(),
            1 => self.order(),
            2..=4 => {
                let name = self
                    .vocabulary
                    .name("store", &mut self.random, |_| true)
                    .to_owned();
                let address = self.place_for(&name, false);
                self.store_to(&name, &address);
            }
            _ => {
                let name = self
                    .vocabulary
                    .name("load", &mut self.random, |_| true)
                    .to_owned();
                let address = self.place_for(&name, true);
                self.load_from(&name, &address);
            }
        }
    }

    /// Emits code for the address of a load or store, and returns the operand.
    fn place_for(&mut self, name: &str, is_load: bool) -> String {
        let words: Vec<&str> = name.split('.').collect();
        let bytes = element_bytes(words[words.len() - 1]) * vector_of(name);
        let constant = words.contains(&"nc") || words[0] == "ldu";
        let place = match words.iter().find_map(|word| space_of(word)) {
            Some(space) => self.own_place(space, is_load, constant),
            None => self.generic_place(is_load),
        };
        // The value mask that keeps an aligned offset inside, for sizes that are powers of two.
        let mask = (place.bytes - bytes) & !(bytes - 1);
        if self.once_in(2) || place.space == "param" && !place.base.starts_with('%') {
            let places = place.bytes / bytes;
            return format!("{}+{}", place.base, self.random.below(places) * bytes);
        }
        let index = self.pick(Kind::I32);
        self.line(&format!("and.b32 %r5, {index}, {mask};"));
        if place.wide {
            let symbol = !place.base.starts_with('%');
            let base = if symbol {
                self.line(&format!("mov.u64 %d4, {};", place.base));
                "%d4"
            } else {
                &place.base
            };
            self.line(&format!(
                "cvt.u64.u32 %d5, %r5;\n\tadd.u64 %d4, {base}, %d5;"
            ));
            "%d4".to_owned()
        } else {
            self.line(&format!("add.u32 %r5, {}, %r5;", place.base));
            "%r5".to_owned()
        }
    }

    /// Memory of a state space that belongs to the thread, or that is never written.
    fn own_place(&mut self, space: &'static str, is_load: bool, constant: bool) -> Place {
        let (base, bytes, wide) = match space {
            "global" if constant => ("%base0", 256, true),
            "global" if is_load && self.once_in(2) => ("%base0", 256, true),
            "global" => ("%base2", super::OWN_BYTES, true),
            "shared" => ("%r9", 16, false),
            "local" if self.once_in(2) => ("scratch", 64, true),
            "local" => ("%base4", 64, true),
            "const" if self.once_in(2) => ("table", 256, true),
            "const" => ("%base5", 256, true),
            _ => ("block", 64, true),
        };
        Place {
            base: base.to_owned(),
            bytes,
            wide,
            space,
        }
    }

    /// The same through a generic address, in `%d6`.
    fn generic_place(&mut self, is_load: bool) -> Place {
        let spaces: &[&'static str] = if is_load {
            &["global", "shared", "local", "const", "param"]
        } else {
            &["global", "shared", "local"]
        };
        let space = *self.random.choose(spaces);
        let place = self.own_place(space, is_load, false);
        match space {
            "shared" => self.line(&format!("cvt.u64.u32 %d6, {};", place.base)),
            _ => self.line(&format!("mov.u64 %d6, {};", place.base)),
        }
        let word = match space {
            "shared" if self.once_in(2) => "shared::cta",
            other => other,
        };
        self.line(&format!("cvta.{word}.u64 %d6, %d6;"));
        Place {
            base: "%d6".to_owned(),
            wide: true,
            ..place
        }
    }

    /// Stores registers by the instruction `name`.
    pub(super) fn store_to(&mut self, name: &str, address: &str) {
        let ty = name.rsplit('.').next().unwrap_or_default();
        let count = vector_of(name);
        let kind = self.kind_for(ty, count);
        let sources: Vec<String> = (0..count).map(|_| self.pick(kind)).collect();
        let sources = vector(&sources);
        self.line(&format!("{name} [{address}], {sources};"));
    }

    /// Loads registers by the instruction `name`.
    pub(super) fn load_from(&mut self, name: &str, address: &str) {
        let ty = name.rsplit('.').next().unwrap_or_default();
        let count = vector_of(name);
        let kind = self.kind_for(ty, count);
        let targets = self.pick_distinct(kind, count);
        self.line(&format!("{name} {}, [{address}];", vector(&targets)));
        if kind == Kind::F64 {
            for target in &targets {
                self.settle_nan(kind, target);
            }
        }
    }

    /// A kind of register that can hold elements of a type; it may be wider.
    fn kind_for(&mut self, ty: &str, count: usize) -> Kind {
        let kinds: &[Kind] = match ty {
            "b8" | "u8" | "s8" | "u16" | "s16" => &[Kind::I16, Kind::I32, Kind::I64],
            "b16" if count == 1 => &[Kind::I16, Kind::F16, Kind::Bf16],
            "b16" => &[Kind::I16],
            "b32" if count == 1 => &[Kind::I32, Kind::F32, Kind::F16x2, Kind::Bf16x2],
            "b32" => &[Kind::I32, Kind::F32],
            "u32" | "s32" => &[Kind::I32, Kind::I64],
            "f32" => &[Kind::F32],
            "f64" => &[Kind::F64],
            "b64" => &[Kind::I64, Kind::F64],
            _ => &[Kind::I64],
        };
        *self.random.choose(kinds)
    }

    /// Converts addresses to generic and back, and queries their state space (`isspacep`).
    fn address(&mut self) {
        let (target, p) = (self.pick(Kind::I32), self.guard());
        let fits = |name: &str| name.starts_with("isspacep");
        if self.once_in(2) {
            let name = self
                .vocabulary
                .name("address", &mut self.random, fits)
                .to_owned();
            let spaces = ["global", "shared", "local"];
            let space = *self.random.choose(&spaces);
            let place = self.own_place(space, true, true);
            match place.wide {
                true => self.line(&format!("mov.u64 %d4, {};", place.base)),
                false => self.line(&format!("cvt.u64.u32 %d4, {};", place.base)),
            }
            self.line(&format!("cvta.{}.u64 %d4, %d4;", place.space));
            self.line(&format!("{name} {p}, %d4;"));
            return;
        }
        let name = self
            .vocabulary
            .name("address", &mut self.random, |name| !fits(name))
            .to_owned();
        let to = name
            .replace("cvta.to.", "cvta.")
            .replace("cvta.", "cvta.to.");
        let from = name.replace("cvta.to.", "cvta.");
        let space = name.split('.').find_map(space_of).unwrap_or("global");
        let place = self.own_place(space, true, true);
        match place.wide {
            true => self.line(&format!("mov.u64 %d4, {};", place.base)),
            false => self.line(&format!("cvt.u64.u32 %d4, {};", place.base)),
        }
        self.line(&format!("{from} %d5, %d4;\n\t{to} %d4, %d5;"));
        let generic = self.once_in(2);
        match (generic, place.wide) {
            (true, _) => self.line(&format!("ld.u32 {target}, [%d5];")),
            (false, true) => self.line(&format!("ld.{space}.u32 {target}, [%d4];")),
            (false, false) => {
                self.line("cvt.u32.u64 %r4, %d4;");
                self.line(&format!("ld.{space}.u32 {target}, [%r4];"));
            }
        }
    }
}

/// The state space that a word names.
pub(super) fn space_of(word: &str) -> Option<&'static str> {
    Some(match word {
        "global" => "global",
        "shared" | "shared::cta" => "shared",
        "local" => "local",
        "const" => "const",
        "param" => "param",
        _ => return None,
    })
}

/// Number of elements of a load or store.
pub(super) fn vector_of(name: &str) -> usize {
    name.split('.')
        .find_map(|word| match word {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        })
        .unwrap_or(1)
}

/// Bytes of a type.
pub(super) fn element_bytes(ty: &str) -> usize {
    match ty {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        _ => 4,
    }
}

/// One register, or several in braces.
pub(super) fn vector(registers: &[String]) -> String {
    match registers {
        [one] => one.clone(),
        several => format!("{{{}}}", several.join(", ")),
    }
}
