//! The element types of reductions and scans.

use crate::{CastElement, DType, Element};
use half::{bf16, f16};

/// The types that [`Scan`](crate::Scan) and [`Reduce::dot`](crate::Reduce::dot) take: f32, f16 and bf16,
/// which are accumulated in f32; f64, in f64; i32 and i64, in i64.
pub trait Reducible: Countable + sealed::Extremes {}

/// The types that [`Reduce`](crate::Reduce) takes: those of [`Reducible`], and u8 and i8, such as
/// masks that comparisons give.
pub trait Countable: CastElement + sealed::Sealed {
    /// Dtype of the result of [`Reduce::new`](crate::Reduce::new): f32 for f16 and bf16, i64 for
    /// integers, otherwise the type itself.
    type Value: Element;
}

mod sealed {
    use abi::DType;

    /// Restricts [`Countable`](super::Countable) to the types that kernels exist for.
    pub trait Sealed {
        /// The dtypes in which kernels find indices of the elements, and compute values. Where an
        /// operation has no kernel for the type itself, they are converted first. Both represent all
        /// of their values.
        const READ_AS: [DType; 2];
    }

    /// Numbers that every type has.
    pub trait Extremes: Sized {
        /// 0, 1, the least number and the greatest.
        const NUMBERS: [Self; 4];
    }
}

macro_rules! reducible {
    ($($ty:ty => $value:ty, $numbers:expr;)*) => {$(
        impl sealed::Sealed for $ty {
            const READ_AS: [DType; 2] = [Self::DTYPE; 2];
        }

        impl sealed::Extremes for $ty {
            const NUMBERS: [Self; 4] = $numbers;
        }

        impl Countable for $ty {
            type Value = $value;
        }

        impl Reducible for $ty {}
    )*};
}

reducible! {
    f32 => f32, [0.0, 1.0, Self::NEG_INFINITY, Self::INFINITY];
    f16 => f32, [Self::ZERO, Self::ONE, Self::NEG_INFINITY, Self::INFINITY];
    bf16 => f32, [Self::ZERO, Self::ONE, Self::NEG_INFINITY, Self::INFINITY];
    f64 => f64, [0.0, 1.0, Self::NEG_INFINITY, Self::INFINITY];
    i32 => i64, [0, 1, Self::MIN, Self::MAX];
    i64 => i64, [0, 1, Self::MIN, Self::MAX];
}

macro_rules! bytes {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {
            const READ_AS: [DType; 2] = [DType::F16, DType::I32];
        }

        impl Countable for $ty {
            type Value = i64;
        }
    )*};
}

bytes! { u8 i8 }
