//! Gradients of attention, compared with cuDNN's and FlashAttention's through torch.
//!
//! The gradients alone are measured: o and lse are made once, before anything is timed, by our forward
//! pass, and every peer gets those.

use half::{bf16, f16};
use serde_json::{Value, json};
use warpsmith::{Attention, AttentionGrad, AttentionGrads, AttentionOutput, Float, Stream, Tensor};

use super::attention::PROMPTS;
use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Gradients of attention.
pub static ATTENTION_GRAD: Operation = Operation {
    name: "attention_grad",
    sets: &[
        Set::new(
            "squares",
            "bf16, head_dim 64, 128, seqlen 512 to 16384, full and causal",
        ),
        Set::new("squares_f16", "the same in f16"),
        Set::new("wide", "bf16, head_dim 256, seqlen 512 to 16384"),
        Set::new(
            "gqa",
            "64 query heads on 8, head_dim 128, causal, seqlen 2048 to 16384",
        ),
        Set::new(
            "packed",
            "packed sequences: as many as in squares, and prompts of uneven lengths",
        ),
        Set::new(
            "sm80",
            "the kernels for Ampere, bf16, head_dim 64, 128, 256, seqlen 512, 4096, 16384",
        ),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Flops,
    cases,
};

/// Total number of positions of all sequences of a batch.
const POSITIONS: usize = 16_384;
/// `heads * head_dim`.
const WIDTH: usize = 2048;
/// Sequence lengths of the squares.
const SEQLENS: [usize; 6] = [512, 1024, 2048, 4096, 8192, 16_384];

/// Those of the kernels for Ampere.
const SM80_SEQLENS: [usize; 3] = [512, 4096, 16_384];

/// The shape and mask of a case.
#[derive(Clone, Debug)]
struct Shape {
    batch: usize,
    /// Positions of each, if they are not packed, else of all.
    seqlen: usize,
    /// The lengths of packed sequences.
    packed: Option<Vec<usize>>,
    heads_q: usize,
    heads_kv: usize,
    head_dim: usize,
    is_causal: bool,
    /// Prefix of our candidate's name.
    kernel: Option<String>,
}

impl Shape {
    /// As many sequences of `seqlen` as make up [`POSITIONS`].
    fn square(head_dim: usize, seqlen: usize, is_causal: bool) -> Self {
        let heads = WIDTH / head_dim;
        Self {
            batch: (POSITIONS / seqlen).max(1),
            seqlen,
            packed: None,
            heads_q: heads,
            heads_kv: heads,
            head_dim,
            is_causal,
            kernel: None,
        }
    }

    /// Packed sequences.
    fn packed(head_dim: usize, lengths: &[usize], is_causal: bool) -> Self {
        let total = lengths.iter().sum();
        Self {
            batch: 1,
            packed: Some(lengths.to_vec()),
            ..Self::square(head_dim, total, is_causal)
        }
    }

    fn longest(&self) -> usize {
        let packed = self.packed.iter().flatten();
        packed.copied().max().unwrap_or(self.seqlen)
    }

    fn extents(&self, heads: usize) -> [usize; 4] {
        [self.batch, self.seqlen, heads, self.head_dim]
    }

    fn work<T: Float>(&self) -> Work {
        let visible = |seqlen: usize| match (self.is_causal, seqlen as f64) {
            (true, seqlen) => seqlen * (seqlen + 1.0) / 2.0,
            (false, seqlen) => seqlen * seqlen,
        };
        let visible: f64 = match &self.packed {
            Some(lengths) => lengths.iter().copied().map(visible).sum(),
            None => self.batch as f64 * visible(self.seqlen),
        };
        let scores = visible * self.heads_q as f64;
        let [of_q, of_k] = [self.heads_q, self.heads_kv].map(|heads| self.extents(heads));
        // q, o, d_o and dq; k, v, dk and dv.
        let elements = 4 * (of_q.iter().product::<usize>() + of_k.iter().product::<usize>());
        Work {
            // Five products: scores, dP, and those of the three gradients.
            flops: 10.0 * scores * self.head_dim as f64,
            bytes: (elements * size_of::<T>()) as f64,
            exponentials: scores,
            tensor_input: Some(T::DTYPE),
        }
    }

    fn name(&self) -> String {
        let mask = if self.is_causal { "causal" } else { "full" };
        let heads = match self.heads_q == self.heads_kv {
            true => String::new(),
            false => format!("h{}x{}/", self.heads_q, self.heads_kv),
        };
        let packed = match &self.packed {
            Some(lengths) => format!("packed{}/", lengths.len()),
            None => String::new(),
        };
        format!(
            "{mask}/d{}/{heads}{packed}s{}",
            self.head_dim,
            self.longest()
        )
    }

    fn description(&self) -> Value {
        json!({
            "causal": self.is_causal,
            "packed": self.packed.is_some(),
            "max_seqlen": self.longest(),
        })
    }
}

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    let shapes = shapes(set.name).into_iter().map(|shape| Shape {
        kernel: options.kernel.clone().or(shape.kernel),
        ..shape
    });
    match set.name {
        "squares_f16" => shapes.map(|shape| case::<f16>(shape, -8)).collect(),
        _ => shapes.map(|shape| case::<bf16>(shape, -5)).collect(),
    }
}

