//! The element types that the operations compute with.

use crate::ops::elementwise::ChainElement;
use crate::ops::gemm::{GemmInput, GemmOutput};
use crate::ops::reduce::Reducible;
use crate::ops::rows::ParamElement;
use half::{bf16, f16};

/// The types f32, f16 and bf16, which most operations take. Operations compute in f32 and round
/// once, when they write a result.
pub trait Float:
    ChainElement
    + GemmInput<Self, Output = Self>
    + GemmOutput<Factor = f32>
    + ParamElement<Self>
    + Reducible
    + sealed::Sealed
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
    f16: f16::to_f32, f16::from_f32, |x| f16::from_f32(to_odd(x));
    bf16: bf16::to_f32, bf16::from_f32, |x| bf16::from_f32(to_odd(x));
}

/// `x` in f32, rounded to odd. A value that f32 does not have goes to the neighbour whose last bit
/// is set. So rounding it again to fewer bits gives the same as rounding `x`. The conversions of
/// `half` from f64 leave the low 32 bits out of account.
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    if back == x || x.is_nan() {
        return nearest;
    }
    let is_beyond = back.abs() > x.abs();
    f32::from_bits((nearest.to_bits() - u32::from(is_beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beside_ties_are_rounded_once() {
        // Halfway between 1 and the next number; beside it by less than f32 tells.
        for (tie, up, down) in [
            (1.0 + 2f64.powi(-11), 0x3c01, 0x3c00),
            (1.0 + 3.0 * 2f64.powi(-11), 0x3c02, 0x3c01),
            (65520.0, 0x7c00, 0x7bff),
            (2f64.powi(-25), 0x0001, 0x0000),
        ] {
            assert_eq!(<f16 as Float>::from_f64(tie.next_up()).to_bits(), up);
            assert_eq!(<f16 as Float>::from_f64(tie.next_down()).to_bits(), down);
            assert_eq!(
                <f16 as Float>::from_f64(-tie.next_up()).to_bits(),
                0x8000 | up
            );
        }
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(<bf16 as Float>::from_f64(tie.next_up()).to_bits(), 0x3f81);
        assert_eq!(<bf16 as Float>::from_f64(tie).to_bits(), 0x3f80);
        assert_eq!(<bf16 as Float>::from_f64(tie.next_down()).to_bits(), 0x3f80);
        assert_eq!(<bf16 as Float>::from_f64(f64::MAX).to_bits(), 0x7f80);
        assert_eq!(<bf16 as Float>::from_f64(f64::MIN_POSITIVE).to_bits(), 0);
        assert_eq!(<bf16 as Float>::from_f64(-0.0).to_bits(), 0x8000);
        assert_eq!(
            <bf16 as Float>::from_f64(f64::NEG_INFINITY).to_bits(),
            0xff80
        );
        assert!(<bf16 as Float>::from_f64(f64::NAN).is_nan());
    }
}
