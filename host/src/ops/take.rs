//! Selection along an axis by indices.

use crate::element::as_bytes;
use crate::error::named;
use crate::load::{self, LoadVariant};
use crate::ops::by_index::{along, at_first, axis_stride, dense_steps};
use crate::ops::check;
use crate::ops::elementwise::{Steps, Walk, steps_of};
use crate::ops::plan::{Candidate, Plan};
use crate::tensor::Dims;
use crate::{Element, LaunchConfig, Result, Stream, Tensor};
use abi::DType;
use abi::elementwise::grid_blocks;
use abi::gather::{SIZES, THREADS, TakeEntry, TakeParams};

/// The operation's name in errors and plans.
const NAME: &str = "take";

/// A type of indices: i32 and i64.
pub trait IndexElement: Element + sealed::Sealed {}

mod sealed {
    /// Restricts [`IndexElement`](super::IndexElement) to the types that kernels read.
    pub trait Sealed {}
}

macro_rules! index_elements {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl IndexElement for $ty {}
    )*};
}

index_elements! { i32 i64 }

/// Selection along an axis by indices: `y[a.., j.., b..] = x[a.., indices[j..], b..]`, where the
/// axis is behind the dimensions `a`. Along axis 0 of a table it is the lookup of embeddings.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, with 1 to 8 dimensions | any | any; see Performance |
/// | `indices` | any; `y` has at most 8 dimensions | i32, i64 | any |
/// | `y` (written) | that of `x`, with those of `indices` in place of the axis | as `x` | any where no two indices refer to one element; must not overlap `x` or `indices` |
///
/// **An index out of range**, which is below 0 or not below the extent of the axis, is not an
/// error, as for a target of [`CrossEntropy`](crate::CrossEntropy). Nothing is read for it, and its
/// elements of `y` are NaN; of integers they are the least number of types with a sign,
/// and the greatest of those without. [`fill`](Self::fill) sets another value. Negative
/// indices do not count from the end, unless [`wrap_negative`](Self::wrap_negative) is set.
///
/// [`Take::each`] gives each element an index of its own, as NumPy's `take_along_axis` and torch's
/// `gather` do.
///
/// # Numerics
/// Bits are copied; a NaN keeps its payload. Reference: [`reference::take`](mod@crate::reference::take).
/// The same bits every run and on every device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Axis`](crate::ShapeError::Axis),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (a result with more than 8
/// dimensions), [`Error::Shape`](crate::Error::Shape), [`Error::Device`](crate::Error::Device). No
/// launch happens on error.
///
/// # Performance
/// One launch, which reads what is selected and writes `y` once; nothing is copied before or after.
/// Rows that are contiguous in `x` and in `y`, and begin at multiples of 16 bytes in both, are
/// moved 16 bytes at a time. Others are moved by the largest of 8, 4, 2 and 1 bytes that fit.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Take, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let table = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
/// let tokens = Tensor::from_slice(&device, &[3], &[2_i32, 0, -1])?;
/// let rows = Take::new(&table, &tokens).fill(0.0).run(&stream)?;
/// assert_eq!(rows.to_ndarray()?, array![[5.0, 6.0], [1.0, 2.0], [0.0, 0.0]].into_dyn());
/// let columns = Take::new(&table, &tokens.slice(0, 1..2)?).axis(-1).run(&stream)?;
/// assert_eq!(columns.to_ndarray()?, array![[1.0], [3.0], [5.0]].into_dyn());
/// let last = Take::new(&table, &tokens.slice(0, 2..)?).wrap_negative().run(&stream)?;
/// assert_eq!(last.to_ndarray()?, array![[5.0, 6.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Take<'a, T: Element, I: IndexElement> {
    x: &'a Tensor<T>,
    indices: &'a Tensor<I>,
    axis: isize,
    /// Whether each element has an index of its own.
    is_each: bool,
    fill: Option<T>,
    /// Whether negative indices count from the end.
    wraps: bool,
}

