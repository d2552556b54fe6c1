//! Merging of two partial results of attention.

use crate::load::{self, LoadVariant};
use crate::ops::check;
use crate::{Error, Float, LaunchConfig, Result, Stream, Tensor};
use abi::attention::OutputDType;
use abi::attention::merge::{MERGE_ENTRY, MergeParams, THREADS};

/// Merges the results of attention to two disjoint sets of keys, `a` and `b`, into the result of
/// attention to all of them: `lse = ln(exp(lse_a) + exp(lse_b))` and
/// `o = o_a exp(lse_a - lse) + o_b exp(lse_b - lse)`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `o` of `a` and `b` | `[batch, seqlen_q, heads_q, head_dim_v]`, or packed `[total_q, heads_q, head_dim_v]` | f32, f16, bf16 | any |
/// | `lse` of `a` and `b` | `[batch, heads_q, seqlen_q]`, or packed `[heads_q, total_q]` | f32 | any |
/// | results `o`, `lse` (new) | as the parts' | as the parts' | contiguous |
///
/// The parts are results of [`Attention::lse`](crate::Attention::lse) with [`Layout::Bshd`](crate::Layout::Bshd). If a row saw no key in one part (`lse = -inf`), its
/// result is that of the other part. A sink may be set in one part only.
///
/// Computed in f32; `o` is rounded once. Error bound:
/// [`reference::attention::merge`](crate::reference::attention::merge). Enqueued on `stream`;
/// returns before completion.
///
/// # Errors
/// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch),
/// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (an extent above 2^32 - 1025),
/// [`Error::Device`].
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::ops::merge_attention;
/// use warpsmith::{Attention, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let q = Tensor::full(&stream, &[1, 1, 1, 8], 0.0_f32)?;
/// let part = |value: f32, keys: usize| -> warpsmith::Result<_> {
///     let kv = Tensor::full(&stream, &[1, keys, 1, 8], value)?;
///     Attention::new(&q, &kv, &kv).lse().run(&stream)
/// };
/// let (a, b) = (part(0.0, 1)?, part(4.0, 3)?);
/// let (o, _) = merge_attention((&a.o, &a.lse), (&b.o, &b.lse), &stream)?;
/// assert!(o.to_vec()?.iter().all(|o| (o - 3.0).abs() < 1e-6));
/// # Ok(())
/// # }
/// ```
pub fn merge_attention<T: Float>(
    a: (&Tensor<T>, &Tensor<f32>),
    b: (&Tensor<T>, &Tensor<f32>),
    stream: &Stream,
) -> Result<(Tensor<T>, Tensor<f32>)> {
    for (operand, tensor) in [("o of a", a.0), ("o of b", b.0)] {
        check::device(operand, tensor, stream)?;
    }
    for (operand, tensor) in [("lse of a", a.1), ("lse of b", b.1)] {
        check::device(operand, tensor, stream)?;
    }
    let (batch, seqlen_q, heads_q, head_dim_v) = match *a.0.shape() {
        [batch, seqlen_q, heads_q, head_dim_v] => (Some(batch), seqlen_q, heads_q, head_dim_v),
        [total_q, heads_q, head_dim_v] => (None, total_q, heads_q, head_dim_v),
        _ => {
            let want = "[batch, seqlen_q, heads_q, head_dim_v] or [total_q, heads_q, head_dim_v]";
            return Err(check::shape_mismatch("o of a", a.0, want));
        }
    };
    if b.0.shape() != a.0.shape() {
        let want = format!("that of a, {:?}", a.0.shape());
        return Err(check::shape_mismatch("o of b", b.0, want));
    }
    let shape_lse: Vec<usize> = batch.into_iter().chain([heads_q, seqlen_q]).collect();
    for (operand, lse) in [("lse of a", a.1), ("lse of b", b.1)] {
        if lse.shape() != shape_lse {
            return Err(check::shape_mismatch(
                operand,
                lse,
                format!("{shape_lse:?}"),
            ));
        }
    }
    let dtype = OutputDType::new(T::DTYPE)
        .ok_or(Error::Bug("an element type that attention does not have"))?;
    let params = MergeParams {
        batch: check::extent("batch", batch.unwrap_or(1))?,
        seqlen_q: check::extent("seqlen_q", seqlen_q)?,
        heads_q: check::extent("heads_q", heads_q)?,
        head_dim_v: check::extent("head_dim_v", head_dim_v)?,
        dtype: dtype.code(),
        reserved: 0,
    };
    let o = Tensor::empty(stream, a.0.shape())?;
    let lse = Tensor::empty(stream, &shape_lse)?;
    if lse.is_empty() {
        return Ok((o, lse));
    }
    let (o_a, o_b) = (a.0.contiguous(stream)?, b.0.contiguous(stream)?);
    let (lse_a, lse_b) = (a.1.contiguous(stream)?, b.1.contiguous(stream)?);
    let bytes = 3 * o.len() as u64 * T::DTYPE.size_bytes() as u64;
    let variant = LoadVariant::of(stream.device(), bytes);
    let kernel = load::kernel_for(variant, stream, MERGE_ENTRY)?;
    let config = LaunchConfig::linear(params.blocks(), THREADS);
    let memory = (&o_a, &lse_a, &o_b, &lse_b, &o, &lse);
    // SAFETY: all tensors are contiguous and have these extents; the new ones overlap nothing.
    unsafe { kernel.launch(stream, config, memory, &params) }?;
    Ok((o, lse))
}