fn shapes(set: &str) -> Vec<Shape> {
    let both = |head_dim, seqlens: &[usize]| {
        let masks = [false, true].into_iter();
        let of_mask = |is_causal| {
            let square = move |&seqlen: &usize| Shape::square(head_dim, seqlen, is_causal);
            seqlens.iter().map(square).collect::<Vec<_>>()
        };
        masks.flat_map(of_mask).collect::<Vec<_>>()
    };
    match set {
        "wide" => both(256, &SEQLENS),
        "sm80" => [64, 128, 256]
            .into_iter()
            .flat_map(|head_dim| both(head_dim, &SM80_SEQLENS))
            .map(|shape| Shape {
                kernel: Some("attention_grad_sm80".to_owned()),
                ..shape
            })
            .collect(),
        "gqa" => [2048, 4096, 8192, 16_384]
            .map(|seqlen| Shape {
                heads_q: 64,
                heads_kv: 8,
                ..Shape::square(128, seqlen, true)
            })
            .into(),
        "packed" => [64, 128]
            .into_iter()
            .flat_map(|head_dim| {
                let packed = |lengths: &[usize]| {
                    [false, true].map(|of| Shape::packed(head_dim, lengths, of))
                };
                [packed(&[2048; 8]), packed(&[8192; 2]), packed(&PROMPTS)].concat()
            })
            .collect(),
        "tiny" => vec![Shape {
            batch: 1,
            heads_q: 2,
            heads_kv: 1,
            ..Shape::square(32, 40, true)
        }],
        _ => [64, 128].map(|head_dim| both(head_dim, &SEQLENS)).concat(),
    }
}

/// Two correct results may differ by `2^allowed`, because each rounds P, dS and the result.
fn case<T: Float + Sample>(shape: Shape, allowed: i32) -> Case {
    Case {
        name: format!("attention_grad/{}/{}", T::DTYPE, shape.name()),
        work: shape.work::<T>(),
        description: shape.description(),
        difference_allowed: 2.0_f64.powi(allowed),
        prepare: Box::new(move |stream, copies| prepared::<T>(&shape, stream, copies)),
    }
}

/// The operands of one launch.
struct Copy<T: Float> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    o: Tensor<T>,
    lse: Tensor<f32>,
    d_o: Tensor<T>,
    /// dq, dk and dv.
    grads: AttentionGrads<T>,
}

impl<T: Float> Copy<T> {
    /// The operation as a user would write it.
    fn grad<'a>(&self, shape: &Shape, bounds: &'a Tensor<i32>) -> AttentionGrad<'a, T> {
        let Self {
            q,
            k,
            v,
            o,
            lse,
            d_o,
            ..
        } = self;
        let mut grad = AttentionGrad::new(q, k, v, o, lse, d_o);
        if shape.packed.is_some() {
            let longest = shape.longest();
            grad = grad.cu_seqlens_q(bounds).cu_seqlens_k(bounds);
            grad = grad.max_seqlens(longest, longest);
        }
        match shape.is_causal {
            true => grad.causal(),
            false => grad,
        }
    }
}

/// Copies of a tensor without its batch, if sequences are packed.
fn laid_out<T: Float>(shape: &Shape, copies: Vec<Tensor<T>>) -> Result<Vec<Tensor<T>>> {
    let laid_out = copies.into_iter().map(|x| match shape.packed {
        Some(_) => x.index_axis(0, 0),
        None => Ok(x),
    });
    Ok(laid_out.collect::<warpsmith::Result<_>>()?)
}

