//! Selection by indices: embeddings, and other axes.

use half::bf16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use warpsmith::{Stream, Take, Tensor};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Embeddings, and selections along other axes.
pub static GATHER: Operation = Operation {
    name: "gather",
    sets: &[
        Set::new("embedding", "rows of a table, 16,384 to 262,144 of them"),
        Set::new("axes", "along the last axis, and along one between"),
        Set::new("random", "rows of random lengths, about 256 MiB of them"),
        Set::new("small", "1 to 1,024 rows of a table"),
        Set::new("small_graphs", "the same, replayed as CUDA graphs").in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    match set.name {
        "axes" => vec![
            take::<f32>(&[16384, 16384], 1, 8192),
            take::<bf16>(&[16384, 16384], 1, 8192),
            take::<bf16>(&[64, 4096, 1024], 1, 4096),
        ],
        "small" | "small_graphs" => [1, 16, 64, 256, 1024]
            .map(|rows| take::<bf16>(&[32000, 4096], 0, rows))
            .into(),
        "random" => options.random(|extents| {
            let of_row = extents.extent(16.0, 8192.0, 1);
            let rows = extents.extent(1024.0, ((1 << 28) / of_row) as f64, 1);
            match extents.one_of(&[2, 4]) {
                2 => take::<bf16>(&[rows, of_row], 0, (1 << 27) / of_row),
                _ => take::<f32>(&[rows, of_row], 0, (1 << 26) / of_row),
            }
        }),
        "tiny" => vec![
            take::<bf16>(&[100, 64], 0, 50),
            take::<f32>(&[20, 30], 1, 12),
            take::<f32>(&[4, 10, 16], 1, 20),
        ],
        _ => vec![
            take::<f32>(&[50304, 768], 0, 131_072),
            take::<bf16>(&[50304, 768], 0, 262_144),
            take::<bf16>(&[32000, 64], 0, 262_144),
            take::<bf16>(&[128_256, 4096], 0, 65_536),
            take::<bf16>(&[128_256, 8192], 0, 16_384),
        ],
    }
}

/// `m` indices drawn at random.
fn take<T: Sample>(shape: &[usize], axis: usize, m: usize) -> Case {
    let shape = shape.to_vec();
    let mut to = shape.to_vec();
    to[axis] = m;
    let words: Vec<String> = shape.iter().map(usize::to_string).collect();
    let name = format!("gather/{}/axis{axis}/{}/m{m}", T::DTYPE, words.join("x"));
    let moved = 2 * to.iter().product::<usize>() * size_of::<T>();
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let x = normal_copies::<T>(stream, &shape, 1, copies)?;
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let drawn: Vec<i64> = (0..m)
            .map(|_| rng.random_range(0..shape[axis] as i64))
            .collect();
        let indices = (0..copies).map(|_| Tensor::from_slice(stream.device(), &[m], &drawn));
        let indices = indices.collect::<warpsmith::Result<Vec<_>>>()?;
        let y = unwritten_copies::<T>(stream, &to, copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("x", &x);
        prepared.operand("indices", &indices);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            let selection = Take::new(&x[copy], &indices[copy]).axis(axis as isize);
            Ok(selection.run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    Case {
        name,
        work: Work {
            bytes: (moved + 8 * m) as f64,
            ..Work::default()
        },
        description: json!({ "axis": axis }),
        difference_allowed: 0.0,
        prepare: Box::new(prepare),
    }
}
