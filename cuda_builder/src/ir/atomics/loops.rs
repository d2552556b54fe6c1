//! Functions that do an atomic operation by compare-and-swap of a 32-bit or 64-bit word.
//!
//! A value of 8 or 16 bits is exchanged with the aligned 32-bit word around it. The other bytes
//! keep their values, and a write to one of them in between makes the loop try again. All accesses
//! are relaxed at device scope, the first load too.

use std::collections::BTreeMap;

use crate::ir::{Item, Module};

/// The functions that a module needs, by name.
#[derive(Default)]
pub(super) struct Loops(BTreeMap<String, String>);

impl Loops {
    /// The name of the function for an `atomicrmw` of type `ty` at an address of type `pointer`.
    pub(super) fn rmw(&mut self, operation: &str, ty: &str, pointer: &str) -> String {
        let word = Word::of(ty, pointer);
        let body = [
            word.start(),
            word.again("again"),
            new_value(operation, ty),
            word.swap("%new"),
            format!("end:\n  ret {ty} %old\n"),
        ];
        let signature = format!("{ty} @NAME({pointer} %p, {ty} %value)");
        self.add((operation, ty, pointer), &signature, &body.concat())
    }

    /// The name of the function for a `cmpxchg` of type `ty` at an address of type `pointer`.
    pub(super) fn cmpxchg(&mut self, ty: &str, pointer: &str) -> String {
        let word = Word::of(ty, pointer);
        let result = format!("{{ {ty}, i1 }}");
        let body = [
            word.start(),
            word.again("try"),
            format!(
                "  %same = icmp eq {ty} %old, %compare\n  \
                 br i1 %same, label %try, label %end\ntry:\n"
            ),
            word.swap("%value"),
            format!(
                "end:\n  %done = phi i1 [ false, %again ], [ true, %try ]\n  \
                 %half = insertvalue {result} poison, {ty} %old, 0\n  \
                 %pair = insertvalue {result} %half, i1 %done, 1\n  ret {result} %pair\n"
            ),
        ];
        let signature = format!("{result} @NAME({pointer} %p, {ty} %compare, {ty} %value)");
        self.add(("cmpxchg", ty, pointer), &signature, &body.concat())
    }

    fn add(
        &mut self,
        (operation, ty, pointer): (&str, &str, &str),
        signature: &str,
        body: &str,
    ) -> String {
        let space: String = pointer.chars().filter(char::is_ascii_digit).collect();
        let name = format!("warpsmith.atomic.{operation}.{ty}.p{space}");
        let signature = signature.replace("NAME", &name);
        let text = format!("define internal {signature} alwaysinline nounwind {{\n{body}}}\n");
        self.0.insert(name.clone(), text);
        name
    }

    /// The functions as items of a module.
    pub(super) fn into_items(self) -> impl Iterator<Item = Item> {
        let functions = self.0.into_values();
        functions.flat_map(|text| Module::parse(&text).items)
    }
}

/// The word that is exchanged for a value of type `ty`.
struct Word<'a> {
    ty: &'a str,
    pointer: &'a str,
    /// The word's own type: that of the value, or of the word around it.
    whole: &'a str,
}

impl<'a> Word<'a> {
    fn of(ty: &'a str, pointer: &'a str) -> Self {
        let whole = if matches!(ty, "i8" | "i16") {
            "i32"
        } else {
            ty
        };
        Self { ty, pointer, whole }
    }

    fn is_part(&self) -> bool {
        self.ty != self.whole
    }

    /// Finds the word and loads it. GPUs are little-endian.
    fn start(&self) -> String {
        let Self { ty, pointer, whole } = self;
        let ones = if *ty == "i8" { 0xff } else { 0xffff };
        let find = if self.is_part() {
            format!(
                "  %address = ptrtoint {pointer} %p to i64\n  %byte = and i64 %address, 3\n  \
                 %back = sub i64 0, %byte\n  \
                 %word = getelementptr i8, {pointer} %p, i64 %back\n  \
                 %low = trunc i64 %byte to i32\n  %shift = shl i32 %low, 3\n  \
                 %mask = shl i32 {ones}, %shift\n  %others = xor i32 %mask, -1\n"
            )
        } else {
            format!("  %word = getelementptr i8, {pointer} %p, i64 0\n")
        };
        let align = self.align();
        format!(
            "start:\n{find}  %first = load atomic {whole}, {pointer} %word \
             syncscope(\"device\") monotonic, align {align}\n  br label %again\n"
        )
    }

    fn align(&self) -> u32 {
        if self.whole == "i64" { 8 } else { 4 }
    }

    /// Begins a round: `%seen` is the word, from the first load or from the swap in the block
    /// `last`; `%old` is the value in it.
    fn again(&self, last: &str) -> String {
        let Self { ty, whole, .. } = self;
        let old = if self.is_part() {
            format!("  %down = lshr i32 %seen, %shift\n  %old = trunc i32 %down to {ty}\n")
        } else {
            format!("  %old = or {ty} %seen, 0\n")
        };
        format!("again:\n  %seen = phi {whole} [ %first, %start ], [ %now, %{last} ]\n{old}")
    }

    /// Ends a round: tries to put `new` in the value's place.
    fn swap(&self, new: &str) -> String {
        let Self { ty, pointer, whole } = self;
        let next = if self.is_part() {
            format!(
                "  %wide = zext {ty} {new} to i32\n  %up = shl i32 %wide, %shift\n  \
                 %rest = and i32 %seen, %others\n  %next = or i32 %rest, %up\n"
            )
        } else {
            format!("  %next = or {ty} {new}, 0\n")
        };
        let align = self.align();
        format!(
            "{next}  %swap = cmpxchg {pointer} %word, {whole} %seen, {whole} %next \
             syncscope(\"device\") monotonic monotonic, align {align}\n  \
             %now = extractvalue {{ {whole}, i1 }} %swap, 0\n  \
             %swapped = extractvalue {{ {whole}, i1 }} %swap, 1\n  \
             br i1 %swapped, label %end, label %again\n"
        )
    }
}

/// Computes `%new` from `%old` and `%value`.
fn new_value(operation: &str, ty: &str) -> String {
    let keep = |condition: &str| {
        format!(
            "  %keep = icmp {condition} {ty} %old, %value\n  \
             %new = select i1 %keep, {ty} %old, {ty} %value\n"
        )
    };
    match operation {
        "xchg" => format!("  %new = or {ty} %value, 0\n"),
        "nand" => format!("  %both = and {ty} %old, %value\n  %new = xor {ty} %both, -1\n"),
        "max" => keep("sgt"),
        "min" => keep("slt"),
        "umax" => keep("ugt"),
        "umin" => keep("ult"),
        _ => format!("  %new = {operation} {ty} %old, %value\n"),
    }
}
