//! Integer arithmetic, bits, comparisons.

use super::Form;
use crate::differential::operands::Kind::{self, Amount, I16, I32, I64, Place};

const TYPES: [(&str, Kind); 6] = [
    ("u16", I16),
    ("s16", I16),
    ("u32", I32),
    ("s32", I32),
    ("u64", I64),
    ("s64", I64),
];

/// The forms of this family.
pub(super) fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for (ty, kind) in TYPES {
        arithmetic(&mut forms, ty, kind);
    }
    saturating_and_24_bit(&mut forms);
    carries(&mut forms);
    logic_and_shifts(&mut forms);
    bit_fields(&mut forms);
    permutations(&mut forms);
    packed(&mut forms);
    forms
}

fn arithmetic(forms: &mut Vec<Form>, ty: &str, kind: Kind) {
    let bits = kind.bits();
    for op in ["add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"] {
        forms.push(Form::plain(&format!("{op}.{ty}"), &[kind; 2], bits));
    }
    for op in ["mad.lo", "mad.hi", "sad"] {
        forms.push(Form::plain(&format!("{op}.{ty}"), &[kind; 3], bits));
    }
    if bits < 64 {
        let wide = if bits == 16 { I32 } else { I64 };
        forms.push(Form::plain(&format!("mul.wide.{ty}"), &[kind; 2], 2 * bits));
        forms.push(Form::plain(
            &format!("mad.wide.{ty}"),
            &[kind, kind, wide],
            2 * bits,
        ));
    }
    if ty.starts_with('s') {
        forms.push(Form::plain(&format!("abs.{ty}"), &[kind], bits));
        forms.push(Form::plain(&format!("neg.{ty}"), &[kind], bits));
    }
    let unsigned = ["lo", "ls", "hi", "hs"];
    let names = ["eq", "ne", "lt", "le", "gt", "ge"].iter();
    for cmp in names.chain(if ty.starts_with('u') {
        &unsigned[..]
    } else {
        &[]
    }) {
        forms.push(Form::predicate(&format!("setp.{cmp}.{ty}"), &[kind; 2]));
    }
    forms.push(Form::plain(&format!("set.lt.u32.{ty}"), &[kind; 2], 32));
    forms.push(Form::plain(&format!("set.ge.f32.{ty}"), &[kind; 2], 32));
    forms.push(Form::plain(
        &format!("slct.{ty}.s32"),
        &[kind, kind, I32],
        bits,
    ));
    let shift = Form::plain(&format!("shr.{ty}"), &[kind, Amount], bits);
    forms.push(shift);
}

fn saturating_and_24_bit(forms: &mut Vec<Form>) {
    for op in ["add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"] {
        forms.push(Form::plain(op, &[I32; 2], 32));
    }
    forms.push(Form::plain("mad.hi.sat.s32", &[I32; 3], 32));
    forms.push(Form::plain("mad24.hi.sat.s32", &[I32; 3], 32));
    for ty in ["u32", "s32"] {
        for half in ["lo", "hi"] {
            forms.push(Form::plain(&format!("mul24.{half}.{ty}"), &[I32; 2], 32));
            forms.push(Form::plain(&format!("mad24.{half}.{ty}"), &[I32; 3], 32));
        }
    }
}

fn carries(forms: &mut Vec<Form>) {
    for (first, second) in [("add", "addc"), ("sub", "subc")] {
        let body = format!(
            "{first}.cc.u32 %r4, $a, $b; {second}.cc.u32 %r5, $c, $e; {second}.u32 %r6, 0, 0; \
             mov.b64 %d4, {{%r4, %r5}}; mov.b64 %d5, {{%r6, %r6}}; xor.b64 $d, %d4, %d5;"
        );
        forms.push(Form::with_body(
            &format!("{first}.cc.u32"),
            &body,
            &[I32; 4],
            64,
        ));
        let body = format!(
            "{first}.cc.u64 %d4, $a, $b; {second}.u64 %d5, $c, $a; mul.lo.u64 %d5, %d5, 3; \
             xor.b64 $d, %d4, %d5;"
        );
        forms.push(Form::with_body(
            &format!("{first}.cc.u64"),
            &body,
            &[I64; 3],
            64,
        ));
    }
    for ty in ["u32", "s32"] {
        let body = format!(
            "mad.lo.cc.{ty} %r4, $a, $b, $c; madc.hi.cc.{ty} %r5, $a, $b, $e; \
             addc.u32 %r6, 0, 0; mov.b64 %d4, {{%r4, %r5}}; mov.b64 %d5, {{%r6, %r6}}; \
             xor.b64 $d, %d4, %d5;"
        );
        forms.push(Form::with_body(
            &format!("mad.lo.cc.{ty}"),
            &body,
            &[I32; 4],
            64,
        ));
    }
    let body = "mad.lo.cc.u64 %d4, $a, $b, $c; madc.hi.u64 %d5, $a, $b, $c; \
                mul.lo.u64 %d5, %d5, 3; xor.b64 $d, %d4, %d5;";
    forms.push(Form::with_body("mad.lo.cc.u64", body, &[I64; 3], 64));
}

