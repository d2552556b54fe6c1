//! Scans: running sums, products, extremes and logsumexps.

mod indices;
mod plan;

pub use self::indices::{RunningExtremes, ScanWithIndices};

use self::plan::{Candidate, ScanDesc};
use crate::error::named;
use crate::load::{self, LoadVariant};
use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::plan::{
    Choice, Desc, MachineModel, Plan, Tuning, agree_within, answer, blank, choose, copied, numbers,
    rotation, tune,
};
use crate::ops::view::merge;
use crate::ops::{check, model};
use crate::reference::Model;
use crate::storage::Storage;
use crate::{Error, MAX_RANK, Reducible, Result, Stream, Tensor};
use abi::scan::{ScanOp, ScanParams};

pub(super) use plan::ScanCosts;

/// The operation's name in errors, plans and the file of tuned choices.
const NAME: &str = ScanDesc::OPERATION;

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

/// Running sums, products, maxima, minima or logsumexps along an axis: `y_i = x_0 + .. + x_i`, or
/// `·`, `max`, `min` or `ln(e^a + e^b)` for `+`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, with 1 to 8 dimensions | f32, f16, bf16, f64; i32 and i64, but for `Logsumexp` | any; see Performance |
/// | `y` (written) | as `x` | as `x` | any where no two indices refer to one element; must not overlap `x` |
///
/// An [`exclusive`](Scan::exclusive) scan leaves out `x_i` itself. Its `y_0` is the identity: 0 for
/// sums, 1 for products, and `-inf` for logsumexps. For maxima it is `-inf` or the least integer,
/// and for minima `inf` or the greatest. From the first NaN on, maxima, minima and logsumexps are
/// NaN. A product of finite floats is 0 from the first 0 on. A product or a sum of some
/// elements in a row may overflow or underflow, though that from the first on does not. Then a
/// product may also be infinite or 0, and a sum infinite or NaN.
///
/// # Numerics
/// f32, f16 and bf16 are accumulated in f32, f64 in f64, and integers in i64, wrapping; the result
/// is rounded once to the dtype of `y`. The elements of a group of 32 tiles of 32 KiB are combined
/// in a fixed tree, and the totals of the preceding groups one after the other
/// ([`model`](Scan::model)). Error bound:
/// [`reference::scan`](crate::reference::scan). A logsumexp combines two numbers by their larger
/// one and the logarithm of 1 and an exponential, so nothing overflows. Deterministic: the same bits every run and on every
/// device, however far blocks have to look back. The association depends on the alignment of a row
/// to 16 bytes, so the same values at another alignment may round differently.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), [`Error::Device`](crate::Error::Device),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (logsumexps of integers;
/// indices of other scans than maxima and minima, and of exclusive ones; `with_kernel` with a name that is not in the plan). No launch happens on error.
///
/// # Performance
/// `x` is read once and `y` written once, in one launch, if the axis has stride 1 and the other
/// dimensions merge into one. The last axis of a contiguous tensor does. Rows of more than one tile
/// need a fill of 8 to 16 bytes per tile before the launch. Otherwise, `x` is first copied to
/// contiguous rows, and the result is copied to `y`. Indices take two more launches, by which 24 bytes
/// for each element are read and written.
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
/// let least = Scan::new(ScanOp::Min, &x).run(&stream)?;
/// assert_eq!(least.to_vec()?, [1, 1, 1, 6, 3, 3]);
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
    kernel: Option<&'a str>,
}

impl<'a, T: Reducible> Scan<'a, T> {
    /// An inclusive scan with `op` along the last axis of `x`.
    pub fn new(op: ScanOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            axis: -1,
            is_exclusive: false,
            kernel: None,
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

    /// Also returns where maxima or minima are: the index along the axis, the last one among equal
    /// elements. From the first NaN on it is that of the last NaN, as in torch's `cummax` and `cummin`.
    pub fn indices(self) -> ScanWithIndices<'a, T> {
        ScanWithIndices(self)
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }

