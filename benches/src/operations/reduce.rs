//! Reductions and scans, which are bound by memory.

use half::bf16;
use serde_json::json;
use warpsmith::{Moments, Reduce, ReduceOp, Reducible, Scan, ScanOp, Stream};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Reductions over rows, over columns and over everything; running sums.
pub static REDUCE: Operation = Operation {
    name: "reduce",
    sets: &[
        Set::new("whole", "2^30 elements to one").reaching(Some(1.0), None),
        Set::new("matrix", "16384 x 16384 over rows and columns").reaching(Some(1.0), None),
        Set::new("flat", "16 x 2^24 and 2^24 x 16 over rows and columns").reaching(Some(1.0), None),
        Set::new(
            "random",
            "over rows and columns of matrices of random extents, 128 MiB to 1 GiB",
        ),
        Set::new("scan", "running sums of one row and of many").reaching(Some(1.0), None),
        Set::new("small", "1 KiB to 1 MiB to one").reaching(Some(1.0 / 1.1), None),
        Set::new("small_graphs", "the same, replayed as CUDA graphs")
            .reaching(Some(1.0 / 1.1), None)
            .in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

/// The reductions: those with one result, and variance and mean from one pass.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Of(ReduceOp),
    VarianceAndMean,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Of(op) => op.name(),
            Self::VarianceAndMean => "variance_mean",
        }
    }
}

const KINDS: [Kind; 5] = [
    Kind::Of(ReduceOp::Sum),
    Kind::Of(ReduceOp::Max),
    Kind::Of(ReduceOp::Argmax),
    Kind::Of(ReduceOp::Norm2),
    Kind::VarianceAndMean,
];

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    let both = |kinds: &[Kind], shapes: &[[usize; 2]], axes: &[Option<usize>]| {
        let mut cases = Vec::new();
        for &shape in shapes {
            for &axis in axes {
                cases.extend(kinds.iter().map(|&kind| case::<f32>(kind, axis, shape)));
                cases.extend(kinds.iter().map(|&kind| case::<bf16>(kind, axis, shape)));
            }
        }
        cases
    };
    let rows_and_columns = [Some(1), Some(0)];
    match set.name {
        "whole" => both(&KINDS, &[[1, 1 << 30]], &[None]),
        "matrix" => both(&KINDS, &[[16_384, 16_384]], &rows_and_columns),
        "flat" => {
            let shapes = [[16, 1 << 24], [1 << 24, 16]];
            both(&KINDS[..2], &shapes, &rows_and_columns)
        }
        "random" => options.random(|extents| {
            let len = extents.extent((1 << 26) as f64, (1 << 28) as f64, 1);
            let rows = extents.extent(2.0, (len / 2) as f64, 1);
            let (kind, axis) = (extents.one_of(&KINDS), extents.one_of(&rows_and_columns));
            match extents.one_of(&[2, 4]) {
                2 => case::<bf16>(kind, axis, [rows, len / rows]),
                _ => case::<f32>(kind, axis, [rows, len / rows]),
            }
        }),
        "small" | "small_graphs" => {
            let shapes = [8, 10, 12, 14, 16, 18].map(|log2| [1, 1 << log2]);
            both(&KINDS[..1], &shapes, &[None])
        }
        "scan" => {
            let shapes = [[1, 1 << 30], [16_384, 65_536]];
            let of_shape = |shape| [scan::<f32>(shape), scan::<bf16>(shape)];
            shapes.into_iter().flat_map(of_shape).collect()
        }
        _ => {
            let axes = [Some(1), Some(0), None];
            let mut cases = both(&KINDS, &[[16, 64]], &axes);
            cases.push(scan::<f32>([3, 5000]));
            cases
        }
    }
}

