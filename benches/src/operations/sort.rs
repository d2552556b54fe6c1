//! Rows in order, with and without indices.

use half::bf16;
use serde_json::json;
use warpsmith::{DType, Sort, SortedElements, Stream};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Sorts of short rows and of long ones.
pub static SORT: Operation = Operation {
    name: "sort",
    sets: &[
        Set::new("rows", "2^24 elements in rows of 64 to 4096").reaching(Some(1.0), None),
        Set::new("long", "2^16 to 2^26 elements in a row").reaching(Some(1.0), None),
        Set::new("many", "2^24 elements in rows of 8192 to 262,144").reaching(Some(1.0), None),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let rows_of = |n: usize| [(1 << 24) / n, n];
    let shapes: Vec<[usize; 2]> = match set.name {
        "rows" => [64, 256, 1024, 4096].map(rows_of).into(),
        "long" => [16, 20, 24, 26].map(|log2| [1, 1 << log2]).into(),
        "many" => [8192, 32_768, 262_144].map(rows_of).into(),
        _ => vec![[5, 100], [1, 5000]],
    };
    let of_all = |shape| {
        let with = [true, false];
        let narrow = with.map(|has_indices| case::<bf16>(shape, has_indices));
        let floats = with.map(|has_indices| case::<f32>(shape, has_indices));
        let wide = with.map(|has_indices| case::<f64>(shape, has_indices));
        [narrow, floats, wide].into_iter().flatten()
    };
    shapes.into_iter().flat_map(of_all).collect()
}

fn case<T: Sample>([rows, n]: [usize; 2], has_indices: bool) -> Case {
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<T>(stream, &[rows, n], 1, copies)?;
        let values = unwritten_copies::<T>(stream, &[rows, n], copies)?;
        let indices = match has_indices {
            true => unwritten_copies::<i64>(stream, &[rows, n], copies)?,
            false => Vec::new(),
        };
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.answer("y", &values[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            let sort = Sort::new(&x[copy]);
            let Some(indices) = indices.get(copy) else {
                return Ok(sort.run_into(&values[copy], &stream)?);
            };
            let out = SortedElements {
                values: values[copy].clone(),
                indices: indices.clone(),
            };
            Ok(sort.indices().run_into(&out, &stream)?)
        });
        Ok(prepared)
    };
    let (size, of_index) = (size_of::<T>(), if has_indices { 8 } else { 0 });
    // CuPy sorts no bf16, and gives no indices with elements.
    let has_cupy = rows == 1 && !has_indices && T::DTYPE != DType::Bf16;
    let what = if has_indices { "indices" } else { "values" };
    Case {
        name: format!("sort/{}/{what}/{rows}x{n}", T::DTYPE),
        work: Work {
            bytes: ((2 * size + of_index) * rows * n) as f64,
            ..Work::default()
        },
        description: json!({ "cupy": has_cupy }),
        difference_allowed: 0.0,
        prepare: Box::new(prepare),
    }
}
