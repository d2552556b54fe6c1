//! Elementwise functions of one tensor.

use super::program::{ChainElement, Program};
use super::steps::{Number, Step};
use crate::error::named;
use crate::ops::plan::Plan;
use crate::{Error, Result, Stream, Tensor};
use abi::elementwise::UnaryOp;
use std::marker::PhantomData;

/// The operation's name in errors and plans.
const NAME: &str = "unary";

/// An elementwise function of one tensor: `y = f(x)`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, up to 8 dimensions | any of [`ChainElement`] | any |
/// | `y` (written) | as `x` | as `x`; with [`output`](Unary::output) any that [`ChainElement`] allows | any where no two indices refer to one element; may be `x` itself, and must not overlap it otherwise |
///
/// [`UnaryOp`] lists the functions. [`UnaryOp::Scale`] and [`UnaryOp::Offset`] take a
/// [`scalar`](Unary::scalar).
///
/// # Numerics
/// Computed in f32 with an error up to [`UnaryOp::ulps`], in f64 with an error up to
/// [`UnaryOp::wide_ulps`], or in wrapping i32 or i64 ([`ChainElement`] says which), and rounded
/// once. A NaN stays NaN. The same bits every run and on every device. Exception: functions with a
/// [`UnaryOp::narrow_ulps`] have that error if the result is a float of 16 or 8 bits, and their
/// bits are reproducible on one kind of device only.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::Shape`] and [`Error::Device`]. [`ArgumentError::Value`](crate::ArgumentError::Value): a
/// scalar is missing, or given to a function that takes none.
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported): a function that is not
/// defined for the dtype, or a result dtype that cannot be combined with it. No launch happens on
/// error.
///
/// # Performance
/// As [`Chain`](crate::Chain): one read and one write per element.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, Tensor, Unary, UnaryOp};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_slice(&device, &[3], &[1.0_f32, 4.0, 9.0])?;
/// let y = Unary::new(UnaryOp::Sqrt, &x).run(&stream)?;
/// assert_eq!(y.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Unary<'a, T: ChainElement, O: ChainElement = T> {
    op: UnaryOp,
    x: &'a Tensor<T>,
    scalar: Option<Number>,
    output: PhantomData<O>,
}

impl<'a, T: ChainElement> Unary<'a, T> {
    /// `op` applied to every element of `x`.
    pub fn new(op: UnaryOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            scalar: None,
            output: PhantomData,
        }
    }
}

impl<'a, T: ChainElement, O: ChainElement> Unary<'a, T, O> {
    /// Sets the dtype of the result, such as u8 for `IsNan`, or f32 of bf16.
    pub fn output<U: ChainElement>(self) -> Unary<'a, T, U> {
        Unary {
            op: self.op,
            x: self.x,
            scalar: self.scalar,
            output: PhantomData,
        }
    }

    /// Sets the scalar of [`UnaryOp::Scale`] and [`UnaryOp::Offset`].
    pub fn scalar(mut self, scalar: impl Into<Number>) -> Self {
        self.scalar = Some(scalar.into());
        self
    }

    /// Enqueues the function and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Unary`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<O>> {
        self.program()?.run(stream)
    }

    /// Enqueues the function into `y`, which may be `x` itself.
    ///
    /// # Errors
    /// See [`Unary`].
    pub fn run_into(&self, y: &Tensor<O>, stream: &Stream) -> Result<()> {
        self.program()?.run_into(y, stream)
    }

    /// The kernel that [`run`](Self::run) would launch: there is one, composed of this skeleton.
    ///
    /// # Errors
    /// See [`Unary`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        self.program()?.plan::<O>(stream)
    }

    fn program(&self) -> Result<Program<'a>> {
        let scalar = named(NAME, || self.checked_scalar())?;
        let mut program = Program::load(NAME, "x", self.x.erased());
        program.push(Step::unary(self.op, scalar));
        Ok(program)
    }

    fn checked_scalar(&self) -> Result<Number> {
        let takes_scalar = self.op.takes_scalar();
        let invalid = |got: String, want: &str| Error::value("scalar", got, want);
        match self.scalar {
            Some(scalar) if takes_scalar => Ok(scalar),
            None if !takes_scalar => Ok(Number::Integer(0)),
            None => Err(invalid(
                "missing".into(),
                "a number: scale and offset take one",
            )),
            Some(scalar) => {
                let want = format!("none: {} takes no scalar", self.op.name());
                Err(invalid(scalar.to_string(), &want))
            }
        }
    }
}
