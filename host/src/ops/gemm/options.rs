//! Option types of [`Gemm`](super::Gemm).

use super::desc::BiasAxis;
use crate::ops::copy::CastElement;
use crate::ops::elementwise::ChainElement;
use crate::{E4m3, E5m2, Element, Float, Tensor};
use abi::gemm::Activation;
use half::{bf16, f16};

/// An element type of `a` that can be multiplied by a `b` of type `Rhs`: f64, f32, f16, bf16 and i8 with
/// themselves, and the 8-bit floats with each other.
pub trait GemmInput<Rhs: Element = Self>: Element {
    /// Dtype of the result of [`Gemm::new`](super::Gemm::new): that of the operands, bf16 for 8-bit
    /// floats, or i32 for i8.
    type Output: GemmOutput;
}

macro_rules! inputs {
    ($($a:ty, $b:ty => $output:ty;)*) => {$(
        impl GemmInput<$b> for $a {
            type Output = $output;
        }
    )*};
}

inputs! {
    f64, f64 => f64;
    f32, f32 => f32;
    f16, f16 => f16;
    bf16, bf16 => bf16;
    E4m3, E4m3 => bf16;
    E4m3, E5m2 => bf16;
    E5m2, E4m3 => bf16;
    E5m2, E5m2 => bf16;
    i8, i8 => i32;
}

/// An element type of the result of a [`Gemm`](super::Gemm): every [`Float`], f64 for f64 operands,
/// and i32 for i8 operands.
pub trait GemmOutput: CastElement + ChainElement {
    /// The type of alpha, beta and scales: f64 for f64, i32 for i32 (which has no scales), else
    /// f32. So factors are as precise as the sums.
    type Factor: GemmOutput<Factor = Self::Factor>;
    /// The value in f64, exactly.
    fn widened(self) -> f64;
    /// `x` rounded to nearest, ties to even. Integers saturate, and NaN becomes the lowest integer.
    fn rounded_from(x: f64) -> Self;
}

macro_rules! outputs {
    ($($ty:ty, $factor:ty: $to:expr, $from:expr;)*) => {$(
        impl GemmOutput for $ty {
            type Factor = $factor;

            fn widened(self) -> f64 {
                $to(self)
            }

            fn rounded_from(x: f64) -> Self {
                $from(x)
            }
        }
    )*};
}

outputs! {
    f64, f64: std::convert::identity, std::convert::identity;
    f32, f32: f64::from, <f32 as Float>::from_f64;
    f16, f32: f16::to_f64, <f16 as Float>::from_f64;
    bf16, f32: bf16::to_f64, <bf16 as Float>::from_f64;
    i32, i32: f64::from, nearest_integer;
}

/// See [`GemmOutput::rounded_from`].
fn nearest_integer(x: f64) -> i32 {
    if x.is_nan() {
        i32::MIN
    } else {
        x.round_ties_even() as i32
    }
}

/// The precision to which f32 operands are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// Full f32, with 24 significant bits.
    #[default]
    Full,
    /// tf32 or better, with at least 11 significant bits, which tensor cores multiply. Accumulation
    /// stays in f32.
    Tf32,
}

/// The options of a GEMM, whose documentation is that of their setters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a, Out: GemmOutput> {
    pub(super) c: Option<&'a Tensor<Out>>,
    pub(super) alpha: Scalar<'a, Out::Factor>,
    pub(super) beta: Scalar<'a, Out::Factor>,
    pub(super) scale_a: Scalar<'a, Out::Factor>,
    pub(super) scale_b: Scalar<'a, Out::Factor>,
    pub(super) row_scales: Option<&'a Tensor<Out::Factor>>,
    pub(super) column_scales: Option<&'a Tensor<Out::Factor>>,
    pub(super) bias: Option<(BiasAxis, &'a Tensor<Out>)>,
    pub(super) activation: Activation,
    pub(super) residual: Option<&'a Tensor<Out>>,
    pub(super) precision: Precision,
    pub(super) fast_accumulation: bool,
    pub(super) deterministic: bool,
    pub(super) batch_invariant: bool,
    pub(super) split_k: Option<u32>,
    pub(super) kernel: Option<&'a str>,
    /// Whether options that have the dtype of the output were set before it.
    pub(super) came_before_output: bool,
}

impl<Out: GemmOutput> Default for Options<'_, Out> {
    fn default() -> Self {
        let [zero, one] = [0.0, 1.0].map(|x| Scalar::Host(Out::Factor::rounded_from(x)));
        Self {
            c: None,
            alpha: one,
            beta: zero,
            scale_a: one,
            scale_b: one,
            row_scales: None,
            column_scales: None,
            bias: None,
            activation: Activation::Identity,
            residual: None,
            precision: Precision::Full,
            fast_accumulation: false,
            deterministic: true,
            batch_invariant: false,
            split_k: None,
            kernel: None,
            came_before_output: false,
        }
    }
}

impl<'a, Out: GemmOutput> Options<'a, Out> {
    /// The same for an output of another dtype, without the options that have its dtype.
    pub(super) fn output<O: GemmOutput>(self) -> Options<'a, O> {
        let factors = [self.alpha, self.scale_a, self.scale_b];
        let is_one = |factor: Scalar<'_, Out::Factor>| {
            factor.device().is_none() && factor.host_or_one() == 1.0
        };
        let has_scales = self.row_scales.is_some() || self.column_scales.is_some();
        let has_tensors = self.c.is_some() || self.bias.is_some() || self.residual.is_some();
        Options {
            activation: self.activation,
            precision: self.precision,
            fast_accumulation: self.fast_accumulation,
            deterministic: self.deterministic,
            batch_invariant: self.batch_invariant,
            split_k: self.split_k,
            kernel: self.kernel,
            came_before_output: has_scales || has_tensors || !factors.into_iter().all(is_one),
            ..Options::default()
        }
    }
}

/// A factor: a value known on the host, or one that the kernel reads from device memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a, F: Element> {
    Host(F),
    Device(&'a Tensor<F>),
}

impl<'a, F: GemmOutput> Scalar<'a, F> {
    /// The tensor that the kernel reads it from, if any.
    pub(super) fn device(self) -> Option<&'a Tensor<F>> {
        match self {
            Self::Host(_) => None,
            Self::Device(tensor) => Some(tensor),
        }
    }

    /// The value if it is known on the host, else 1.
    pub(super) fn host_or_one(self) -> f64 {
        match self {
            Self::Host(value) => value.widened(),
            Self::Device(_) => 1.0,
        }
    }

    /// True if it is known on the host to be 0.
    pub(super) fn is_zero(self) -> bool {
        matches!(self, Self::Host(value) if value.widened() == 0.0)
    }
}
