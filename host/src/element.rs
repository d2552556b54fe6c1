//! Element types of buffers and tensors.

use crate::float8::{E4m3, E5m2};
use abi::DType;
use half::{bf16, f16};
use std::fmt::Debug;

/// A type that device memory can hold.
///
/// # Safety
/// Every bit pattern is a valid value, there is no padding, no pointer and no interior mutability,
/// and `DTYPE.size_bytes() == size_of::<Self>()`. The trait is sealed: [`DType`] lists its types.
pub unsafe trait Element:
    Copy + Debug + Default + PartialEq + Send + Sync + 'static + sealed::Sealed
{
    /// Which one it is.
    const DTYPE: DType;
}

mod sealed {
    /// Restricts [`Element`](super::Element) to the types of [`DType`](abi::DType).
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $ty {}

        const _: () = assert!(size_of::<$ty>() == DType::$dtype.size_bytes());

        // SAFETY: a number, or a transparent wrapper of one, of the size that DTYPE says.
        unsafe impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    f64 => F64,
    f32 => F32,
    f16 => F16,
    bf16 => Bf16,
    E4m3 => E4m3,
    E5m2 => E5m2,
    i8 => I8,
    i16 => I16,
    i32 => I32,
    i64 => I64,
    u8 => U8,
    u16 => U16,
    u32 => U32,
    u64 => U64,
}

/// The bytes of `values`, in memory order.
pub(crate) fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: `Element` has no padding, so every byte is initialised; u8 has no alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of `values`, writable.
pub(crate) fn as_bytes_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`; every bit pattern is an `Element`, so any write keeps it valid.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
