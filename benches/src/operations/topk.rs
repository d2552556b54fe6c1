//! The first elements of rows in order, with their indices.

use half::bf16;
use serde_json::json;
use warpsmith::{Float, Stream, TopElements, TopK};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// The k largest elements of rows of several lengths.
pub static TOPK: Operation = Operation {
    name: "topk",
    sets: &[
        Set::new("rows", "4096 rows of 32,768, k 8 and 64").reaching(Some(2.0), None),
        Set::new("router", "65,536 tokens, 64 to 256 experts, k 8").reaching(Some(2.0), None),
        Set::new("vocabulary", "1 to 512 rows of 128,256, k 50").reaching(Some(2.0), None),
        Set::new("many", "2048 rows of 16,384, k 256 to 2048").reaching(Some(1.0), None),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let shapes: Vec<[usize; 3]> = match set.name {
        "rows" => vec![[4096, 32_768, 8], [4096, 32_768, 64]],
        "router" => [64, 128, 256].map(|experts| [65_536, experts, 8]).into(),
        "vocabulary" => [1, 8, 64, 512].map(|rows| [rows, 128_256, 50]).into(),
        "many" => [256, 1024, 2048].map(|k| [2048, 16_384, k]).into(),
        _ => vec![[5, 100, 8], [3, 3000, 20]],
    };
    let of_both = |shape| [case::<f32>(shape), case::<bf16>(shape)];
    shapes.into_iter().flat_map(of_both).collect()
}

fn case<T: Sample + Float>([rows, n, k]: [usize; 3]) -> Case {
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<T>(stream, &[rows, n], 1, copies)?;
        let values = unwritten_copies::<T>(stream, &[rows, k], copies)?;
        let indices = unwritten_copies::<i64>(stream, &[rows, k], copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        // Not the indices: torch does not say which of equal elements it takes.
        prepared.answer("y", &values[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            let out = TopElements {
                values: values[copy].clone(),
                indices: indices[copy].clone(),
            };
            Ok(TopK::new(&x[copy], k).run_into(&out, &stream)?)
        });
        Ok(prepared)
    };
    let size = size_of::<T>();
    Case {
        name: format!("topk/{}/k{k}/{rows}x{n}", T::DTYPE),
        work: Work {
            bytes: (size * rows * n + (size + 8) * rows * k) as f64,
            ..Work::default()
        },
        description: json!({ "k": k }),
        difference_allowed: 0.0,
        prepare: Box::new(prepare),
    }
}
