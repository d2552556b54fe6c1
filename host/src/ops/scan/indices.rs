//! Running maxima and minima with their indices.

use super::{NAME, Scan, row_stride};
use crate::error::named;
use crate::load::{self, LoadVariant};
use crate::ops::check;
use crate::ops::copy::contiguous;
use crate::{Error, LaunchConfig, Reducible, Result, Stream, Tensor};
use abi::scan::{MARK_THREADS, MarkParams, SCAN_MARKS, ScanOp};

/// Running maxima or minima with their indices, by [`Scan::indices`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct ScanWithIndices<'a, T: Reducible>(pub(super) Scan<'a, T>);

/// Running maxima or minima and their indices: results, or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct RunningExtremes<T: Reducible> {
    /// The maxima or minima, as [`Scan::run`] returns them.
    pub values: Tensor<T>,
    /// The indices that they have in `x` along the axis, of the same shape.
    pub indices: Tensor<i64>,
}

impl<T: Reducible> ScanWithIndices<'_, T> {
    /// Enqueues the scan and returns both, in new contiguous tensors.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn run(&self, stream: &Stream) -> Result<RunningExtremes<T>> {
        named(NAME, || {
            let axis = self.validate(stream)?;
            let shape = self.0.x.shape();
            let out = RunningExtremes {
                values: Tensor::empty(stream, shape)?,
                indices: Tensor::empty(stream, shape)?,
            };
            self.launch(axis, &out, stream)?;
            Ok(out)
        })
    }

    /// Enqueues the scan into the tensors of `out`, which must not overlap.
    ///
    /// # Errors
    /// See [`Scan`].
    pub fn run_into(&self, out: &RunningExtremes<T>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let axis = self.validate(stream)?;
            let (x, RunningExtremes { values, indices }) = (self.0.x, out);
            check::values_and_indices(Some(values), Some(indices), x.shape(), x, stream)?;
            self.launch(axis, out, stream)
        })
    }

    fn validate(&self, stream: &Stream) -> Result<usize> {
        let scan = &self.0;
        if scan.is_exclusive || !matches!(scan.op, ScanOp::Max | ScanOp::Min) {
            let kind = if scan.is_exclusive { "exclusive " } else { "" };
            let what = format!("indices of {kind}{}", scan.op.name());
            return Err(Error::unsupported(what, "inclusive max and min"));
        }
        scan.validate(stream)
    }

    fn launch(&self, axis: usize, out: &RunningExtremes<T>, stream: &Stream) -> Result<()> {
        let RunningExtremes { values, indices } = out;
        self.0.launch(axis, values, stream)?;
        if values.is_empty() {
            return Ok(());
        }
        let x = Scan::by_rows(self.0.x, axis)?;
        let x = match row_stride(&x) {
            Some(_) => x,
            None => contiguous(&x, stream)?,
        };
        let reached = Scan::by_rows(values, axis)?.contiguous(stream)?;
        let marks = Tensor::<i64>::empty(stream, x.shape())?;
        let n = x.shape().last().copied().unwrap_or(1) as u64;
        let rows = x.len() as u64 / n;
        let params = MarkParams::new(T::DTYPE, rows, n, row_stride(&x).unwrap_or(0));
        // Blocks go on to what is left.
        let along = n.div_ceil(u64::from(MARK_THREADS)).min(1 << 16) as u32;
        let config = LaunchConfig {
            grid: [along, rows.min(u64::from(u16::MAX)) as u32, 1],
            ..LaunchConfig::linear(1, MARK_THREADS)
        };
        let bytes = x.len() as u64 * (2 * T::DTYPE.size_bytes() as u64 + 8);
        let variant = LoadVariant::of(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, SCAN_MARKS)?;
        // SAFETY: x has rows of n contiguous elements at this stride; values and marks have as many
        // without gaps, and marks are new memory.
        unsafe { kernel.launch(stream, config, (&x, &reached, &marks), &params) }?;
        let to = Scan::by_rows(indices, axis)?;
        let last = x.rank() - 1;
        let of_marks = Scan::new(ScanOp::Max, &marks);
        of_marks.launch(last, &to, stream)
    }
}
