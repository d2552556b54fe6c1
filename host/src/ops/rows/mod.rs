//! Operations on rows: how tensors are seen as rows, and launches over them.

mod axes;
mod cross_entropy;
mod norm;
mod norm_grad;
mod softmax;
mod weights;

pub use cross_entropy::{CrossEntropy, Reduction};
pub use norm::{LayerNorm, Normalized, RmsNorm};
pub use norm_grad::{LayerNormGrad, NormGradients, RmsNormGrad};
pub use softmax::{LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad};

use self::axes::RowAxes;
use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::view::merge;
use crate::ops::{check, kernels};
use crate::reference::Model;
use crate::{Element, Error, KernelArgs, LaunchConfig, Result, Stream, Tensor};
use spec::DType;
use spec::rows::{RowDevice, RowEntry, RowOp, RowParams, RowPlan, RowShape, Strategy, flags};

/// Largest error of the kernels' `ex2.approx` with the product before it, in ulp of f32: 2 of the
/// instruction on hardware, as much of the emulator's difference from it.
const EXP_ULPS: f64 = 4.0;

/// Largest error of the kernels' `ln`, in ulp.
const LOG_ULPS: f64 = 1.5;

/// Most static shared memory of these kernels.
const STATIC_BYTES: u32 = 1024;

/// A tensor as rows of neighbouring elements.
pub(super) struct Rows<T: Element> {
    /// With the elements' axes last.
    tensor: Tensor<T>,
    /// Elements between rows.
    stride: i64,
    rows: usize,
}

impl<T: Element> Rows<T> {
    /// `x` where it lies, if it is rows; the first `outer` dimensions number them.
    fn in_place(x: &Tensor<T>, outer: usize) -> Option<Self> {
        let (of_rows, of_row) = x.shape().split_at(outer);
        let (row_strides, strides) = x.strides().split_at(outer);
        let (n, step) = merge(of_row, strides)?;
        if step != 1 && n > 1 {
            return None;
        }
        let (rows, stride) = merge(of_rows, row_strides)?;
        Some(Self {
            tensor: x.clone(),
            stride,
            rows,
        })
    }

    /// `x` to be read: a copy, where it is not rows.
    fn read(x: &Tensor<T>, axes: &RowAxes, stream: &Stream) -> Result<Self> {
        let x = axes.last(x)?;
        match Self::in_place(&x, axes.outer()) {
            Some(rows) => Ok(rows),
            None => Self::in_place(&contiguous(&x, stream)?, axes.outer()).ok_or(NOT_ROWS),
        }
    }

    /// `y` to be written: memory of its own, where it is not rows; [`Rows::deliver`] puts it there.
    fn written(y: &Tensor<T>, axes: &RowAxes, stream: &Stream) -> Result<Self> {
        let y = axes.last(y)?;
        match Self::in_place(&y, axes.outer()) {
            Some(rows) => Ok(rows),
            None => Self::made(y.shape(), axes, stream),
        }
    }

    /// Memory of its own, of a shape with the elements' axes last.
    fn made(shape: &[usize], axes: &RowAxes, stream: &Stream) -> Result<Self> {
        Self::in_place(&Tensor::empty(stream, shape)?, axes.outer()).ok_or(NOT_ROWS)
    }

    /// Copies what was written to `y`, where it is not there already.
    fn deliver(&self, y: &Tensor<T>, axes: &RowAxes, stream: &Stream) -> Result<()> {
        if self.tensor.device_ptr() == y.device_ptr() {
            return Ok(());
        }
        strided_copy(&self.tensor, &axes.last(y)?, stream)
    }

    /// Whether all rows begin on a vector.
    fn is_aligned(&self) -> bool {
        let unit = u64::from(spec::rows::VECTOR_BYTES);
        let step = self.stride.unsigned_abs() * size_of::<T>() as u64;
        self.tensor.device_ptr().as_raw().is_multiple_of(unit)
            && (self.rows <= 1 || step.is_multiple_of(unit))
    }
}

const NOT_ROWS: Error = Error::Bug("a contiguous tensor is not rows");

/// What all launches of an operation need to know.
pub(super) struct Launch {
    plan: RowPlan,
    entry: RowEntry,
    config: LaunchConfig,
    flags: u32,
    /// Of a slice.
    vectors: u32,
    /// Of a ring.
    stages: u32,
}

