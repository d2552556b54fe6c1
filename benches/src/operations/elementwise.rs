//! Element by element: memory is the bound.

use std::any::type_name;

use half::{bf16, f16};
use serde_json::json;
use warpsmith::{Binary, BinaryOp, Float, Stream, Unary, UnaryOp};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Sums and functions of elements.
pub static ELEMENTWISE: Operation = Operation {
    name: "elementwise",
    sets: &[
        Set::new("large", "2^27 elements"),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let len = match set.name {
        "tiny" => 1 << 12,
        _ => 1 << 27,
    };
    vec![
        add::<f32>(len),
        add::<bf16>(len),
        unary::<f32>(UnaryOp::Exp, len),
        unary::<f16>(UnaryOp::Tanh, len),
    ]
}

/// One rounding of the result, and what approximations of exp and tanh are off by.
fn difference_allowed<T: Sample>() -> f64 {
    match size_of::<T>() {
        4 => 1e-6,
        _ if type_name::<T>() == type_name::<f16>() => 2.0_f64.powi(-10),
        _ => 2.0_f64.powi(-7),
    }
}

fn add<T: Float + Sample>(len: usize) -> Case {
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let a = normal_copies::<T>(stream, &[len], 1, copies)?;
        let b = normal_copies::<T>(stream, &[len], 2, copies)?;
        let y = unwritten_copies::<T>(stream, &[len], copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("a", &a);
        prepared.operand("b", &b);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            Ok(Binary::new(BinaryOp::Add, &a[copy], &b[copy]).run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name: format!("elementwise/{}/add/n{len}", T::DTYPE),
        work: Work {
            bytes: (3 * len * size_of::<T>()) as f64,
            ..Work::default()
        },
        description: json!({ "op": "add" }),
        difference_allowed: difference_allowed::<T>(),
        prepare: Box::new(prepare),
    }
}

fn unary<T: Float + Sample>(op: UnaryOp, len: usize) -> Case {
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<T>(stream, &[len], 1, copies)?;
        let y = unwritten_copies::<T>(stream, &[len], copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            Ok(Unary::new(op, &x[copy]).run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name: format!("elementwise/{}/{}/n{len}", T::DTYPE, op.name()),
        work: Work {
            bytes: (2 * len * size_of::<T>()) as f64,
            exponentials: len as f64,
            ..Work::default()
        },
        description: json!({ "op": op.name() }),
        difference_allowed: difference_allowed::<T>(),
        prepare: Box::new(prepare),
    }
}
