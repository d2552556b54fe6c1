//! Rows put to the places that indices name.

mod plan;

use self::plan::{Candidate, Moves, ScatterDesc};
use crate::backend::Pattern;
use crate::element::as_bytes;
use crate::error::named;
use crate::load::{self, LoadVariant};
use crate::ops::by_index::{Placement, Rows, along, at_first, axis_stride, dense, in_bytes};
use crate::ops::check;
use crate::ops::elementwise::{Piece, Steps, Walk, steps_of};
use crate::ops::plan::{
    Choice, Desc, Plan, Tuning, answer, blank, choose, copied, like, rotation, tune,
};
use crate::storage::Storage;
use crate::{Element, Error, IndexElement, LaunchConfig, Result, Stream, Tensor};
use abi::division::Division;
use abi::elementwise::{MAX_RANK, WalkParams, grid_blocks};
use abi::scatter::{
    self, SCATTER_LAST, SIZES, ScatterEntry, ScatterFewEntry, ScatterFewParams, ScatterParams,
    THREADS,
};

/// The operation's name in errors, plans and the file of tuned choices.
const NAME: &str = ScatterDesc::OPERATION;

/// A launch by any candidate.
type Call<'a> = <Candidate as Choice>::Call<'a>;

/// Rows put to the places that indices name: `y[a.., indices[j..], b..] = src[a.., j.., b..]`,
/// where the axis is behind the dimensions `a`. It is the opposite of [`Take`](crate::Take).
/// [`ScatterAdd`](crate::ScatterAdd) adds instead of replacing. Along axis 0 it appends keys and
/// values to a cache at positions in device memory, writes rows of a table back, or permutes rows.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `src` | that of `y`, with those of `indices` in place of the axis | any | any; see Performance |
/// | `indices` | any; `src` has at most 8 dimensions; at most 2^32 - 1 elements | i32, i64 | any |
/// | `y` (written) | any, with 1 to 8 dimensions | as `src` | any where no two indices refer to one element; must not overlap `src` or `indices` |
///
/// **Where several indices are the same**, the row of the last one stays: that of the largest `j`, in
/// row-major order of the dimensions of the indices. It does so every run and on every device. Rows of
/// `y` that no index names keep what they have.
///
/// **An index out of range**, which is below 0 or not below the extent of the axis, is not an
/// error, as for [`Take`](crate::Take): its row is put nowhere. Negative indices do not count
/// from the end, unless [`wrap_negative`](Scatter::wrap_negative) is set.
///
/// # Numerics
/// Bits are copied; a NaN keeps its payload. Reference:
/// [`reference::scatter::put`](crate::reference::scatter::put).
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Axis`](crate::ShapeError::Axis),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (too many indices),
/// [`ArgumentError::Value`](crate::ArgumentError::Value) (a new result without
/// [`extent`](Scatter::extent)),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (`with_kernel` with a name that
/// is not in the plan), [`Error::Shape`], [`Error::Device`]. No launch happens on error.
///
/// # Performance
/// Up to 1,024 indices take one launch. More indices take two launches. One finds the last index of
/// each place, in 4 bytes of memory for each place along the axis, which are cleared first. The
/// other moves rows. Rows that are contiguous in `src` and in `y`, and begin at multiples of 16
/// bytes in both, are moved 16 bytes at a time. Others are moved by the largest of 8, 4, 2 and 1
/// bytes that fit.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Scatter, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let cache = Tensor::<f32>::zeros(&stream, &[4, 2])?;
/// let keys = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
/// let places = Tensor::from_slice(&device, &[3], &[2_i32, 0, -1])?;
/// Scatter::new(&places, &keys).run_into(&cache, &stream)?;
/// let want = array![[3.0, 4.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0]];
/// assert_eq!(cache.to_ndarray()?, want.into_dyn());
/// let twice = Tensor::from_slice(&device, &[3], &[1_i32, 3, 1])?;
/// Scatter::new(&twice, &keys).run_into(&cache, &stream)?;
/// assert_eq!(cache.to_vec()?, [3.0, 4.0, 5.0, 6.0, 1.0, 2.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Scatter<'a, T: Element, I: IndexElement> {
    placement: Placement<'a, T, I>,
    kernel: Option<&'a str>,
}

impl<'a, T: Element, I: IndexElement> Scatter<'a, T, I> {
    /// Rows of `src`, put along axis 0.
    pub fn new(indices: &'a Tensor<I>, src: &'a Tensor<T>) -> Self {
        Self {
            placement: Placement::new(indices, src),
            kernel: None,
        }
    }

    /// Puts rows along this axis of `y`. A negative axis counts from the end of `y`. Its dimensions in `src`
    /// are those of the indices.
    pub fn axis(mut self, axis: isize) -> Self {
        self.placement.axis = axis;
        self
    }

    /// Lets negative indices count from the end of the axis: -1 is the last one.
    pub fn wrap_negative(mut self) -> Self {
        self.placement.wraps = true;
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

    /// Enqueues putting the rows into zeros, and returns the result, a new contiguous tensor whose
    /// axis has the given [`extent`](Self::extent).
    ///
    /// # Errors
    /// See [`Scatter`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(NAME, || {
            let shape = self.placement.new_shape()?;
            let rows = self.rows(&shape, stream)?;
            let y = Tensor::zeros(stream, &shape)?;
            rows.put(&y, self.kernel, stream)?;
            Ok(y)
        })
    }

    /// Enqueues putting the rows into `y`.
    ///
    /// # Errors
    /// See [`Scatter`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            rows.put(y, self.kernel, stream)
        })
    }

    /// The kernel by which [`run`](Self::run) would put rows, and the other candidates. Allocates a
    /// result, to see how it lies.
    ///
    /// # Errors
    /// See [`Scatter`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let shape = self.placement.new_shape()?;
            let rows = self.rows(&shape, stream)?;
            rows.plan(&Tensor::empty(stream, &shape)?, self.kernel, stream)
        })
    }

    /// The kernel by which [`run_into`](Self::run_into) would put rows into `y`, and the other
    /// candidates.
    ///
    /// # Errors
    /// See [`Scatter`].
    pub fn plan_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            rows.plan(y, self.kernel, stream)
        })
    }

    /// Measures the candidates of [`plan_into`](Self::plan_into) with these tensors, as
    /// [`Gemm::autotune`](crate::Gemm::autotune) does. `y` is not written.
    ///
    /// # Errors
    /// See [`Scatter`]; also the first candidate's error or fault, if all fail.
    pub fn autotune_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
        named(NAME, || {
            let rows = self.rows(y.shape(), stream)?;
            self.placement.check_output(y, stream)?;
            rows.tune(&like(y, stream)?, stream)
        })
    }

    /// Checks the inputs, for a result of this shape.
    fn rows(&self, y: &[usize], stream: &Stream) -> Result<Rows<'a, T, I>> {
        let rows = self.placement.checked(y, stream)?;
        check::up_to("number of indices", rows.indices.len(), scatter::MAX_LEN)?;
        Ok(rows)
    }
}

/// Rows that are to be put.
struct Puts {
    desc: ScatterDesc,
    few: Option<Few>,
    /// The walk of [`plan::Step::Rows`].
    walk: Walk,
}

/// How one launch puts rows of few indices.
struct Few {
    columns: Walk,
    /// The walk over the indices.
    positions: WalkParams,
    /// Most columns of a launch.
    limit: u64,
    moves: Moves,
}

impl<T: Element, I: IndexElement> Rows<'_, T, I> {
    /// The walks, and what is to be chosen from; `None` if there is nothing to put.
    fn puts(&self, y: &Tensor<T>) -> Result<Option<Puts>> {
        if y.is_empty() || self.src.is_empty() {
            return Ok(None);
        }
        let are_few = self.indices.len() <= scatter::FEW as usize;
        let few = are_few.then(|| self.few(y)).transpose()?;
        let (walk, size_bytes) = widest::<T>(&self.walk(y), [self.stride(y)]);
        let entry = check::entry(ScatterEntry::of(size_bytes))?;
        let blocks = |piece: Piece| grid_blocks(piece.params.len.into(), entry.per_thread());
        let desc = ScatterDesc {
            dtype: T::DTYPE,
            indices: self.indices.len() as u64,
            elements: self.src.len() as u64,
            few: few.as_ref().map(|few| few.moves),
            many: Moves {
                size_bytes,
                blocks: walk.first_piece(u64::MAX).map_or(1, blocks),
            },
        };
        Ok(Some(Puts { desc, few, walk }))
    }

    fn put(&self, y: &Tensor<T>, kernel: Option<&str>, stream: &Stream) -> Result<()> {
        let Some(puts) = self.puts(y)? else {
            return Ok(());
        };
        let (candidate, _) = choose(&puts.desc, kernel, stream)?;
        self.put_by(&candidate, &puts, y, stream)
    }

    fn put_by(
        &self,
        candidate: &Candidate,
        puts: &Puts,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> Result<()> {
        match (candidate.decision, &puts.few) {
            (plan::Step::Few, Some(few)) => self.put_few(few, y, stream),
            _ => self.put_many(puts, y, stream),
        }
    }

    fn plan(&self, y: &Tensor<T>, kernel: Option<&str>, stream: &Stream) -> Result<Plan> {
        match self.puts(y)? {
            Some(puts) => Plan::of(&puts.desc, kernel, stream),
            None => Ok(Plan::empty()),
        }
    }

    /// Measures the candidates, with results in `y`.
    fn tune(&self, y: &Tensor<T>, stream: &Stream) -> Result<Tuning> {
        let Some(puts) = &self.puts(y)? else {
            return Ok(Tuning::empty());
        };
        let call: Call<'_> = Box::new(move |by| self.put_by(by, puts, y, stream));
        let calls = rotation(call, puts.desc.bytes(), stream, || {
            let src = copied(self.src, stream)?;
            let call: Call<'_> = Box::new(move |by| {
                let copy = Rows { src: &src, ..*self };
                let puts = copy.puts(y)?.ok_or(Error::Bug("a copy has no rows"))?;
                copy.put_by(by, &puts, y, stream)
            });
            Ok(call)
        })?;
        tune(
            &puts.desc,
            stream,
            &calls,
            |by| answer(y, blank(), stream, || calls[0](by)),
            |want, got| as_bytes(want) == as_bytes(got),
        )
    }

    /// Bytes between places along the axis.
    fn stride(&self, y: &Tensor<T>) -> i64 {
        axis_stride(y, self.axis).wrapping_mul(size_of::<T>() as i64)
    }

    /// How kernels that move rows are loaded: in elements of 16 bytes by the policy of what is read
    /// once.
    fn variant_of(&self, size_bytes: usize, stream: &Stream) -> LoadVariant {
        let bytes = (self.src.len() as u64).saturating_mul(2 * size_of::<T>() as u64);
        match size_bytes {
            16 => LoadVariant::of_once(stream.device(), bytes),
            _ => LoadVariant::of(stream.device(), bytes),
        }
    }

    /// How rows of few indices are put.
    fn few(&self, y: &Tensor<T>) -> Result<Few> {
        let positions = self.positions().first_piece(u64::MAX);
        let positions = positions.ok_or(Error::Bug("few indices have one piece"))?;
        let positions = in_bytes(positions.params, [8, size_of::<T>(), size_of::<I>()]);
        let stride = self.stride(y);
        let of_rows = positions.strides[1].iter().chain([&stride]);
        let (columns, size_bytes) = widest::<T>(&self.columns(y), of_rows.copied());
        let per_block = THREADS * ScatterFewEntry::PER_THREAD;
        // Blocks of a launch are counted in 31 bits.
        let limit = u64::from(per_block) << 20;
        let blocks = |piece: Piece| positions.len * piece.params.len.div_ceil(per_block);
        Ok(Few {
            columns,
            positions,
            limit,
            moves: Moves {
                size_bytes,
                blocks: columns.first_piece(limit).map_or(1, blocks),
            },
        })
    }

    fn put_few(&self, few: &Few, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let (size, positions) = (few.moves.size_bytes, few.positions);
        let entry = check::entry(ScatterFewEntry::of(size))?;
        let kernel = load::kernel_for(self.variant_of(size, stream), stream, entry)?;
        let per_block = THREADS * ScatterFewEntry::PER_THREAD;
        few.columns.pieces_up_to(few.limit, 1, |piece| {
            let columns = in_bytes(piece.params, [size; 2]);
            let blocks = columns.len.div_ceil(per_block);
            let params = ScatterFewParams {
                columns,
                positions,
                count: y.shape()[self.axis] as u64,
                stride: self.stride(y),
                wrap: self.wrap(y.shape()[self.axis] as u64) as i64,
                index_bytes: size_of::<I>() as u32,
                blocks: Division::new(blocks),
            };
            let config = LaunchConfig::linear(positions.len * blocks, THREADS);
            let to = y.erased().argument(piece.addresses[0]);
            let from = self.src.erased().argument(piece.addresses[1]);
            // SAFETY: the walks cover y and src at index 0 of the axis and the first index; with an index
            // below the extent, and a position, they are elements. y is injective and overlaps neither.
            unsafe { kernel.launch(stream, config, (from, self.indices, to), &params) }
        })
    }

    /// Finds which rows stay, and puts these.
    fn put_many(&self, puts: &Puts, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let count = y.shape()[self.axis];
        let last = self.last(count, stream)?;
        let size = puts.desc.many.size_bytes;
        let entry = check::entry(ScatterEntry::of(size))?;
        let kernel = load::kernel_for(self.variant_of(size, stream), stream, entry)?;
        puts.walk.pieces(1, |piece| {
            let params = ScatterParams {
                walk: in_bytes(piece.params, [size, size, size_of::<I>()]),
                first: piece.addresses[3],
                count: count as u64,
                stride: self.stride(y),
                wrap: self.wrap(count as u64) as i64,
                index_bytes: size_of::<I>() as u64,
            };
            let blocks = grid_blocks(piece.params.len.into(), entry.per_thread());
            let config = LaunchConfig::linear(blocks, THREADS);
            let (from, to) = (self.src.erased(), y.erased());
            let (from, to) = (
                from.argument(piece.addresses[0]),
                to.argument(piece.addresses[1]),
            );
            let indices = self.indices.erased();
            let by = indices.argument(piece.addresses[2]);
            // SAFETY: the walk covers the elements of src and of the indices, and the elements of y
            // at index 0 of the axis. With an index below the extent times the stride they are
            // elements of y, which is injective and overlaps neither. The table has a number for
            // each place.
            unsafe { kernel.launch(stream, config, (from, by, to, last.address()), &params) }
        })
    }

    /// The last position of each of `count` places, and one more: 0 of those that no index names.
    fn last(&self, count: usize, stream: &Stream) -> Result<Storage> {
        let last = Storage::alloc(stream, 4 * count as u64)?;
        let (backend, zero) = (stream.device().backend(), Pattern::B4(0));
        // SAFETY: all of the memory just allocated, which nothing else uses yet.
        unsafe { backend.fill(last.address(), zero, count, stream.raw()) }?;
        let bytes = 4 * count as u64 + (self.indices.len() * size_of::<I>()) as u64;
        let variant = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, SCATTER_LAST)?;
        self.positions().pieces(1, |piece: &Piece| {
            let params = ScatterParams {
                walk: in_bytes(piece.params, [8, size_of::<T>(), size_of::<I>()]),
                // The first tensor has a number of 8 bytes for each position.
                first: piece.addresses[0] / 8,
                count: count as u64,
                stride: 0,
                wrap: self.wrap(count as u64) as i64,
                index_bytes: size_of::<I>() as u64,
            };
            let blocks = grid_blocks(piece.params.len.into(), 1);
            let config = LaunchConfig::linear(blocks, THREADS);
            let by = self.indices.erased();
            let by = by.argument(piece.addresses[2]);
            // SAFETY: the walk covers the indices; the table has a number for each place.
            unsafe { kernel.launch(stream, config, (by, last.address()), &params) }
        })?;
        Ok(last)
    }

    /// The walk over src, y at index 0 of the axis, the indices, and their positions.
    fn walk(&self, y: &Tensor<T>) -> Walk {
        let shape = self.indices.shape();
        let mut positions = [0; MAX_RANK];
        positions[self.axis..][..shape.len()].copy_from_slice(&dense(shape)[..shape.len()]);
        let tensors = [
            steps_of(&self.src.erased(), self.src.shape()),
            at_first(y, self.axis, shape.len()),
            along(self.indices, self.axis),
            Steps {
                strides: positions,
                address: 0,
                size_bytes: 1,
            },
        ];
        Walk::new(self.src.shape(), &tensors)
    }
}

/// The walk in the largest elements that the first two tensors allow, which lie these bytes apart as
/// well; and the size of an element.
fn widest<T: Element>(walk: &Walk, apart: impl IntoIterator<Item = i64> + Clone) -> (Walk, usize) {
    let own = size_of::<T>();
    let larger = SIZES.into_iter().filter(|&size| size > own);
    let widened = larger.filter_map(|size| {
        let fits = apart
            .clone()
            .into_iter()
            .all(|bytes| bytes % size as i64 == 0);
        let wide = fits.then(|| walk.widened_in(size / own, 2)).flatten()?;
        Some((wide, size))
    });
    widened.into_iter().next().unwrap_or((*walk, own))
}
