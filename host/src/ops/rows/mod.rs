//! Row-wise operations (softmax, norms, cross-entropy, sorts, the first elements): how tensors are viewed as
//! rows, and the launches over them.

mod cross_entropy;
mod norm;
mod norm_grad;
mod operation;
mod plan;
mod softmax;
mod sort;
mod topk;
mod weights;

pub use cross_entropy::{CrossEntropy, LossAndGradient, Reduction, Targets, WithGradient};
pub use norm::{LayerNorm, Normalized, RmsNorm, WithStats};
pub use norm_grad::{LayerNormGrad, NormGradients, RmsNormGrad};
pub use softmax::{LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad};
pub use sort::{Argsort, Sort, SortedElements, WithIndices};
pub use topk::{TopElements, TopK};
pub use weights::ParamElement;

pub(super) use plan::RowCosts;
pub(super) use sort::SortCosts;
pub(super) use topk::TopKCosts;

use self::plan::{Candidate, RowDesc};
use crate::load::{self, LoadVariant};
use crate::ops::axes::RowAxes;
use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::view::merge;
use crate::ops::workspaces::{Purpose, Workspace};
use crate::reference::Model;
use crate::reference::norm::NormModel;
use crate::{Element, Error, KernelArgs, Result, Stream, Tensor};
use abi::rows::{Alignment, RowParams, Strategy, flags};

/// Largest error of the kernels' `ex2.approx` and the multiplication before it, in ulp of f32. 2
/// are for the instruction on hardware, and 2 for the difference of the emulator from it.
const EXP_ULPS: f64 = 4.0;

/// Largest error of the kernels' `ln`, in ulp.
const LOG_ULPS: f64 = 1.5;

/// A tensor viewed as rows of contiguous elements.
pub(super) struct Rows<T: Element> {
    /// The tensor, with the axes of a row last.
    tensor: Tensor<T>,
    /// Stride between rows, in elements.
    stride: i64,
}

impl<T: Element> Rows<T> {
    /// A view of `x` as rows without a copy, if its layout allows it; the first `outer` dimensions
    /// index the rows.
    fn in_place(x: &Tensor<T>, outer: usize) -> Option<Self> {
        let (of_rows, of_row) = x.shape().split_at(outer);
        let (row_strides, strides) = x.strides().split_at(outer);
        let (n, step) = merge(of_row, strides)?;
        if step != 1 && n > 1 {
            return None;
        }
        let (_, stride) = merge(of_rows, row_strides)?;
        Some(Self {
            tensor: x.clone(),
            stride,
        })
    }

    /// Rows to read `x` from: `x` itself, or a copy where its layout does not allow that.
    fn read(x: &Tensor<T>, axes: &RowAxes, stream: &Stream) -> Result<Self> {
        let x = axes.last(x)?;
        match Self::in_place(&x, axes.outer()) {
            Some(rows) => Ok(rows),
            None => Self::in_place(&contiguous(&x, stream)?, axes.outer()).ok_or(NOT_ROWS),
        }
    }

    /// Rows to write `y` to: `y` itself, or new memory where its layout does not allow that, from
    /// which [`Rows::deliver`] copies.
    fn written(y: &Tensor<T>, axes: &RowAxes, stream: &Stream) -> Result<Self> {
        let y = axes.last(y)?;
        match Self::in_place(&y, axes.outer()) {
            Some(rows) => Ok(rows),
            None => Self::made(y.shape(), axes, stream),
        }
    }