impl<'a, T: Element, I: IndexElement> Take<'a, T, I> {
    /// A selection along axis 0 of `x`.
    pub fn new(x: &'a Tensor<T>, indices: &'a Tensor<I>) -> Self {
        Self {
            x,
            indices,
            axis: 0,
            is_each: false,
            fill: None,
            wraps: false,
        }
    }

    /// A selection along axis 0 of `x` where each element has an index of its own:
    /// `y[a.., j, b..] = x[a.., indices[a.., j, b..], b..]`. `indices` and `y` have the shape of `x`
    /// but for the extent of the axis.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> warpsmith::Result<()> {
    /// use ndarray::array;
    /// use warpsmith::{Device, Take, Tensor};
    /// let device = Device::emulator()?;
    /// let stream = device.stream()?;
    /// let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// let indices = Tensor::from_ndarray(&device, &array![[2_i64, 0], [1, 1]])?;
    /// let y = Take::each(&x, &indices).axis(-1).run(&stream)?;
    /// assert_eq!(y.to_ndarray()?, array![[3.0, 1.0], [5.0, 5.0]].into_dyn());
    /// # Ok(())
    /// # }
    /// ```
    pub fn each(x: &'a Tensor<T>, indices: &'a Tensor<I>) -> Self {
        Self {
            is_each: true,
            ..Self::new(x, indices)
        }
    }

    /// Selects along this axis. A negative axis counts from the end.
    pub fn axis(mut self, axis: isize) -> Self {
        self.axis = axis;
        self
    }

    /// Lets negative indices count from the end of the axis: -1 is the last one.
    pub fn wrap_negative(mut self) -> Self {
        self.wraps = true;
        self
    }

    /// Sets what an index out of range selects (default: see [`Take`]).
    pub fn fill(mut self, value: T) -> Self {
        self.fill = Some(value);
        self
    }

