//! Autotuning: measures the candidates of a GEMM.

use super::call::{Call, Memory};
use super::candidates::Candidate;
use super::desc::GemmDesc;
use super::options::{GemmInput, Precision};
use super::plan::{self, GemmCandidate, PlanSource};
use super::{Gemm, operands};
use crate::{DType, Element, Error, Float, Result, Stream, Tensor};
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

impl<A: GemmInput<B>, B: Element, Out: Float> Gemm<'_, A, B, Out> {
    /// Measures the candidates with these operands, and makes the fastest one the choice for every
    /// GEMM with the same extents, layouts and options on this kind of device.
    ///
    /// The result of each candidate is compared with that of the cost model's choice. Candidates
    /// whose estimate is more than eight times the best one are not measured.
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
    /// See [`Gemm`]; also the fault of a kernel.
    pub fn autotune(&self, stream: &Stream) -> Result<GemmTuning> {
        let extents = self.validate(stream)?;
        let d = Tensor::<Out>::empty(stream, &extents.shape())?;
        if d.is_empty() {
            return Ok(GemmTuning {
                measured: Vec::new(),
            });
        }
        let operands = self.operands(&extents, stream)?;
        let layout = operands::matrix_desc(&d, operands::is_by_rows);
        let desc = operands.describe(&extents, layout, &self.options())?;
        let call = operands.call(desc, Memory::of(&d), stream)?;
        let device = stream.device();
        let all = plan::all(&desc, device.info());
        let Some(best) = all.first().map(|candidate| candidate.estimated_ns) else {
            return plan::choose(&desc, None, stream).map(|_| GemmTuning {
                measured: Vec::new(),
            });
        };
        let mut answer: Option<Vec<Out>> = None;
        let mut found: Vec<(Candidate, Measured)> = Vec::new();
        for candidate in all {
            if candidate.estimated_ns > HOPELESS * best {
                continue;
            }
            candidate.launch(&call)?;
            let results = d.to_vec()?;
            let agrees = match &answer {
                None => true,
                Some(answer) => agree(answer, &results, &desc),
            };
            if !agrees {
                tracing::error!(%candidate, product = %desc, "a candidate's results are wrong");
            }
            answer.get_or_insert(results);
            let measured = Measured {
                candidate: GemmCandidate::from(&candidate),
                time: measure(&candidate, &call)?,
                agrees,
            };
            found.push((candidate, measured));
        }
        found.sort_by_key(|(_, measured)| measured.time);
        // The first one agrees with itself, so there is one.
        let winner = found.iter().find(|(_, measured)| measured.agrees);
        let (winner, _) = winner.ok_or(Error::Bug("no candidate agrees with itself"))?;
        device.gemm().keep(&desc, *winner, device.info());
        device.gemm().remember(&desc, *winner, PlanSource::Tuned);
        let measured = found.into_iter().map(|(_, measured)| measured).collect();
        Ok(GemmTuning { measured })
    }
}

/// Median time of one launch.
fn measure(candidate: &Candidate, call: &Call<'_>) -> Result<Duration> {
    let stream = call.stream;
    let (samples, launches) = match stream.device().is_emulator() {
        true => (1, 1),
        false => {
            let launches = (SAMPLE_NS / candidate.estimated_ns.max(1.0)).ceil();
            (SAMPLES, launches.min(MOST_LAUNCHES) as u32)
        }
    };
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        let start = stream.record()?;
        for _ in 0..launches {
            candidate.launch(call)?;
        }
        let end = stream.record()?;
        end.synchronize()?;
        let ms = f64::from(start.elapsed_ms(&end)?) / f64::from(launches);
        times.push(Duration::from_secs_f64(ms.max(0.0) / 1e3));
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// Whether two results agree up to rounding differences between kernels. This detects gross errors
/// only: the tight bounds that tests use need the operands.
///
/// Sums over k may differ by twice the rounding error of the arithmetic, relative to the largest
/// result.
fn agree<Out: Float>(want: &[Out], got: &[Out], desc: &GemmDesc) -> bool {
    let largest = want.iter().map(|x| x.to_f32().abs());
    let largest = f64::from(largest.filter(|x| x.is_finite()).fold(0.0, f32::max));
    let k = f64::from(desc.k);
    let of_sums = match (desc.a.dtype, desc.precision) {
        (DType::E4m3 | DType::E5m2, _) if desc.fast_accumulation => 2f64.powi(-4),
        (DType::E4m3 | DType::E5m2, _) => 2f64.powi(-6),
        (_, Precision::Tf32) => 2f64.powi(-8),
        _ => 2f64.powi(-22) * k.max(16.0),
    };
    let of_output = match desc.d.dtype {
        DType::F16 => 2f64.powi(-10),
        DType::Bf16 => 2f64.powi(-7),
        _ => 2f64.powi(-22),
    };
    want.iter().zip(got).all(|(want, got)| {
        let (want, got) = (want.to_f32(), got.to_f32());
        if !want.is_finite() || !got.is_finite() {
            return want == got || (want.is_nan() && got.is_nan());
        }
        let (want, got) = (f64::from(want), f64::from(got));
        (want - got).abs() <= (of_sums + of_output) * largest
    })
}

#[cfg(test)]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use half::bf16;

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
