//! The k largest or smallest elements along an axis, with their indices.

mod plan;

pub(in crate::ops) use plan::TopKCosts;

use self::plan::{Candidate, TopKDesc};
use super::Rows;
use super::operation::{Operation, Written, plans, with_kernel};
use crate::load::{self, LoadVariant};
use crate::ops::axes::{RowAxes, Selected};
use crate::ops::check;
use crate::ops::workspaces::{Purpose, Workspace};
use crate::storage::Storage;
use crate::{Reducible, Result, Stream, Tensor};
use abi::topk::{K_MAX, N_MAX, TopKEntry, TopKParams, Variant};

/// The `k` largest or smallest elements along an axis, with their indices, the first one first.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, with 1 to 8 dimensions, less than 2³¹ elements along the axis | f32, f16, bf16, f64, i32, i64 | any; see Performance |
/// | `values` (written) | as `x`, with `k` elements along the axis | as `x` | any where no two indices refer to one element; must not overlap `x` |
/// | `indices` (written) | as `values` | i64 | likewise; must not overlap `x` or `values` |
///
/// `k` is from 0 to the extent of the axis, and 2048 at most.
///
/// # Order
/// Larger elements come first, or, with [`smallest`](TopK::smallest), smaller ones. Of equal elements,
/// the lowest index comes first; zeros of both signs are equal. NaN is greater than everything, as in
/// torch: among the largest it comes first, among the smallest last. All NaN are equal.
///
/// # Numerics
/// The results are exact: the bits of the elements, including signs of zeros and payloads of NaN.
/// On every device they equal [`reference::topk`](fn@crate::reference::topk::topk).
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (`k`; the extent of the axis; more
/// rows than a grid has blocks),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (a kernel that there is not),
/// [`Error::Shape`](crate::Error::Shape), [`Error::Device`](crate::Error::Device). No launch happens
/// on error.
///
/// # Performance
/// One launch, if the axis has stride 1 and the other dimensions merge into one, as for the last
/// axis of contiguous tensors. Otherwise `x` is first copied to rows, and results are copied back.
/// If `k` is small compared with the extent of the axis, `x` of f32, f16 and bf16 is read once from
/// memory. f64 and integers are read twice or more, from L2 if a row fits. Few long
/// rows take two launches ([`plan`](Self::plan) shows them). Rows are read several times if far
/// more than `k` elements are equal to the last result. If `x` is in ascending order, nearly equal
/// elements count too.
///
/// # Sources
/// Alabi, Blanchard, Gordon and Steinbach, Fast k-selection algorithms for graphics processing units,
/// 2012 (selection by buckets).
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Tensor, TopK};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 5.0, 2.0, 5.0], [6.0, 3.0, f32::NAN, 4.0]])?;
/// let top = TopK::new(&x, 2).run(&stream)?;
/// assert_eq!(top.indices.to_vec()?, [1, 3, 2, 0]);
/// assert_eq!(top.values.to_vec()?[..2], [5.0, 5.0]);
/// let least = TopK::new(&x, 1).axis(0).smallest().run(&stream)?;
/// assert_eq!(least.values.to_vec()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct TopK<'a, T: Reducible> {
    x: &'a Tensor<T>,
    k: usize,
    axes: Selected,
    is_smallest: bool,
    kernel: Option<&'a str>,
}

/// The results of [`TopK`], or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct TopElements<T: Reducible> {
    /// The elements, in order.
    pub values: Tensor<T>,
    /// Their indices along the axis, of the same shape.
    pub indices: Tensor<i64>,
}

impl<'a, T: Reducible> TopK<'a, T> {
    /// The `k` largest elements along the last axis of `x`.
    pub fn new(x: &'a Tensor<T>, k: usize) -> Self {
        Self {
            x,
            k,
            axes: Selected::these(x.rank(), &[-1]),
            is_smallest: false,
            kernel: None,
        }
    }

    with_kernel!(kernel);
    plans!("TopK", self => self);

    /// Looks along this axis instead of the last one. A negative axis counts from the end.
    pub fn axis(mut self, axis: isize) -> Self {
        self.axes = Selected::these(self.x.rank(), &[axis]);
        self
    }

    /// Takes the smallest elements instead of the largest.
    pub fn smallest(mut self) -> Self {
        self.is_smallest = true;
        self
    }

    /// Enqueues the operation and returns its results, new contiguous tensors.
    ///
    /// # Errors
    /// See [`TopK`].
    pub fn run(&self, stream: &Stream) -> Result<TopElements<T>> {
        Operation::run(self, stream)
    }

    /// Enqueues the operation into the tensors of `out`.
    ///
    /// # Errors
    /// See [`TopK`].
    pub fn run_into(&self, out: &TopElements<T>, stream: &Stream) -> Result<()> {
        Operation::run_into(self, out, stream)
    }
}