    /// Enqueues the selection and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Take`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        named(NAME, || {
            let (axis, shape) = self.validate(stream)?;
            let y = Tensor::empty(stream, &shape)?;
            self.launch(axis, &y, stream)?;
            Ok(y)
        })
    }

    /// Enqueues the selection into `y`.
    ///
    /// # Errors
    /// See [`Take`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let (axis, shape) = self.validate(stream)?;
            check::output("y", y, &shape, stream)?;
            check::no_overlap("y", y, "x", self.x)?;
            check::no_overlap("y", y, "indices", self.indices)?;
            self.launch(axis, y, stream)
        })
    }

    /// The kernel that [`run`](Self::run) would launch. There is one, whose elements are as wide as
    /// the rows allow.
    ///
    /// # Errors
    /// See [`Take`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let (axis, shape) = self.validate(stream)?;
            if shape.contains(&0) {
                return Ok(Plan::empty());
            }
            let moves = self.moves(axis, &shape, dense_steps::<T>(&shape))?;
            let elements: usize = shape.iter().product();
            let first = moves.walk.first_piece(u64::MAX);
            let len = first.map_or(0, |piece| piece.params.len);
            let blocks = grid_blocks(len.into(), moves.entry.per_thread());
            let config = LaunchConfig::linear(blocks, THREADS);
            let bytes = 2.0 * elements as f64 * size_of::<T>() as f64;
            let device = stream.device().info();
            let candidate = Candidate::only(moves.entry.name(), config, bytes, device);
            let description = format!("{NAME} {} elements{elements}", T::DTYPE);
            Ok(Plan::only(description, candidate))
        })
    }

    /// Checks the inputs, and returns the axis and the shape of the result.
    fn validate(&self, stream: &Stream) -> Result<(usize, Dims<usize>)> {
        check::device("x", self.x, stream)?;
        check::device("indices", self.indices, stream)?;
        let axis = check::axis(self.x.rank(), self.axis)?;
        let (before, behind) = self.x.shape().split_at(axis);
        if self.is_each {
            let mut want = Dims::new(self.x.shape())?;
            if self.indices.rank() == want.len() {
                want[axis] = self.indices.shape()[axis];
            }
            check::shape("indices", self.indices.shape(), &want)?;
            return Ok((axis, want));
        }
        let shape = Dims::new(&[before, self.indices.shape(), &behind[1..]].concat())?;
        Ok((axis, shape))
    }

    /// Launches into `y`, which has the shape of the result.
    fn launch(&self, axis: usize, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let count = self.x.shape()[axis];
        let Moves {
            entry,
            walk,
            stride,
        } = self.moves(axis, y.shape(), steps_of(&y.erased(), y.shape()))?;
        let own = size_of::<T>();
        let fill = match self.fill {
            Some(value) => repeated(as_bytes(&[value])),
            None => nothing(T::DTYPE),
        };
        let bytes = 2 * y.len() as u64 * own as u64;
        let variant = match entry.size_bytes {
            16 => LoadVariant::of_once(stream.device(), bytes),
            _ => LoadVariant::of(stream.device(), bytes),
        };
        let kernel = load::kernel_for(variant, stream, entry)?;
        let (of_y, of_x, of_indices) = (y.erased(), self.x.erased(), self.indices.erased());
        walk.pieces(1, |piece| {
            let params = TakeParams {
                walk: piece.params,
                count: count as u64,
                stride,
                fill,
                wrap: if self.wraps { count as i64 } else { 0 },
                index_bytes: size_of::<I>() as u64,
            };
            let blocks = grid_blocks(piece.params.len.into(), entry.per_thread());
            let config = LaunchConfig::linear(blocks, THREADS);
            let [to, from, by] = [0, 1, 2].map(|t| piece.addresses[t]);
            let (to, from, by) = (
                of_y.argument(to),
                of_x.argument(from),
                of_indices.argument(by),
            );
            // SAFETY: the walk covers the elements of y and of the indices, and the elements of x
            // at index 0 of the axis. With an index below `count` times the stride they are
            // elements of x. y is injective and overlaps neither.
            unsafe { kernel.launch(stream, config, (from, by, to), &params) }
        })
    }

    /// How elements are moved to a result with this shape and these steps.
    fn moves(&self, axis: usize, shape: &[usize], of_y: Steps) -> Result<Moves> {
        let stride = axis_stride(self.x, axis);
        // The walk over y, x at index 0 of the axis, and the indices.
        let (of_x, of_indices) = match self.is_each {
            true => (
                at_first(self.x, axis, 1),
                steps_of(&self.indices.erased(), shape),
            ),
            false => (
                at_first(self.x, axis, self.indices.rank()),
                along(self.indices, axis),
            ),
        };
        let walk = Walk::new(shape, &[of_y, of_x, of_indices]);
        let own = size_of::<T>();
        let widened = SIZES.into_iter().find_map(|size| {
            let times = (size / own).max(1);
            let fits = size > own && stride % times as i64 == 0;
            let wide = fits.then(|| walk.widened_in(times, 2)).flatten()?;
            Some((size, wide, stride / times as i64))
        });
        let (size, walk, stride) = widened.unwrap_or((own, walk, stride));
        Ok(Moves {
            entry: check::entry(TakeEntry::of(size))?,
            walk,
            stride,
        })
    }
}

/// How a launch moves elements.
struct Moves {
    entry: TakeEntry,
    walk: Walk,
    /// Stride of the axis in x, in elements of the entry's size.
    stride: i64,
}

/// 8 bytes of a value over and over; its size divides 8.
fn repeated(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, &from) in bytes.iter_mut().zip(value.iter().cycle()) {
        *to = from;
    }
    u64::from_le_bytes(bytes)
}

/// What an index out of range selects unless it is set: NaN, or the last number of an integer type
/// that anybody would mean.
fn nothing(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 0x7fff_ffff_ffff_ffff,
        DType::F32 => repeated(&0x7fff_ffff_u32.to_le_bytes()),
        DType::F16 | DType::Bf16 => repeated(&0x7fff_u16.to_le_bytes()),
        DType::E4m3 | DType::E5m2 => repeated(&[0x7f]),
        DType::I64 => 1 << 63,
        DType::I32 => repeated(&i32::MIN.to_le_bytes()),
        DType::I16 => repeated(&i16::MIN.to_le_bytes()),
        DType::I8 => repeated(&i8::MIN.to_le_bytes()),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => u64::MAX,
    }
}
