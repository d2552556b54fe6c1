//! Selection between two tensors by a condition.

use super::program::{ChainElement, Program};
use super::steps::Step;
use crate::ops::plan::Plan;
use crate::{Result, Stream, Tensor};

/// Selects between two tensors by a condition, with broadcasting, like `where` of NumPy and torch:
/// `y = condition != 0 ? a : b`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `condition` | broadcasts with `a` and `b` | u8, or one that [`ChainElement`] allows with `a`; 0 and -0 are false, all else is true, NaN too | any |
/// | `a`, `b` | broadcast to one shape | any of [`ChainElement`] | any |
/// | `y` (written) | that shape | as `a` | any where no two indices refer to one element; may be `a`, `b` or `condition` itself, and must not overlap an input otherwise |
///
/// # Numerics
/// Exact.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// As [`Chain`](crate::Chain).
///
/// # Performance
/// As [`Chain`](crate::Chain): three reads and one write per element.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, Select, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let condition = Tensor::from_slice(&device, &[3], &[1_u8, 0, 1])?;
/// let a = Tensor::from_slice(&device, &[3], &[1.0_f32, 2.0, 3.0])?;
/// let b = Tensor::from_slice(&device, &[1], &[-1.0_f32])?;
/// let y = Select::new(&condition, &a, &b).run(&stream)?;
/// assert_eq!(y.to_vec()?, [1.0, -1.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Select<'a, C: ChainElement, T: ChainElement> {
    condition: &'a Tensor<C>,
    a: &'a Tensor<T>,
    b: &'a Tensor<T>,
}

impl<'a, C: ChainElement, T: ChainElement> Select<'a, C, T> {
    /// `condition != 0 ? a : b`, for every element.
    pub fn new(condition: &'a Tensor<C>, a: &'a Tensor<T>, b: &'a Tensor<T>) -> Self {
        Self { condition, a, b }
    }

    /// Enqueues the selection and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Select`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.program().run(stream)
    }

    /// Enqueues the selection into `y`, which may be an input itself.
    ///
    /// # Errors
    /// See [`Select`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        self.program().run_into(y, stream)
    }

    /// The kernel that [`run`](Self::run) would launch: there is one, composed of this skeleton.
    ///
    /// # Errors
    /// See [`Select`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        self.program().plan::<T>(stream)
    }

    fn program(&self) -> Program<'a> {
        let mut program = Program::load("select", "a", self.a.erased());
        let condition = program.condition("condition", self.condition.erased());
        program.push(Step::Mask(condition));
        let b = program.input("b", self.b.erased());
        program.push(Step::Select(b));
        program
    }
}
