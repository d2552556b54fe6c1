//! The element types that the operations compute with.

use crate::ops::copy::CastElement;
use crate::ops::elementwise::ChainElement;
use crate::ops::gemm::GemmInput;
use half::{bf16, f16};

/// The types f32, f16 and bf16, which most operations take. Operations compute in f32 and round
/// once, when they write a result.
pub trait Float:
    CastElement + ChainElement + GemmInput<Self, Output = Self> + sealed::Sealed
{
    /// The value in f32, exactly.
    fn to_f32(self) -> f32;
    /// `x` rounded to nearest, ties to even.
    fn from_f32(x: f32) -> Self;
    /// `x` rounded to nearest, ties to even, without an intermediate rounding to f32.
    fn from_f64(x: f64) -> Self;
}

mod sealed {
    /// Restricts [`Float`](super::Float) to the types that kernels exist for.
    pub trait Sealed {}
}

macro_rules! floats {
    ($($ty:ty: $to:expr, $from:expr, $from_wide:expr;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Float for $ty {
            fn to_f32(self) -> f32 {
                $to(self)
            }

            fn from_f32(x: f32) -> Self {
                $from(x)
            }

            fn from_f64(x: f64) -> Self {
                $from_wide(x)
            }
        }
    )*};
}

floats! {
    f32: std::convert::identity, std::convert::identity, |x| x as f32;
    f16: f16::to_f32, f16::from_f32, f16::from_f64;
    bf16: bf16::to_f32, bf16::from_f32, bf16::from_f64;
}
