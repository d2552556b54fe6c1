//! Rows in order.

mod plan;

pub(in crate::ops) use plan::SortCosts;

use self::plan::{Candidate, SortDesc, Work};
use super::Rows;
use super::operation::{Operation, Written, plans, with_kernel};
use crate::load::{self, LoadVariant};
use crate::ops::axes::{RowAxes, Selected};
use crate::ops::check;
use crate::{Element, Error, LaunchConfig, Result, Stream, Tensor};
use abi::division::Division;
use abi::sort::{DIGIT_BITS, N_MAX, SortEntry, SortParams, Step, THREADS, bits_of_block};

/// Which results there are: elements, and their indices.
type Outputs<T> = (Option<Tensor<T>>, Option<Tensor<i64>>);

/// A sort, with the results that are wanted.
#[derive(Clone, Copy, Debug)]
struct Order<'a, T: Element> {
    x: &'a Tensor<T>,
    axes: Selected,
    is_descending: bool,
    has_values: bool,
    has_indices: bool,
    kernel: Option<&'a str>,
}

/// The elements along an axis in ascending order, or in [`descending`](Sort::descending) order.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, with 1 to 8 dimensions, less than 2³¹ elements along the axis | any | any; see Performance |
/// | `values` (written) | as `x` | as `x` | any where no two indices refer to one element; must not overlap `x` |
/// | `indices` (written, of [`indices`](Sort::indices)) | as `x` | i64 | likewise; must not overlap `x` or `values` |
///
/// # Order
/// The sort is stable: equal elements keep their order, in descending order too. Zeros of both signs
/// are equal. NaN is greater than everything, as in torch, so it comes last, or first in descending
/// order. All NaN are equal.
///
/// # Numerics
/// The results are exact: the bits of the elements, including signs of zeros and payloads of NaN.
/// On every device they equal [`reference::sort`](fn@crate::reference::sort::sort).
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (the extent of the axis; more rows
/// than a grid has blocks), [`ShapeError::Axis`](crate::ShapeError::Axis),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (`with_kernel` with a name that
/// is not in the plan), [`Error::Shape`](crate::Error::Shape),
/// [`Error::Device`](crate::Error::Device). No launch happens on error.
///
/// # Performance
/// Rows of up to 4,096 elements take one launch, which reads and writes each element once. Longer
/// ones take a launch that counts digits, and one for each byte of an element, each of which reads
/// and writes all elements, and their indices of 4 bytes. Memory for that is allocated by the call:
/// for elements of several bytes up to twice `x`, and 8 bytes for each index. If the axis has not
/// stride 1, or the other dimensions do not merge into one, `x` is first copied to rows, and results
/// are copied back. Without indices, fewer bytes are moved.
///
/// # Sources
/// Adinets and Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs, 2022.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Argsort, Device, Sort, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_ndarray(&device, &array![[3_i32, 1, 2, 1], [-5, 7, 0, 7]])?;
/// let sorted = Sort::new(&x).run(&stream)?;
/// assert_eq!(sorted.to_vec()?, [1, 1, 2, 3, -5, 0, 7, 7]);
/// let both = Sort::new(&x).descending().indices().run(&stream)?;
/// assert_eq!(both.values.to_vec()?, [3, 2, 1, 1, 7, 7, 0, -5]);
/// assert_eq!(both.indices.to_vec()?, [0, 2, 1, 3, 1, 3, 2, 0]);
/// let by_columns = Argsort::new(&x).axis(0).run(&stream)?;
/// assert_eq!(by_columns.to_vec()?, [1, 0, 1, 0, 0, 1, 0, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Sort<'a, T: Element>(Order<'a, T>);

/// The indices that the elements along an axis have in ascending order, or in
/// [`descending`](Argsort::descending) order.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, with 1 to 8 dimensions, less than 2³¹ elements along the axis | any | any |
/// | `indices` (written) | as `x` | i64 | any where no two indices refer to one element; must not overlap `x` |
///
/// Order, errors and cost are those of [`Sort`], whose elements it does not write.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Argsort, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_slice(&device, &[4], &[2.0_f32, f32::NAN, -1.0, 2.0])?;
/// assert_eq!(Argsort::new(&x).run(&stream)?.to_vec()?, [2, 0, 3, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Argsort<'a, T: Element>(Order<'a, T>);

/// Elements with their indices, by [`Sort::indices`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct WithIndices<Op>(Op);

/// Elements in order and their indices: results, or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct SortedElements<T: Element> {
    /// The elements, as [`Sort::run`] returns them.
    pub values: Tensor<T>,
    /// The indices that they have in `x` along the axis, of the same shape.
    pub indices: Tensor<i64>,
}

