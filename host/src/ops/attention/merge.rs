//! Merging of two partial results of attention.

use super::AttentionOutput;
use crate::error::named;
use crate::load::{self, LoadVariant};
use crate::ops::check;
use crate::ops::copy::strided_copy;
use crate::{Element, Error, Float, LaunchConfig, Result, Stream, Tensor};
use abi::attention::OutputDType;
use abi::attention::merge::{MERGE_ENTRY, MergeParams, THREADS};
use std::marker::PhantomData;

/// Merges the results `a` and `b` of attention to two disjoint sets of keys into the result of
/// attention to all of them:
///
/// ```text
/// lse = ln(exp(lse_a) + exp(lse_b))      o = o_a exp(lse_a - lse) + o_b exp(lse_b - lse)
/// ```
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `o` of `a` and `b` | `[batch, seqlen_q, heads_q, head_dim_v]`, or packed `[total_q, heads_q, head_dim_v]` | f32, f16, bf16 | any |
/// | `lse` of `a` and `b` | `[batch, heads_q, seqlen_q]`, or packed `[heads_q, total_q]` | f32 | any |
/// | `o` (written) | as `o` of `a` | as `o` of `a`, or set by [`output`](Self::output) | any where no two indices refer to one element; must not overlap an input |
/// | `lse` (written) | as `lse` of `a` | f32 | likewise; must not overlap `o` |
///
/// The inputs are results of [`Attention::lse`](crate::Attention::lse) with
/// [`Layout::Bshd`](crate::Layout::Bshd). If a row saw no key in one of them (`lse = -inf`), its
/// result is that of the other. A sink may be set in one of them only.
///
/// # Numerics
/// Computed in f32; `o` is rounded once. Error bound:
/// [`reference::attention::merge`](crate::reference::attention::merge). Deterministic: the same
/// bits every run.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch),
/// [`ShapeError::Strides`](crate::ShapeError::Strides),
/// [`ShapeError::Overlap`](crate::ShapeError::Overlap),
/// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (an extent above 2^32 - 1025),
/// [`Error::Device`]. No launch happens on error.
///
/// # Performance
/// One launch. Tensors that are not contiguous are copied, before or after it.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Attention, AttentionMerge, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let q = Tensor::full(&stream, &[1, 1, 1, 8], 0.0_f32)?;
/// let attend = |value: f32, keys: usize| {
///     let kv = Tensor::full(&stream, &[1, keys, 1, 8], value)?;
///     Attention::new(&q, &kv, &kv).lse().run(&stream)
/// };
/// let (a, b) = (attend(0.0, 1)?, attend(4.0, 3)?);
/// let merged = AttentionMerge::new(&a, &b).run(&stream)?;
/// assert!(merged.o.to_vec()?.iter().all(|o| (o - 3.0).abs() < 1e-6));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct AttentionMerge<'a, T: Float, Out: Float = T> {
    a: &'a AttentionOutput<T>,
    b: &'a AttentionOutput<T>,
    output: PhantomData<Out>,
}

impl<'a, T: Float> AttentionMerge<'a, T> {
    /// The result of attention to the keys of `a` and to those of `b`.
    pub fn new(a: &'a AttentionOutput<T>, b: &'a AttentionOutput<T>) -> Self {
        let output = PhantomData;
        Self { a, b, output }
    }
}