    /// As [`read`](Self::read) for a launch by `candidate`, whose rows may have to begin at vectors.
    fn read_by(
        candidate: &Candidate,
        x: &Tensor<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<Self> {
        if candidate.is_taken_in_place(x, axes)? {
            return Self::read(x, axes, stream);
        }
        let copy = Self::made(axes.last(x)?.shape(), axes, stream)?;
        strided_copy(&axes.last(x)?, &copy.tensor, stream)?;
        Ok(copy)
    }

    /// As [`written`](Self::written), in the same way.
    fn written_by(
        candidate: &Candidate,
        y: &Tensor<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<Self> {
        match candidate.is_taken_in_place(y, axes)? {
            true => Self::written(y, axes, stream),
            false => Self::made(axes.last(y)?.shape(), axes, stream),
        }
    }

    /// Rows in new memory; `shape` has the axes of a row last.
    fn made(shape: &[usize], axes: &RowAxes, stream: &Stream) -> Result<Self> {
        Self::in_place(&Tensor::empty(stream, shape)?, axes.outer()).ok_or(NOT_ROWS)
    }

    /// Copies the written rows to `y`, unless they are `y` itself.
    fn deliver(&self, y: &Tensor<T>, axes: &RowAxes, stream: &Stream) -> Result<()> {
        if self.tensor.device_ptr() == y.device_ptr() {
            return Ok(());
        }
        strided_copy(&self.tensor, &axes.last(y)?, stream)
    }

    /// Whether rows of each tensor, or of the copy that [`Rows::read`] makes of it, follow each other
    /// without gaps.
    fn are_dense<'t>(
        tensors: impl IntoIterator<Item = Option<&'t Tensor<T>>>,
        axes: &RowAxes,
    ) -> Result<bool>
    where
        T: 't,
    {
        for x in tensors.into_iter().flatten() {
            let (rows, n) = axes.extents(x.shape());
            let in_place = Self::in_place(&axes.last(x)?, axes.outer());
            if rows > 1 && in_place.is_some_and(|rows| rows.stride != n as i64) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How the rows of `x` lie, or of the copy that [`Rows::read`] or [`Rows::written`] makes of it.
    fn lie(x: &Tensor<T>, axes: &RowAxes) -> Result<Lie> {
        let in_place = Self::in_place(&axes.last(x)?, axes.outer());
        let (rows, n) = axes.extents(x.shape());
        let (start, stride) = in_place.map_or((0, n as i64), |rows| {
            (rows.tensor.device_ptr().as_raw(), rows.stride)
        });
        let unit = u64::from(abi::rows::VECTOR_BYTES);
        // Of a single row, or of none, the stride may be any.
        let step = if rows <= 1 { 0 } else { stride };
        Ok(Lie {
            start: start % unit,
            step: step.wrapping_mul(size_of::<T>() as i64) as u64 % unit,
        })
    }

    /// How the rows of all of these lie to vectors, of which the first `inputs` are read together;
    /// `None` is a new tensor.
    fn alignment<'a>(
        all: impl IntoIterator<Item = Option<&'a Tensor<T>>>,
        inputs: usize,
        axes: &RowAxes,
    ) -> Result<Alignment> {
        let all = all.into_iter();
        let all = all.map(|x| x.map_or(Ok(Lie::ALIGNED), |x| Self::lie(x, axes)));
        let all = all.collect::<Result<Vec<Lie>>>()?;
        Ok(match &all[..] {
            all if all.iter().all(|lie| *lie == Lie::ALIGNED) => Alignment::Vectors,
            all if all[..inputs].iter().all(|lie| *lie == all[0]) => Alignment::Alike,
            _ => Alignment::Apart,
        })
    }
}

/// How rows of `n` elements of `T` lie in a batch-invariant launch, which copies those that do not.
fn invariant_alignment<T: Element>(n: usize) -> Alignment {
    match (n * size_of::<T>()).is_multiple_of(abi::rows::VECTOR_BYTES as usize) {
        true => Alignment::Vectors,
        false => Alignment::Apart,
    }
}

impl Candidate {
    /// Whether a launch takes these rows, or the copy that their layout makes necessary, as they lie.
    fn is_taken_in_place<T: Element>(&self, x: &Tensor<T>, axes: &RowAxes) -> Result<bool> {
        let wants_vectors =
            self.desc.batch_invariant && self.desc.shape.alignment != Alignment::Apart;
        Ok(!wants_vectors || Rows::lie(x, axes)? == Lie::ALIGNED)
    }
}

/// How rows lie to vectors of 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lie {
    /// Bytes by which the first row begins behind a multiple of a vector.
    start: u64,
    /// Bytes by which each row begins further behind one than the row before it.
    step: u64,
}

impl Lie {
    /// All rows begin at a multiple of a vector.
    const ALIGNED: Self = Self { start: 0, step: 0 };
}

const NOT_ROWS: Error = Error::Bug("a contiguous tensor is not rows");

/// Counters by which blocks keep pace, in words of 32 bits.
const PACE_WORDS: usize = 2;

/// The launch of a row-wise operation, but for its tensors.
pub(super) struct Launch<'a> {
    candidate: &'a Candidate,
    variant: LoadVariant,
    flags: u32,
}

