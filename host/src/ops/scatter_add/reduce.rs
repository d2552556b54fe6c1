//! Products and extremes of rows and the rows that indices name.

use super::REDUCE;
use super::call::{Call, calls};
use crate::ops::plan::{Plan, Tuning};
use crate::{IndexElement, Reducible, Result, Stream, Tensor};
use abi::scatter_add::ScatterOp;

/// Products, maxima or minima of rows and the rows that indices name:
/// `y[a.., indices[j..], b..] = max(y[a.., indices[j..], b..], src[a.., j.., b..])`, or `·` or `min`
/// for `max`. It is torch's `index_reduce_` with `prod`, `amax` and `amin`, and `include_self`.
///
/// Shapes, dtypes, strides and indices out of range are those of [`ScatterAdd`](crate::ScatterAdd),
/// to which [`ScatterOp::Sum`] is equal.
///
/// # Numerics
/// Extremes are exact, and NaN if one of the numbers is NaN. The order of products is that of the
/// sums of [`ScatterAdd`](crate::ScatterAdd), and so are the types: f32 (f64 of f64, wrapping
/// integers), rounded once. A product of some of the rows may overflow or underflow, though that of
/// all does not. The same bits every run and on every device. Elements that no index names keep
/// their bits. Error bound:
/// [`reference::scatter::scatter_reduce`](crate::reference::scatter::scatter_reduce).
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// Those of [`ScatterAdd`](crate::ScatterAdd). No launch happens on error.
///
/// # Performance
/// As that of [`ScatterAdd`](crate::ScatterAdd), but indices are always sorted.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, ScatterOp, ScatterReduce, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let src = Tensor::from_slice(&device, &[4], &[3.0_f32, 9.0, -1.0, 4.0])?;
/// let groups = Tensor::from_slice(&device, &[4], &[0_i32, 2, 0, -1])?;
/// let largest = Tensor::from_slice(&device, &[3], &[0.0_f32, 1.0, 2.0])?;
/// ScatterReduce::new(ScatterOp::Max, &groups, &src).run_into(&largest, &stream)?;
/// assert_eq!(largest.to_vec()?, [3.0, 1.0, 9.0]);
/// let least = ScatterReduce::new(ScatterOp::Min, &groups, &src).wrap_negative();
/// assert_eq!(least.extent(3).run(&stream)?.to_vec()?, [-1.0, f32::INFINITY, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct ScatterReduce<'a, T: Reducible, I: IndexElement>(Call<'a, T, I>);

impl<'a, T: Reducible, I: IndexElement> ScatterReduce<'a, T, I> {
    /// A combination by `op` of rows of `src` with rows along axis 0.
    pub fn new(op: ScatterOp, indices: &'a Tensor<I>, src: &'a Tensor<T>) -> Self {
        Self(Call::new((op, REDUCE), indices, src))
    }

    /// Enqueues the combination with a new contiguous tensor, and returns it. Elements that no index
    /// names are 1 (products), `-inf` or the least integer (maxima), `inf` or the greatest integer
    /// (minima), or 0 (sums).
    ///
    /// # Errors
    /// See [`ScatterReduce`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.0.run(stream)
    }

    calls!("ScatterReduce");
}
