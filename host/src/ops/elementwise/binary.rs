//! Elementwise functions of two tensors.

use super::program::{ChainElement, Program};
use super::steps::Step;
use crate::ops::plan::Plan;
use crate::{Result, Stream, Tensor};
use abi::elementwise::BinaryOp;
use std::marker::PhantomData;

/// An elementwise function of two tensors, with broadcasting: `y = f(a, b)`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `a`, `b` | broadcast to one shape | any of [`ChainElement`] | any |
/// | `y` (written) | that shape | as `a`; with [`output`](Binary::output) any that [`ChainElement`] allows | any where no two indices refer to one element; may be `a` or `b` itself, and must not overlap them otherwise |
///
/// Shapes broadcast as in NumPy: they are aligned at the last dimension, and a dimension that is
/// missing or has extent 1 is repeated. [`BinaryOp`] lists the functions.
///
/// # Numerics
/// Computed in f32 or f64 with an error up to [`BinaryOp::ulps`], or in wrapping i32 or i64, and
/// rounded once. If an operand of max or min is NaN, the result is NaN. Quotient and remainder of
/// an integer by 0 are 0. The same bits every run and on every device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (a function that is not
/// defined for the dtype, or a result dtype that cannot be combined with it),
/// [`Error::Shape`](crate::Error::Shape), [`Error::Device`](crate::Error::Device). No launch
/// happens on error.
///
/// # Performance
/// As [`Chain`](crate::Chain): two reads and one write per element.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Binary, BinaryOp, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let rows = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0]])?;
/// let column = Tensor::from_ndarray(&device, &array![[2.0_f32], [4.0]])?;
/// let y = Binary::new(BinaryOp::Div, &rows, &column).run(&stream)?;
/// assert_eq!(y.to_ndarray()?, array![[0.5, 1.0], [0.75, 1.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Binary<'a, T: ChainElement, O: ChainElement = T> {
    op: BinaryOp,
    a: &'a Tensor<T>,
    b: &'a Tensor<T>,
    output: PhantomData<O>,
}

impl<'a, T: ChainElement> Binary<'a, T> {
    /// `op` applied to every pair of elements of `a` and `b`.
    pub fn new(op: BinaryOp, a: &'a Tensor<T>, b: &'a Tensor<T>) -> Self {
        Self {
            op,
            a,
            b,
            output: PhantomData,
        }
    }
}

impl<'a, T: ChainElement, O: ChainElement> Binary<'a, T, O> {
    /// Sets the dtype of the result, such as u8 for comparisons.
    pub fn output<U: ChainElement>(self) -> Binary<'a, T, U> {
        Binary {
            op: self.op,
            a: self.a,
            b: self.b,
            output: PhantomData,
        }
    }

    /// Enqueues the function and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Binary`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<O>> {
        self.program().run(stream)
    }

    /// Enqueues the function into `y`, which may be `a` or `b` itself.
    ///
    /// # Errors
    /// See [`Binary`].
    pub fn run_into(&self, y: &Tensor<O>, stream: &Stream) -> Result<()> {
        self.program().run_into(y, stream)
    }

    /// The kernel that [`run`](Self::run) would launch: there is one, composed of this skeleton.
    ///
    /// # Errors
    /// See [`Binary`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        self.program().plan::<O>(stream)
    }

    fn program(&self) -> Program<'a> {
        let mut program = Program::load("binary", "a", self.a.erased());
        let b = program.input("b", self.b.erased());
        program.push(Step::binary(self.op, b, false));
        program
    }
}
