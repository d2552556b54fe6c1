//! What a call does to scores beyond its scale: soft cap, functions of the caller's own, a bias,
//! ALiBi, masks. They are put into the holes of the kernels (`kernels-gpu/src/attention/score.rs`).

mod blocks;
mod compose;
mod desc;
mod dropout;
mod function;
mod places;
mod prepare;
mod steps;

pub(in crate::ops) use compose::{ScoreCall, scored};
pub(in crate::ops) use desc::ScoreDesc;
pub use function::{ScoreFunction, ScoreTensor, ScoreValue};

use super::block_mask::BlockMask;
use crate::{Element, Float, Tensor};
use abi::attention::dropout::Dropout;
use abi::attention::sm80::LEAST_SCALE;
use half::{bf16, f16};

/// An additive bias of [`Attention::bias`](crate::Attention::bias), in f32, f16 or bf16.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AttentionBias<'a> {
    /// In f32.
    F32(&'a Tensor<f32>),
    /// In f16.
    F16(&'a Tensor<f16>),
    /// In bf16.
    Bf16(&'a Tensor<bf16>),
}

/// A mask of [`Attention::mask`](crate::Attention::mask).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AttentionMask<'a> {
    /// 0 hides a key from a query.
    Tensor(&'a Tensor<u8>),
    /// A function that returns 0 where a key is hidden.
    Function(&'a ScoreFunction),
}

macro_rules! from {
    ($($source:ty => $to:ident::$variant:ident;)*) => {$(
        impl<'a> From<&'a $source> for $to<'a> {
            fn from(source: &'a $source) -> Self {
                Self::$variant(source)
            }
        }
    )*};
}

from! {
    Tensor<f32> => AttentionBias::F32;
    Tensor<f16> => AttentionBias::F16;
    Tensor<bf16> => AttentionBias::Bf16;
    Tensor<u8> => AttentionMask::Tensor;
    ScoreFunction => AttentionMask::Function;
}

/// The options of a call that concern scores.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ops) struct ScoreOptions<'a> {
    pub(in crate::ops) bias: Option<AttentionBias<'a>>,
    pub(in crate::ops) mask: Option<AttentionMask<'a>>,
    pub(in crate::ops) alibi: Option<&'a Tensor<f32>>,
    pub(in crate::ops) function: Option<&'a ScoreFunction>,
    pub(in crate::ops) blocks: Option<&'a BlockMask>,
    pub(in crate::ops) dropout: Option<Dropout>,
}

impl ScoreOptions<'_> {
    /// Whether scores are changed: not by a block mask, unless the kernel's own scale or soft cap
    /// would turn a hidden score into another.
    pub(in crate::ops) fn changes(&self, softmax_scale: f32, has_softcap: bool) -> bool {
        let is_positive = softmax_scale * std::f32::consts::LOG2_E >= LEAST_SCALE;
        self.any() || (self.blocks.is_some() && (has_softcap || !is_positive))
    }

    /// Whether there are any at all: kernels are then told of positions.
    pub(in crate::ops) fn are_placed(&self) -> bool {
        self.any() || self.blocks.is_some() || self.drops().is_some()
    }

    /// The dropout that drops anything.
    pub(in crate::ops) fn drops(&self) -> Option<Dropout> {
        self.dropout.filter(|dropout| dropout.p != 0.0)
    }

    /// Whether there are any that change scores.
    pub(in crate::ops) fn any(&self) -> bool {
        self.bias.is_some()
            || self.mask.is_some()
            || self.alibi.is_some()
            || self.function.is_some()
    }
}

/// Calls `$then` with the tensor of a bias, of whatever type.
macro_rules! with_tensor {
    ($bias:expr, $tensor:ident => $then:expr) => {
        match $bias {
            AttentionBias::F32($tensor) => $then,
            AttentionBias::F16($tensor) => $then,
            AttentionBias::Bf16($tensor) => $then,
        }
    };
}
pub(in crate::ops) use with_tensor;

impl AttentionBias<'_> {
    pub(in crate::ops) fn shape(&self) -> &[usize] {
        with_tensor!(self, tensor => tensor.shape())
    }
}

impl<'a, T: Float, Out: Float, Kv: Element> super::Attention<'a, T, Out, Kv> {
    /// Adds a bias to the scaled scores, in f32, f16 or bf16, of any strides: `[batch, heads_q,
    /// seqlen_q, seqlen_k]`, or a shape that broadcasts to it. Sequences that are packed or shorter
    /// read it at the positions within the sequence. -inf hides a key. A NaN makes the query's row
    /// NaN, and no other.
    pub fn bias(mut self, bias: impl Into<AttentionBias<'a>>) -> Self {
        self.options.scores.bias = Some(bias.into());
        self
    }

    /// Hides keys from queries, beside the other masks: a tensor of u8 that broadcasts as a
    /// [`bias`](Self::bias) does, where 0 hides, or a [`ScoreFunction`] of one fragment. A query
    /// that sees no key has an `o` of 0 and an `lse` of -inf. Values of hidden keys are multiplied by 0: a
    /// NaN or an infinity there may reach the result.
    pub fn mask(mut self, mask: impl Into<AttentionMask<'a>>) -> Self {
        self.options.scores.mask = Some(mask.into());
        self
    }

    /// ALiBi: subtracts `slopes[head] * |i + seqlen_k - seqlen_q - j|` from the scaled score of query
    /// `i` and key `j` of a sequence. `slopes` is `[heads_q]` or `[batch, heads_q]`.
    pub fn alibi(mut self, slopes: &'a Tensor<f32>) -> Self {
        self.options.scores.alibi = Some(slopes);
        self
    }

    /// Visits only the blocks of keys that a block of queries sees, beside the other masks. A query
    /// that sees no key has an `o` of 0 and an `lse` of -inf. Beside it, portable kernels compute a
    /// window, or a causal mask aligned to the top left. Heads are not packed and keys are not split.
    pub fn block_mask(mut self, mask: &'a BlockMask) -> Self {
        self.options.scores.blocks = Some(mask);
        self
    }

    /// Dropout for training: zeros each probability with probability `p`, at least 0 and below 1, and
    /// multiplies the others by `1 / (1 - p)`. `p` is rounded to a multiple of 2^-16. `lse` is that
    /// without dropout. The mask depends on `seed`, `offset`, the number of heads, and the places of
    /// batch, query head, query and key:
    /// [`reference::attention::Dropout`](crate::reference::attention::Dropout) defines and computes it.
    /// So the backward pass drops the same, and calls with other offsets drop others. A window,
    /// or a causal mask aligned to the top left, is then computed by portable kernels alone. Heads are
    /// not packed and keys are not split. A `p` outside of [0, 1) is an error of the call.
    pub fn dropout(mut self, p: f32, seed: u64, offset: u32) -> Self {
        self.options.scores.dropout = Some(Dropout { p, seed, offset });
        self
    }

    /// Applies a function to the scaled scores, after the soft cap and before bias, ALiBi and masks.
    pub fn score(mut self, function: &'a ScoreFunction) -> Self {
        self.options.scores.function = Some(function);
        self
    }
}