impl<T: Reducible> Operation for TopK<'_, T> {
    type Element = T;
    type Outputs = TopElements<T>;
    type Desc = TopKDesc;
    type On<'b>
        = TopK<'b, T>
    where
        Self: 'b;

    fn name(&self) -> &'static str {
        "topk"
    }

    fn kernel(&self) -> Option<&str> {
        self.kernel
    }

    fn check(&self, stream: &Stream) -> Result<RowAxes> {
        check::device("x", self.x, stream)?;
        let axes = self.axes.rows_of(self.x)?;
        let (rows, n) = axes.extents(self.x.shape());
        check::up_to("the extent of the axis", n, N_MAX)?;
        check::up_to("k", self.k, K_MAX.min(n as u64))?;
        if let Some(desc) = self.describe(None, &axes)? {
            let most = i32::MAX as u64 * desc.rows_of_block();
            check::up_to("rows", rows, most)?;
        }
        Ok(axes)
    }

    fn check_outputs(
        &self,
        TopElements { values, indices }: &TopElements<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let shape = axes.with_row(self.x.shape(), self.k)?;
        check::values_and_indices(Some(values), Some(indices), &shape, self.x, stream)
    }

    fn new_outputs(&self, axes: &RowAxes, stream: &Stream) -> Result<TopElements<T>> {
        let shape = axes.with_row(self.x.shape(), self.k)?;
        Ok(TopElements {
            values: Tensor::empty(stream, &shape)?,
            indices: Tensor::empty(stream, &shape)?,
        })
    }

    fn describe(&self, _: Option<&TopElements<T>>, axes: &RowAxes) -> Result<Option<TopKDesc>> {
        let (rows, n) = axes.extents(self.x.shape());
        let desc = TopKDesc {
            dtype: T::DTYPE,
            rows: rows as u64,
            n: n as u64,
            k: self.k as u64,
        };
        Ok((rows > 0 && self.k > 0).then_some(desc))
    }

    fn launch(
        &self,
        candidate: &Candidate,
        TopElements { values, indices }: &TopElements<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let Candidate { desc, plan, .. } = candidate;
        let x = Rows::read(self.x, axes, stream)?;
        let to_values = Rows::written(values, axes, stream)?;
        let to_indices = Rows::written(indices, axes, stream)?;
        let turn = match self.is_smallest {
            true => TopKParams::SMALLEST,
            false => 0,
        };
        let mut params = TopKParams::new(plan, desc.rows, desc.n, desc.k, T::DTYPE, turn);
        params.x_row_stride = x.stride;
        params.values_row_stride = to_values.stride;
        params.indices_row_stride = to_indices.stride;
        let (x, y, i) = (&x.tensor, &to_values.tensor, &to_indices.tensor);
        let bytes = (self.x.len() as u64).saturating_mul(T::DTYPE.size_bytes() as u64);
        let loading = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(loading, stream, candidate.entry)?;
        let of_parts = |pairs: u64| {
            let memory = (x, y, i, pairs);
            // SAFETY: extents and strides are those of x and of both results, whose elements lie
            // inside of their storage. The results are injective and overlap nothing. There are k
            // pairs for each part of each row.
            unsafe { kernel.launch(stream, candidate.config, memory, &params) }
        };
        if plan.is_short {
            // SAFETY: as above.
            unsafe { kernel.launch(stream, candidate.config, (x, y, i), &params) }?;
        } else if let Some((whole, config)) = &candidate.of_pairs {
            let variant = match plan.pair_bytes {
                8 => Variant::Pairs,
                _ => Variant::WidePairs,
            };
            let entry = check::entry(TopKEntry::of(variant, None))?;
            let kernel = load::kernel_for(loading, stream, entry)?;
            with_pairs(pair_bytes(candidate), stream, |pairs| {
                of_parts(pairs)?;
                let (memory, params) = ((x, y, i, pairs), params.of_pairs(whole));
                // SAFETY: as above; the launch before has written all pairs.
                unsafe { kernel.launch(stream, *config, memory, &params) }
            })?;
        } else {
            of_parts(0)?;
        }
        to_values.deliver(values, axes, stream)?;
        to_indices.deliver(indices, axes, stream)
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        vec![self.x]
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> TopK<'b, T> {
        TopK {
            x: &rows[0],
            ..*self
        }
    }

    fn written(out: &TopElements<T>) -> Written<'_, T> {
        Written {
            indices: vec![&out.indices],
            ..Written::rows([&out.values])
        }
    }
}

/// Bytes of the pairs that the parts of rows give.
fn pair_bytes(Candidate { desc, plan, .. }: &Candidate) -> u64 {
    u64::from(plan.pair_bytes) * u64::from(plan.parts) * desc.rows * desc.k
}

/// Bytes for pairs in the workspace of a stream. A call that needs more allocates them.
const PAIR_BYTES: u64 = 4 << 20;

/// Calls `launches` with the address of so many bytes for the pairs that the parts of rows give.
fn with_pairs(bytes: u64, stream: &Stream, launches: impl FnOnce(u64) -> Result<()>) -> Result<()> {
    if bytes > PAIR_BYTES {
        let pairs = Storage::alloc(stream, bytes)?;
        return launches(pairs.address());
    }
    let workspace = Workspace {
        purpose: Purpose::TopKPairs,
        bytes: PAIR_BYTES,
        words: 0,
    };
    let workspaces = stream.device().workspaces();
    workspaces.lend(Some(workspace), stream, launches)
}
