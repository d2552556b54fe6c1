//! The element types of reductions and scans.

use crate::Element;
use half::{bf16, f16};

/// The types that [`Reduce`](crate::Reduce) and [`Scan`](crate::Scan) take: f32, f16 and bf16,
/// which are accumulated in f32; f64, in f64; i32 and i64, in i64.
pub trait Reducible: Element + sealed::Sealed {
    /// Type of the values of a reduction ([`Reduce::run`](crate::Reduce::run)).
    type Value: Element;
}

mod sealed {
    /// Restricts [`Reducible`](super::Reducible) to the types that kernels exist for.
    pub trait Sealed {}
}

macro_rules! reducible {
    ($($ty:ty => $value:ty;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Reducible for $ty {
            type Value = $value;
        }
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
