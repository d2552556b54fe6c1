//! Weights and biases of norms, in the dtype of the rows or in f32.

use super::input;
use crate::ops::check;
use crate::ops::float::Float;
use crate::{Element, KernelArg, Result, Stream, Tensor};
use abi::DType;
use std::ffi::c_void;

/// Weights (or a bias) that all rows share, in the dtype of the rows or in f32.
#[derive(Clone, Debug)]
pub(super) enum Weights<T: Float> {
    Same(Tensor<T>),
    F32(Tensor<f32>),
}

/// Weights as a kernel argument: an address, or null.
pub(super) struct WeightsArg<'a, T: Float>(pub(super) Option<&'a Weights<T>>);

// SAFETY: delegates to the implementations of the borrowed tensors, or of a null pointer.
unsafe impl<T: Float> KernelArg for WeightsArg<'_, T> {
    fn size_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn bytes(&self) -> *const c_void {
        match self.0 {
            Some(Weights::Same(tensor)) => KernelArg::bytes(&tensor),
            Some(Weights::F32(tensor)) => KernelArg::bytes(&tensor),
            None => KernelArg::bytes(&None::<&Tensor<T>>),
        }
    }

    fn use_on(&self, stream: &Stream) -> Result<()> {
        match self.0 {
            Some(Weights::Same(tensor)) => KernelArg::use_on(&tensor, stream),
            Some(Weights::F32(tensor)) => KernelArg::use_on(&tensor, stream),
            None => Ok(()),
        }
    }
}

impl<T: Float> Weights<T> {
    /// Checks them against rows of this shape.
    pub(super) fn check(
        &self,
        operand: &'static str,
        of_row: &[usize],
        stream: &Stream,
    ) -> Result<()> {
        match self {
            Self::Same(tensor) => input(operand, tensor, of_row, stream),
            Self::F32(tensor) => input(operand, tensor, of_row, stream),
        }
    }

    /// The same weights, contiguous.
    pub(super) fn contiguous(&self, stream: &Stream) -> Result<Self> {
        Ok(match self {
            Self::Same(tensor) => Self::Same(tensor.contiguous(stream)?),
            Self::F32(tensor) => Self::F32(tensor.contiguous(stream)?),
        })
    }

    /// Whether the kernels that hold rows on chip can read them with vector accesses.
    pub(super) fn is_aligned(&self) -> bool {
        let address = match self {
            Self::Same(tensor) => tensor.device_ptr().as_raw(),
            Self::F32(tensor) => tensor.device_ptr().as_raw(),
        };
        // No such kernel exists for f16 rows with weights in f32.
        let has_kernel = !self.is_other() || T::DTYPE != DType::F16;
        has_kernel && address.is_multiple_of(u64::from(abi::rows::VECTOR_BYTES))
    }

    /// What they are of.
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Same(_) => T::DTYPE,
            Self::F32(_) => DType::F32,
        }
    }

    /// Whether they are of another dtype than the rows.
    pub(super) fn is_other(&self) -> bool {
        self.dtype() != T::DTYPE
    }
}

/// The written tensor shares no element with weights of these names.
pub(super) fn no_overlap<E: Element, T: Float, const N: usize>(
    output: &'static str,
    written: &Tensor<E>,
    weights: [(&'static str, &Option<Weights<T>>); N],
) -> Result<()> {
    for (operand, weights) in weights {
        match weights {
            Some(Weights::Same(tensor)) => check::no_overlap(output, written, operand, tensor)?,
            Some(Weights::F32(tensor)) => check::no_overlap(output, written, operand, tensor)?,
            None => {}
        }
    }
    Ok(())
}
