//! Weights and biases of norms, in the dtype of the rows or in f32.

use crate::ops::check;
use crate::tensor::{Address, Erased};
use crate::{Element, Error, Result, Stream, Tensor};
use abi::DType;
use half::{bf16, f16};

/// A dtype of operands that rows or tokens share, beside elements of type `T`: f32, or `T` itself.
pub trait ParamElement<T: Element>: Element + sealed::Sealed<T> {}

impl<T: Element> ParamElement<T> for f32 {}
impl ParamElement<f16> for f16 {}
impl ParamElement<bf16> for bf16 {}

mod sealed {
    use super::{Element, Tensor, Weights, bf16, f16};

    /// Restricts [`ParamElement`](super::ParamElement) to the types that kernels read.
    pub trait Sealed<T: Element>: Element {
        fn weights(tensor: &Tensor<Self>) -> Weights<T>;
    }

    impl<T: Element> Sealed<T> for f32 {
        fn weights(tensor: &Tensor<Self>) -> Weights<T> {
            Weights::F32(tensor.clone())
        }
    }

    impl Sealed<Self> for f16 {
        fn weights(tensor: &Tensor<Self>) -> Weights<Self> {
            Weights::Same(tensor.clone())
        }
    }

    impl Sealed<Self> for bf16 {
        fn weights(tensor: &Tensor<Self>) -> Weights<Self> {
            Weights::Same(tensor.clone())
        }
    }
}

/// Weights (or a bias) that all rows share, in the dtype of the rows or in f32.
#[derive(Clone, Debug)]
pub enum Weights<T: Element> {
    /// In the dtype of the rows.
    Same(Tensor<T>),
    /// In f32.
    F32(Tensor<f32>),
}

impl<T: Element> Weights<T> {
    pub(super) fn of<W: ParamElement<T>>(tensor: &Tensor<W>) -> Self {
        W::weights(tensor)
    }

    fn erased(&self) -> Erased<'_> {
        match self {
            Self::Same(tensor) => tensor.erased(),
            Self::F32(tensor) => tensor.erased(),
        }
    }

    /// Checks them against rows of this shape.
    pub(super) fn check(
        &self,
        operand: &'static str,
        of_row: &[usize],
        stream: &Stream,
    ) -> Result<()> {
        let erased = self.erased();
        stream.device().check_same(operand, erased.device())?;
        check::shape(operand, erased.shape(), of_row)
    }

    /// The same weights, contiguous.
    pub(super) fn contiguous(&self, stream: &Stream) -> Result<Self> {
        Ok(match self {
            Self::Same(tensor) => Self::Same(tensor.contiguous(stream)?),
            Self::F32(tensor) => Self::F32(tensor.contiguous(stream)?),
        })
    }

    /// Whether the kernels that hold rows on chip can read them, or their contiguous copy, with vector
    /// accesses.
    pub(super) fn lie_aligned(&self) -> bool {
        let is_copied = !match self {
            Self::Same(tensor) => tensor.is_contiguous(),
            Self::F32(tensor) => tensor.is_contiguous(),
        };
        let unit = u64::from(abi::rows::VECTOR_BYTES);
        is_copied || self.erased().address().is_multiple_of(unit)
    }

    pub(super) fn dtype(&self) -> DType {
        self.erased().dtype()
    }

    /// Whether they are of another dtype than the rows.
    pub(super) fn is_other(&self) -> bool {
        self.dtype() != T::DTYPE
    }
}

/// Weights as a kernel argument: an address, or null.
pub(super) fn argument<T: Element>(weights: Option<&Weights<T>>) -> Address<'_> {
    weights.map_or(Address::NULL, |weights| {
        let erased = weights.erased();
        erased.argument(erased.address())
    })
}

/// The written tensor shares no element with weights of these names.
pub(super) fn no_overlap<E: Element, T: Element, const N: usize>(
    output: &'static str,
    written: &Tensor<E>,
    weights: [(&'static str, &Option<Weights<T>>); N],
) -> Result<()> {
    for (other, weights) in weights {
        if let Some(weights) = weights
            && written.erased().overlaps(&weights.erased())
        {
            return Err(Error::overlap(output, other));
        }
    }
    Ok(())
}