impl<'a, T: Float, Out: Float> AttentionMerge<'a, T, Out> {
    /// Sets the dtype of `o`: f32, f16 or bf16 (default: that of the inputs).
    pub fn output<O: Float>(self) -> AttentionMerge<'a, T, O> {
        let (a, b, output) = (self.a, self.b, PhantomData);
        AttentionMerge { a, b, output }
    }

    /// Enqueues the merge and returns its results, new contiguous tensors.
    ///
    /// # Errors
    /// See [`AttentionMerge`].
    pub fn run(&self, stream: &Stream) -> Result<AttentionOutput<Out>> {
        named(MERGE_ENTRY.name(), || {
            let params = self.validate(stream)?;
            let o = Tensor::empty(stream, self.a.o.shape())?;
            let lse = Tensor::empty(stream, self.a.lse.shape())?;
            self.launch(params, &o, &lse, stream)?;
            Ok(AttentionOutput { o, lse })
        })
    }

    /// Enqueues the merge into `o` and `lse`.
    ///
    /// # Errors
    /// See [`AttentionMerge`].
    pub fn run_into(&self, o: &Tensor<Out>, lse: &Tensor<f32>, stream: &Stream) -> Result<()> {
        named(MERGE_ENTRY.name(), || {
            let params = self.validate(stream)?;
            self.check_output(("o", o), self.a.o.shape(), stream)?;
            self.check_output(("lse", lse), self.a.lse.shape(), stream)?;
            check::no_overlap("lse", lse, "o", o)?;
            if o.is_contiguous() && lse.is_contiguous() {
                return self.launch(params, o, lse, stream);
            }
            let [o_shape, lse_shape] = [o.shape(), lse.shape()];
            let dense_o = Tensor::empty(stream, o_shape)?;
            let dense_lse = Tensor::empty(stream, lse_shape)?;
            self.launch(params, &dense_o, &dense_lse, stream)?;
            strided_copy(&dense_o, o, stream)?;
            strided_copy(&dense_lse, lse, stream)
        })
    }

    fn check_output<E: Element>(
        &self,
        (name, output): (&'static str, &Tensor<E>),
        shape: &[usize],
        stream: &Stream,
    ) -> Result<()> {
        check::output(name, output, shape, stream)?;
        check::no_overlap(name, output, "o of a", &self.a.o)?;
        check::no_overlap(name, output, "lse of a", &self.a.lse)?;
        check::no_overlap(name, output, "o of b", &self.b.o)?;
        check::no_overlap(name, output, "lse of b", &self.b.lse)
    }

    fn validate(&self, stream: &Stream) -> Result<MergeParams> {
        let (a, b) = (self.a, self.b);
        for (operand, tensor) in [("o of a", &a.o), ("o of b", &b.o)] {
            check::device(operand, tensor, stream)?;
        }
        let (batch, seqlen_q, heads_q, head_dim_v) = match *a.o.shape() {
            [batch, seqlen_q, heads_q, head_dim_v] => (Some(batch), seqlen_q, heads_q, head_dim_v),
            [total_q, heads_q, head_dim_v] => (None, total_q, heads_q, head_dim_v),
            _ => {
                let want =
                    "[batch, seqlen_q, heads_q, head_dim_v] or [total_q, heads_q, head_dim_v]";
                return Err(check::shape_mismatch("o of a", &a.o, want));
            }
        };
        check::shape("o of b", b.o.shape(), a.o.shape())?;
        let shape_lse: Vec<usize> = batch.into_iter().chain([heads_q, seqlen_q]).collect();
        check::input("lse of a", &a.lse, &shape_lse, stream)?;
        check::input("lse of b", &b.lse, &shape_lse, stream)?;
        let code = |dtype| {
            let dtype = OutputDType::new(dtype);
            let dtype = dtype.ok_or(Error::Bug("an element type that attention does not have"));
            dtype.map(OutputDType::code)
        };
        Ok(MergeParams {
            batch: check::extent("batch", batch.unwrap_or(1))?,
            seqlen_q: check::extent("seqlen_q", seqlen_q)?,
            heads_q: check::extent("heads_q", heads_q)?,
            head_dim_v: check::extent("head_dim_v", head_dim_v)?,
            dtype: code(T::DTYPE)?,
            o_dtype: code(Out::DTYPE)?,
        })
    }

    /// Launches into contiguous tensors.
    fn launch(
        &self,
        params: MergeParams,
        o: &Tensor<Out>,
        lse: &Tensor<f32>,
        stream: &Stream,
    ) -> Result<()> {
        if lse.is_empty() {
            return Ok(());
        }
        let [a, b] = [self.a, self.b];
        let (o_a, o_b) = (a.o.contiguous(stream)?, b.o.contiguous(stream)?);
        let (lse_a, lse_b) = (a.lse.contiguous(stream)?, b.lse.contiguous(stream)?);
        let bytes = o.len() as u64 * (2 * size_of::<T>() + size_of::<Out>()) as u64;
        let variant = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, MERGE_ENTRY)?;
        let config = LaunchConfig::linear(params.blocks(), THREADS);
        let memory = (&o_a, &lse_a, &o_b, &lse_b, o, lse);
        // SAFETY: all tensors are contiguous and have these extents; o and lse overlap no other.
        unsafe { kernel.launch(stream, config, memory, &params) }
    }
}