/// The options of a sort.
macro_rules! options {
    ($of:literal) => {
        with_kernel!(0.kernel);
        plans!($of, self => &self.0);

        /// Sorts along this axis instead of the last one. A negative axis counts from the end.
        pub fn axis(mut self, axis: isize) -> Self {
            self.0.axes = Selected::these(self.0.x.rank(), &[axis]);
            self
        }

        /// Puts larger elements first. Equal ones keep their order.
        pub fn descending(mut self) -> Self {
            self.0.is_descending = true;
            self
        }
    };
}

impl<'a, T: Element> Sort<'a, T> {
    /// A sort in ascending order along the last axis of `x`.
    pub fn new(x: &'a Tensor<T>) -> Self {
        Self(Order::new(x, true))
    }

    options!("Sort");

    /// Also gives the indices that the elements have in `x`.
    pub fn indices(mut self) -> WithIndices<Self> {
        self.0.has_indices = true;
        WithIndices(self)
    }

    /// Enqueues the sort and returns the elements in order, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Sort`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.0.run(stream)?.0.ok_or(NO_RESULT)
    }

    /// Enqueues the sort into `values`.
    ///
    /// # Errors
    /// See [`Sort`].
    pub fn run_into(&self, values: &Tensor<T>, stream: &Stream) -> Result<()> {
        self.0.run_into(&(Some(values.clone()), None), stream)
    }
}

impl<T: Element> WithIndices<Sort<'_, T>> {
    /// Enqueues the sort and returns elements and indices, new contiguous tensors.
    ///
    /// # Errors
    /// See [`Sort`].
    pub fn run(&self, stream: &Stream) -> Result<SortedElements<T>> {
        match self.0.0.run(stream)? {
            (Some(values), Some(indices)) => Ok(SortedElements { values, indices }),
            _ => Err(NO_RESULT),
        }
    }

    /// Enqueues the sort into the tensors of `out`.
    ///
    /// # Errors
    /// See [`Sort`].
    pub fn run_into(&self, out: &SortedElements<T>, stream: &Stream) -> Result<()> {
        let out = (Some(out.values.clone()), Some(out.indices.clone()));
        self.0.0.run_into(&out, stream)
    }

    plans!("Sort", self => &self.0.0);
}

impl<'a, T: Element> Argsort<'a, T> {
    /// A sort in ascending order along the last axis of `x`.
    pub fn new(x: &'a Tensor<T>) -> Self {
        Self(Order::new(x, false))
    }

    options!("Argsort");

    /// Enqueues the sort and returns the indices in order, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Argsort`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<i64>> {
        self.0.run(stream)?.1.ok_or(NO_RESULT)
    }

    /// Enqueues the sort into `indices`.
    ///
    /// # Errors
    /// See [`Argsort`].
    pub fn run_into(&self, indices: &Tensor<i64>, stream: &Stream) -> Result<()> {
        self.0.run_into(&(None, Some(indices.clone())), stream)
    }
}

const NO_RESULT: Error = Error::Bug("a result that was wanted is missing");

