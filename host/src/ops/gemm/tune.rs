//! Autotuning of a GEMM.

use super::Gemm;
use super::call::Memory;
use super::desc::GemmDesc;
use super::operands::{Operands, is_by_rows, matrix_desc};
use super::options::{GemmInput, GemmOutput, Precision};
use super::shape::Extents;
use crate::error::named;
use crate::ops::plan::{self, Choice as _, Desc as _, Tuning};
use crate::{DType, Element, Result, Stream, Tensor};
use abi::gemm::Transpose;

impl<A: GemmInput<B>, B: Element, Out: GemmOutput> Gemm<'_, A, B, Out> {
    /// Measures the candidates with these operands. The fastest one becomes the choice for every
    /// GEMM with the same extents, layouts and options on this kind of device. The result is a new
    /// tensor, as in [`run`](Self::run).
    ///
    /// The candidates take turns. Launches rotate through copies of operands that L2 could hold
    /// (256 MiB together, or fewer if there is no memory for them). So the winner is the fastest
    /// for operands that are read from device memory.
    ///
    /// The result of each candidate, in memory that is full of NaN before, is compared with that of
    /// the cost model's choice. Candidates whose estimate is more than eight times the best one are
    /// not measured. Those that fail, as for want of scratch memory, are left out, with a `tracing`
    /// warning.
    ///
    /// The winner is stored in a file for this GPU, driver and version of the crate, which later
    /// processes read. The file is in the directory that the environment variable
    /// `WARPSMITH_TUNING_DIR` names (if it is empty, nothing is stored), else in `warpsmith` in the
    /// user's cache directory. If the file cannot be read or written, that is a `tracing` warning,
    /// never an error.
    ///
    /// Blocks until the measurements are done.
    ///
    /// # Errors
    /// See [`Gemm`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(GemmDesc::OPERATION, || {
            let extents = self.validate(stream)?;
            let d = Tensor::empty(stream, &extents.shape())?;
            self.tune(&extents, &d, stream)
        })
    }

    /// [`autotune`](Self::autotune) for results that [`run_into`](Self::run_into) writes to a `d`
    /// of this layout and alignment. `d` itself is not written: the results go to scratch memory.
    ///
    /// # Errors
    /// As [`autotune`](Self::autotune).
    pub fn autotune_into(&self, d: &Tensor<Out>, stream: &Stream) -> Result<Tuning> {
        named(GemmDesc::OPERATION, || {
            let extents = self.validate_into(d, stream)?;
            self.tune(&extents, &plan::like(d, stream)?, stream)
        })
    }

    fn tune(&self, extents: &Extents, d: &Tensor<Out>, stream: &Stream) -> Result<Tuning> {
        if d.is_empty() {
            return Ok(Tuning::empty());
        }
        let operands = self.operands(extents, stream)?;
        match self.orientation(d.layout()) {
            Some(Transpose::N) => self.tune_rows(&operands, extents, d, stream),
            Some(Transpose::T) => {
                let (operands, extents) = (operands.transposed(), extents.transposed());
                self.tune_rows(&operands, &extents, &d.t(), stream)
            }
            None => {
                let rows = Tensor::empty(stream, d.shape())?;
                self.tune_rows(&operands, extents, &rows, stream)
            }
        }
    }

    /// Tunes for a row-major `d`, which is overwritten.
    fn tune_rows<X: Element, Y: Element>(
        &self,
        operands: &Operands<X, Y, Out>,
        extents: &Extents,
        d: &Tensor<Out>,
        stream: &Stream,
    ) -> Result<Tuning> {
        let layout = matrix_desc(d, is_by_rows);
        let desc = operands.describe(extents, layout, &self.description())?;
        let call = operands.call(desc, Memory::of(d), stream)?;
        let calls = plan::rotation(call.clone(), desc.bytes() as u64, stream, || {
            let d = Memory::of(&plan::like(d, stream)?);
            operands.copied(stream)?.call(desc, d, stream)
        })?;
        let blank = Out::rounded_from(f64::NAN);
        plan::tune(
            &desc,
            stream,
            &calls,
            |candidate| plan::answer(d, blank, stream, || candidate.launch(&call)),
            |want, got| {
                let [want, got] = [want, got].map(|all| all.iter().map(|x| x.widened()));
                plan::agree_within(want, got, error(&desc))
            },
        )
    }
}

/// By how much results of two kernels may differ, relative to the largest result: sums over k by
/// twice the rounding error of the arithmetic.
fn error(desc: &GemmDesc) -> f64 {
    let k = f64::from(desc.k);
    let of_sums = match (desc.a.dtype, desc.precision) {
        (DType::E4m3 | DType::E5m2, _) if desc.fast_accumulation => 2f64.powi(-4),
        (DType::E4m3 | DType::E5m2, _) => 2f64.powi(-6),
        (DType::I8, _) => 0.0,
        (_, Precision::Tf32) => 2f64.powi(-8),
        (DType::F64, _) => 2f64.powi(-51) * k.max(16.0),
        _ => 2f64.powi(-22) * k.max(16.0),
    };
    let of_output = match desc.d.dtype {
        DType::F16 => 2f64.powi(-10),
        DType::Bf16 => 2f64.powi(-7),
        DType::F64 => 2f64.powi(-51),
        DType::I32 => 0.0,
        _ => 2f64.powi(-22),
    };
    of_sums + of_output
}
