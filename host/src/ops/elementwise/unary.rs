//! Functions of one element.

use super::program::{ChainElement, Program};
use super::steps::{Number, Step};
use crate::{Error, Result, Stream, Tensor};
use spec::elementwise::UnaryOp;

/// A function of every element: `y = f(x)`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, up to 8 dimensions | any of [`ChainElement`] | any |
/// | `y` (written) | as `x` | as `x`; others by [`run_as`](Unary::run_as), as [`ChainElement`] says | any that give each element a place of its own; may be `x` itself, and must not overlap it otherwise |
///
/// [`UnaryOp`] lists the functions. [`UnaryOp::Scale`] and [`UnaryOp::Offset`] take a
/// [`scalar`](Unary::scalar).
///
/// # Numerics
/// Computed in f32 within [`UnaryOp::ulps`], in f64 within [`UnaryOp::wide_ulps`], in i32 and i64
/// wrapping, and rounded once. A NaN stays NaN. To floats of 16 bits and fewer within
/// [`UnaryOp::narrow_ulps`] where that is some: same bits every run, on one kind of device; all else
/// has the same bits on every device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::InvalidValue`] (a scalar missing, or given to a function that takes none),
/// [`Error::Unsupported`] (a function without a meaning in the dtype),
/// [`Error::ShapeMismatch`], [`Error::StrideMismatch`], [`Error::Overlap`],
/// [`Error::DeviceMismatch`], [`Error::OutOfMemory`], [`Error::Driver`]. No launch happens on
/// error.
///
/// # Performance
/// As [`Chain`](crate::Chain): one read and one write an element.
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
pub struct Unary<'a, T: ChainElement> {
    op: UnaryOp,
    x: &'a Tensor<T>,
    scalar: Option<Number>,
}

impl<'a, T: ChainElement> Unary<'a, T> {
    /// `op` of every element of `x`.
    pub fn new(op: UnaryOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            scalar: None,
        }
    }

    /// The scalar of [`UnaryOp::Scale`] and [`UnaryOp::Offset`].
    pub fn scalar(mut self, scalar: impl Into<Number>) -> Self {
        self.scalar = Some(scalar.into());
        self
    }

    /// The result in a new, contiguous tensor.
    ///
    /// # Errors
    /// See [`Unary`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.run_as(stream)
    }

    /// As [`run`](Unary::run), of another dtype: `IsNan` as u8, a result of bf16 in f32.
    ///
    /// # Errors
    /// See [`Unary`].
    pub fn run_as<U: ChainElement>(&self, stream: &Stream) -> Result<Tensor<U>> {
        self.program()?.run(stream)
    }

    /// The result into `y`, which may be `x` itself.
    ///
    /// # Errors
    /// See [`Unary`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        self.program()?.run_into(y, stream)
    }

    fn program(&self) -> Result<Program<'a>> {
        let scalar = self.checked_scalar()?;
        let mut program = Program::load("x", self.x.erased());
        program.push(Step::unary(self.op, scalar));
        Ok(program)
    }

    fn checked_scalar(&self) -> Result<Number> {
        let takes_scalar = matches!(self.op, UnaryOp::Scale | UnaryOp::Offset);
        let invalid = |got: String, want: &str| Error::InvalidValue {
            what: "scalar",
            got: got.into(),
            want: want.into(),
        };
        match self.scalar {
            Some(scalar) if takes_scalar => Ok(scalar),
            None if !takes_scalar => Ok(Number::Integer(0)),
            None => Err(invalid(
                "missing".into(),
                "a number: scale and offset take one",
            )),
            Some(scalar) => {
                let want = format!("none: {} takes no scalar", self.op.name());
                Err(invalid(format!("{scalar:?}"), &want))
            }
        }
    }
}
