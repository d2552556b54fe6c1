//! Chains of elementwise functions, fused into one kernel.

use super::program::{ChainElement, Program};
use super::steps::{Number, Operand, Step};
use crate::fuse::Fragment;
use crate::ops::plan::Plan;
use crate::{Result, Stream, Tensor};
use abi::elementwise::{BinaryOp, GradOp, UnaryOp};
use std::marker::PhantomData;

/// A sequence of elementwise functions, fused into one kernel: each input is read once, the result
/// is written once, and intermediate values stay in registers.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | the first input, and up to three others | broadcast to one shape | any of [`ChainElement`], which lists the combinations | any |
/// | tensors of [`store`](Chain::store) (written) | that shape | as other inputs | as `y`; may be inputs themselves, and must not overlap `y` or each other |
/// | `y` (written) | that shape | as the first input; with [`output`](Chain::output) any of the same combination | any where no two indices refer to one element; may be an input itself if their dtypes have one size, and must not overlap one otherwise |
///
/// A chain has a current value, which starts as the first tensor. Each step replaces it by a
/// function of it ([`unary`](Chain::unary)), or of it and an operand: another tensor, a number, or
/// a value that was [kept](Chain::keep) before. A chain has up to 31 steps; [`clamp`](Chain::clamp)
/// and [`select`](Chain::select) count as two. Inputs and stored tensors are four together.
///
/// # Numerics
/// The first tensor determines the arithmetic of all steps ([`ChainElement`]). This is f32 with
/// errors up to [`UnaryOp::ulps`] (other functions have the same method), f64 with errors up to
/// [`UnaryOp::wide_ulps`], or wrapping integers. The result equals that of the steps done one by
/// one with intermediate tensors of that type. It is rounded once to the dtype of `y`: to floats to
/// nearest, with saturation for e4m3 and e5m2; to integers towards zero, with saturation, where NaN
/// becomes 0. The same bits every run and on every device.
///
/// Exception: functions that have a short form use it if `y` and all stored tensors are f16, bf16,
/// e4m3 or e5m2. Their errors are then up to [`UnaryOp::narrow_ulps`]. They use approximate
/// instructions, so the bits are reproducible on one kind of device only. Single steps in short
/// form are the fragments `f32_exp_narrow` and so on.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) and [`Error::Device`](crate::Error::Device).
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds): too many inputs or steps.
/// [`ArgumentError::Value`](crate::ArgumentError::Value): a value that was not kept, a function
/// without its scalar, or a number that the chain's arithmetic cannot represent.
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported): dtypes that cannot be
/// combined, or a function that is not defined in the arithmetic.
/// [`KernelError::Fuse`](crate::KernelError::Fuse): a fragment with other parameter or result
/// types. No launch happens on error.
///
/// # Performance
/// The first launch of a chain composes a kernel ([`crate::fuse`]) and has the driver compile it,
/// which takes some milliseconds: launch once before capturing a CUDA graph. The kernel is cached,
/// and serves chains that differ only in their numbers and tensor sizes. Tensors are accessed in
/// vectors of 16 bytes where their innermost dimension is contiguous, or broadcast, and its rows
/// start at multiples of 16 bytes.
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
///     .run(&stream)?;
/// assert_eq!(y.to_ndarray()?, array![[2.5, 0.0], [6.5, 10.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Chain<'a, O: ChainElement> {
    program: Program<'a>,
    output: PhantomData<O>,
}

impl<'a, O: ChainElement> Chain<'a, O> {
    /// A chain whose value is `x`, and whose result has the dtype of `x`.
    pub fn new(x: &'a Tensor<O>) -> Self {
        Self {
            program: Program::load("chain", "x", x.erased()),
            output: PhantomData,
        }
    }

