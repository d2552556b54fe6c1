//! The element types of reductions and scans.

use crate::{CastElement, DType, Element};
use half::{bf16, f16};

/// The types that [`Reduce`](crate::Reduce) and [`Scan`](crate::Scan) take: f32, f16 and bf16,
/// which are accumulated in f32; f64, in f64; i32 and i64, in i64.
pub trait Reducible: Countable {}

/// The types of which [`Reduce`](crate::Reduce) counts elements and finds indices: those of
/// [`Reducible`], and u8 and i8, such as masks that comparisons give.
pub trait Countable: CastElement + sealed::Sealed {
    /// Dtype of the result of [`Reduce::new`](crate::Reduce::new): f32 for f16 and bf16, i64 for
    /// integers, otherwise the type itself.
    type Value: Element;
}

mod sealed {
    use abi::DType;

    /// Restricts [`Countable`](super::Countable) to the types that kernels exist for.
    pub trait Sealed {
        /// The dtype in which kernels read the elements. Where an operation has no kernel for the
        /// type itself, they are converted to it first. It represents all of their values.
        const READ_AS: DType;
    }
}

macro_rules! reducible {
    ($($ty:ty => $value:ty;)*) => {$(
        impl sealed::Sealed for $ty {
            const READ_AS: DType = Self::DTYPE;
        }

        impl Countable for $ty {
            type Value = $value;
        }

        impl Reducible for $ty {}
    )*};
}

reducible! {
    f32 => f32;
    f16 => f32;
    bf16 => f32;
    f64 => f64;
    i32 => i64;
    i64 => i64;
}

macro_rules! counted_as_f16 {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {
            const READ_AS: DType = DType::F16;
        }

        impl Countable for $ty {
            type Value = i64;
        }
    )*};
}

counted_as_f16! { u8 i8 }
