//! The choices that a caller of [`Gemm`](super::Gemm) has.

use crate::{Element, Float, Tensor};
use half::{bf16, f16};

use crate::{E4m3, E5m2};

/// An element type of A that can be multiplied with a B of type `Rhs`: f32, f16 or bf16 with
/// itself, and the 8-bit floats with each other.
pub trait GemmInput<Rhs: Element = Self>: Element {
    /// What [`Gemm::new`](super::Gemm::new) writes: the operands' type, bf16 for 8-bit floats.
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

/// What products of f32 operands keep of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// All 24 bits.
    #[default]
    Full,
    /// At least 11 bits (tf32): what tensor cores multiply. Sums stay in f32.
    Tf32,
}

/// A factor, known on the host or read from device memory when the kernel runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Host(f32),
    Device(&'a Tensor<f32>),
}

impl<'a> Scalar<'a> {
    /// The tensor that it is read from.
    pub(super) fn device(self) -> Option<&'a Tensor<f32>> {
        match self {
            Self::Host(_) => None,
            Self::Device(tensor) => Some(tensor),
        }
    }

    /// The value, 1 where it is not known.
    pub(super) fn host_or_one(self) -> f32 {
        match self {
            Self::Host(value) => value,
            Self::Device(_) => 1.0,
        }
    }

    /// True where it is known to be 0.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Host(0.0))
    }
}