impl<'a, T: Element> Order<'a, T> {
    /// Elements alone, or indices alone.
    fn new(x: &'a Tensor<T>, has_values: bool) -> Self {
        Self {
            x,
            axes: Selected::these(x.rank(), &[-1]),
            is_descending: false,
            has_values,
            has_indices: !has_values,
            kernel: None,
        }
    }

    /// Sorts rows that blocks have.
    fn block(&self, candidate: &Candidate, rows: u32, memory: &Memory<T>) -> Result<()> {
        let decision = &candidate.decision;
        let params = SortParams {
            per_block: rows,
            bits: bits_of_block(T::DTYPE, rows),
            row: Division::new(decision.desc.n),
            ..memory.params
        };
        let kernel = load::kernel_for(memory.variant, memory.stream, candidate.entry)?;
        let tensors = (&memory.x, memory.values.as_ref(), memory.indices.as_ref());
        // SAFETY: extents and strides are those of x and of the results, whose elements lie inside of
        // their storage. The results are injective and overlap nothing.
        unsafe { kernel.launch(memory.stream, candidate.config, tensors, &params) }
    }

    /// Sorts rows digit by digit, by a launch for each.
    fn passes(
        &self,
        candidate: &Candidate,
        [part, parts]: [u32; 2],
        memory: &Memory<T>,
    ) -> Result<()> {
        let (desc, stream) = (&candidate.decision.desc, memory.stream);
        let status = Tensor::<u64>::zeros(stream, &[desc.status_words() + desc.count_words() / 2])?;
        let counts = status.slice(0, desc.status_words()..)?;
        let params = SortParams {
            per_block: part,
            row: Division::new(parts),
            ..memory.params
        };
        let count = check::entry(SortEntry::of(Step::Count, T::DTYPE))?;
        let count = load::kernel_for(memory.variant, stream, count)?;
        let config = LaunchConfig::linear(desc.rows as u32 * parts, THREADS);
        // SAFETY: extents and strides are those of x. There are as many counts as digits, all 0.
        unsafe { count.launch(stream, config, (&memory.x, &counts), &params) }?;
        let kernel = load::kernel_for(memory.variant, stream, candidate.entry)?;
        let (digits, elements) = (desc.digits() as u32, desc.rows as usize * desc.n as usize);
        // Which passes a row takes is known on the device: all of them have all of the memory.
        fn room<T: Element>(
            len: usize,
            is_used: bool,
            stream: &Stream,
        ) -> Result<Option<Tensor<T>>> {
            let room = is_used.then(|| Tensor::empty(stream, &[len]));
            room.transpose()
        }
        let (has_two, has_three) = (digits > 1, digits > 2);
        let even = room::<T>(elements, has_two, stream)?;
        let odd = room::<T>(elements, has_three, stream)?;
        let even_origins = room::<u32>(elements, has_two && self.has_indices, stream)?;
        let odd_origins = room::<u32>(elements, has_three && self.has_indices, stream)?;
        for digit in 0..digits {
            let params = SortParams {
                bits: DIGIT_BITS * digit,
                row: Division::new(desc.tiles()),
                ..memory.params
            };
            let tensors = (
                &memory.x,
                memory.values.as_ref(),
                memory.indices.as_ref(),
                even.as_ref(),
                odd.as_ref(),
                even_origins.as_ref(),
                odd_origins.as_ref(),
                &counts,
                &status,
            );
            // SAFETY: extents and strides are those of x, of the results, and of memory for as many
            // elements and indices. There is a word for each pass and for each digit of each tile;
            // these and the counts are as the launches before left them.
            unsafe { kernel.launch(stream, candidate.config, tensors, &params) }?;
        }
        Ok(())
    }
}

/// Rows of x and of the results that are wanted.
struct Memory<'a, T: Element> {
    x: Tensor<T>,
    values: Option<Tensor<T>>,
    indices: Option<Tensor<i64>>,
    /// Their extents and strides.
    params: SortParams,
    variant: LoadVariant,
    stream: &'a Stream,
}

