//! Attention whose scores are changed, and its gradients with that of the bias, compared with torch's
//! FlexAttention.
//!
//! Every pair of a query and a key is computed, whatever the window: what changes scores is measured,
//! beside the set `plain` of the same shapes.

use half::bf16;
use serde_json::json;
use warpsmith::fuse::{Fragment, Scalar};
use warpsmith::{
    Attention, AttentionGrad, AttentionGrads, AttentionOutput, ScoreFunction, Stream, Tensor,
};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{normal_copies, unwritten_copies};
use crate::results::Unit;

/// Forward attention and its gradients, with changed scores.
pub static SCORED_ATTENTION: Operation = Operation {
    name: "scored_attention",
    sets: &[
        Set::new(
            "alibi",
            "bf16, head_dim 64, 128, seqlen 2048 to 16384: ALiBi",
        )
        .reaching(None, Some(1.3)),
        Set::new("softcap", "the same: a soft cap by a fragment").reaching(None, Some(1.3)),
        Set::new(
            "window",
            "the same: a window by a fragment, no block skipped",
        )
        .reaching(None, Some(1.3)),
        Set::new("plain", "the same with scores as they are"),
        Set::new(
            "bias",
            "the same up to 8192: a bias [1, heads, seqlen, seqlen]",
        ),
        Set::new("bias_grad", "gradients of that, with that of the bias").reaching(None, Some(1.3)),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Flops,
    cases,
};

/// Total number of positions of all sequences of a batch.
const POSITIONS: usize = 16_384;
/// `heads * head_dim`.
const WIDTH: usize = 2048;
const SEQLENS: [usize; 4] = [2048, 4096, 8192, 16_384];
/// The soft cap.
const CAP: f32 = 20.0;
/// Keys that a query sees, its own and those before.
const WINDOW: u32 = 1024;
/// The PTX of the functions of scores.
const FRAGMENTS: &str = include_str!("../../../examples/kernels/ptx/sm_75/scores.ptx");

/// What is done to scores.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Plain,
    Alibi,
    Softcap,
    Window,
    Bias,
    BiasGrad,
}

impl Change {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Alibi => "alibi",
            Self::Softcap => "softcap",
            Self::Window => "window",
            Self::Bias => "bias",
            Self::BiasGrad => "bias_grad",
        }
    }

    const fn has_bias(self) -> bool {
        matches!(self, Self::Bias | Self::BiasGrad)
    }
}

#[derive(Clone, Debug)]
struct Shape {
    change: Change,
    batch: usize,
    seqlen: usize,
    heads: usize,
    head_dim: usize,
    /// Prefix of our kernel's name.
    kernel: Option<String>,
}

impl Shape {
    fn square(change: Change, head_dim: usize, seqlen: usize) -> Self {
        Self {
            change,
            batch: (POSITIONS / seqlen).max(1),
            seqlen,
            heads: WIDTH / head_dim,
            head_dim,
            kernel: None,
        }
    }

    fn extents(&self) -> [usize; 4] {
        [self.batch, self.seqlen, self.heads, self.head_dim]
    }

    fn extents_of_bias(&self) -> [usize; 4] {
        [1, self.heads, self.seqlen, self.seqlen]
    }

    fn work(&self) -> Work {
        let pairs_of_head = (self.seqlen * self.seqlen) as f64;
        let scores = pairs_of_head * (self.batch * self.heads) as f64;
        let biases = pairs_of_head * self.heads as f64;
        // q, k, v, o; for the gradients d_o, dq, dk and dv as well. The bias is in bf16, its gradient
        // in f32.
        let (products, tensors, of_bias) = match self.change {
            Change::BiasGrad => (5.0, 8, 6.0),
            Change::Bias => (2.0, 4, 2.0),
            _ => (2.0, 4, 0.0),
        };
        let elements = tensors * self.extents().iter().product::<usize>();
        Work {
            flops: 2.0 * products * scores * self.head_dim as f64,
            bytes: (elements * size_of::<bf16>()) as f64 + of_bias * biases,
            exponentials: scores,
            tensor_input: Some(warpsmith::DType::Bf16),
        }
    }
}

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    let shapes = shapes(set.name).into_iter();
    shapes
        .map(|shape| {
            case(Shape {
                kernel: options.kernel.clone(),
                ..shape
            })
        })
        .collect()
}

