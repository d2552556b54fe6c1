//! Attention of block masks and its gradients, compared with FlexAttention.
//!
//! Blocks are drawn: each block of queries sees some of the blocks of keys, fully. Rates count the
//! pairs that are seen. A density of 100 % is attention without a mask.

use half::{bf16, f16};
use serde_json::{Value, json};
use warpsmith::{
    Attention, AttentionGrad, AttentionGrads, AttentionOutput, BlockMask, BlockMaskShape, Float,
    Stream, Tensor,
};

use super::{Case, Operation, OperationOptions, Prepared, Set, Work};
use crate::error::Result;
use crate::inputs::{Sample, normal_copies, unwritten_copies};
use crate::results::Unit;

/// Attention of block masks.
pub static BLOCK_SPARSE: Operation = Operation {
    name: "block_sparse",
    sets: &[
        Set::new(
            "forward",
            "bf16, head_dim 128, seqlen 16384 to 65536, 10 to 100 % of the blocks of 128 x 128",
        )
        .reaching(Some(1.3), None),
        Set::new("backward", "the gradients of the same").reaching(Some(1.3), None),
        Set::new(
            "blocks",
            "f16, head_dim 64, one head, 800 and 2000 blocks of 128 x 128, in graphs",
        )
        .in_graphs(),
        Set::new("tiny", "for the emulator"),
    ],
    unit: Unit::Flops,
    cases,
};

/// Queries and keys of a block.
const BLOCK: usize = 128;

/// The shape of a case.
#[derive(Clone, Debug)]
struct Shape {
    seqlen: usize,
    heads: usize,
    head_dim: usize,
    /// Number of blocks that are seen; all of them without a mask.
    blocks: usize,
    is_backward: bool,
    /// Prefix of our kernel's name.
    kernel: Option<String>,
}

impl Shape {
    /// Blocks along an axis.
    fn along(&self) -> usize {
        self.seqlen.div_ceil(BLOCK)
    }

    fn is_full(&self) -> bool {
        self.blocks == self.along() * self.along()
    }

    fn extents(&self) -> [usize; 4] {
        [1, self.seqlen, self.heads, self.head_dim]
    }

    /// The blocks of keys of each block of queries, in order.
    fn lists(&self) -> Vec<Vec<u32>> {
        let along = self.along();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut drawn = move |end: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % end
        };
        (0..along)
            .map(|row| {
                let count = (row + 1) * self.blocks / along - row * self.blocks / along;
                let mut all: Vec<u32> = (0..along as u32).collect();
                for idx in 0..count {
                    all.swap(idx, idx + drawn(along - idx));
                }
                all.truncate(count);
                all.sort_unstable();
                all
            })
            .collect()
    }

    fn work<T: Float>(&self) -> Work {
        let pairs = (self.blocks * BLOCK * BLOCK * self.heads) as f64;
        let elements = self.extents().iter().product::<usize>();
        // q, k, v and o; backward their gradients too.
        let (products, tensors) = if self.is_backward {
            (10.0, 8)
        } else {
            (4.0, 4)
        };
        Work {
            flops: products * pairs * self.head_dim as f64,
            bytes: (tensors * elements * size_of::<T>()) as f64,
            exponentials: pairs,
            tensor_input: Some(T::DTYPE),
        }
    }

    fn name(&self) -> String {
        let pass = if self.is_backward {
            "backward"
        } else {
            "forward"
        };
        let all = self.along() * self.along();
        let blocks = match self.heads {
            1 => format!("blocks{}", self.blocks),
            _ => format!("p{}", (100 * self.blocks + all / 2) / all),
        };
        format!(
            "{pass}/d{}/{blocks}/h{}/s{}",
            self.head_dim, self.heads, self.seqlen
        )
    }

    fn description(&self) -> Value {
        json!({ "backward": self.is_backward, "block": BLOCK, "full": self.is_full() })
    }
}

fn cases(set: &Set, options: &OperationOptions) -> Vec<Case> {
    let shapes = shapes(set.name).into_iter().map(|shape| Shape {
        kernel: options.kernel.clone(),
        ..shape
    });
    match set.name {
        "blocks" => shapes.map(|shape| case::<f16>(shape, -8)).collect(),
        _ => shapes.map(|shape| case::<bf16>(shape, -5)).collect(),
    }
}

fn shapes(set: &str) -> Vec<Shape> {
    let of = |seqlen: usize, heads: usize, head_dim: usize, blocks: usize| Shape {
        seqlen,
        heads,
        head_dim,
        blocks,
        is_backward: set == "backward",
        kernel: None,
    };
    match set {
        "blocks" => [800, 2000].map(|blocks| of(8192, 1, 64, blocks)).into(),
        "tiny" => [false, true]
            .map(|is_backward| Shape {
                is_backward,
                ..of(256, 2, 32, 3)
            })
            .into(),
        _ => {
            let mut shapes = Vec::new();
            for (seqlen, heads) in [(16_384, 16), (32_768, 8), (65_536, 4)] {
                let all = (seqlen / BLOCK) * (seqlen / BLOCK);
                for percent in [10, 25, 50, 100] {
                    shapes.push(of(seqlen, heads, 128, all * percent / 100));
                }
            }
            shapes
        }
    }
}

