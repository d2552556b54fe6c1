//! Checks of the options that concern scores, and what kernels get of them.

use super::blocks;
use super::compose::{
    ALIBI, BIAS, D_BIAS, DROPOUT, INVERSE_CAP, MASK, SCALE, SLOTS, SOFTCAP, ScoreCall, VALUES,
};
use super::desc::{ScoreDesc, TensorDesc};
use super::dropout;
use super::function::{MOST_STEPS, MOST_VALUES};
use super::{AttentionBias, AttentionMask, ScoreOptions, with_tensor};
use crate::ops::attention::block_mask::BlockMask;
use crate::ops::attention::extents::Extents;
use crate::ops::check;
use crate::ops::gemm::Memory;
use crate::{Element, Error, Result, Stream, Tensor};

/// Most positions of a sequence for ALiBi in f32: sums with a tile's rows beyond them are exact too.
const NEAREST_FAR: usize = 1 << 23;

/// Batch, heads, queries, keys.
type Shape = [usize; 4];

impl Extents {
    /// The shape that biases and masks broadcast to.
    pub(in crate::ops) fn shape_of_scores(&self) -> Shape {
        [self.batch, self.heads_q, self.seqlen_q, self.seqlen_k]
    }
}

/// Strides of a tensor as one of `shape`: 0 where it is broadcast.
fn strides<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    shape: &[usize],
) -> Result<[i64; 4]> {
    let got = tensor.shape();
    let mismatch = || Error::shape(operand, got, format!("one that broadcasts to {shape:?}"));
    let missing = shape.len().checked_sub(got.len()).ok_or_else(mismatch)?;
    let mut strides = [0; 4];
    for (axis, (&extent, &stride)) in got.iter().zip(tensor.strides()).enumerate() {
        let want = shape[missing + axis];
        if extent != want && extent != 1 {
            return Err(mismatch());
        }
        strides[missing + axis] = if extent == 1 { 0 } else { stride };
    }
    Ok(strides)
}

impl ScoreOptions<'_> {
    /// Checks them against the extents of the call.
    pub(in crate::ops) fn check(&self, extents: &Extents, stream: &Stream) -> Result<()> {
        let shape = extents.shape_of_scores();
        if let Some(bias) = self.bias {
            with_tensor!(bias, tensor => {
                check::device("bias", tensor, stream)?;
                strides("bias", tensor, &shape)?;
            });
        }
        if let Some(slopes) = self.alibi {
            check::device("alibi", slopes, stream)?;
            strides("alibi", slopes, &shape[..2])?;
        }
        let mut values = 0;
        if let Some(function) = self.function {
            function.check("score", false)?;
            values += function.values().count();
        }
        match self.mask {
            Some(AttentionMask::Tensor(mask)) => {
                check::device("mask", mask, stream)?;
                strides("mask", mask, &shape)?;
            }
            Some(AttentionMask::Function(mask)) => {
                mask.check("mask", true)?;
                values += mask.values().count();
            }
            None => {}
        }
        if let Some(blocks) = self.blocks {
            check::device("block_mask", &blocks.cells, stream)?;
            blocks.check(&shape)?;
            values += blocks.function.iter().flat_map(|of| of.values()).count();
        }
        if let Some(dropout) = self.dropout
            && !(0.0..1.0).contains(&dropout.p)
        {
            let got = format!("{:?}", dropout.p);
            return Err(Error::value("dropout", got, "at least 0 and below 1"));
        }
        match values > MOST_VALUES {
            true => Err(Error::out_of_bounds(
                "values of score and mask",
                values as u64,
                MOST_VALUES as u64 + 1,
            )),
            false => Ok(()),
        }
    }

    /// Checks that an output overlaps none of them.
    pub(in crate::ops) fn check_overlap<E: Element>(
        &self,
        output: &'static str,
        written: &Tensor<E>,
    ) -> Result<()> {
        if let Some(bias) = self.bias {
            with_tensor!(bias, tensor => check::no_overlap(output, written, "bias", tensor))?;
        }
        if let Some(AttentionMask::Tensor(mask)) = self.mask {
            check::no_overlap(output, written, "mask", mask)?;
        }
        match self.alibi {
            Some(slopes) => check::no_overlap(output, written, "alibi", slopes),
            None => Ok(()),
        }
    }

    /// Checks that all that is done to scores has a derivative.
    pub(in crate::ops) fn check_derivatives(&self) -> Result<()> {
        self.function.map_or(Ok(()), |of| of.check_derivatives())
    }

    /// What they are, if there are any. `pairs_keys`: kernels change the scores of an even key and
    /// the next together.
    pub(in crate::ops) fn describe(
        &self,
        extents: &Extents,
        (softcap, softmax_scale, pairs_keys): (bool, f32, bool),
    ) -> Result<Option<ScoreDesc>> {
        if !self.are_placed() {
            return Ok(None);
        }
        let shape = extents.shape_of_scores();
        let changes = self.changes(softmax_scale, softcap);
        let mut desc = ScoreDesc {
            changes,
            blocks: self.blocks.map(blocks::describe),
            dropout: self.drops().is_some(),
            softcap: softcap && changes,
            alibi: self.alibi.is_some(),
            is_near: self.alibi.is_some() && shape[2].max(shape[3]) <= NEAREST_FAR,
            function: self.function.map_or([0; 2 * MOST_STEPS], |of| of.key()),
            ..ScoreDesc::default()
        };
        if let Some(bias) = self.bias {
            let mut bias = with_tensor!(bias, tensor => tensor_desc("bias", tensor, &shape))?;
            bias.paired &= pairs_keys;
            desc.bias = Some(bias);
        }
        match self.mask {
            Some(AttentionMask::Tensor(mask)) => {
                desc.mask = Some(tensor_desc("mask", mask, &shape)?);
            }
            Some(AttentionMask::Function(mask)) => {
                let [fragment, derivative, ..] = mask.key();
                desc.mask_function = [fragment, derivative];
            }
            None => {}
        }
        Ok(Some(desc))
    }

    /// What kernels get of them, with the factor of `q @ k^T`.
    pub(in crate::ops) fn call(
        &self,
        extents: &Extents,
        softmax_scale: f32,
        softcap: Option<f32>,
        pairs_keys: bool,
    ) -> Result<Option<ScoreCall>> {
        let of_scores = (softcap.is_some(), softmax_scale, pairs_keys);
        let Some(desc) = self.describe(extents, of_scores)? else {
            return Ok(None);
        };
        let shape = extents.shape_of_scores();
        let mut call = ScoreCall {
            desc,
            function: self.function.cloned(),
            mask: None,
            blocks: self.blocks.cloned(),
            slots: [0; SLOTS],
            memory: Vec::new(),
        };
        call.slots[SCALE] = softmax_scale.to_bits().into();
        let softcap = softcap.unwrap_or(1.0);
        call.slots[SOFTCAP] = softcap.to_bits().into();
        call.slots[INVERSE_CAP] = softcap.recip().min(f32::MAX).to_bits().into();
        if let Some(bias) = self.bias {
            with_tensor!(bias, tensor => call.put(BIAS, tensor, strides("bias", tensor, &shape)?));
        }
        if let Some(slopes) = self.alibi {
            call.put(ALIBI, slopes, strides("alibi", slopes, &shape[..2])?);
        }
        match self.mask {
            Some(AttentionMask::Tensor(mask)) => {
                call.put(MASK, mask, strides("mask", mask, &shape)?);
            }
            Some(AttentionMask::Function(mask)) => call.mask = Some(mask.clone()),
            None => {}
        }
        let of_blocks = self.blocks.and_then(|blocks| blocks.function.as_ref());
        let functions = || call.function.iter().chain(&call.mask).chain(of_blocks);
        let values: Vec<u64> = functions()
            .flat_map(|of| of.values())
            .map(|it| it.bits())
            .collect();
        let memory: Vec<Memory> = functions().flat_map(|of| of.memory()).collect();
        for (slot, value) in call.slots[VALUES..][..MOST_VALUES].iter_mut().zip(values) {
            *slot = value;
        }
        call.memory.extend(memory);
        if let Some(dropout) = self.drops() {
            let heads = check::extent("heads_q", extents.heads_q)?;
            call.slots[DROPOUT..].copy_from_slice(&dropout::slots(&dropout, heads));
        }
        Ok(Some(call))
    }
}