impl Launch {
    /// Of `rows` rows of this shape.
    fn new(
        stream: &Stream,
        op: RowOp,
        dtype: DType,
        rows: usize,
        shape: &RowShape,
    ) -> Result<Self> {
        let plan = plan(stream, op, shape);
        let blocks = match plan.strategy {
            Strategy::Ring(_) => Some(plan.persistent_blocks(rows as u64)),
            _ => plan.blocks(rows as u64),
        };
        let blocks = blocks.ok_or_else(|| Error::OutOfBounds {
            what: "rows",
            got: rows as u64,
            limit: u64::from(spec::rows::MAX_BLOCKS) * u64::from(plan.rows_per_block()),
        })?;
        let mut config = LaunchConfig::linear(blocks, plan.block_threads())
            .shared_bytes(plan.shared_bytes(shape));
        if plan.cluster > 1 {
            config = config.cluster([plan.cluster, 1, 1]);
        }
        let entry = RowEntry {
            op,
            dtype,
            form: plan.form(),
        };
        let is_staged = plan.strategy == Strategy::Shared;
        Ok(Self {
            plan,
            entry,
            config,
            flags: if is_staged { flags::STAGED } else { 0 },
            vectors: shape.slice_vectors(plan.cluster),
            stages: match plan.strategy {
                Strategy::Ring(ring) => ring.stages,
                _ => 0,
            },
        })
    }

    /// Parameters of the launch, without strides.
    fn params(&self, rows: usize, n: usize) -> RowParams {
        RowParams {
            rows: rows as u64,
            n: n as u64,
            strides: [0; 5],
            ignore_index: 0,
            epsilon: 0.0,
            scale: 1.0,
            threads: self.plan.threads,
            flags: self.flags,
            vectors: self.vectors,
            stages: self.stages,
        }
    }

    /// # Safety
    /// `arguments` are those of the entry, of the extents and strides that their parameters have.
    unsafe fn run(&self, stream: &Stream, arguments: impl KernelArgs) -> Result<()> {
        let kernel = kernels::kernel(stream, self.entry)?;
        // SAFETY: the caller's.
        unsafe { kernel.launch(stream, self.config, arguments) }
    }
}

/// Rows of `n` elements, so many of which are read together; norms add no bias.
fn shape(dtype: DType, n: usize, is_aligned: bool, inputs: u32) -> RowShape {
    let element_bytes = dtype.size_bytes() as u32;
    let unit = spec::rows::VECTOR_BYTES / element_bytes;
    RowShape {
        n: n as u64,
        element_bytes,
        is_aligned: is_aligned && (n as u64).is_multiple_of(u64::from(unit)),
        inputs,
        has_bias: false,
    }
}

/// The choice for the stream's device.
fn plan(stream: &Stream, op: RowOp, shape: &RowShape) -> RowPlan {
    let device = stream.device();
    let limits = RowDevice {
        arch: device.arch(),
        shared_bytes: device
            .info()
            .max_shared_bytes_per_block
            .saturating_sub(STATIC_BYTES),
    };
    RowPlan::choose(&op.kernels(), shape, &limits)
}

/// Most elements that a thread has of a row: 16 vectors of a slice, 4 in registers, or 32 one by one,
/// as 32 threads have of 1024 and 256 of 8192. More there are only where 1024 threads or more have the
/// row.
const MOST_OWN: usize = 128;

/// The same of norms, and of gradients: 8 vectors of a slice.
const MOST_OWN_OTHERWISE: usize = 64;

/// The model of sums over rows of `n` elements by whichever kernel: the one with the longest chain.
fn model(n: usize, most_own: usize) -> Model {
    let own = n.div_ceil(1024).max(n.min(most_own));
    Model {
        additions: own + 64,
        // Of parts of a warp, of a block's, and of single elements.
        rescales: own + 16,
        exp_ulps: EXP_ULPS,
        log_ulps: LOG_ULPS,
        p_roundoff: 0.0,
    }
}

/// `tensor` lives on the stream's device and has this shape.
fn input<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    shape: &[usize],
    stream: &Stream,
) -> Result<()> {
    check::device(operand, tensor, stream)?;
    if tensor.shape() != shape {
        return Err(check::shape_mismatch(operand, tensor, format!("{shape:?}")));
    }
    Ok(())
}