fn shapes(set: &str) -> Vec<Shape> {
    use Change::{Alibi, Bias, BiasGrad, Plain, Softcap, Window};
    let (change, seqlens) = match set {
        "alibi" => (Alibi, &SEQLENS[..]),
        "softcap" => (Softcap, &SEQLENS[..]),
        "window" => (Window, &SEQLENS[..]),
        "plain" => (Plain, &SEQLENS[..]),
        "bias" => (Bias, &SEQLENS[..3]),
        "bias_grad" => (BiasGrad, &SEQLENS[..3]),
        _ => {
            let all = [Plain, Alibi, Softcap, Window, Bias, BiasGrad];
            return all
                .map(|change| Shape {
                    heads: 1,
                    batch: 1,
                    ..Shape::square(change, 64, 40)
                })
                .into();
        }
    };
    let of_width = |head_dim| {
        let of = move |&seqlen: &usize| Shape::square(change, head_dim, seqlen);
        seqlens.iter().map(of)
    };
    [64, 128].into_iter().flat_map(of_width).collect()
}

/// Two correct results may differ as those of plain attention and its gradients.
fn case(shape: Shape) -> Case {
    let change = shape.change.name();
    Case {
        name: format!(
            "scored_attention/bf16/{change}/d{}/s{}",
            shape.head_dim, shape.seqlen
        ),
        work: shape.work(),
        description: json!({ "change": change, "cap": CAP, "window": WINDOW }),
        difference_allowed: match shape.change {
            Change::BiasGrad => 2.0_f64.powi(-5),
            _ => 2.0_f64.powi(-6),
        },
        prepare: Box::new(move |stream, copies| prepared(&shape, stream, copies)),
    }
}

/// The operands of one launch.
struct Copy {
    q: Tensor<bf16>,
    k: Tensor<bf16>,
    v: Tensor<bf16>,
    o: Tensor<bf16>,
    /// Of the gradients: `d_o`, lse, and where they go.
    of_grads: Option<(Tensor<bf16>, Tensor<f32>, AttentionGrads<bf16>)>,
}

/// What all launches share.
struct Scores {
    change: Change,
    bias: Tensor<bf16>,
    slopes: Tensor<f32>,
    softcap: ScoreFunction,
    window: ScoreFunction,
}

impl Scores {
    fn new(shape: &Shape, stream: &Stream) -> Result<Self> {
        let bias = match shape.change.has_bias() {
            true => normal_copies::<bf16>(stream, &shape.extents_of_bias(), 5, 1)?.remove(0),
            false => Tensor::zeros(stream, &[1])?,
        };
        let heads = shape.heads as f32;
        let slopes: Vec<f32> = (1..=shape.heads)
            .map(|head| (-8.0 * head as f32 / heads).exp2())
            .collect();
        let u = Scalar::U32;
        let of_score = [Scalar::F32, u, u, u, u, Scalar::F32, Scalar::F32];
        // SAFETY: cuda_builder made the text.
        let (soft_cap, sliding_window) = unsafe {
            (
                Fragment::from_ptx(FRAGMENTS, "soft_cap", &of_score, Scalar::F32)?,
                Fragment::from_ptx(FRAGMENTS, "sliding_window", &[u; 5], u)?,
            )
        };
        Ok(Self {
            change: shape.change,
            bias,
            slopes: Tensor::from_slice(stream.device(), &[shape.heads], &slopes)?,
            softcap: ScoreFunction::new().apply(&soft_cap, [CAP.into(), CAP.recip().into()]),
            window: ScoreFunction::new().apply(&sliding_window, [WINDOW.into()]),
        })
    }