    /// Sets the dtype of the result.
    pub fn output<U: ChainElement>(self) -> Chain<'a, U> {
        Chain {
            program: self.program,
            output: PhantomData,
        }
    }

    /// value = op(value). The functions that take a scalar ([`UnaryOp::Scale`] and
    /// [`UnaryOp::Offset`]) are refused: [`scalar`](Chain::scalar) has them, as products and sums.
    pub fn unary(mut self, op: UnaryOp) -> Self {
        self.program.unary(op);
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

    /// value = op'(value) · dy: one step of a backward pass. The value is the input of the forward
    /// function, and `dy` the gradient with respect to its output.
    pub fn gradient<T: ChainElement>(mut self, op: GradOp, dy: &'a Tensor<T>) -> Self {
        let operand = self.program.input("dy", dy.erased());
        self.program.push(Step::Gradient(op, operand));
        self
    }

    /// value = min(max(value, low), high). A NaN stays NaN. If `low > high`, the result is `high`.
    pub fn clamp(self, low: impl Into<Number>, high: impl Into<Number>) -> Self {
        self.scalar(BinaryOp::Max, low).scalar(BinaryOp::Min, high)
    }

    /// value = `condition != 0 ? value : other`. A NaN in the condition
    /// is not 0.
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

    /// value = fragment(value), with a function of your own: `#[cuda_std::fragment]` in a kernel
    /// crate. Its parameter and its result have the type of the chain's arithmetic.
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

    /// Keeps the current value in slot `number` (0 to 3), for a later [`kept`](Chain::kept).
    pub fn keep(mut self, number: u8) -> Self {
        self.program.keep(number);
        self
    }

    /// value = op(value, kept), with the value that was kept in slot `number`.
    pub fn kept(mut self, op: BinaryOp, number: u8) -> Self {
        let operand = self.program.kept(number);
        self.program.push(Step::binary(op, operand, false));
        self
    }

    /// value = op(kept, value), with the value that was kept in slot `number`.
    pub fn kept_first(mut self, op: BinaryOp, number: u8) -> Self {
        let operand = self.program.kept(number);
        self.program.push(Step::binary(op, operand, true));
        self
    }

    /// value = `tensor`. [`keep`](Chain::keep) and [`store`](Chain::store) preserve the value before.
    pub fn load<T: ChainElement>(mut self, tensor: &'a Tensor<T>) -> Self {
        let operand = self.program.input("tensor", tensor.erased());
        self.program.push(Step::Load(operand));
        self
    }

    /// Writes the value to `tensor` as well, rounded to its dtype; the value stays as it is. A
    /// chain has read all of its inputs at an element before it writes there, so `tensor` may be one
    /// of them.
    ///
    /// ```
    /// # fn main() -> warpsmith::Result<()> {
    /// use warpsmith::{BinaryOp::{Add, Mul, Sub}, Chain, Device, Tensor};
    /// let device = Device::emulator()?;
    /// let stream = device.stream()?;
    /// let weight = Tensor::from_slice(&device, &[2], &[1.0_f32, 2.0])?;
    /// let momentum = Tensor::from_slice(&device, &[2], &[0.5_f32, 0.0])?;
    /// let gradient = Tensor::from_slice(&device, &[2], &[0.25_f32, -1.0])?;
    /// // momentum = 0.5 momentum + gradient; weight = weight - 0.5 momentum
    /// Chain::new(&momentum)
    ///     .scalar(Mul, 0.5)
    ///     .with(Add, &gradient)
    ///     .store(&momentum)
    ///     .scalar(Mul, 0.5)
    ///     .with_first(Sub, &weight)
    ///     .run_into(&weight, &stream)?;
    /// assert_eq!(momentum.to_vec()?, [0.5, -1.0]);
    /// assert_eq!(weight.to_vec()?, [0.75, 2.5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn store<T: ChainElement>(mut self, tensor: &'a Tensor<T>) -> Self {
        self.program.store(tensor.erased());
        self
    }

    /// Enqueues the chain and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<O>> {
        self.program.run(stream)
    }

    /// The kernel that [`run`](Self::run) would launch: there is one, composed of this skeleton.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        self.program.plan::<O>(stream)
    }

    /// The PTX of the kernel that a launch over large contiguous tensors runs on devices of compute
    /// capability `arch`: to read, or to pass to ptxas.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn ptx(&self, arch: (u32, u32)) -> Result<String> {
        self.program.ptx(O::DTYPE, arch)
    }

    /// Enqueues the chain into `y`, which may be an input itself.
    ///
    /// # Errors
    /// See [`Chain`].
    pub fn run_into(&self, y: &Tensor<O>, stream: &Stream) -> Result<()> {
        self.program.run_into(y, stream)
    }
}
