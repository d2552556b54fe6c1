//! Addition of rows to the rows that indices name.

mod plan;

use self::plan::{Candidate, Decision, ScatterAddDesc};
use crate::element::as_bytes;
use crate::error::named;
use crate::load::{self, LoadVariant};
use crate::ops::by_index::{Placement, Rows, axis_stride, in_bytes};
use crate::ops::check;
use crate::ops::elementwise::{Piece, Walk};
use crate::ops::plan::{Choice, Desc, Plan, Tuning, answer, choose, copied, like, rotation, tune};
use crate::storage::Storage;
use crate::{Error, IndexElement, LaunchConfig, Reducible, Result, Stream, Tensor};
use abi::division::Division;
use abi::elementwise::WalkParams;
use abi::scatter_add::{
    self, AddParams, OrderParams, SCATTER_ADD_COUNT, SCATTER_ADD_FEW, SCATTER_ADD_FINISH,
    SCATTER_ADD_SORT, ScatterAddEntry,
};

pub(super) use plan::ScatterAddCosts;

/// The operation's name in errors, plans and the file of tuned choices.
const NAME: &str = ScatterAddDesc::OPERATION;

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

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
/// from the end.
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
pub struct ScatterAdd<'a, T: Reducible, I: IndexElement> {
    placement: Placement<'a, T, I>,
    kernel: Option<&'a str>,
}

/// Rows that are to be added.
struct Sums {
    desc: ScatterAddDesc,
    /// The walk over the indices.
    positions: WalkParams,
    columns: Walk,
    /// Stride of the axis in y, in bytes.
    y_stride: i64,
}

/// Indices in order.
struct Sorted {
    pairs: Storage,
    begins: Storage,
    longs: Storage,
}

impl<'a, T: Reducible, I: IndexElement> ScatterAdd<'a, T, I> {
    /// An addition of rows of `src` along axis 0.
    pub fn new(indices: &'a Tensor<I>, src: &'a Tensor<T>) -> Self {
        Self {
            placement: Placement::new(indices, src),
            kernel: None,
        }
    }

    /// Adds along this axis of `y`. A negative axis counts from the end of `y`. Its dimensions in `src`
    /// are those of the indices.
    pub fn axis(mut self, axis: isize) -> Self {
        self.placement.axis = axis;
        self
    }

    /// Sets the extent of the axis of a new result, which [`run`](Self::run) needs.
    pub fn extent(mut self, extent: usize) -> Self {
        self.placement.extent = Some(extent);
        self
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }

    /// Enqueues the addition to zeros, and returns its result, a new contiguous tensor whose axis has
    /// the given [`extent`](Self::extent).
    ///
    /// # Errors
    /// See [`ScatterAdd`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(NAME, || {
            let shape = self.placement.new_shape()?;
            let rows = self.rows(&shape, stream)?;
            let y = Tensor::zeros(stream, &shape)?;
            rows.launch(&y, self.kernel, stream)?;
            Ok(y)
        })
    }

    /// Enqueues the addition to `y`.
    ///
    /// # Errors
    /// See [`ScatterAdd`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            rows.launch(y, self.kernel, stream)
        })
    }

    /// The kernel by which [`run`](Self::run) would add rows, and the other candidates. Allocates a
    /// result, to see how it lies.
    ///
    /// # Errors
    /// See [`ScatterAdd`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let shape = self.placement.new_shape()?;
            let rows = self.rows(&shape, stream)?;
            rows.plan_of_sums(&Tensor::empty(stream, &shape)?, self.kernel, stream)
        })
    }

    /// The kernel by which [`run_into`](Self::run_into) would add rows to `y`, and the other
    /// candidates.
    ///
    /// # Errors
    /// See [`ScatterAdd`].
    pub fn plan_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            rows.plan_of_sums(y, self.kernel, stream)
        })
    }

    /// Measures the candidates of [`plan_into`](Self::plan_into) with these tensors, as
    /// [`Gemm::autotune`](crate::Gemm::autotune) does. `y` is not written.
    ///
    /// # Errors
    /// See [`ScatterAdd`]; also the first candidate's error or fault, if all fail.
    pub fn autotune_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
        named(NAME, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            rows.tune_sums(&like(y, stream)?, stream)
        })
    }

    /// Checks the inputs, for a result of this shape.
    fn rows(&self, y: &[usize], stream: &Stream) -> Result<Rows<'a, T, I>> {
        let rows = self.placement.checked(y, stream)?;
        check::up_to("extent of the axis", y[rows.axis], scatter_add::MAX_EXTENT)?;
        check::up_to(
            "number of indices",
            rows.indices.len(),
            scatter_add::MAX_LEN,
        )?;
        Ok(rows)
    }
}

