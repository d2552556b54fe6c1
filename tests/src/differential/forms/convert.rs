//! Conversions between every pair of types.

use super::Form;
use crate::differential::operands::Kind::{self, Bf16, F16, F16x2, F32, F64, Fp8x2, I16, I32, I64};

/// Integer types with the register that holds them; 8 bits travel in a 16-bit one.
const INTEGERS: [(&str, Kind, u32); 8] = [
    ("u8", I16, 8),
    ("s8", I16, 8),
    ("u16", I16, 16),
    ("s16", I16, 16),
    ("u32", I32, 32),
    ("s32", I32, 32),
    ("u64", I64, 64),
    ("s64", I64, 64),
];

const FLOATS: [(&str, Kind); 4] = [("f16", F16), ("bf16", Bf16), ("f32", F32), ("f64", F64)];

/// The forms of this family.
pub(super) fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for (to, _, to_bits) in INTEGERS {
        for (from, kind, _) in INTEGERS {
            forms.push(to_integer(&format!("cvt.{to}.{from}"), kind, to_bits));
            if may_overflow(from, to) {
                forms.push(to_integer(&format!("cvt.sat.{to}.{from}"), kind, to_bits));
            }
        }
        for (from, kind) in FLOATS {
            if (from, to_bits) == ("bf16", 8) {
                continue;
            }
            for rounding in ["rni", "rzi", "rmi", "rpi"] {
                let name = format!("cvt.{rounding}.{to}.{from}");
                // Only bf16 wants a register of just that width.
                forms.push(match from {
                    "bf16" => Form::plain(&name, &[kind], to_bits),
                    _ => to_integer(&name, kind, to_bits),
                });
            }
        }
        forms.push(to_integer(&format!("cvt.rpi.ftz.{to}.f32"), F32, to_bits));
    }
    for (to, kind) in FLOATS {
        for (from, source, from_bits) in INTEGERS {
            if (to, from_bits) == ("bf16", 8) {
                continue;
            }
            for rounding in ["rn", "rz", "rm", "rp"] {
                forms.push(Form::plain(
                    &format!("cvt.{rounding}.{to}.{from}"),
                    &[source],
                    kind.bits(),
                ));
            }
        }
    }
    between_floats(&mut forms);
    to_integral_floats(&mut forms);
    packed(&mut forms);
    fp8(&mut forms);
    forms
}

/// True if some value of the one type is outside the other: only then PTX has `.sat`.
fn may_overflow(from: &str, to: &str) -> bool {
    let width = |ty: &str| ty[1..].parse::<u32>().unwrap_or(0);
    match (from.starts_with('s'), to.starts_with('s')) {
        (true, false) => true,
        (false, true) => width(from) >= width(to),
        _ => width(from) > width(to),
    }
}

/// A conversion to an integer; 8-bit results land in a 32-bit register, all of which counts.
fn to_integer(name: &str, kind: Kind, bits: u32) -> Form {
    Form::plain(name, &[kind], bits.max(32))
}

fn between_floats(forms: &mut Vec<Form>) {
    let exact = [
        ("f32", "f16"),
        ("f64", "f16"),
        ("f32", "bf16"),
        ("f64", "bf16"),
        ("f64", "f32"),
    ];
    let bits = |name: &str| {
        FLOATS
            .iter()
            .find(|(ty, _)| *ty == name)
            .map_or(32, |f| f.1.bits())
    };
    let kind = |name: &str| {
        FLOATS
            .iter()
            .find(|(ty, _)| *ty == name)
            .map_or(F32, |f| f.1)
    };
    for (to, from) in exact {
        forms.push(Form::plain(
            &format!("cvt.{to}.{from}"),
            &[kind(from)],
            bits(to),
        ));
    }
    for name in [
        "cvt.sat.f32.f16",
        "cvt.ftz.f32.f16",
        "cvt.sat.f32.f32",
        "cvt.ftz.f32.f32",
    ] {
        let from = if name.ends_with("f16") { F16 } else { F32 };
        forms.push(Form::plain(name, &[from], 32));
    }
    forms.push(Form::plain("cvt.ftz.f64.f32", &[F32], 64));
    forms.push(Form::plain("cvt.sat.f64.f32", &[F32], 64));
    let rounded = [
        ("f16", "f32"),
        ("f16", "f64"),
        ("bf16", "f32"),
        ("bf16", "f64"),
        ("f32", "f64"),
        ("bf16", "f16"),
        ("f16", "bf16"),
    ];
    for (to, from) in rounded {
        for rounding in ["rn", "rz", "rm", "rp"] {
            forms.push(Form::plain(
                &format!("cvt.{rounding}.{to}.{from}"),
                &[kind(from)],
                bits(to),
            ));
        }
    }
    for rounding in ["rn", "rz", "rm", "rp"] {
        for (to, from) in [("f32", "f64"), ("f16", "f32"), ("f16", "f64")] {
            let name = format!("cvt.{rounding}.sat.{to}.{from}");
            forms.push(Form::plain(&name, &[kind(from)], bits(to)));
        }
        for (to, from) in [("f32", "f64"), ("f16", "f32")] {
            let name = format!("cvt.{rounding}.ftz.{to}.{from}");
            forms.push(Form::plain(&name, &[kind(from)], bits(to)));
        }
    }
}

fn to_integral_floats(forms: &mut Vec<Form>) {
    for rounding in ["rni", "rzi", "rmi", "rpi"] {
        for (ty, kind) in FLOATS {
            forms.push(Form::plain(
                &format!("cvt.{rounding}.{ty}.{ty}"),
                &[kind],
                kind.bits(),
            ));
        }
        forms.push(Form::plain(
            &format!("cvt.{rounding}.ftz.f32.f32"),
            &[F32],
            32,
        ));
        forms.push(Form::plain(
            &format!("cvt.{rounding}.sat.f32.f32"),
            &[F32],
            32,
        ));
    }
}

fn packed(forms: &mut Vec<Form>) {
    for rounding in ["rn", "rz"] {
        for tail in ["", ".relu", ".satfinite", ".relu.satfinite"] {
            for ty in ["f16x2", "bf16x2"] {
                let name = format!("cvt.{rounding}{tail}.{ty}.f32");
                forms.push(Form::plain(&name, &[F32; 2], 32));
            }
            for ty in ["f16", "bf16"] {
                if !tail.is_empty() {
                    forms.push(Form::plain(
                        &format!("cvt.{rounding}{tail}.{ty}.f32"),
                        &[F32],
                        16,
                    ));
                }
            }
        }
        for tail in ["", ".relu"] {
            forms.push(Form::plain(
                &format!("cvt.{rounding}{tail}.tf32.f32"),
                &[F32],
                32,
            ));
        }
    }
    forms.push(Form::plain("cvt.rna.tf32.f32", &[F32], 32));
    forms.push(Form::plain("cvt.rna.satfinite.tf32.f32", &[F32], 32));
}

fn fp8(forms: &mut Vec<Form>) {
    for ty in ["e4m3x2", "e5m2x2"] {
        for relu in ["", ".relu"] {
            forms.push(Form::plain(
                &format!("cvt.rn.satfinite{relu}.{ty}.f32"),
                &[F32; 2],
                16,
            ));
            forms.push(Form::plain(
                &format!("cvt.rn.satfinite{relu}.{ty}.f16x2"),
                &[F16x2],
                16,
            ));
            forms.push(Form::plain(
                &format!("cvt.rn{relu}.f16x2.{ty}"),
                &[Fp8x2],
                32,
            ));
        }
    }
}