fn case<T: Sample + Reducible<Value: Sample>>(
    kind: Kind,
    axis: Option<usize>,
    shape: [usize; 2],
) -> Case {
    let [rows, columns] = shape;
    let (over, left) = match axis {
        Some(1) => ("rows", vec![rows]),
        Some(_) => ("columns", vec![columns]),
        None => ("whole", Vec::new()),
    };
    let answers: usize = left.iter().product();
    let prepare =
        move |stream: &Stream, copies| prepared::<T>(kind, axis, shape, &left, stream, copies);
    let size = size_of::<T>();
    let results = match kind {
        Kind::Of(op) if op.is_index() => 8,
        // As the peers do, ours rounds values to the dtype of the elements.
        Kind::Of(_) => size,
        Kind::VarianceAndMean => 2 * size_of::<T::Value>(),
    };
    Case {
        name: format!(
            "reduce/{}/{}/{over}/{rows}x{columns}",
            T::DTYPE,
            kind.name()
        ),
        work: Work {
            bytes: (size * rows * columns + results * answers) as f64,
            ..Work::default()
        },
        description: json!({ "op": kind.name(), "axis": axis }),
        // Sums of normal values: the error of the order of summation, divided by a sum that may be
        // small; torch rounds to the inputs' dtype.
        difference_allowed: if size == 4 { 2e-3 } else { 2e-2 },
        prepare: Box::new(prepare),
    }
}

fn prepared<T: Sample + Reducible<Value: Sample>>(
    kind: Kind,
    axis: Option<usize>,
    shape: [usize; 2],
    left: &[usize],
    stream: &Stream,
    copies: usize,
) -> Result<Prepared> {
    let x = normal_copies::<T>(stream, &shape, 1, copies)?;
    let mut prepared = Prepared::new();
    prepared.operand("x", &x);
    let over =
        move |reduce: Reduce<'_, T>,
              stream: &Stream,
              run: &dyn Fn(&Reduce<'_, T>, &Stream) -> warpsmith::Result<()>| {
            let reduce = match axis {
                Some(axis) => reduce.axis(axis as isize),
                None => reduce,
            };
            run(&reduce, stream)
        };
    let on = stream.clone();
    match kind {
        Kind::Of(op) if op.is_index() => {
            let y = unwritten_copies::<i64>(stream, left, copies)?;
            prepared.exact_answer("y", &y[0], stream, -1)?;
            prepared.ours(None, move |copy| {
                let reduce = Reduce::new(op, &x[copy]);
                Ok(over(reduce, &on, &|reduce, on| {
                    reduce.output::<i64>().run_into(&y[copy], on)
                })?)
            });
        }
        Kind::Of(op) => {
            let y = unwritten_copies::<T>(stream, left, copies)?;
            prepared.answer("y", &y[0], stream)?;
            prepared.ours(None, move |copy| {
                let reduce = Reduce::new(op, &x[copy]);
                Ok(over(reduce, &on, &|reduce, on| {
                    reduce.output::<T>().run_into(&y[copy], on)
                })?)
            });
        }
        Kind::VarianceAndMean => {
            let y = unwritten_copies::<T::Value>(stream, left, copies)?;
            let mean = unwritten_copies::<T::Value>(stream, left, copies)?;
            // Means of normal values are close to 0, so only the variances are compared.
            prepared.answer("y", &y[0], stream)?;
            prepared.ours(None, move |copy| {
                let reduce = Reduce::new(ReduceOp::Variance, &x[copy]).ddof(1);
                let run = |reduce: &Reduce<'_, T>, on: &Stream| {
                    let out = Moments {
                        value: y[copy].clone(),
                        mean: mean[copy].clone(),
                    };
                    reduce.mean().run_into(&out, on)
                };
                Ok(over(reduce, &on, &run)?)
            });
        }
    }
    Ok(prepared)
}

fn scan<T: Sample + Reducible>(shape: [usize; 2]) -> Case {
    let [rows, columns] = shape;
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<T>(stream, &shape, 1, copies)?;
        let y = unwritten_copies::<T>(stream, &shape, copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            Ok(Scan::new(ScanOp::Sum, &x[copy]).run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name: format!("reduce/{}/scan/rows/{rows}x{columns}", T::DTYPE),
        work: Work {
            bytes: (2 * size_of::<T>() * rows * columns) as f64,
            ..Work::default()
        },
        description: json!({ "op": "scan", "axis": 1 }),
        // Without compilation, torch accumulates in bf16 itself and is off by 0.19 at 2^30. Tests
        // check ours against its bound.
        difference_allowed: if size_of::<T>() == 4 { 1e-3 } else { 0.3 },
        prepare: Box::new(prepare),
    }
}
