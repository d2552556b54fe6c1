//! Rotary position embedding of queries and keys.

use half::{bf16, f16};
use serde_json::json;
use warpsmith::{Float, ParamElement, Rotary, Stream};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Queries and keys of models, kinds of pairs, few tokens.
pub static ROTARY: Operation = Operation {
    name: "rotary",
    sets: &[
        Set::new(
            "heads",
            "8 to 64 heads of 64, 128 and 256, 65,536 tokens or fewer",
        ),
        Set::new(
            "forms",
            "neighbours, tables of the dtype, a part of the head",
        ),
        Set::new("small", "1 to 1,024 tokens of 32 heads"),
        Set::new("small_graphs", "the same, replayed as CUDA graphs").in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Bytes,
    cases,
};

fn cases(set: &Set, _: &OperationOptions) -> Vec<Case> {
    let of = |shape| Rotated {
        shape,
        rotary_dim: shape[3],
        interleaved: false,
    };
    let neighbours = |shape| Rotated {
        interleaved: true,
        ..of(shape)
    };
    let part = |shape, rotary_dim| Rotated {
        rotary_dim,
        ..of(shape)
    };
    match set.name {
        "forms" => vec![
            neighbours([8, 4096, 32, 128]).case::<bf16, f32>(),
            neighbours([8, 4096, 32, 128]).case::<f32, f32>(),
            of([8, 4096, 32, 128]).case::<bf16, bf16>(),
            part([8, 4096, 32, 128], 64).case::<bf16, f32>(),
            part([8, 4096, 32, 80], 32).case::<bf16, f32>(),
        ],
        "small" | "small_graphs" => [1, 16, 64, 256, 1024]
            .map(|tokens| of([1, tokens, 32, 128]).case::<bf16, f32>())
            .into(),
        "tiny" => vec![
            of([1, 16, 3, 64]).case::<bf16, f32>(),
            neighbours([2, 5, 2, 32]).case::<f32, f32>(),
            part([1, 7, 2, 20], 10).case::<f32, f32>(),
        ],
        _ => vec![
            of([8, 4096, 32, 128]).case::<bf16, f32>(),
            of([8, 8192, 8, 128]).case::<bf16, f32>(),
            of([1, 32768, 64, 128]).case::<bf16, f32>(),
            of([8, 4096, 64, 64]).case::<bf16, f32>(),
            of([8, 4096, 16, 256]).case::<bf16, f32>(),
            of([8, 4096, 32, 128]).case::<f16, f32>(),
            of([8, 4096, 32, 128]).case::<f32, f32>(),
        ],
    }
}

/// What is turned: `[batch, seqlen, heads, head_dim]`, positions from 0 on.
#[derive(Clone, Copy)]
struct Rotated {
    shape: [usize; 4],
    rotary_dim: usize,
    interleaved: bool,
}

impl Rotated {
    fn case<T: Float + Sample, C: ParamElement<T> + Sample>(self) -> Case {
        let [batch, seqlen, heads, head_dim] = self.shape;
        let of_table = [seqlen, self.rotary_dim / 2];
        let prepare = move |stream: &Stream, copies| -> Result<Prepared> {
            let x = normal_copies::<T>(stream, &self.shape, 1, copies)?;
            let cos = normal_copies::<C>(stream, &of_table, 2, copies)?;
            let sin = normal_copies::<C>(stream, &of_table, 3, copies)?;
            let y = unwritten_copies::<T>(stream, &self.shape, copies)?;
            let mut prepared = Prepared::new();
            prepared.operand("x", &x);
            prepared.operand("cos", &cos);
            prepared.operand("sin", &sin);
            prepared.answer("y", &y[0], stream)?;
            let stream = stream.clone();
            prepared.ours(None, move |copy| {
                let mut rotary = Rotary::new(&x[copy], &cos[copy], &sin[copy]);
                if self.interleaved {
                    rotary = rotary.interleaved();
                }
                Ok(rotary.run_into(&y[copy], &stream)?)
            });
            Ok(prepared)
        };
        let moved = 2 * self.shape.iter().product::<usize>() * size_of::<T>();
        let tables = 2 * of_table.iter().product::<usize>() * size_of::<C>();
        let form = match self.interleaved {
            true => "interleaved",
            false => "halves",
        };
        Case {
            name: format!(
                "rotary/{}_{}/{form}/r{}/b{batch}_s{seqlen}_h{heads}_d{head_dim}",
                T::DTYPE,
                C::DTYPE,
                self.rotary_dim
            ),
            work: Work {
                bytes: (moved + tables) as f64,
                ..Work::default()
            },
            description: json!({ "interleaved": self.interleaved }),
            // One rounding, and the order of a sum of two products.
            difference_allowed: match size_of::<T>() {
                4 => 1e-6,
                _ => 2.0_f64.powi(-7),
            },
            prepare: Box::new(prepare),
        }
    }
}