impl<T: Reducible, I: IndexElement> Rows<'_, T, I> {
    /// The walks, and what is to be chosen from; `None` if there is nothing to add.
    fn sums(&self, y: &Tensor<T>) -> Result<Option<Sums>> {
        if y.is_empty() || self.src.is_empty() {
            return Ok(None);
        }
        let positions = self.positions().first_piece(u64::MAX);
        let positions = positions.ok_or(Error::Bug("indices have one piece"))?;
        let positions = in_bytes(positions.params, [8, size_of::<T>(), size_of::<I>()]);
        let size = size_of::<T>();
        let y_stride = axis_stride(y, self.axis).wrapping_mul(size as i64);
        let lanes = 16 / size;
        let own = self.columns(y);
        let of_src = positions.strides[1].iter().chain([&y_stride]);
        let fits = scatter_add::VECTORS.contains(&T::DTYPE)
            && of_src.copied().all(|bytes| bytes % 16 == 0);
        let (columns, lanes) = match own.widened(lanes).filter(|_| fits) {
            Some(wide) => (wide, lanes),
            None => (own, 1),
        };
        let desc = ScatterAddDesc {
            dtype: T::DTYPE,
            indices: positions.len,
            columns: columns.len(),
            lanes,
        };
        Ok(Some(Sums {
            desc,
            positions,
            columns,
            y_stride,
        }))
    }

    /// Launches what adds to `y`, which has the right shape.
    fn launch(&self, y: &Tensor<T>, kernel: Option<&str>, stream: &Stream) -> Result<()> {
        let Some(sums) = self.sums(y)? else {
            return Ok(());
        };
        let (candidate, _) = choose(&sums.desc, kernel, stream)?;
        self.add(&candidate, &sums, y, stream)
    }

    fn plan_of_sums(&self, y: &Tensor<T>, kernel: Option<&str>, stream: &Stream) -> Result<Plan> {
        match self.sums(y)? {
            Some(sums) => Plan::of(&sums.desc, kernel, stream),
            None => Ok(Plan::empty()),
        }
    }

    /// Measures the candidates, with sums in `y`.
    fn tune_sums(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
        let Some(sums) = &self.sums(y)? else {
            return Ok(Tuning::empty());
        };
        let call: Call<'_> = Box::new(move |by| self.add(by, sums, y, stream));
        let calls = rotation(call, sums.desc.bytes(), stream, || {
            let src = copied(self.src, stream)?;
            let call: Call<'_> = Box::new(move |by| {
                let copy = Rows { src: &src, ..*self };
                let sums = copy.sums(y)?.ok_or(Error::Bug("a copy has no rows"))?;
                copy.add(by, &sums, y, stream)
            });
            Ok(call)
        })?;
        tune(
            &sums.desc,
            stream,
            &calls,
            |by| answer(y, T::default(), stream, || calls[0](by)),
            |want, got| as_bytes(want) == as_bytes(got),
        )
    }

    /// Sorts the indices.
    fn sort(
        &self,
        positions: WalkParams,
        [per_block, blocks]: [u32; 2],
        extent: u32,
        stream: &Stream,
    ) -> Result<Sorted> {
        let len = positions.len;
        let alloc = |bytes: u64| Storage::alloc(stream, bytes);
        let begins = alloc(4 * u64::from(len.div_ceil(scatter_add::CHUNK)))?;
        let longs = alloc(4 * u64::from(scatter_add::longs(len)))?;
        let mut params = OrderParams {
            positions,
            extent,
            index_bytes: size_of::<I>() as u32,
            bits: scatter_add::digits(extent) * scatter_add::DIGIT_BITS,
            shift: 0,
            per_block,
            blocks,
        };
        let room = 8 * u64::from(len + scatter_add::PAD);
        let variant = LoadVariant::of(stream.device(), 2 * room);
        let sort = load::kernel_for(variant, stream, SCATTER_ADD_SORT)?;
        let config = LaunchConfig::linear(blocks, scatter_add::THREADS);
        let mut from = alloc(room)?;
        let mut to = alloc(if blocks == 1 { 0 } else { room })?;
        let launch = |config, from: &Storage, to: &Storage, counts: u64, params: OrderParams| {
            let (from, to) = (from.address(), to.address());
            let found = (begins.address(), longs.address());
            let memory = (self.indices, from, to, counts, found.0, found.1);
            // SAFETY: the walk covers the indices. There is room for a pair and a bit of each
            // index, for 256 counts of each block, and for as many segments of several parts as
            // there may be.
            unsafe { sort.launch(stream, config, memory, &params) }
        };
        if blocks == 1 {
            launch(config, &to, &from, 0, params)?;
            return Ok(Sorted {
                pairs: from,
                begins,
                longs,
            });
        }
        let counts = alloc(4 * u64::from(blocks * scatter_add::DIGITS))?;
        let count = load::kernel_for(variant, stream, SCATTER_ADD_COUNT)?;
        while params.shift < params.bits {
            let (pairs, counts) = (from.address(), counts.address());
            let memory = (self.indices, pairs, counts, longs.address());
            // SAFETY: as above.
            unsafe { count.launch(stream, config, memory, &params) }?;
            launch(config, &from, &to, counts, params)?;
            std::mem::swap(&mut from, &mut to);
            params.shift += scatter_add::DIGIT_BITS;
        }
        let config = LaunchConfig::linear(len.div_ceil(scatter_add::THREADS), scatter_add::THREADS);
        launch(config, &from, &from, counts.address(), params)?;
        Ok(Sorted {
            pairs: from,
            begins,
            longs,
        })
    }

    /// Adds rows by few indices, or in the order of many.
    fn add(
        &self,
        candidate: &Candidate,
        sums: &Sums,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        let (positions, lanes, decision) = (sums.positions, sums.desc.lanes, &candidate.decision);
        let extent = y.shape()[self.axis] as u32;
        let sorted = match decision.step {
            plan::Step::Few => None,
            plan::Step::Add => Some(self.sort(positions, decision.sort, extent, stream)?),
        };
        let limit = plan::most_columns(positions.len, decision.chunk);
        let size = size_of::<T>();
        sums.columns.pieces_up_to(limit, 1, |piece| {
            let columns = in_bytes(piece.params, [size * lanes; 3]);
            let params = AddParams {
                columns,
                positions,
                y_stride: sums.y_stride,
                numbers: u64::from(columns.len) * lanes as u64,
                extent,
                lanes_log2: lanes.trailing_zeros(),
                size_log2: size.trailing_zeros(),
                code: scatter_add::code(T::DTYPE),
                chunk: decision.chunk,
                warps: Division::new(columns.len.div_ceil(32)),
                nothing: scatter_add::nothing(T::DTYPE),
            };
            match &sorted {
                Some(sorted) => self.add_piece(decision, y, sorted, (piece, params), stream),
                None => self.add_few(decision, y, (piece, params), stream),
            }
        })
    }

    /// Of the launches that add: rows are read, and as many are changed at most.
    fn variant(&self, stream: &Stream) -> LoadVariant {
        let bytes = (self.src.len() as u64).saturating_mul(3 * size_of::<T>() as u64);
        LoadVariant::of(stream.device(), bytes)
    }

    /// Adds some columns by few indices.
    fn add_few(
        &self,
        decision: &Decision,
        y: &Tensor<T>,
        (piece, params): (&Piece, AddParams),
        stream: &Stream,
    ) -> Result<()> {
        let kernel = load::kernel_for(self.variant(stream), stream, SCATTER_ADD_FEW)?;
        let to = y.erased().argument(piece.addresses[0]);
        let from = self.src.erased().argument(piece.addresses[1]);
        let config = plan::config(decision, params.positions.len, params.columns.len.into());
        let (memory, params) = ((self.indices, from, to), (params, size_of::<I>() as u32));
        // SAFETY: the walks cover y and src at index 0 of the axis and the first index; with an index
        // below the extent, and a position, they are elements. y is injective and overlaps neither.
        unsafe { kernel.launch(stream, config, memory, &params) }
    }

    /// Adds some columns.
    fn add_piece(
        &self,
        decision: &Decision,
        y: &Tensor<T>,
        sorted: &Sorted,
        (piece, params): (&Piece, AddParams),
        stream: &Stream,
    ) -> Result<()> {
        let len = params.positions.len;
        let has_parts = len > scatter_add::PART;
        let parts = match has_parts {
            true => scatter_add::parts(len) * params.numbers * scatter_add::number_bytes(T::DTYPE),
            false => 0,
        };
        let parts = Storage::alloc(stream, parts)?;
        let (pairs, begins) = (sorted.pairs.address(), sorted.begins.address());
        let longs = sorted.longs.address();
        let (to, from) = (
            y.erased().argument(piece.addresses[0]),
            self.src.erased().argument(piece.addresses[1]),
        );
        let config = plan::config(decision, len, params.columns.len.into());
        let by_vectors = params.lanes_log2 > 0;
        let entry = check::entry(ScatterAddEntry::of(by_vectors.then_some(T::DTYPE)))?;
        let kernel = load::kernel_for(self.variant(stream), stream, entry)?;
        let memory = (pairs, begins, from, to, parts.address());
        // SAFETY: the walks cover y and src at index 0 of the axis and the first index; with an index
        // below the extent, and a position, they are elements. y is injective and overlaps neither. If
        // there are segments of several parts, there is room for these.
        unsafe { kernel.launch(stream, config, memory, &params) }?;
        if !has_parts {
            return Ok(());
        }
        let params = AddParams {
            warps: Division::new(params.numbers.div_ceil(32) as u32),
            ..params
        };
        let kernel = load::kernel_for(self.variant(stream), stream, SCATTER_ADD_FINISH)?;
        // Blocks go on to what is left: there may be no such segment, or many.
        let most = u64::from(scatter_add::longs(len) - 1) * u64::from(params.warps.divisor);
        let blocks = most.min(decision.finish_blocks) as u32;
        let config = LaunchConfig::linear(blocks, scatter_add::FINISH_THREADS);
        let to = y.erased().argument(piece.addresses[0]);
        let memory = (pairs, longs, to, parts.address());
        // SAFETY: as above.
        unsafe { kernel.launch(stream, config, memory, &params) }
    }
}