fn operands<T: Float + Sample>(
    shape: &Shape,
    bounds: &Tensor<i32>,
    stream: &Stream,
    copies: usize,
) -> Result<Vec<Copy<T>>> {
    let [of_q, of_k] = [shape.heads_q, shape.heads_kv].map(|heads| shape.extents(heads));
    let draw = |extents: &[usize; 4], seed| {
        laid_out(shape, normal_copies::<T>(stream, extents, seed, copies)?)
    };
    let (q, k, v) = (draw(&of_q, 1)?, draw(&of_k, 2)?, draw(&of_k, 3)?);
    let d_o = draw(&of_q, 4)?;
    let unwritten =
        |extents: &[usize; 4]| laid_out(shape, unwritten_copies::<T>(stream, extents, copies)?);
    let (dq, dk, dv) = (unwritten(&of_q)?, unwritten(&of_k)?, unwritten(&of_k)?);
    let mut all = Vec::with_capacity(copies);
    for idx in 0..copies {
        let (q, k, v) = (&q[idx], &k[idx], &v[idx]);
        let mut forward = Attention::new(q, k, v);
        if shape.packed.is_some() {
            forward = forward.cu_seqlens(bounds, bounds);
        }
        let forward = match shape.is_causal {
            true => forward.causal(),
            false => forward,
        };
        let AttentionOutput { o, lse } = forward.lse().run(stream)?;
        all.push(Copy {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            o,
            lse,
            d_o: d_o[idx].clone(),
            grads: AttentionGrads {
                dq: dq[idx].clone(),
                dk: dk[idx].clone(),
                dv: dv[idx].clone(),
                d_sink: None,
                d_bias: None,
            },
        });
    }
    Ok(all)
}

fn prepared<T: Float + Sample>(shape: &Shape, stream: &Stream, copies: usize) -> Result<Prepared> {
    let mut bounds = vec![0];
    for length in shape.packed.iter().flatten() {
        bounds.push(bounds.last().copied().unwrap_or(0) + *length as i32);
    }
    let bounds = Tensor::from_slice(stream.device(), &[bounds.len()], &bounds)?;
    let operands = operands::<T>(shape, &bounds, stream, copies)?;
    let mut prepared = Prepared::new();
    prepared.operand("cu_seqlens", std::slice::from_ref(&bounds));
    let of = |tensor: fn(&Copy<T>) -> &Tensor<T>| -> Vec<Tensor<T>> {
        operands.iter().map(|copy| tensor(copy).clone()).collect()
    };
    prepared.operand("q", &of(|copy| &copy.q));
    prepared.operand("k", &of(|copy| &copy.k));
    prepared.operand("v", &of(|copy| &copy.v));
    prepared.operand("o", &of(|copy| &copy.o));
    prepared.operand("d_o", &of(|copy| &copy.d_o));
    let lse: Vec<Tensor<f32>> = operands.iter().map(|copy| copy.lse.clone()).collect();
    prepared.operand("lse", &lse);
    let AttentionGrads { dq, dk, dv, .. } = &operands[0].grads;
    for (name, grad) in [("dq", dq), ("dk", dk), ("dv", dv)] {
        prepared.answer(name, grad, stream)?;
    }
    let plan = operands[0]
        .grad(shape, &bounds)
        .plan_into(&operands[0].grads, stream)?;
    let kernel = shape.kernel.as_deref().map(|begin| {
        let mut candidates = plan.candidates().iter();
        let found = candidates.find(|candidate| candidate.name.starts_with(begin));
        // An unknown name is refused when it is launched, with a list of the known ones.
        found.map_or(begin.to_owned(), |candidate| candidate.name.clone())
    });
    let chosen = plan.chosen().map(|candidate| candidate.name.clone());
    let (shape, stream) = (shape.clone(), stream.clone());
    prepared.ours(kernel.clone().or(chosen), move |copy| {
        let copy = &operands[copy];
        let grad = copy.grad(&shape, &bounds);
        let grad = match &kernel {
            Some(kernel) => grad.with_kernel(kernel),
            None => grad,
        };
        Ok(grad.run_into(&copy.grads, &stream)?)
    });
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_products_of_the_pairs_that_are_seen_are_counted() {
        let full = Shape::square(64, 512, false).work::<bf16>();
        assert_eq!(full.flops, 10.0 * 32.0 * 32.0 * 512.0 * 512.0 * 64.0);
        let causal = Shape::square(64, 512, true).work::<bf16>();
        assert_eq!(causal.flops, 5.0 * 32.0 * 32.0 * 512.0 * 513.0 * 64.0);
        assert_eq!(full.bytes, 2.0 * 8.0 * 16_384.0 * 2048.0);
    }
}