impl BlockMask {
    /// Checks that it covers scores of this shape.
    fn check(&self, &[batch, heads, seqlen_q, seqlen_k]: &Shape) -> Result<()> {
        let own = &self.shape;
        let suits = [1, batch].contains(&own.batch)
            && [1, heads].contains(&own.heads)
            && own.seqlen_q >= seqlen_q
            && own.seqlen_k >= seqlen_k;
        if suits {
            return Ok(());
        }
        let got = [own.batch, own.heads, own.seqlen_q, own.seqlen_k];
        let want = format!(
            "batch 1 or {batch}, heads 1 or {heads}, at least {seqlen_q} queries and {seqlen_k} keys"
        );
        Err(Error::shape("block_mask", &got[..], want))
    }
}

/// Strides of a contiguous tensor in bytes.
pub(super) fn byte_strides<T: Element>(tensor: &Tensor<T>) -> Vec<u64> {
    let bytes = |stride: &i64| stride.wrapping_mul(size_of::<T>() as i64).cast_unsigned();
    tensor.strides().iter().map(bytes).collect()
}

/// How a tensor that is read for each score lies.
fn tensor_desc<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    shape: &[usize],
) -> Result<TensorDesc> {
    let [outer @ .., of_key] = strides(operand, tensor, shape)?;
    let is_even = tensor.shape().last().is_some_and(|keys| keys % 2 == 0)
        && outer.iter().all(|stride| stride % 2 == 0)
        && Memory::of(tensor).address().is_multiple_of(4);
    Ok(TensorDesc {
        dtype: T::DTYPE,
        dense: of_key == 1,
        paired: of_key == 1 && size_of::<T>() == 2 && is_even,
    })
}

impl ScoreCall {
    /// Makes it write the gradient of the bias to a tensor of all scores, `[batch, heads_q,
    /// seqlen_q, seqlen_k]`.
    pub(in crate::ops) fn write_d_bias(&mut self, to: &Tensor<f32>) -> Result<()> {
        let strides = strides("d_bias", to, to.shape())?;
        self.desc.d_bias = true;
        self.put(D_BIAS, to, strides);
        Ok(())
    }

    /// Puts a tensor's address and its strides into slots, as far as these are of it.
    pub(super) fn put<T: Element>(&mut self, slots: usize, tensor: &Tensor<T>, strides: [i64; 4]) {
        let memory = Memory::of(tensor);
        self.slots[slots] = memory.address();
        let rank = if slots == ALIBI { 2 } else { 4 };
        for (slot, stride) in self.slots[slots + 1..].iter_mut().zip(&strides[..rank]) {
            *slot = stride.wrapping_mul(size_of::<T>() as i64).cast_unsigned();
        }
        self.memory.push(memory);
    }
}
