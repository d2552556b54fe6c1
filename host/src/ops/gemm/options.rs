//! Option types of [`Gemm`](super::Gemm).

use crate::{Element, Float, Tensor};
use half::{bf16, f16};

use crate::{E4m3, E5m2};

/// An element type of `a` that can be multiplied by a `b` of type `Rhs`: f32, f16 and bf16 with
/// themselves, and the 8-bit floats with each other.
pub trait GemmInput<Rhs: Element = Self>: Element {
    /// Dtype of the result of [`Gemm::new`](super::Gemm::new): that of the operands, or bf16 for
    /// 8-bit floats.
    type Output: Float;
}

macro_rules! inputs {
    ($($a:ty, $b:ty => $output:ty;)*) => {$(
        impl GemmInput<$b> for $a {
            type Output = $output;
        }
    )*};
}

inputs! {
    f32, f32 => f32;
    f16, f16 => f16;
    bf16, bf16 => bf16;
    E4m3, E4m3 => bf16;
    E4m3, E5m2 => bf16;
    E5m2, E4m3 => bf16;
    E5m2, E5m2 => bf16;
}

/// The precision to which f32 operands are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// Full f32, with 24 significant bits.
    #[default]
    Full,
    /// tf32 or better, with at least 11 significant bits, which tensor cores multiply. Accumulation
    /// stays in f32.
    Tf32,
}

/// A factor: a value known on the host, or one that the kernel reads from device memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Host(f32),
    Device(&'a Tensor<f32>),
}

impl<'a> Scalar<'a> {
    /// The tensor that the kernel reads it from, if any.
    pub(super) fn device(self) -> Option<&'a Tensor<f32>> {
        match self {
            Self::Host(_) => None,
            Self::Device(tensor) => Some(tensor),
        }
    }

    /// The value if it is known on the host, else 1.
    pub(super) fn host_or_one(self) -> f32 {
        match self {
            Self::Host(value) => value,
            Self::Device(_) => 1.0,
        }
    }

    /// True if it is known on the host to be 0.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Host(0.0))
    }
}
