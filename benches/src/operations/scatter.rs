//! Addition by indices: gradients of embeddings, and sums over experts. And rows put to where indices
//! say.

use half::bf16;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use warpsmith::{Reducible, Scatter, ScatterAdd, Stream, Tensor};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Additions of rows to zeros, which both sides write first; and rows that are put, without that.
pub static SCATTER: Operation = Operation {
    name: "scatter",
    sets: &[
        Set::new(
            "embedding",
            "gradients of tables of 32,000 and 128,256 rows",
        ),
        Set::new(
            "tokens",
            "what 8 experts give for each of 8,192 tokens, by token",
        ),
        Set::new("hot", "all rows to one"),
        Set::new("small", "16 to 4,096 rows to 256"),
        Set::new("small_graphs", "the same, replayed as CUDA graphs").in_graphs(),
        Set::new("set", "rows put into a table and into a cache, none twice"),
        Set::new("set_graphs", "the same, replayed as CUDA graphs").in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

/// Which rows indices name.
#[derive(Clone, Copy, Debug)]
enum Names {
    Uniform,
    /// The n-th row as often as 1 / n, like words.
    Zipf,
    /// Each equally often, in random order.
    Each,
    /// One.
    Hot,
    /// Some, none of them twice.
    Distinct,
}

impl Names {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::Each => "each",
            Self::Hot => "hot",
            Self::Distinct => "distinct",
        }
    }

    /// `m` of `count` rows.
    fn draw(self, m: usize, count: usize) -> Vec<i64> {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        match self {
            Self::Uniform => (0..m).map(|_| rng.random_range(0..count as i64)).collect(),
            Self::Zipf => {
                let one = |_| (count as f64).powf(rng.random_range(0.0..1.0)) as i64 - 1;
                (0..m).map(one).collect()
            }
            Self::Each => {
                let mut rows: Vec<i64> = (0..m).map(|j| (j % count) as i64).collect();
                rows.shuffle(&mut rng);
                rows
            }
            Self::Hot => vec![count as i64 / 2; m],
            Self::Distinct => {
                let mut rows: Vec<i64> = (0..count as i64).collect();
                rows.shuffle(&mut rng);
                rows.truncate(m);
                rows
            }
        }
    }
}

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    use Names::{Each, Hot, Uniform, Zipf};
    match set.name {
        "tokens" => vec![
            add::<bf16>(8192, 4096, 65_536, Each),
            add::<f32>(8192, 4096, 65_536, Each),
        ],
        "hot" => vec![
            add::<bf16>(256, 4096, 65_536, Hot),
            add::<f32>(256, 4096, 65_536, Hot),
            add::<f32>(256, 1024, 4096, Hot),
        ],
        "small" | "small_graphs" => [16, 256, 2048, 4096]
            .map(|m| add::<bf16>(256, 1024, m, Uniform))
            .into(),
        "set" | "set_graphs" => vec![
            put::<bf16>(32_000, 4096, 16_384),
            put::<f32>(32_000, 1024, 16_384),
            put::<bf16>(16_384, 1024, 64),
            put::<bf16>(16_384, 1024, 1024),
            put::<bf16>(16_384, 1024, 2048),
        ],
        "tiny" => vec![
            add::<bf16>(40, 64, 50, Zipf),
            add::<f32>(20, 30, 300, Uniform),
            add::<f32>(9, 16, 200, Hot),
            put::<bf16>(40, 64, 30),
            put::<f32>(1500, 5, 1200),
        ],
        _ => vec![
            add::<bf16>(32_000, 4096, 4096, Uniform),
            add::<bf16>(32_000, 4096, 16_384, Zipf),
            add::<bf16>(32_000, 4096, 131_072, Zipf),
            add::<f32>(32_000, 1024, 131_072, Uniform),
            add::<f32>(32_000, 1024, 131_072, Zipf),
            add::<bf16>(128_256, 4096, 16_384, Uniform),
            add::<bf16>(128_256, 4096, 65_536, Zipf),
            add::<bf16>(128_256, 8192, 16_384, Zipf),
        ],
    }
}

/// `m` rows, added to zeros of a table of `count` rows.
fn add<T: Sample + Reducible>(count: usize, columns: usize, m: usize, names: Names) -> Case {
    let drawn = names.draw(m, count);
    let mut rows = drawn.clone();
    rows.sort_unstable();
    rows.dedup();
    // Zeros are written, rows are read, and sums are read and written.
    let moved = (count + m + 2 * rows.len()) * columns * size_of::<T>();
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let src = normal_copies::<T>(stream, &[m, columns], 1, copies)?;
        let indices = (0..copies).map(|_| Tensor::from_slice(stream.device(), &[m], &drawn));
        let indices = indices.collect::<warpsmith::Result<Vec<_>>>()?;
        let y = unwritten_copies::<T>(stream, &[count, columns], copies)?;
        let mut prepared = Prepared::new();
        prepared.operand("src", &src);
        prepared.operand("indices", &indices);
        prepared.answer("y", &y[0], stream)?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            y[copy].fill(T::default(), &stream)?;
            let addition = ScatterAdd::new(&indices[copy], &src[copy]);
            Ok(addition.run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    let name = names.name();
    // torch adds rows of 16 bits in 16 bits.
    let many = matches!(names, Names::Hot | Names::Zipf);
    let difference_allowed = match size_of::<T>() {
        2 if many => 1.0,
        2 => 0.05,
        _ => 1e-3,
    };
    Case {
        name: format!("scatter/{}/{name}/{count}x{columns}/m{m}", T::DTYPE),
        work: Work {
            bytes: (moved + 8 * m) as f64,
            ..Work::default()
        },
        description: json!({ "count": count }),
        difference_allowed,
        prepare: Box::new(prepare),
    }
}

/// `m` rows, put into a table of `count` rows, none twice.
fn put<T: Sample>(count: usize, columns: usize, m: usize) -> Case {
    let drawn = Names::Distinct.draw(m, count);
    let moved = 2 * m * columns * size_of::<T>();
    let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
        let src = normal_copies::<T>(stream, &[m, columns], 1, copies)?;
        let indices = (0..copies).map(|_| Tensor::from_slice(stream.device(), &[m], &drawn));
        let indices = indices.collect::<warpsmith::Result<Vec<_>>>()?;
        let y = (0..copies).map(|_| Tensor::zeros(stream, &[count, columns]));
        let y = y.collect::<warpsmith::Result<Vec<Tensor<T>>>>()?;
        let mut prepared = Prepared::new();
        prepared.operand("src", &src);
        prepared.operand("indices", &indices);
        // Rows that no index names stay 0, and no row that is put is that.
        prepared.exact_answer("y", &y[0], stream, T::rounded(0.0))?;
        let stream = stream.clone();
        prepared.ours(None, move |copy| {
            let put = Scatter::new(&indices[copy], &src[copy]);
            Ok(put.run_into(&y[copy], &stream)?)
        });
        Ok(prepared)
    };
    let name = Names::Distinct.name();
    Case {
        name: format!("scatter/set/{}/{name}/{count}x{columns}/m{m}", T::DTYPE),
        work: Work {
            bytes: (moved + 8 * m) as f64,
            ..Work::default()
        },
        description: json!({ "count": count, "set": true }),
        difference_allowed: 0.0,
        prepare: Box::new(prepare),
    }
}
