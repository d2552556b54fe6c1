//! Autotuning: measures the candidates of a GEMM.

use super::call::{Call, Memory};
use super::candidates::Candidate;
use super::desc::GemmDesc;
use super::operands::{Operands, is_by_rows, matrix_desc};
use super::options::{GemmInput, GemmOutput, Precision};
use super::plan::{self, GemmCandidate, PlanSource};
use super::shape::{Extents, orientation};
use super::{Gemm, cold};
use crate::{DType, Element, Error, Result, Stream, Tensor};
use abi::gemm::Transpose;
use std::fmt;
use std::time::Duration;

/// Candidates whose estimate exceeds the best one by more than this factor are not measured.
const HOPELESS: f64 = 8.0;

/// Measurements per candidate; their median counts.
const SAMPLES: usize = 7;

/// Duration of a measurement on a GPU to aim for, so that events resolve it.
const SAMPLE_NS: f64 = 500_000.0;

/// Most launches of a measurement.
const MOST_LAUNCHES: f64 = 64.0;

/// The measurements of [`Gemm::autotune`].
#[derive(Clone, Debug, PartialEq)]
pub struct GemmTuning {
    measured: Vec<Measured>,
}

/// The measurement of one candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The candidate.
    pub candidate: GemmCandidate,
    /// Median of its measured times.
    pub time: Duration,
    /// Whether its result agrees with that of the cost model's choice. A candidate whose result
    /// differs is never chosen.
    pub agrees: bool,
}

impl GemmTuning {
    /// The tuning of a GEMM without elements.
    fn empty() -> Self {
        Self {
            measured: Vec::new(),
        }
    }

    /// All measured candidates, the fastest first.
    pub fn measured(&self) -> &[Measured] {
        &self.measured
    }

    /// The candidate that runs from now on; `None` if there is nothing to compute.
    pub fn chosen(&self) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.agrees)
    }
}

impl fmt::Display for GemmTuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, measured) in self.measured.iter().enumerate() {
            let separator = if idx == 0 { "" } else { "\n" };
            let wrong = if measured.agrees { "" } else { ", WRONG" };
            let Measured {
                candidate, time, ..
            } = measured;
            write!(f, "{separator}{time:?}{wrong}: {candidate}")?;
        }
        Ok(())
    }
}

impl<A: GemmInput<B>, B: Element, Out: GemmOutput> Gemm<'_, A, B, Out> {
    /// Measures the candidates with these operands, and makes the fastest one the choice for every
    /// GEMM with the same extents, layouts and options on this kind of device, with the result in a
    /// new tensor, as [`run`](Self::run) returns it.
    ///
    /// The candidates take turns. Launches rotate through copies of operands that L2 could hold
    /// (256 MiB together, or fewer if there is no memory for them), so that the winner is the
    /// fastest for operands that are read from device memory.
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
    pub fn autotune(&self, stream: &Stream) -> Result<GemmTuning> {
        let extents = self.validate(stream)?;
        let d = Tensor::empty(stream, &extents.shape())?;
        self.tune(&extents, &d, stream)
    }

    /// [`autotune`](Self::autotune) for results that [`run_into`](Self::run_into) writes to a `d`
    /// of this layout and alignment. `d` itself is not written: the results go to scratch memory.
    ///
    /// # Errors
    /// As [`autotune`](Self::autotune).
    pub fn autotune_into(&self, d: &Tensor<Out>, stream: &Stream) -> Result<GemmTuning> {
        let extents = self.validate_into(d, stream)?;
        self.tune(&extents, &like(d, stream)?, stream)
    }

    fn tune(&self, extents: &Extents, d: &Tensor<Out>, stream: &Stream) -> Result<GemmTuning> {
        if d.is_empty() {
            return Ok(GemmTuning::empty());
        }
        let operands = self.operands(extents, stream)?;
        match orientation(d.layout()) {
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
    ) -> Result<GemmTuning> {
        let layout = matrix_desc(d, is_by_rows);
        let desc = operands.describe(extents, layout, &self.options())?;
        let call = operands.call(desc, Memory::of(d), stream)?;
        let device = stream.device();
        let mut candidates = plan::all(&desc, device.info());
        let Some(best) = candidates.first().map(|candidate| candidate.estimated_ns) else {
            return plan::choose(&desc, None, stream).map(|_| GemmTuning::empty());
        };
        candidates.retain(|candidate| candidate.estimated_ns <= HOPELESS * best);
        let mut trials = judged(candidates, &desc, |candidate| {
            answer(d, stream, || candidate.launch(&call))
        })?;
        measure(&mut trials, &cold::rotation(&call)?)?;
        trials.sort_by_key(Trial::median);
        // The first one that ran agrees with itself, unless it failed later.
        let winner = trials.iter().find(|trial| trial.agrees);
        let winner = winner.ok_or(Error::Bug("no candidate agrees with itself"))?;
        device.gemm().keep(&desc, winner.candidate, device.info());
        device
            .gemm()
            .remember(&desc, winner.candidate, PlanSource::Tuned);
        Ok(GemmTuning {
            measured: trials.iter().map(Measured::from).collect(),
        })
    }
}

