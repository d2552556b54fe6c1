//! Chains of functions in one launch.

use super::program::{ChainElement, Program};
use super::steps::{Number, Operand, Step};
use crate::fuse::Fragment;
use crate::{Result, Stream, Tensor};
use spec::elementwise::{BinaryOp, GradOp, UnaryOp};

/// Functions of elements one after the other, as one launch: each input is read once, the result
/// written once, and what is between stays in registers.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | the first, and up to three others | broadcast to one shape | [`ChainElement`] says which go together | any |
/// | `y` (written) | that shape | the same | any that give each element a place of its own; may be an input itself where their elements are as long, and must not overlap it otherwise |
///
/// A chain has a value, which begins as the first tensor. Each step makes another of it: a function
/// ([`unary`](Chain::unary)), or a function with a tensor, a number or a value kept before. Up to 31
/// steps. [`clamp`](Chain::clamp) and [`select`](Chain::select) are two.
///
/// # Numerics
/// Every step in what the first tensor says ([`ChainElement`]): in f32 within [`UnaryOp::ulps`] and so
/// on, in f64 within [`UnaryOp::wide_ulps`], in integers wrapping. So it is what the steps give one by
/// one, with tensors of that type between. Rounded once to `y`: to nearest for floats, beyond the
/// largest of a type of 8 bits to that; for integers towards zero, beyond the range to its end, NaN to
/// 0. Same bits every run, on every device.
///
/// Where `y` is of f16, bf16, e4m3 or e5m2, functions that have a short form are taken in it, within
/// [`UnaryOp::narrow_ulps`], wherever in the chain they stand. These bits are those of one kind of
/// device; the steps one by one are the fragments `f32_exp_narrow` and so on.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::OutOfBounds`](crate::Error::OutOfBounds) (too many inputs or steps),
/// [`Error::InvalidValue`](crate::Error::InvalidValue) (a value that was not kept, a number that is none
/// of the chain's type), [`Error::Unsupported`](crate::Error::Unsupported) (dtypes that do not go
/// together, a function without a meaning there), [`Error::Fuse`](crate::Error::Fuse) (a fragment of
/// other types),
/// [`Error::ShapeMismatch`](crate::Error::ShapeMismatch),
/// [`Error::StrideMismatch`](crate::Error::StrideMismatch), [`Error::Overlap`](crate::Error::Overlap),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch),
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Driver`](crate::Error::Driver). No
/// launch happens on error.
///
/// # Performance
/// The first launch of a chain composes a kernel of the functions ([`crate::fuse`]) and has the driver
/// compile it: some milliseconds, so launch once before capturing a graph. Other numbers, and tensors
/// of other lengths, are the same kernel. Tensors whose innermost dimension has no gaps, or repeats one
/// element, and begins at a multiple of 16 bytes, move in accesses of 16 bytes.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{BinaryOp, Chain, Device, Tensor, UnaryOp};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_ndarray(&device, &array![[1.0_f32, -2.0], [3.0, 40.0]])?;
/// let bias = Tensor::from_slice(&device, &[2], &[0.5_f32, 1.0])?;
/// // min(relu(2 x + bias), 10)
/// let y = Chain::new(&x)
///     .scalar(BinaryOp::Mul, 2.0)
///     .with(BinaryOp::Add, &bias)
///     .unary(UnaryOp::Relu)
///     .scalar(BinaryOp::Min, 10.0)
///     .run::<f32>(&stream)?;
/// assert_eq!(y.to_ndarray()?, array![[2.5, 0.0], [6.5, 10.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Chain<'a> {
    program: Program<'a>,
}

impl<'a> Chain<'a> {
    /// The value is `x`.
    pub fn new<T: ChainElement>(x: &'a Tensor<T>) -> Self {
        Self {
            program: Program::load("x", x.erased()),
        }
    }

    /// value = op(value). Where the function takes a scalar ([`UnaryOp::Scale`],
    /// [`UnaryOp::Offset`]), that is 1: say [`scalar`](Chain::scalar) instead.
    pub fn unary(mut self, op: UnaryOp) -> Self {
        self.program.push(Step::unary(op, Number::Integer(1)));
        self
    }

    /// value = op(value, scalar).
    pub fn scalar(mut self, op: BinaryOp, scalar: impl Into<Number>) -> Self {
        let operand = Operand::Number(scalar.into());
        self.program.push(Step::binary(op, operand, false));
        self
    }

    /// value = op(scalar, value): `scalar_first(Div, 1.0)` is 1 / value.
    pub fn scalar_first(mut self, op: BinaryOp, scalar: impl Into<Number>) -> Self {
        let operand = Operand::Number(scalar.into());
        self.program.push(Step::binary(op, operand, true));
        self
    }

    /// value = op(value, tensor).
    pub fn with<T: ChainElement>(mut self, op: BinaryOp, tensor: &'a Tensor<T>) -> Self {
        let operand = self.program.input("tensor", tensor.erased());
        self.program.push(Step::binary(op, operand, false));
        self
    }

    /// value = op(tensor, value).
    pub fn with_first<T: ChainElement>(mut self, op: BinaryOp, tensor: &'a Tensor<T>) -> Self {
        let operand = self.program.input("tensor", tensor.erased());
        self.program.push(Step::binary(op, operand, true));
        self
    }

    /// value = op'(value) · dy: the gradient that comes out of a function, of the one that goes in.
    pub fn gradient<T: ChainElement>(mut self, op: GradOp, dy: &'a Tensor<T>) -> Self {
        let operand = self.program.input("dy", dy.erased());
        self.program.push(Step::Gradient(op, operand));
        self
    }

    /// value = min(max(value, low), high). NaN stays; where low is above high, high.
    pub fn clamp(self, low: impl Into<Number>, high: impl Into<Number>) -> Self {
        self.scalar(BinaryOp::Max, low).scalar(BinaryOp::Min, high)
    }

    /// value = condition ≠ 0 ? value : other. A NaN in the condition counts as 0.
    pub fn select<C: ChainElement, T: ChainElement>(
        mut self,
        condition: &'a Tensor<C>,
        other: &'a Tensor<T>,
    ) -> Self {
        let mask = self.program.condition("condition", condition.erased());
        self.program.push(Step::Mask(mask));
        let other = self.program.input("other", other.erased());
        self.program.push(Step::Select(other));
        self
    }

    /// value = fragment(value): a function of your own, `#[cuda_std::fragment]` in a crate of kernels.
    /// It takes and returns what the chain computes in.
    pub fn apply(mut self, fragment: &'a Fragment) -> Self {
        self.program.push(Step::Apply(fragment, None));
        self
    }

    /// value = fragment(value, tensor).
    pub fn apply_with<T: ChainElement>(
        mut self,
        fragment: &'a Fragment,
        tensor: &'a Tensor<T>,
    ) -> Self {
        let operand = self.program.input("tensor", tensor.erased());
        self.program.push(Step::Apply(fragment, Some(operand)));
        self
    }

    /// Keeps the value under a number from 0 to 3, for [`kept`](Chain::kept) later.
    pub fn keep(mut self, number: u8) -> Self {
        self.program.keep(number);
        self
    }

    /// value = op(value, what was kept).
    pub fn kept(mut self, op: BinaryOp, number: u8) -> Self {
        let operand = self.program.kept(number);
        self.program.push(Step::binary(op, operand, false));
        self
    }

    /// value = op(what was kept, value).
    pub fn kept_first(mut self, op: BinaryOp, number: u8) -> Self {
        let operand = self.program.kept(number);
        self.program.push(Step::binary(op, operand, true));
        self
    }

    /// The result in a new, contiguous tensor.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn run<U: ChainElement>(&self, stream: &Stream) -> Result<Tensor<U>> {
        self.program.run(stream)
    }

    /// The kernel that a launch into contiguous tensors of many elements and dtype `U` runs on devices
    /// of compute capability `arch`: to read, or to hand to ptxas.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn ptx<U: ChainElement>(&self, arch: (u32, u32)) -> Result<String> {
        self.program.ptx(U::DTYPE, arch)
    }

    /// The result into `y`, which may be an input itself.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn run_into<U: ChainElement>(&self, y: &Tensor<U>, stream: &Stream) -> Result<()> {
        self.program.run_into(y, stream)
    }
}
