//! Grouped GEMM: experts of mixtures, with rows as a router shares them out.

use half::bf16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use warpsmith::{DType, Float, GroupedGemm, Stream, Tensor};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Experts of models, with many rows and with few.
pub static GROUPED: Operation = Operation {
    name: "grouped",
    sets: &[
        Set::new(
            "prefill",
            "8 to 128 experts of Mixtral, DeepSeek and Qwen, 8,192 to 32,768 rows in bf16",
        ),
        Set::new("decode", "128 experts of Qwen, 16 to 512 rows in bf16"),
        Set::new("f32", "8 and 64 experts in f32"),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Flops,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let of = |groups, m, n, k| Experts { groups, m, n, k };
    match set.name {
        "decode" => [16, 64, 128, 256, 512]
            .into_iter()
            .flat_map(|m| [of(128, m, 1536, 2048), of(128, m, 2048, 768)])
            .map(Experts::case::<bf16>)
            .collect(),
        "f32" => vec![
            of(8, 8192, 4096, 2048).case::<f32>(),
            of(64, 8192, 1408, 2048).case::<f32>(),
            of(64, 128, 1408, 2048).case::<f32>(),
        ],
        "tiny" => vec![
            of(4, 100, 40, 48).case::<f32>(),
            of(9, 70, 72, 32).case::<bf16>(),
        ],
        _ => [
            // Mixtral 8x7B
            of(8, 8192, 14336, 4096),
            of(8, 8192, 4096, 14336),
            of(8, 32768, 14336, 4096),
            // DeepSeek-V3, eight of its experts on one GPU
            of(8, 32768, 4096, 7168),
            of(8, 32768, 7168, 2048),
            // DeepSeek-V2-Lite
            of(64, 16384, 2816, 2048),
            of(64, 16384, 2048, 1408),
            // Qwen3-30B-A3B
            of(128, 8192, 1536, 2048),
            of(128, 32768, 1536, 2048),
            of(128, 32768, 2048, 768),
        ]
        .map(Experts::case::<bf16>)
        .into(),
    }
}

/// Weights `[groups, n, k]`, and `m` rows, each of an expert that is drawn at random.
#[derive(Clone, Copy)]
struct Experts {
    groups: usize,
    m: usize,
    n: usize,
    k: usize,
}

impl Experts {
    fn ends(self) -> Vec<i32> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut counts = vec![0; self.groups];
        for _ in 0..self.m {
            counts[rng.random_range(0..self.groups)] += 1;
        }
        let sums = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        sums.collect()
    }

    fn case<T: Float + Sample>(self) -> Case {
        let Self { groups, m, n, k } = self;
        let ends = self.ends();
        let drawn = ends.clone();
        let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
            let a = normal_copies::<T>(stream, &[m, k], 1, copies)?;
            let weights = normal_copies::<T>(stream, &[groups, n, k], 2, copies)?;
            let b: Vec<Tensor<T>> = weights.iter().map(Tensor::t).collect();
            let ends = (0..copies).map(|_| Tensor::from_slice(stream.device(), &[groups], &drawn));
            let ends = ends.collect::<warpsmith::Result<Vec<_>>>()?;
            let d = unwritten_copies::<T>(stream, &[m, n], copies)?;
            let plan = GroupedGemm::new(&a[0], &b[0], &ends[0]).plan(stream)?;
            let mut prepared = Prepared::new();
            prepared.operand("a", &a);
            prepared.operand("b", &b);
            prepared.operand("ends", &ends);
            prepared.answer("d", &d[0], stream)?;
            let stream = stream.clone();
            let name = plan.chosen().map(|kernel| kernel.name.clone());
            prepared.ours(name, move |copy| {
                let product = GroupedGemm::new(&a[copy], &b[copy], &ends[copy]);
                Ok(product.run_into(&d[copy], &stream)?)
            });
            Ok(prepared)
        };
        // The weights of experts without rows need not be read.
        let mut start = 0;
        let with_rows = ends
            .iter()
            .filter(|&&end| std::mem::replace(&mut start, end) < end);
        let elements = m * k + with_rows.count() * n * k + m * n;
        Case {
            name: format!("grouped/{}/g{groups}/m{m}_n{n}_k{k}", T::DTYPE),
            work: Work {
                flops: 2.0 * m as f64 * n as f64 * k as f64,
                bytes: (elements * size_of::<T>() + groups * size_of::<i32>()) as f64,
                tensor_input: (T::DTYPE != DType::F32).then_some(T::DTYPE),
                ..Work::default()
            },
            description: json!({ "ends": ends }),
            // Sums in other orders; one rounding to 16 bits.
            difference_allowed: match T::DTYPE {
                DType::F32 => 1e-5,
                _ => 2.0_f64.powi(-7),
            },
            prepare: Box::new(prepare),
        }
    }
}