fn logic_and_shifts(forms: &mut Vec<Form>) {
    for (bits, kind) in [(16, I16), (32, I32), (64, I64)] {
        for op in ["and", "or", "xor"] {
            forms.push(Form::plain(&format!("{op}.b{bits}"), &[kind; 2], bits));
        }
        forms.push(Form::plain(&format!("not.b{bits}"), &[kind], bits));
        forms.push(Form::plain(&format!("cnot.b{bits}"), &[kind], bits));
        forms.push(Form::plain(&format!("shl.b{bits}"), &[kind, Amount], bits));
        forms.push(Form::plain(&format!("shr.b{bits}"), &[kind, Amount], bits));
    }
    for table in [0x00, 0x96, 0xe8, 0xca, 0x1d, 0x80, 0xfe, 0x6b, 0xff] {
        let body = format!("lop3.b32 $d, $a, $b, $c, {table};");
        forms.push(Form::with_body(
            &format!("lop3.b32 {table:#04x}"),
            &body,
            &[I32; 3],
            32,
        ));
    }
    for mode in ["clamp", "wrap"] {
        for side in ["l", "r"] {
            let name = format!("shf.{side}.{mode}.b32");
            forms.push(Form::plain(&name, &[I32, I32, Amount], 32));
        }
        forms.push(Form::plain(&format!("bmsk.{mode}.b32"), &[Amount; 2], 32));
        for ty in ["u32", "s32"] {
            forms.push(Form::plain(
                &format!("szext.{mode}.{ty}"),
                &[I32, Amount],
                32,
            ));
        }
    }
}

fn bit_fields(forms: &mut Vec<Form>) {
    for (bits, kind) in [(32, I32), (64, I64)] {
        forms.push(Form::plain(&format!("popc.b{bits}"), &[kind], 32));
        forms.push(Form::plain(&format!("clz.b{bits}"), &[kind], 32));
        forms.push(Form::plain(&format!("brev.b{bits}"), &[kind], bits));
        forms.push(Form::plain(
            &format!("bfi.b{bits}"),
            &[kind, kind, Amount, Amount],
            bits,
        ));
        for sign in ["u", "s"] {
            let ty = format!("{sign}{bits}");
            forms.push(Form::plain(
                &format!("bfe.{ty}"),
                &[kind, Amount, Amount],
                bits,
            ));
            forms.push(Form::plain(&format!("bfind.{ty}"), &[kind], 32));
            forms.push(Form::plain(&format!("bfind.shiftamt.{ty}"), &[kind], 32));
        }
    }
    let body = "sub.s32 %r4, $c, 16; fns.b32 $d, $a, $b, %r4;";
    forms.push(Form::with_body("fns.b32", body, &[I32, Place, Place], 32));
}

fn permutations(forms: &mut Vec<Form>) {
    forms.push(Form::plain("prmt.b32", &[I32; 3], 32));
    for mode in ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"] {
        let name = format!("prmt.b32.{mode}");
        forms.push(Form::plain(&name, &[I32, I32, Place], 32));
    }
}

fn packed(forms: &mut Vec<Form>) {
    for a in ["u32", "s32"] {
        for b in ["u32", "s32"] {
            forms.push(Form::plain(&format!("dp4a.{a}.{b}"), &[I32; 3], 32));
            forms.push(Form::plain(&format!("dp2a.lo.{a}.{b}"), &[I32; 3], 32));
            forms.push(Form::plain(&format!("dp2a.hi.{a}.{b}"), &[I32; 3], 32));
        }
    }
    for ty in ["u16x2", "s16x2", "relu.s16x2"] {
        for op in ["add", "min", "max"] {
            if (op, ty) != ("add", "relu.s16x2") {
                forms.push(Form::plain(&format!("{op}.{ty}"), &[I32; 2], 32));
            }
        }
    }
}
