//! f32 and f64 arithmetic and comparisons.

use super::Form;
use crate::differential::operands::Kind::{self, F32, F64, I32};

/// All comparison operators of floats.
pub(super) const COMPARISONS: [&str; 14] = [
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
];

const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

const PROPERTIES: [&str; 6] = [
    "finite",
    "infinite",
    "number",
    "notanumber",
    "normal",
    "subnormal",
];

/// The forms of this family.
pub(super) fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    rounded(&mut forms);
    approximations(&mut forms);
    for (ty, kind, ftz) in [("f32", F32, ""), ("f32", F32, ".ftz"), ("f64", F64, "")] {
        selection(&mut forms, ty, kind, ftz);
    }
    for ftz in ["", ".ftz"] {
        for modifiers in [".NaN", ".xorsign.abs", ".NaN.xorsign.abs"] {
            for op in ["min", "max"] {
                forms.push(Form::plain(
                    &format!("{op}{ftz}{modifiers}.f32"),
                    &[F32; 2],
                    32,
                ));
            }
        }
        forms.push(Form::plain(&format!("slct{ftz}.f32.f32"), &[F32; 3], 32));
        forms.push(Form::plain(
            &format!("slct{ftz}.f64.f32"),
            &[F64, F64, F32],
            64,
        ));
    }
    forms.push(Form::plain("slct.f32.s32", &[F32, F32, I32], 32));
    forms
}

fn rounded(forms: &mut Vec<Form>) {
    for rounding in ROUNDINGS {
        for ftz in ["", ".ftz"] {
            for sat in ["", ".sat"] {
                let tail = format!("{rounding}{ftz}{sat}.f32");
                for op in ["add", "sub", "mul"] {
                    forms.push(Form::plain(&format!("{op}.{tail}"), &[F32; 2], 32));
                }
                forms.push(Form::plain(&format!("fma.{tail}"), &[F32; 3], 32));
            }
            let tail = format!("{rounding}{ftz}.f32");
            forms.push(Form::plain(&format!("div.{tail}"), &[F32; 2], 32));
            forms.push(Form::plain(&format!("rcp.{tail}"), &[F32], 32));
            forms.push(Form::plain(&format!("sqrt.{tail}"), &[F32], 32));
        }
        for op in ["add", "sub", "mul", "div"] {
            forms.push(Form::plain(&format!("{op}.{rounding}.f64"), &[F64; 2], 64));
        }
        forms.push(Form::plain(&format!("fma.{rounding}.f64"), &[F64; 3], 64));
        forms.push(Form::plain(&format!("rcp.{rounding}.f64"), &[F64], 64));
        forms.push(Form::plain(&format!("sqrt.{rounding}.f64"), &[F64], 64));
    }
}

fn approximations(forms: &mut Vec<Form>) {
    for ftz in ["", ".ftz"] {
        for op in ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"] {
            forms.push(Form::approximate(
                &format!("{op}.approx{ftz}.f32"),
                &[F32],
                32,
            ));
        }
        for kind in ["approx", "full"] {
            forms.push(Form::approximate(
                &format!("div.{kind}{ftz}.f32"),
                &[F32; 2],
                32,
            ));
        }
    }
    forms.push(Form::approximate("tanh.approx.f32", &[F32], 32));
    forms.push(Form::approximate("rcp.approx.ftz.f64", &[F64], 64));
    forms.push(Form::approximate("rsqrt.approx.ftz.f64", &[F64], 64));
    forms.push(Form::approximate("rsqrt.approx.f64", &[F64], 64));
}

fn selection(forms: &mut Vec<Form>, ty: &str, kind: Kind, ftz: &str) {
    let bits = kind.bits();
    for op in ["abs", "neg"] {
        forms.push(Form::plain(&format!("{op}{ftz}.{ty}"), &[kind], bits));
    }
    for op in ["min", "max"] {
        forms.push(Form::plain(&format!("{op}{ftz}.{ty}"), &[kind; 2], bits));
    }
    for cmp in COMPARISONS {
        forms.push(Form::predicate(
            &format!("setp.{cmp}{ftz}.{ty}"),
            &[kind; 2],
        ));
    }
    forms.push(Form::plain(
        &format!("set.leu{ftz}.u32.{ty}"),
        &[kind; 2],
        32,
    ));
    forms.push(Form::plain(
        &format!("set.gt{ftz}.f32.{ty}"),
        &[kind; 2],
        32,
    ));
    if ftz.is_empty() {
        forms.push(Form::plain(&format!("copysign.{ty}"), &[kind; 2], bits));
        for property in PROPERTIES {
            forms.push(Form::predicate(&format!("testp.{property}.{ty}"), &[kind]));
        }
        let body = format!("setp.lt.s32 %p1, $c, 0; selp.{ty} $d, $a, $b, %p1;");
        forms.push(Form::with_body(
            &format!("selp.{ty}"),
            &body,
            &[kind, kind, I32],
            bits,
        ));
    }
}