impl<T: Element> Operation for Order<'_, T> {
    type Element = T;
    type Outputs = Outputs<T>;
    type Desc = SortDesc;
    type On<'b>
        = Order<'b, T>
    where
        Self: 'b;

    fn name(&self) -> &'static str {
        match self.has_values {
            true => "sort",
            false => "argsort",
        }
    }

    fn kernel(&self) -> Option<&str> {
        self.kernel
    }

    fn check(&self, stream: &Stream) -> Result<RowAxes> {
        check::device("x", self.x, stream)?;
        let axes = self.axes.rows_of(self.x)?;
        let (rows, n) = axes.extents(self.x.shape());
        check::up_to("the extent of the axis", n, N_MAX)?;
        if let Some(desc) = self.describe(None, &axes)? {
            check::up_to("rows", rows, desc.most_rows())?;
        }
        Ok(axes)
    }

    fn check_outputs(
        &self,
        (values, indices): &Outputs<T>,
        _: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let (values, indices) = (values.as_ref(), indices.as_ref());
        check::values_and_indices(values, indices, self.x.shape(), self.x, stream)
    }

    fn new_outputs(&self, _: &RowAxes, stream: &Stream) -> Result<Outputs<T>> {
        let shape = self.x.shape();
        let values = self.has_values.then(|| Tensor::empty(stream, shape));
        let indices = self.has_indices.then(|| Tensor::empty(stream, shape));
        Ok((values.transpose()?, indices.transpose()?))
    }

    fn describe(&self, _: Option<&Outputs<T>>, axes: &RowAxes) -> Result<Option<SortDesc>> {
        let (rows, n) = axes.extents(self.x.shape());
        let desc = SortDesc {
            dtype: T::DTYPE,
            rows: rows as u64,
            n: n as u32,
            has_values: self.has_values,
            has_indices: self.has_indices,
        };
        Ok((rows > 0 && n > 0).then_some(desc))
    }

    fn launch(
        &self,
        candidate: &Candidate,
        (values, indices): &Outputs<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let desc = &candidate.decision.desc;
        let x = Rows::read(self.x, axes, stream)?;
        let to_values = values.as_ref();
        let to_values = to_values
            .map(|y| Rows::written(y, axes, stream))
            .transpose()?;
        let to_indices = indices.as_ref();
        let to_indices = to_indices
            .map(|y| Rows::written(y, axes, stream))
            .transpose()?;
        let params = SortParams::new(T::DTYPE, self.is_descending, desc.rows, desc.n);
        let bytes = (self.x.len() as u64).saturating_mul(2 * (desc.bytes() + 4));
        let memory = Memory {
            params: SortParams {
                from_stride: x.stride,
                to_stride: to_values.as_ref().map_or(0, |rows| rows.stride),
                indices_stride: to_indices.as_ref().map_or(0, |rows| rows.stride),
                ..params
            },
            x: x.tensor,
            values: to_values.as_ref().map(|rows| rows.tensor.clone()),
            indices: to_indices.as_ref().map(|rows| rows.tensor.clone()),
            variant: LoadVariant::of(stream.device(), bytes),
            stream,
        };
        match candidate.decision.work {
            Work::Block { rows } => self.block(candidate, rows, &memory)?,
            Work::Passes { part, parts } => self.passes(candidate, [part, parts], &memory)?,
        }
        if let (Some(rows), Some(values)) = (&to_values, values) {
            rows.deliver(values, axes, stream)?;
        }
        match (&to_indices, indices) {
            (Some(rows), Some(indices)) => rows.deliver(indices, axes, stream),
            _ => Ok(()),
        }
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        vec![self.x]
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> Order<'b, T> {
        Order {
            x: &rows[0],
            ..*self
        }
    }

    fn written((values, indices): &Outputs<T>) -> Written<'_, T> {
        Written {
            indices: indices.iter().collect(),
            ..Written::rows(values)
        }
    }
}
