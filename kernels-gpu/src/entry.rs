//! The types that an entry's values stand for. An entry is a constant of `abi`; its kernel needs
//! types.

use abi::DType;
use cuda_std::tile::{KMajor, MnMajor, OperandMajor};
use cuda_std::wgmma::{self, S8, S32Bits};
use half::{bf16, f16};

/// A dtype as a type: `Of<{ DType::Bf16 as u8 }>`.
pub(crate) struct Of<const DTYPE: u8>;

/// The types of a dtype.
pub(crate) trait Types {
    /// The Rust type of elements.
    type Element;
    /// The operand type of `wgmma`. f32 is read as tf32.
    type Operand;
    /// The accumulators of `wgmma` as the kernels hold them: f32, or the bits of an i32.
    type Sum;
}

macro_rules! types {
    ($($dtype:ident: $element:ty, $operand:ty, $sum:ty;)*) => {$(
        impl Types for Of<{ DType::$dtype as u8 }> {
            type Element = $element;
            type Operand = $operand;
            type Sum = $sum;
        }
    )*};
}

types! {
    F32: f32, wgmma::Tf32, f32;
    F16: f16, wgmma::F16, f32;
    Bf16: bf16, wgmma::Bf16, f32;
    E4m3: u8, wgmma::E4m3, f32;
    E5m2: u8, wgmma::E5m2, f32;
    I8: i8, S8, S32Bits;
}

/// Whether k is contiguous, as a type.
pub(crate) struct Contiguous<const K: bool>;

/// The major order of an operand.
pub(crate) trait Order {
    /// [`KMajor`] if k is contiguous.
    type Major: OperandMajor;
}

impl Order for Contiguous<true> {
    type Major = KMajor;
}

impl Order for Contiguous<false> {
    type Major = MnMajor;
}