/// Two correct results may differ by `2^allowed`, because each rounds P, dS and the result.
fn case<T: Float + Sample>(shape: Shape, allowed: i32) -> Case {
    Case {
        name: format!("block_sparse/{}/{}", T::DTYPE, shape.name()),
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
    /// d_o, and the forward's lse, of a backward case.
    backward: Option<(Tensor<T>, Tensor<f32>)>,
    /// dq, dk and dv.
    grads: AttentionGrads<T>,
}

impl<T: Float> Copy<T> {
    fn forward<'a>(&self, mask: Option<&'a BlockMask>) -> Attention<'a, T> {
        let attention = Attention::new(&self.q, &self.k, &self.v);
        match mask {
            Some(mask) => attention.block_mask(mask),
            None => attention,
        }
    }

    fn grad<'a>(&self, mask: Option<&'a BlockMask>) -> Option<AttentionGrad<'a, T>> {
        let (d_o, lse) = self.backward.as_ref()?;
        let grad = AttentionGrad::new(&self.q, &self.k, &self.v, &self.o, lse, d_o);
        Some(match mask {
            Some(mask) => grad.block_mask(mask),
            None => grad,
        })
    }
}

fn operands<T: Float + Sample>(
    (shape, mask): (&Shape, Option<&BlockMask>),
    stream: &Stream,
    copies: usize,
) -> Result<Vec<Copy<T>>> {
    let draw = |seed| normal_copies::<T>(stream, &shape.extents(), seed, copies);
    let unwritten = || unwritten_copies::<T>(stream, &shape.extents(), copies);
    let (q, k, v, d_o) = (draw(1)?, draw(2)?, draw(3)?, draw(4)?);
    let (o, dq, dk, dv) = (unwritten()?, unwritten()?, unwritten()?, unwritten()?);
    let mut all = Vec::with_capacity(copies);
    for idx in 0..copies {
        let mut copy = Copy {
            q: q[idx].clone(),
            k: k[idx].clone(),
            v: v[idx].clone(),
            o: o[idx].clone(),
            backward: None,
            grads: AttentionGrads {
                dq: dq[idx].clone(),
                dk: dk[idx].clone(),
                dv: dv[idx].clone(),
                d_sink: None,
                d_bias: None,
            },
        };
        if shape.is_backward {
            let AttentionOutput { o, lse } = copy.forward(mask).lse().run(stream)?;
            copy.o = o;
            copy.backward = Some((d_o[idx].clone(), lse));
        }
        all.push(copy);
    }
    Ok(all)
}

fn prepared<T: Float + Sample>(shape: &Shape, stream: &Stream, copies: usize) -> Result<Prepared> {
    let lists = shape.lists();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let mut blocks = Vec::new();
    for list in &lists {
        let own = list.iter().map(|&block| block as i32);
        blocks.extend(own.chain(std::iter::repeat(-1)).take(longest));
    }
    let blocks = Tensor::from_slice(stream.device(), &[1, 1, lists.len(), longest], &blocks)?;
    let of = BlockMaskShape::new(shape.seqlen, shape.seqlen).blocks(BLOCK, BLOCK);
    let mask = match shape.is_full() {
        true => None,
        false => Some(BlockMask::from_indices(&of, &blocks, stream)?),
    };
    let operands = operands::<T>((shape, mask.as_ref()), stream, copies)?;
    let mut prepared = Prepared::new();
    let of = |tensor: fn(&Copy<T>) -> &Tensor<T>| -> Vec<Tensor<T>> {
        operands.iter().map(|copy| tensor(copy).clone()).collect()
    };
    prepared.operand("q", &of(|copy| &copy.q));
    prepared.operand("k", &of(|copy| &copy.k));
    prepared.operand("v", &of(|copy| &copy.v));
    prepared.operand("blocks", std::slice::from_ref(&blocks));
    let first = &operands[0];
    let begin = shape.kernel.as_deref();
    let found = |plan: &warpsmith::Plan| {
        let named = begin.map(|begin| {
            let mut candidates = plan.candidates().iter();
            let found = candidates.find(|candidate| candidate.name.starts_with(begin));
            found.map_or(begin.to_owned(), |candidate| candidate.name.clone())
        });
        named.or_else(|| plan.chosen().map(|candidate| candidate.name.clone()))
    };
    let kernel = match first.grad(mask.as_ref()) {
        Some(grad) => {
            let d_o: Vec<Tensor<T>> = (operands.iter())
                .filter_map(|copy| Some(copy.backward.as_ref()?.0.clone()))
                .collect();
            prepared.operand("d_o", &d_o);
            for (name, grad) in [
                ("dq", &first.grads.dq),
                ("dk", &first.grads.dk),
                ("dv", &first.grads.dv),
            ] {
                prepared.answer(name, grad, stream)?;
            }
            found(&grad.plan_into(&first.grads, stream)?)
        }
        None => {
            prepared.answer("o", &first.o, stream)?;
            found(&first.forward(mask.as_ref()).plan_into(&first.o, stream)?)
        }
    };
    let stream = stream.clone();
    prepared.ours(kernel.clone(), move |copy| {
        let copy = &operands[copy];
        let name = kernel.as_deref().unwrap_or_default();
        match copy.grad(mask.as_ref()) {
            Some(grad) => Ok(grad.with_kernel(name).run_into(&copy.grads, &stream)?),
            None => {
                let forward = copy.forward(mask.as_ref()).with_kernel(name);
                Ok(forward.run_into(&copy.o, &stream)?)
            }
        }
    });
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_are_drawn_as_are_counted() {
        for set in ["forward", "blocks", "tiny"] {
            for shape in shapes(set) {
                let lists = shape.lists();
                assert_eq!(lists.iter().map(Vec::len).sum::<usize>(), shape.blocks);
                let is_sorted = |list: &Vec<u32>| list.is_sorted_by(|a, b| a < b);
                assert!(lists.iter().all(is_sorted));
            }
        }
    }
}