    /// The operation as a user would write it.
    fn attention<'a>(&'a self, Copy { q, k, v, .. }: &Copy) -> Attention<'a, bf16> {
        let attention = Attention::new(q, k, v);
        match self.change {
            Change::Plain => attention,
            Change::Alibi => attention.alibi(&self.slopes),
            Change::Softcap => attention.score(&self.softcap),
            Change::Window => attention.mask(&self.window),
            Change::Bias | Change::BiasGrad => attention.bias(&self.bias),
        }
    }

    fn launch<'a>(&'a self, copy: &Copy, kernel: Option<&'a str>, stream: &Stream) -> Result<()> {
        let Some((d_o, lse, grads)) = &copy.of_grads else {
            let mut attention = self.attention(copy);
            if let Some(kernel) = kernel {
                attention = attention.with_kernel(kernel);
            }
            return Ok(attention.run_into(&copy.o, stream)?);
        };
        let Copy { q, k, v, o, .. } = copy;
        let mut grad = AttentionGrad::new(q, k, v, o, lse, d_o)
            .bias(&self.bias)
            .bias_gradient();
        if let Some(kernel) = kernel {
            grad = grad.with_kernel(kernel);
        }
        Ok(grad.run_into(grads, stream)?)
    }
}

fn prepared(shape: &Shape, stream: &Stream, copies: usize) -> Result<Prepared> {
    let extents = shape.extents();
    let draw = |seed| normal_copies::<bf16>(stream, &extents, seed, copies);
    let unwritten = || unwritten_copies::<bf16>(stream, &extents, copies);
    let (q, k, v, o) = (draw(1)?, draw(2)?, draw(3)?, unwritten()?);
    let scores = Scores::new(shape, stream)?;
    let mut prepared = Prepared::new();
    for (name, copies) in [("q", &q), ("k", &k), ("v", &v)] {
        prepared.operand(name, copies);
    }
    prepared.operand("slopes", std::slice::from_ref(&scores.slopes));
    prepared.operand("bias", std::slice::from_ref(&scores.bias));
    let operands = q.into_iter().zip(k).zip(v).zip(o);
    let mut operands: Vec<Copy> = operands
        .map(|(((q, k), v), o)| Copy {
            q,
            k,
            v,
            o,
            of_grads: None,
        })
        .collect();
    if shape.change == Change::BiasGrad {
        let d_o = draw(4)?;
        prepared.operand("d_o", &d_o);
        let (dq, dk, dv) = (unwritten()?, unwritten()?, unwritten()?);
        let d_bias = unwritten_copies::<f32>(stream, &shape.extents_of_bias(), 1)?.remove(0);
        let grads = dq.into_iter().zip(dk).zip(dv);
        for ((copy, d_o), ((dq, dk), dv)) in operands.iter_mut().zip(d_o).zip(grads) {
            let AttentionOutput { o, lse } = scores.attention(copy).lse().run(stream)?;
            copy.o = o;
            let grads = AttentionGrads {
                dq,
                dk,
                dv,
                d_sink: None,
                d_bias: Some(d_bias.clone()),
            };
            copy.of_grads = Some((d_o, lse, grads));
        }
    }
    match &operands[0].of_grads {
        None => prepared.answer("o", &operands[0].o, stream)?,
        Some((_, _, grads)) => {
            for (name, grad) in [("dq", &grads.dq), ("dk", &grads.dk), ("dv", &grads.dv)] {
                prepared.answer(name, grad, stream)?;
            }
            if let Some(d_bias) = &grads.d_bias {
                prepared.answer("d_bias", d_bias, stream)?;
            }
        }
    }
    let (kernel, stream) = (shape.kernel.clone(), stream.clone());
    let name = match (&kernel, shape.change) {
        (Some(kernel), _) => Some(kernel.clone()),
        (None, Change::BiasGrad) => None,
        _ => {
            let plan = scores.attention(&operands[0]).plan(&stream)?;
            plan.chosen().map(|candidate| candidate.name.clone())
        }
    };
    prepared.ours(name, move |copy| {
        scores.launch(&operands[copy], kernel.as_deref(), &stream)
    });
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bias_is_read_once_and_its_gradient_written_once() {
        let of = |change| Shape::square(change, 128, 2048).work();
        let (plain, bias) = (of(Change::Plain), of(Change::Bias));
        assert_eq!(bias.bytes - plain.bytes, 2.0 * 16.0 * 2048.0 * 2048.0);
        assert_eq!(bias.flops, plain.flops);
        assert_eq!(of(Change::BiasGrad).flops, 2.5 * plain.flops);
    }
}
