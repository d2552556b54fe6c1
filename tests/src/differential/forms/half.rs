//! f16, bf16 and pairs of them.

use super::Form;
use super::float::COMPARISONS;
use crate::differential::operands::Kind::{self, Bf16, Bf16x2, F16, F16x2};

/// The forms of this family.
pub(super) fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for (ty, kind) in [("f16", F16), ("f16x2", F16x2)] {
        ieee_half(&mut forms, ty, kind);
    }
    for (ty, kind) in [("bf16", Bf16), ("bf16x2", Bf16x2)] {
        brain_half(&mut forms, ty, kind);
    }
    comparisons(&mut forms);
    forms
}

fn ieee_half(forms: &mut Vec<Form>, ty: &str, kind: Kind) {
    let bits = kind.bits();
    for ftz in ["", ".ftz"] {
        for sat in ["", ".sat"] {
            for op in ["add", "sub", "mul"] {
                forms.push(Form::plain(
                    &format!("{op}.rn{ftz}{sat}.{ty}"),
                    &[kind; 2],
                    bits,
                ));
            }
            forms.push(Form::plain(
                &format!("fma.rn{ftz}{sat}.{ty}"),
                &[kind; 3],
                bits,
            ));
        }
        forms.push(Form::plain(
            &format!("fma.rn{ftz}.relu.{ty}"),
            &[kind; 3],
            bits,
        ));
        extremes(forms, ty, kind, ftz);
        forms.push(Form::plain(&format!("abs{ftz}.{ty}"), &[kind], bits));
        forms.push(Form::plain(&format!("neg{ftz}.{ty}"), &[kind], bits));
    }
    forms.push(Form::approximate(
        &format!("ex2.approx.{ty}"),
        &[kind],
        bits,
    ));
    forms.push(Form::approximate(
        &format!("tanh.approx.{ty}"),
        &[kind],
        bits,
    ));
}

fn brain_half(forms: &mut Vec<Form>, ty: &str, kind: Kind) {
    let bits = kind.bits();
    for op in ["add", "sub", "mul"] {
        forms.push(Form::plain(&format!("{op}.rn.{ty}"), &[kind; 2], bits));
    }
    forms.push(Form::plain(&format!("fma.rn.{ty}"), &[kind; 3], bits));
    forms.push(Form::plain(&format!("fma.rn.relu.{ty}"), &[kind; 3], bits));
    extremes(forms, ty, kind, "");
    forms.push(Form::plain(&format!("abs.{ty}"), &[kind], bits));
    forms.push(Form::plain(&format!("neg.{ty}"), &[kind], bits));
    forms.push(Form::approximate(
        &format!("ex2.approx.ftz.{ty}"),
        &[kind],
        bits,
    ));
    forms.push(Form::approximate(
        &format!("tanh.approx.{ty}"),
        &[kind],
        bits,
    ));
}

fn extremes(forms: &mut Vec<Form>, ty: &str, kind: Kind, ftz: &str) {
    for op in ["min", "max"] {
        for modifiers in ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"] {
            let name = format!("{op}{ftz}{modifiers}.{ty}");
            forms.push(Form::plain(&name, &[kind; 2], kind.bits()));
        }
    }
}

fn comparisons(forms: &mut Vec<Form>) {
    for cmp in COMPARISONS {
        forms.push(Form::predicate(&format!("setp.{cmp}.f16"), &[F16; 2]));
        forms.push(Form::predicate(&format!("setp.{cmp}.ftz.f16"), &[F16; 2]));
        forms.push(Form::predicate(&format!("setp.{cmp}.bf16"), &[Bf16; 2]));
    }
    for (ty, kind) in [("f16x2", F16x2), ("bf16x2", Bf16x2)] {
        for cmp in ["lt", "geu", "nan"] {
            let name = format!("setp.{cmp}.{ty}");
            let body = format!(
                "{name} %p1|%p2, $a, $b; selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2, 0, %p2; \
                 add.u32 $d, %r4, %r5;"
            );
            forms.push(Form::with_body(&name, &body, &[kind; 2], 32));
        }
        forms.push(Form::plain(&format!("set.le.{ty}.{ty}"), &[kind; 2], 32));
        forms.push(Form::plain(&format!("set.gtu.u32.{ty}"), &[kind; 2], 32));
    }
    forms.push(Form::plain("set.le.f16.f16", &[F16; 2], 16));
    forms.push(Form::plain("set.le.bf16.bf16", &[Bf16; 2], 16));
    forms.push(Form::plain("set.gtu.u32.f16", &[F16; 2], 32));
}