/// Uninitialised memory with the shape, the strides and the alignment of `d`.
fn like<Out: GemmOutput>(d: &Tensor<Out>, stream: &Stream) -> Result<Tensor<Out>> {
    let Some((first, last)) = d.layout().bounds() else {
        return Tensor::empty(stream, d.shape());
    };
    // New memory is aligned to as much as `alignment_bytes` tells.
    let aligned = 256 / size_of::<Out>();
    let place = d.device_ptr().as_raw() as usize / size_of::<Out>() % aligned;
    let before = (d.offset() as i128 - first) as usize;
    let offset = before + (place + aligned - before % aligned) % aligned;
    let behind = (last - d.offset() as i128) as usize;
    let storage = Tensor::empty(stream, &[offset + behind + 1])?;
    storage.as_strided(d.shape(), d.strides(), offset)
}

/// A candidate that ran, and its measured times.
struct Trial {
    candidate: Candidate,
    agrees: bool,
    times: Vec<Duration>,
}

impl Trial {
    fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }

    /// Launches between two events.
    fn launches(&self, is_emulator: bool) -> usize {
        if is_emulator {
            return 1;
        }
        let launches = (SAMPLE_NS / self.candidate.estimated_ns.max(1.0)).ceil();
        launches.min(MOST_LAUNCHES) as usize
    }
}

impl From<&Trial> for Measured {
    fn from(trial: &Trial) -> Self {
        Self {
            candidate: GemmCandidate::from(&trial.candidate),
            time: trial.median(),
            agrees: trial.agrees,
        }
    }
}

/// What `launch` writes to `d`. Elements that it does not write are NaN.
fn answer<Out: GemmOutput>(
    d: &Tensor<Out>,
    stream: &Stream,
    launch: impl FnOnce() -> Result<()>,
) -> Result<Vec<Out>> {
    d.fill(Out::rounded_from(f64::NAN), stream)?;
    launch()?;
    d.to_vec()
}

/// Runs each candidate once and compares its answer with the first one's. Those that fail are left
/// out.
///
/// # Errors
/// The first candidate's error, if all fail.
fn judged<Out: GemmOutput>(
    candidates: Vec<Candidate>,
    desc: &GemmDesc,
    mut answer: impl FnMut(&Candidate) -> Result<Vec<Out>>,
) -> Result<Vec<Trial>> {
    let mut first: Option<Vec<Out>> = None;
    let mut first_error = None;
    let mut trials = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let got = match answer(&candidate) {
            Ok(got) => got,
            Err(error) => {
                tracing::warn!(%candidate, product = %desc, %error, "a candidate is not measured");
                first_error.get_or_insert(error);
                continue;
            }
        };
        let agrees = agree(first.get_or_insert_with(|| got.clone()), &got, desc);
        if !agrees {
            tracing::error!(%candidate, product = %desc, "a candidate's results are wrong");
        }
        trials.push(Trial {
            candidate,
            agrees,
            times: Vec::with_capacity(SAMPLES),
        });
    }
    match first_error {
        Some(error) if trials.is_empty() => Err(error),
        _ => Ok(trials),
    }
}

