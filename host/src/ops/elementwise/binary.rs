//! Functions of two elements.

use super::Walk;
use crate::ops::float::Float;
use crate::ops::{check, kernels};
use crate::{Result, Stream, Tensor};
use spec::elementwise::BinaryOp;

/// A function of pairs of elements: `y = f(a, b)`, with broadcasting.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `a`, `b` | broadcast to one shape | f32, f16, bf16 | any |
/// | `y` (written) | that shape | as `a` | any that give each element a place of its own; may be `a` or `b` itself, and must not overlap them otherwise |
///
/// Shapes broadcast as in numpy: aligned at the last dimension; an extent of 1, or a missing one,
/// repeats. [`BinaryOp`] lists the functions.
///
/// # Numerics
/// Computed in f32 within [`BinaryOp::ulps`] and rounded once. max and min of a NaN are NaN. Same
/// bits every run, on every device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::ShapeMismatch`](crate::Error::ShapeMismatch), [`Error::StrideMismatch`](crate::Error::StrideMismatch), [`Error::Overlap`](crate::Error::Overlap),
/// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch), [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Driver`](crate::Error::Driver). No launch happens on
/// error.
///
/// # Performance
/// Two reads and one write an element. Dense tensors of one layout take the fast path.
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
pub struct Binary<'a, T: Float> {
    op: BinaryOp,
    a: &'a Tensor<T>,
    b: &'a Tensor<T>,
}

impl<'a, T: Float> Binary<'a, T> {
    /// `op` of every pair of elements of `a` and `b`.
    pub fn new(op: BinaryOp, a: &'a Tensor<T>, b: &'a Tensor<T>) -> Self {
        Self { op, a, b }
    }

    /// The result in a new, contiguous tensor.
    ///
    /// # Errors
    /// See [`Binary`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        let shape = self.validate(stream)?;
        let y = Tensor::empty(stream, &shape)?;
        self.launch(&y, stream)?;
        Ok(y)
    }

    /// The result into `y`, which may be `a` or `b` itself.
    ///
    /// # Errors
    /// See [`Binary`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let shape = self.validate(stream)?;
        check::output("y", y, &shape, stream)?;
        check::no_partial_overlap("y", y, "a", self.a)?;
        check::no_partial_overlap("y", y, "b", self.b)?;
        self.launch(y, stream)
    }

    /// The shape both broadcast to.
    fn validate(&self, stream: &Stream) -> Result<Vec<usize>> {
        check::device("a", self.a, stream)?;
        check::device("b", self.b, stream)?;
        broadcast_shape(self.a.shape(), self.b.shape()).ok_or_else(|| {
            let want = format!("one that broadcasts with a's {:?}", self.a.shape());
            check::shape_mismatch("b", self.b, want)
        })
    }

    fn launch(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let a = self.a.broadcast_to(y.shape())?;
        let b = self.b.broadcast_to(y.shape())?;
        let kernel = kernels::kernel(stream, self.op.entry(T::DTYPE))?;
        let walk = Walk::new(y.shape(), [y.strides(), a.strides(), b.strides()]);
        let (config, params) = walk.launch(3, 0.0);
        // SAFETY: a, b and y have the walk's shape and strides, so every element it names lies
        // inside of their storage; y is injective, and is an input or does not overlap it.
        unsafe { kernel.launch(stream, config, (&a, &b, y, params)) }
    }
}

/// The shape that two shapes broadcast to.
fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut shape = longer.to_vec();
    let added = longer.len() - shorter.len();
    for (to, &extent) in shape[added..].iter_mut().zip(shorter) {
        match (*to, extent) {
            (x, y) if x == y || y == 1 => {}
            (1, y) => *to = y,
            _ => return None,
        }
    }
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::broadcast_shape;

    #[test]
    fn shapes_broadcast_from_the_last_dimension() {
        let some = |shape: &[usize]| Some(shape.to_vec());
        assert_eq!(broadcast_shape(&[2, 3], &[3]), some(&[2, 3]));
        assert_eq!(broadcast_shape(&[1], &[4, 1, 5]), some(&[4, 1, 5]));
        assert_eq!(broadcast_shape(&[2, 1], &[1, 7]), some(&[2, 7]));
        assert_eq!(broadcast_shape(&[0], &[1]), some(&[0]));
        assert_eq!(broadcast_shape(&[], &[3]), some(&[3]));
        assert_eq!(broadcast_shape(&[2], &[3]), None);
        assert_eq!(broadcast_shape(&[0], &[3]), None);
    }
}