impl<'a> Launch<'a> {
    fn new(stream: &Stream, candidate: &'a Candidate) -> Self {
        let RowDesc { shape, .. } = candidate.desc;
        let mut bits = 0;
        if candidate.plan.strategy == Strategy::Shared {
            bits |= flags::STAGED;
        }
        let bytes = candidate.desc.bytes(shape.inputs + 1);
        if load::streams(stream.device(), bytes) {
            bits |= flags::STREAMS;
        }
        Self {
            candidate,
            variant: LoadVariant::of(stream.device(), bytes),
            flags: bits,
        }
    }

    /// Parameters of the launch, without strides.
    fn params(&self) -> RowParams {
        let Candidate { desc, plan, .. } = self.candidate;
        RowParams {
            rows: desc.rows,
            n: desc.shape.n,
            strides: [0; 5],
            ignore_index: 0,
            epsilon: 0.0,
            scale: 1.0,
            threads: plan.threads,
            flags: self.flags,
            vectors: desc.shape.slice_vectors(plan.cluster),
            stages: self.candidate.stages,
            pace: 0,
        }
    }

    /// Counters by which blocks with short rows keep pace with each other. They are used if the
    /// launch reads and writes far more than L2 holds, and all blocks run at the same time.
    fn pace(&self, stream: &Stream) -> Option<Workspace> {
        let Strategy::Short(ring) = self.candidate.plan.strategy else {
            return None;
        };
        let device = stream.device();
        // The emulator runs as many at a time as an H200.
        let at_a_time = match device.is_emulator() {
            true => u32::MAX,
            false => device.info().multiprocessors * ring.blocks,
        };
        let pays = self.flags & flags::STREAMS != 0 && self.candidate.config.grid[0] <= at_a_time;
        pays.then_some(Workspace {
            purpose: Purpose::Paces,
            bytes: 4 * PACE_WORDS as u64,
            words: PACE_WORDS,
        })
    }

    /// # Safety
    /// `arguments` are those that the entry takes, with the extents and strides that their
    /// parameters say.
    unsafe fn run(
        &self,
        stream: &Stream,
        memory: impl KernelArgs,
        params: &RowParams,
    ) -> Result<()> {
        let kernel = load::kernel_for(self.variant, stream, self.candidate.entry)?;
        // SAFETY: guaranteed by the caller.
        unsafe { kernel.launch(stream, self.candidate.config, memory, params) }
    }
}

/// Most elements of a row that one thread adds up, for rows of up to 1024 threads. They are 16
/// vectors of a slice, 4 vectors in registers, or 32 single elements (32 threads for a row of 1024,
/// 256 threads for a row of 8192). A thread has more only if 1024 or more threads share a row.
const MOST_OWN: usize = 128;

/// The same for norms and for gradients: 8 vectors of a slice.
const MOST_OWN_OTHERWISE: usize = 64;

/// The error model of sums over rows of `n` elements, for the kernel with the longest chain of
/// additions.
fn model(n: usize, most_own: usize) -> Model {
    let own = n.div_ceil(1024).max(n.min(most_own));
    Model {
        additions: own + 64,
        // Rescaling of single elements, and of partial results of a warp and of a block.
        rescales: own + 16,
        exp_ulps: EXP_ULPS,
        log_ulps: LOG_ULPS,
        p_roundoff: 0.0,
    }
}

/// The error model of norms over rows of `n` elements.
fn norm_model(n: usize) -> NormModel {
    // Missing elements add 0, which is exact.
    let others = n.saturating_sub(1);
    // Merges of a thread (four elements at a time), of the lanes of a warp, and of warps.
    let merges = n.div_ceil(1024).max(n.min(32)).div_ceil(4) + 10;
    NormModel {
        additions: model(n, MOST_OWN_OTHERWISE).additions.min(others),
        merges: merges.min(others),
    }
}