/// Measures the trials in turns, in another order each time, with launches that rotate through
/// `calls`. Every other time they go backwards: what runs before a trial decides how fast the device
/// is. Those that fail are dropped.
///
/// # Errors
/// The last one's error, if all fail.
fn measure(trials: &mut Vec<Trial>, calls: &[Call<'_>]) -> Result<()> {
    let Some(stream) = calls.first().map(|call| call.stream) else {
        return Ok(());
    };
    let is_emulator = stream.device().is_emulator();
    let samples = if is_emulator { 1 } else { SAMPLES };
    let mut next = calls.iter().cycle();
    for sample in 0..samples {
        let count = trials.len();
        let order = (0..count).map(|place| match (place + sample) % count {
            next if sample % 2 == 1 => count - 1 - next,
            next => next,
        });
        let mut events = vec![stream.record()?];
        let (mut failed, mut last_error) = (Vec::new(), None);
        for idx in order.clone() {
            let Trial { candidate, .. } = &trials[idx];
            let mut launched = next.by_ref().take(trials[idx].launches(is_emulator));
            if let Err(error) = launched.try_for_each(|call| candidate.launch(call)) {
                tracing::warn!(%candidate, %error, "a candidate is not measured");
                failed.push(idx);
                last_error = Some(error);
            }
            events.push(stream.record()?);
        }
        stream.synchronize()?;
        for (idx, pair) in order.zip(events.windows(2)) {
            let trial = &mut trials[idx];
            let launches = trial.launches(is_emulator) as f64;
            let ms = f64::from(pair[0].elapsed_ms(&pair[1])?) / launches;
            trial.times.push(Duration::from_secs_f64(ms.max(0.0) / 1e3));
        }
        let mut idx = 0..count;
        trials.retain(|_| idx.next().is_some_and(|idx| !failed.contains(&idx)));
        if let Some(error) = last_error.filter(|_| trials.is_empty()) {
            return Err(error);
        }
    }
    Ok(())
}

/// Whether two results agree up to rounding differences between kernels. This detects gross errors
/// only: the tight bounds that tests use need the operands.
///
/// Sums over k may differ by twice the rounding error of the arithmetic, relative to the largest
/// result.
fn agree<Out: GemmOutput>(want: &[Out], got: &[Out], desc: &GemmDesc) -> bool {
    let largest = want.iter().map(|x| x.widened().abs());
    let largest = largest.filter(|x| x.is_finite()).fold(0.0, f64::max);
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
    want.iter().zip(got).all(|(want, got)| {
        let (want, got) = (want.widened(), got.widened());
        if !want.is_finite() || !got.is_finite() {
            return want == got || (want.is_nan() && got.is_nan());
        }
        (want - got).abs() <= (of_sums + of_output) * largest
    })
}

#[cfg(test)]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::{Device, DeviceError, DeviceInfo};
    use half::bf16;

    fn candidates(desc: &GemmDesc, device: &DeviceInfo) -> Vec<Candidate> {
        let candidates = plan::all(desc, device);
        assert!(candidates.len() >= 3, "{}", candidates.len());
        candidates
    }

    fn out_of_memory() -> Error {
        Error::Device(DeviceError::OutOfMemory {
            device: "a GPU".into(),
            requested_bytes: 2,
            free_bytes: 1,
        })
    }

    #[test]
    fn a_kernel_that_writes_nothing_agrees_with_no_answer() -> Result<()> {
        let stream = Device::emulator()?.stream()?;
        let ones = Tensor::full(&stream, &[64, 1024], 1.0_f32)?;
        let d = Tensor::empty(&stream, &[64, 64])?;
        let desc = plain(DType::F32, 64, 64, 1024);
        let mut launches = 0;
        let trials = judged(candidates(&desc, stream.device().info()), &desc, |_| {
            launches += 1;
            answer(&d, &stream, || match launches {
                2 => Ok(()),
                _ => Gemm::new(&ones, &ones.t()).run_into(&d, &stream),
            })
        })?;
        let agreeing: Vec<bool> = trials.iter().map(|trial| trial.agrees).collect();
        assert!(agreeing[0] && !agreeing[1], "{agreeing:?}");
        assert!(agreeing[2..].iter().all(|&agrees| agrees), "{agreeing:?}");
        Ok(())
    }

    #[test]
    fn a_candidate_that_fails_is_left_out_unless_all_do() -> Result<()> {
        let desc = plain(DType::F32, 64, 64, 1024);
        let device = Device::emulator()?;
        let all = candidates(&desc, device.info());
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let trials = judged(all.clone(), &desc, |candidate| {
            match candidate.to_string() == names[0] {
                true => Err(out_of_memory()),
                false => Ok(vec![1.0_f32]),
            }
        })?;
        let left = trials.iter().map(|trial| trial.candidate.to_string());
        assert_eq!(left.collect::<Vec<_>>(), names[1..]);
        assert!(trials.iter().all(|trial| trial.agrees));
        let none = judged::<f32>(all, &desc, |_| Err(out_of_memory()));
        assert!(matches!(
            none,
            Err(Error::Device(DeviceError::OutOfMemory { .. }))
        ));
        Ok(())
    }

    #[test]
    fn scratch_memory_is_laid_out_and_aligned_as_d_is() -> Result<()> {
        let stream = Device::emulator()?.stream()?;
        let whole = Tensor::<bf16>::zeros(&stream, &[40, 50])?;
        for d in [
            whole.slice(1, 3..20)?,
            whole.slice(0, 1..30)?.t(),
            whole.slice_step(0, .., -1)?,
            whole.slice(0, 3..3)?,
        ] {
            let like = like(&d, &stream)?;
            assert_eq!(like.shape(), d.shape());
            assert!(d.is_empty() || like.strides() == d.strides());
            assert!(d.is_empty() || like.alignment_bytes() == d.alignment_bytes());
            like.fill(bf16::ONE, &stream)?;
        }
        assert!(whole.to_vec()?.iter().all(|&x| x == bf16::ZERO));
        Ok(())
    }

    #[test]
    fn answers_agree_up_to_roundings_and_no_further() {
        let desc = plain(DType::Bf16, 2, 2, 64);
        let values = |x: [f32; 4]| x.map(bf16::from_f32);
        let want = values([1.0, -2.0, f32::NAN, f32::INFINITY]);
        assert!(agree(&want, &want, &desc));
        let near = values([1.004, -1.99, f32::NAN, f32::INFINITY]);
        assert!(agree(&want, &near, &desc));
        for wrong in [
            [1.1, -2.0, f32::NAN, f32::INFINITY],
            [1.0, -2.0, 0.0, f32::INFINITY],
            [1.0, f32::NAN, f32::NAN, f32::INFINITY],
            [1.0, -2.0, f32::NAN, f32::NEG_INFINITY],
        ] {
            assert!(!agree(&want, &values(wrong), &desc), "{wrong:?}");
        }
    }
}