    /// Enqueues the scan and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(NAME, || {
            let axis = self.validate(stream)?;
            let y = Tensor::empty(stream, self.x.shape())?;
            self.launch(axis, &y, stream)?;
            Ok(y)
        })
    }

    /// Enqueues the scan into `y`.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let axis = self.validate(stream)?;
            check::output("y", y, self.x.shape(), stream)?;
            check::no_overlap("y", y, "x", self.x)?;
            self.launch(axis, y, stream)
        })
    }

    /// The kernel that [`run`](Self::run) or [`run_into`](Self::run_into) would launch, and the other
    /// candidates.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let axis = self.validate(stream)?;
            match self.x.is_empty() {
                true => Ok(Plan::empty()),
                false => Plan::of(&self.describe(axis)?, self.kernel, stream),
            }
        })
    }

    /// Measures the candidates with this tensor, as [`Gemm::autotune`](crate::Gemm::autotune) does.
    ///
    /// # Errors
    /// See [`Scan`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(NAME, || {
            let axis = self.validate(stream)?;
            if self.x.is_empty() {
                return Ok(Tuning::empty());
            }
            let desc = self.describe(axis)?;
            let y = &Tensor::empty(stream, self.x.shape())?;
            let call: Call<'_> = Box::new(move |by| self.launch_by(by, axis, y, stream));
            let calls = rotation(call, desc.bytes(), stream, || {
                let x = copied(self.x, stream)?;
                let call: Call<'_> = Box::new(move |by| {
                    let copy = Scan { x: &x, ..*self };
                    copy.launch_by(by, axis, y, stream)
                });
                Ok(call)
            })?;
            tune(
                &desc,
                stream,
                &calls,
                |by| answer(y, blank(), stream, || calls[0](by)),
                |want, got| agree_within(numbers(want).into_iter(), numbers(got).into_iter(), 0.0),
            )
        })
    }

    /// The error model of the kernel, for the bound of [`reference::scan`](crate::reference::scan).
    ///
    /// # Errors
    /// [`ShapeError::Axis`](crate::ShapeError::Axis).
    pub fn model(&self) -> Result<Model> {
        named(NAME, || {
            let desc = ScanDesc {
                dtype: T::DTYPE,
                is_lse: self.is_lse(),
                rows: 1,
                n: self.x.shape()[self.checked_axis()?] as u64,
                is_aligned: false,
            };
            let costs = &MachineModel::of(self.x.device().info()).scan;
            Ok(model::sum(desc.layout(costs).additions()))
        })
    }

    fn checked_axis(&self) -> Result<usize> {
        check::axis(self.x.rank(), self.axis)
    }

    fn is_lse(&self) -> bool {
        self.op == ScanOp::Logsumexp
    }

    fn validate(&self, stream: &Stream) -> Result<usize> {
        check::device("x", self.x, stream)?;
        if !self.op.takes(T::DTYPE) {
            let what = format!("{} of {}", self.op.name(), T::DTYPE);
            return Err(Error::unsupported(what, "f32, f16, bf16 and f64"));
        }
        self.checked_axis()
    }

    /// A tensor with the axis moved to the end.
    fn by_rows(tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>> {
        let mut axes: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        let axes = &mut axes[..tensor.rank()];
        axes[axis..].rotate_left(1);
        tensor.permuted(axes)
    }

    /// The rows of a tensor with elements, where the kernel reads them: in place, or contiguous in new
    /// memory.
    fn describe(&self, axis: usize) -> Result<ScanDesc> {
        let n = self.x.shape()[axis] as u64;
        let rows = self.x.len() as u64 / n;
        let (stride, address) = match row_stride(&Self::by_rows(self.x, axis)?) {
            Some(stride) => (stride, self.x.device_ptr().as_raw()),
            None => (n as i64, 0),
        };
        let row_bytes = stride.wrapping_mul(T::DTYPE.size_bytes() as i64);
        Ok(ScanDesc {
            dtype: T::DTYPE,
            is_lse: self.is_lse(),
            rows,
            n,
            is_aligned: address.is_multiple_of(16) && (row_bytes % 16 == 0 || rows == 1),
        })
    }

    fn launch(&self, axis: usize, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let (candidate, _) = choose(&self.describe(axis)?, self.kernel, stream)?;
        self.launch_by(&candidate, axis, y, stream)
    }

    fn launch_by(
        &self,
        candidate: &Candidate,
        axis: usize,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let (x, y) = (Self::by_rows(self.x, axis)?, Self::by_rows(y, axis)?);
        let x = match row_stride(&x) {
            Some(_) => x,
            None => contiguous(&x, stream)?,
        };
        if row_stride(&y).is_some() {
            return self.launch_rows(candidate, &x, &y, stream);
        }
        let dense = Tensor::empty(stream, y.shape())?;
        self.launch_rows(candidate, &x, &dense, stream)?;
        strided_copy(&dense, &y, stream)
    }

    /// Launches over rows with stride 1 along the axis.
    fn launch_rows(
        &self,
        candidate: &Candidate,
        x: &Tensor<T>,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let n = x.shape().last().copied().unwrap_or(1) as u64;
        let rows = (x.len() as u64) / n.max(1);
        let (x_row_stride, y_row_stride) = (row_stride(x).unwrap_or(0), row_stride(y).unwrap_or(0));
        let layout = &candidate.decision.layout;
        let status = match layout.tiles {
            1 => None,
            _ => {
                let words = layout.status_words(rows, T::DTYPE);
                let status = Storage::alloc(stream, 8 * words)?;
                let backend = stream.device().backend();
                let zero = crate::backend::Pattern::B4(0);
                // SAFETY: all of the memory just allocated, which nothing else uses yet.
                unsafe { backend.fill(status.address(), zero, 2 * words as usize, stream.raw()) }?;
                Some(status)
            }
        };
        let [ahead_rows, ahead_tiles] = candidate.decision.ahead;
        let params = ScanParams {
            rows,
            n,
            x_row_stride,
            y_row_stride,
            tiles: layout.tiles,
            groups: layout.groups,
            ahead_rows,
            ahead_tiles,
            along_log2: layout.along.trailing_zeros(),
            kind: self.op.kind(),
            is_exclusive: u32::from(self.is_exclusive),
            is_late: u32::from(candidate.decision.is_late),
        };
        let bytes = 2 * rows * n * T::DTYPE.size_bytes() as u64;
        let variant = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, candidate.entry)?;
        let status = status.as_ref().map_or(0, Storage::address);
        // SAFETY: x and y have `rows` rows of n contiguous elements at these row strides, and do
        // not overlap. The status has as many words as the layout states, all 0.
        unsafe { kernel.launch(stream, candidate.config, (x, y, status), &params) }
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
