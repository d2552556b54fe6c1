//! Gradients of activations.

use super::program::Program;
use super::steps::Step;
use crate::ops::float::Float;
use crate::ops::plan::Plan;
use crate::{Result, Stream, Tensor};
use abi::elementwise::GradOp;

/// The backward pass of an activation function `f`: `dx = f'(x) dy`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x`, the input of the forward pass | any, up to 8 dimensions | f32, f16, bf16 | any |
/// | `dy`, the gradient with respect to the output | broadcasts with `x` | as `x` | any |
/// | `dx` (written), the gradient with respect to `x` | the shape that both broadcast to | as `x` | any where no two indices refer to one element; may be `x` or `dy` itself, and must not overlap them otherwise |
///
/// # Numerics
/// `f'` is computed in f32 with an error up to [`GradOp::ulps`]. The product with `dy` is rounded
/// to f32, and then to the dtype of `dx`. The derivative of relu at 0 is 0. The same bits every run
/// and on every device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// As [`Chain`](crate::Chain).
///
/// # Performance
/// As [`Chain`](crate::Chain): two reads and one write per element.
/// [`Chain::gradient`](crate::Chain::gradient) fuses it with other steps of the backward pass.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, GradOp, Gradient, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_slice(&device, &[3], &[-1.0_f32, 0.0, 2.0])?;
/// let dy = Tensor::from_slice(&device, &[3], &[5.0_f32, 6.0, 7.0])?;
/// let dx = Gradient::new(GradOp::Relu, &x, &dy).run(&stream)?;
/// assert_eq!(dx.to_vec()?, [0.0, 0.0, 7.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Gradient<'a, T: Float> {
    op: GradOp,
    x: &'a Tensor<T>,
    dy: &'a Tensor<T>,
}

impl<'a, T: Float> Gradient<'a, T> {
    /// `op'(x) dy` for every element.
    pub fn new(op: GradOp, x: &'a Tensor<T>, dy: &'a Tensor<T>) -> Self {
        Self { op, x, dy }
    }

    /// Enqueues the gradient and returns it, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Gradient`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.program().run(stream)
    }

    /// Enqueues the gradient into `dx`, which may be `x` or `dy` itself.
    ///
    /// # Errors
    /// See [`Gradient`].
    pub fn run_into(&self, dx: &Tensor<T>, stream: &Stream) -> Result<()> {
        self.program().run_into(dx, stream)
    }

    /// The kernel that [`run`](Self::run) would launch: there is one, composed of this skeleton.
    ///
    /// # Errors
    /// See [`Gradient`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        self.program().plan::<T>(stream)
    }

    fn program(&self) -> Program<'a> {
        let mut program = Program::load("gradient", "x", self.x.erased());
        program.output = "dx";
        let dy = program.input("dy", self.dy.erased());
        program.push(Step::Gradient(self.op, dy));
        program
    }
}
