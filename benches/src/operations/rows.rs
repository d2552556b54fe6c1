//! Operations on rows: softmax. Memory is the bound.

use serde_json::json;
use warpsmith::{Softmax, Stream};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{normal_copies, unwritten_copies};
use crate::results::Unit;

/// Softmax of rows.
pub static ROWS: Operation = Operation {
    name: "rows",
    sets: &[
        Set::new("softmax", "f32, from short rows to long ones"),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let shapes: &[[usize; 2]] = match set.name {
        "tiny" => &[[4, 96]],
        _ => &[[131_072, 1024], [16_384, 8192], [2048, 65_536]],
    };
    shapes.iter().map(|&shape| softmax(shape)).collect()
}

fn softmax(shape: [usize; 2]) -> Case {
    let [rows, columns] = shape;
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<f32>(stream, &shape, 1, copies)?;
        let y = unwritten_copies::<f32>(stream, &shape, copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            Ok(Softmax::new(&x[copy]).run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name: format!("rows/f32/softmax/{rows}x{columns}"),
        work: Work {
            bytes: (8 * rows * columns) as f64,
            exponentials: (rows * columns) as f64,
            ..Work::default()
        },
        description: json!({ "op": "softmax" }),
        difference_allowed: 1e-5,
        prepare: Box::new(prepare),
    }
}
