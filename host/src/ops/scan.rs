//! Scans: running sums, products and maxima.

use crate::load::{self, LoadVariant};
use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::view::merge;
use crate::ops::{check, model};
use crate::reference::Model;
use crate::storage::Storage;
use crate::{LaunchConfig, MAX_RANK, Reducible, Result, Stream, Tensor};
use abi::scan::{ScanEntry, ScanOp, ScanParams, ScanPlan, THREADS};

/// Running sums, products or maxima along an axis: `y_i = x_0 + .. + x_i`, or `·` or `max` for `+`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, with 1 to 8 dimensions | f32, f16, bf16, f64, i32, i64 | any; see Performance |
/// | `y` (written) | as `x` | as `x` | any where no two indices refer to one element; must not overlap `x` |
///
/// An [`exclusive`](Scan::exclusive) scan leaves out `x_i` itself. Its `y_0` is the identity: 0 for
/// sums, 1 for products, and for maxima `-inf` or the least integer. From the first NaN on, a
/// maximum is NaN. A product or a sum of floats may also be infinite, 0 or NaN where that of some
/// elements in a row overflows or underflows, though that from the first on does not.
///
/// # Numerics
/// f32, f16 and bf16 are accumulated in f32, f64 in f64, and integers in i64, wrapping; the result
/// is rounded once to the dtype of `y`. The elements of a group of 32 tiles of 32 KiB are combined
/// in a fixed tree, and the totals of the preceding groups one after the other
/// ([`ScanPlan::additions`](abi::scan::ScanPlan)). Error bound:
/// [`reference::scan`](crate::reference::scan). Deterministic: the same bits every run and on every
/// device, however far blocks have to look back. The association depends on the alignment of a row
/// to 16 bytes, so the same values at another alignment may round differently.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), [`Error::Device`](crate::Error::Device). No launch
/// happens on error.
///
/// # Performance
/// `x` is read once and `y` written once, in one launch, if the axis has stride 1 and the other
/// dimensions merge into one, as for the last axis of a contiguous tensor. Rows of more than one
/// tile need a fill of 8 to 16 bytes per tile before the launch. Otherwise, `x` is first copied to
/// contiguous rows, and the result is copied to `y`.
///
/// # Sources
/// Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, NVR-2016-002.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Scan, ScanOp, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_ndarray(&device, &array![[1_i32, 5, 2], [6, 3, 4]])?;
/// let sums = Scan::new(ScanOp::Sum, &x).run(&stream)?;
/// assert_eq!(sums.to_vec()?, [1, 6, 8, 6, 9, 13]);
/// let before = Scan::new(ScanOp::Sum, &x).axis(0).exclusive().run(&stream)?;
/// assert_eq!(before.to_vec()?, [0, 0, 0, 1, 5, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Scan<'a, T: Reducible> {
    op: ScanOp,
    x: &'a Tensor<T>,
    axis: isize,
    is_exclusive: bool,
}

