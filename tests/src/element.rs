//! Element types as tests need them: exact values, bits, and a poison that no kernel writes.

use half::{bf16, f16};
use warpsmith::reference::precision::round_to;
use warpsmith::{DType, E4m3, E5m2, Element};

/// An element type whose bits can be examined.
pub trait TestElement: Element {
    /// A bit pattern that is not a valid result: a NaN with a payload, or an absurd index.
    const POISON: Self;
    /// The bits, zero-extended.
    fn bits(self) -> u64;
    /// The exact value.
    fn wide(self) -> f64;
    /// The nearest element.
    fn nearest(x: f64) -> Self;
}

impl TestElement for f32 {
    const POISON: Self = f32::from_bits(0x7fe5_a5a5);
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn nearest(x: f64) -> Self {
        x as f32
    }
}

impl TestElement for f64 {
    const POISON: Self = f64::from_bits(0x7ffc_a5a5_a5a5_a5a5);
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn wide(self) -> f64 {
        self
    }
    fn nearest(x: f64) -> Self {
        x
    }
}

impl TestElement for i32 {
    // Not the same half twice: that is 65,537 times a sum of products.
    const POISON: Self = 0x5a5a_a5a5;
    fn bits(self) -> u64 {
        u64::from(self as u32)
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn nearest(x: f64) -> Self {
        x as i32
    }
}

impl TestElement for f16 {
    const POISON: Self = f16::from_bits(0x7ea5);
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
    // The conversion of the crate half drops 32 bits of f64 before it rounds.
    fn nearest(x: f64) -> Self {
        f16::from_f64(round_to(DType::F16, x))
    }
}

impl TestElement for bf16 {
    const POISON: Self = bf16::from_bits(0x7fe5);
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
    // The conversion of the crate half drops 32 bits of f64 before it rounds.
    fn nearest(x: f64) -> Self {
        bf16::from_f64(round_to(DType::Bf16, x))
    }
}

impl TestElement for i64 {
    const POISON: Self = 0x5a5a_5a5a_5a5a_5a5a;
    fn bits(self) -> u64 {
        self as u64
    }
    fn wide(self) -> f64 {
        self as f64
    }
    fn nearest(x: f64) -> Self {
        x as i64
    }
}

macro_rules! eight_bits {
    ($($ty:ident)*) => {$(
        impl TestElement for $ty {
            const POISON: Self = $ty(0xff);
            fn bits(self) -> u64 {
                u64::from(self.0)
            }
            fn wide(self) -> f64 {
                f64::from(self.to_f32())
            }
            fn nearest(x: f64) -> Self {
                Self::from_f64(x)
            }
        }
    )*};
}

eight_bits! { E4m3 E5m2 }

macro_rules! integers {
    ($($ty:ident as $unsigned:ident = $poison:literal;)*) => {$(
        /// As an operand, or of an operation whose results are never the poison.
        impl TestElement for $ty {
            const POISON: Self = $poison;
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            fn wide(self) -> f64 {
                self as f64
            }
            fn nearest(x: f64) -> Self {
                x as $ty
            }
        }
    )*};
}

integers! {
    u8 as u8 = 0x5a;
    i8 as u8 = 0x5a;
    u16 as u16 = 0x5a5a;
    i16 as u16 = 0x5a5a;
    u32 as u32 = 0x5a5a_5a5a;
    u64 as u64 = 0x5a5a_5a5a_5a5a_5a5a;
}

/// Calls a generic function with the element type for a [`DType`](warpsmith::DType): f32, f16 or
/// bf16.
#[macro_export]
macro_rules! with_float {
    ($dtype:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $dtype {
            warpsmith::DType::F32 => $function::<f32>($($argument),*),
            warpsmith::DType::F16 => $function::<half::f16>($($argument),*),
            warpsmith::DType::Bf16 => $function::<half::bf16>($($argument),*),
            other => Err(format!("no operation computes in {other}")),
        }
    };
}

/// The same for any element type.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $dtype {
            warpsmith::DType::F64 => $function::<f64>($($argument),*),
            warpsmith::DType::F32 => $function::<f32>($($argument),*),
            warpsmith::DType::F16 => $function::<half::f16>($($argument),*),
            warpsmith::DType::Bf16 => $function::<half::bf16>($($argument),*),
            warpsmith::DType::E4m3 => $function::<warpsmith::E4m3>($($argument),*),
            warpsmith::DType::E5m2 => $function::<warpsmith::E5m2>($($argument),*),
            warpsmith::DType::I8 => $function::<i8>($($argument),*),
            warpsmith::DType::I16 => $function::<i16>($($argument),*),
            warpsmith::DType::I32 => $function::<i32>($($argument),*),
            warpsmith::DType::I64 => $function::<i64>($($argument),*),
            warpsmith::DType::U8 => $function::<u8>($($argument),*),
            warpsmith::DType::U16 => $function::<u16>($($argument),*),
            warpsmith::DType::U32 => $function::<u32>($($argument),*),
            warpsmith::DType::U64 => $function::<u64>($($argument),*),
        }
    };
}
