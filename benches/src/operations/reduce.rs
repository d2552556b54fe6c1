//! Reductions: memory is the bound.

use serde_json::json;
use warpsmith::{Reduce, ReduceOp, Stream};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{normal_copies, unwritten_copies};
use crate::results::Unit;

/// Reductions over rows, columns and all.
pub static REDUCE: Operation = Operation {
    name: "reduce",
    sets: &[
        Set::new("matrix", "16384 x 8192 over rows, columns and all"),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let shape = match set.name {
        "tiny" => [16, 64],
        _ => [16_384, 8192],
    };
    let axes = [Some(1), Some(0), None];
    let ops = [ReduceOp::Sum, ReduceOp::Max];
    let of_op = |op| axes.map(|axis| case(op, axis, shape));
    ops.into_iter().flat_map(of_op).collect()
}

fn case(op: ReduceOp, axis: Option<usize>, shape: [usize; 2]) -> Case {
    let [rows, columns] = shape;
    let (over, left) = match axis {
        Some(1) => ("rows", vec![rows]),
        Some(_) => ("columns", vec![columns]),
        None => ("all", Vec::new()),
    };
    let answers: usize = left.iter().product();
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<f32>(stream, &shape, 1, copies)?;
        let y = unwritten_copies::<f32>(stream, &left, copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            let reduce = Reduce::new(op, &x[copy]);
            let reduce = match axis {
                Some(axis) => reduce.axis(axis),
                None => reduce,
            };
            Ok(reduce.run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name: format!("reduce/f32/{}/{over}/{rows}x{columns}", op.name()),
        work: Work {
            bytes: (4 * (rows * columns + answers)) as f64,
            ..Work::default()
        },
        description: json!({ "op": op.name(), "axis": axis }),
        // Sums of normal values: of the order of summation, over a sum that may be small.
        difference_allowed: 1e-4,
        prepare: Box::new(prepare),
    }
}
