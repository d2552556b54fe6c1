//! Addition of rows to the rows that indices name, and their products and extremes.

mod call;
mod launch;
mod plan;
mod reduce;

use self::call::{Call, calls};
use crate::ops::plan::{Plan, Tuning};
use crate::{IndexElement, Reducible, Result, Stream, Tensor};
use abi::scatter_add::ScatterOp;

pub(super) use plan::ScatterAddCosts;
pub use reduce::ScatterReduce;

/// The name of the sum in errors, plans and the file of tuned choices.
const ADD: &str = "scatter_add";
/// The name of the other operations.
const REDUCE: &str = "scatter_reduce";

/// Addition of rows to the rows that indices name: `y[a.., indices[j..], b..] += src[a.., j.., b..]`,
/// where the axis is behind the dimensions `a`. It is the opposite of [`Take`](crate::Take): along
/// axis 0 of a table the gradient of an embedding, and the sum of what a token's experts give.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `src` | that of `y`, with those of `indices` in place of the axis | f32, f16, bf16, f64, i32, i64 | any; see Performance |
/// | `indices` | any; `src` has at most 8 dimensions; at most 2^30 elements | i32, i64 | any |
/// | `y` (read and written) | any, with 1 to 8 dimensions; the axis up to 2^32 - 2 | as `src` | any where no two indices refer to one element; must not overlap `src` or `indices` |
///
/// **An index out of range**, which is below 0 or not below the extent of the axis, is not an
/// error, as for [`Take`](crate::Take): its row adds nothing. Negative indices do not count
/// from the end, unless [`wrap_negative`](ScatterAdd::wrap_negative) is set.
///
/// # Numerics
/// The rows of an index are added in the order of `j`, in f32 (f64 of f64, wrapping integers).
/// Parts have 64 rows; the sums of parts are added in groups of 16, and the groups one after the
/// other. Their sum is added to the element of `y`, and rounded once. So an element's bits depend
/// on nothing but what is added to it, and are the same every run and on every device. Elements to
/// which nothing is added keep their bits. Error bound:
/// [`reference::scatter`](crate::reference::scatter).
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Axis`](crate::ShapeError::Axis),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (an axis or indices that are too
/// long), [`ArgumentError::Value`](crate::ArgumentError::Value) (a new result without
/// [`extent`](ScatterAdd::extent)),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (`with_kernel` with a name that
/// is not in the plan), [`Error::Shape`](crate::Error::Shape),
/// [`Error::Device`](crate::Error::Device). No launch happens on error.
///
/// # Performance
/// Up to 1,024 indices take one launch, if rows of f32, f16 or bf16 are contiguous in `src` and in
/// `y`. They must begin at multiples of 16 bytes in both, and must not be very long. Otherwise
/// indices are sorted first: in one launch up to 4,096 of them, else in two for every 8 bits of the
/// axis's extent, and one more. Then `src` is read once, and the rows of `y` that something is
/// added to are read and written once. More than 64 indices take one more launch, for those that
/// occur more often than that. Such rows as above are moved 16 bytes at a time, others by elements.
///
/// # Sources
/// Merrill and Grimshaw, High Performance and Scalable Radix Sorting, Parallel Processing Letters 21,
/// 2011.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, ScatterAdd, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let gradient = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
/// let tokens = Tensor::from_slice(&device, &[3], &[2_i32, 0, 2])?;
/// let of_table = ScatterAdd::new(&tokens, &gradient).extent(4).run(&stream)?;
/// let want = array![[3.0, 4.0], [0.0, 0.0], [6.0, 8.0], [0.0, 0.0]];
/// assert_eq!(of_table.to_ndarray()?, want.into_dyn());
/// ScatterAdd::new(&tokens, &gradient).run_into(&of_table, &stream)?;
/// assert_eq!(of_table.to_vec()?, [6.0, 8.0, 0.0, 0.0, 12.0, 16.0, 0.0, 0.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct ScatterAdd<'a, T: Reducible, I: IndexElement>(Call<'a, T, I>);

impl<'a, T: Reducible, I: IndexElement> ScatterAdd<'a, T, I> {
    /// An addition of rows of `src` along axis 0.
    pub fn new(indices: &'a Tensor<I>, src: &'a Tensor<T>) -> Self {
        Self(Call::new((ScatterOp::Sum, ADD), indices, src))
    }

    /// Enqueues the addition to zeros, and returns its result, a new contiguous tensor whose axis has
    /// the given [`extent`](Self::extent).
    ///
    /// # Errors
    /// See [`ScatterAdd`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.0.run(stream)
    }

    calls!("ScatterAdd");
}
