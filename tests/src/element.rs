//! Element types as the tests see them: exact values, bits, and a poison that no kernel writes.

use half::{bf16, f16};
use warpsmith::Element;

/// An element whose bits can be looked at.
pub trait TestElement: Element {
    /// A bit pattern that no result has: a NaN with a payload, or an absurd index.
    const POISON: Self;
    /// The bits, zero-extended.
    fn bits(self) -> u64;
    /// The value, exactly.
    fn wide(self) -> f64;
}

impl TestElement for f32 {
    const POISON: Self = f32::from_bits(0x7fe5_a5a5);
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn wide(self) -> f64 {
        f64::from(self)
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
}

impl TestElement for bf16 {
    const POISON: Self = bf16::from_bits(0x7fe5);
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn wide(self) -> f64 {
        self.to_f64()
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
}

/// Calls a generic function with the element type that a [`DType`](warpsmith::DType) names: f32,
/// f16 or bf16.
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