impl<'a, T: Reducible> Scan<'a, T> {
    /// An inclusive scan with `op` along the last axis of `x`.
    pub fn new(op: ScanOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            axis: -1,
            is_exclusive: false,
        }
    }

    /// Scans along this axis instead of the last one. A negative axis counts from the end.
    pub fn axis(mut self, axis: isize) -> Self {
        self.axis = axis;
        self
    }

    /// Makes the scan exclusive: each result combines the elements before its own.
    pub fn exclusive(mut self) -> Self {
        self.is_exclusive = true;
        self
    }

    /// Enqueues the scan and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        let axis = self.validate(stream)?;
        let y = Tensor::empty(stream, self.x.shape())?;
        self.launch(axis, &y, stream)?;
        Ok(y)
    }

    /// Enqueues the scan into `y`.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let axis = self.validate(stream)?;
        check::output("y", y, self.x.shape(), stream)?;
        check::no_overlap("y", y, "x", self.x)?;
        self.launch(axis, y, stream)
    }

    /// The error model of the kernel, for the bound of [`reference::scan`](crate::reference::scan).
    ///
    /// # Errors
    /// [`ShapeError::Axis`](crate::ShapeError::Axis).
    pub fn model(&self) -> Result<Model> {
        let n = self.x.shape()[self.checked_axis()?] as u64;
        Ok(model::sum(ScanPlan::new(1, n, T::DTYPE, false).additions()))
    }

    fn checked_axis(&self) -> Result<usize> {
        check::axis(self.x.rank(), self.axis)
    }

    fn validate(&self, stream: &Stream) -> Result<usize> {
        check::device("x", self.x, stream)?;
        self.checked_axis()
    }

    fn launch(&self, axis: usize, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let mut axes: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        let axes = &mut axes[..y.rank()];
        axes[axis..].rotate_left(1);
        let (x, y) = (self.x.permuted(axes)?, y.permuted(axes)?);
        let x = match row_stride(&x) {
            Some(_) => x,
            None => contiguous(&x, stream)?,
        };
        if row_stride(&y).is_some() {
            return self.launch_rows(&x, &y, stream);
        }
        let dense = Tensor::empty(stream, y.shape())?;
        self.launch_rows(&x, &dense, stream)?;
        strided_copy(&dense, &y, stream)
    }

    /// Launches over rows with stride 1 along the axis.
    fn launch_rows(&self, x: &Tensor<T>, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let n = x.shape().last().copied().unwrap_or(1) as u64;
        let rows = (x.len() as u64) / n.max(1);
        let (x_row_stride, y_row_stride) = (row_stride(x).unwrap_or(0), row_stride(y).unwrap_or(0));
        let x_row_bytes = x_row_stride.wrapping_mul(T::DTYPE.size_bytes() as i64);
        let is_whole = x_row_bytes % 16 == 0 || rows == 1;
        let is_aligned = is_whole && x.device_ptr().as_raw().is_multiple_of(16);
        let plan = ScanPlan::new(rows, n, T::DTYPE, is_aligned);
        let status = match plan.tiles {
            1 => None,
            _ => {
                let words = plan.status_words(rows, T::DTYPE);
                let status = Storage::alloc(stream, 8 * words)?;
                let backend = stream.device().backend();
                let zero = crate::backend::Pattern::B4(0);
                // SAFETY: all of the memory just allocated, which nothing else uses yet.
                unsafe { backend.fill(status.address(), zero, 2 * words as usize, stream.raw()) }?;
                Some(status)
            }
        };
        let info = stream.device().info();
        let most_shared = info.max_shared_bytes_per_block;
        let [ahead_rows, ahead_tiles] = plan.ahead(info.multiprocessors);
        let is_late = plan.tiles > 1 && ScanPlan::shared_bytes(true) <= most_shared;
        let params = ScanParams {
            rows,
            n,
            x_row_stride,
            y_row_stride,
            tiles: plan.tiles,
            groups: plan.groups,
            ahead_rows,
            ahead_tiles,
            along_log2: plan.along.trailing_zeros(),
            kind: self.op.kind(),
            is_exclusive: u32::from(self.is_exclusive),
            is_late: u32::from(is_late),
        };
        let entry = check::entry(ScanEntry::of(T::DTYPE, stream.device().arch()))?;
        let bytes = 2 * rows * n * T::DTYPE.size_bytes() as u64;
        let variant = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, entry)?;
        let config = LaunchConfig::linear(plan.blocks, THREADS)
            .shared_bytes(ScanPlan::shared_bytes(is_late));
        let status = status.as_ref().map_or(0, Storage::address);
        // SAFETY: x and y have `rows` rows of n contiguous elements at these row strides, and do
        // not overlap; the status has as many words as the plan says, all 0.
        unsafe { kernel.launch(stream, config, (x, y, status), &params) }
    }
}

/// The stride between rows, where the last dimension has stride 1 and the others merge into one.
fn row_stride<T: Reducible>(x: &Tensor<T>) -> Option<i64> {
    let ((&n, outer), (&stride, outer_strides)) =
        (x.shape().split_last()?, x.strides().split_last()?);
    if stride != 1 && n > 1 {
        return None;
    }
    merge(outer, outer_strides).map(|(_, stride)| stride)
}
