//! Measuring the candidates of a product.

use super::call::{Call, Memory};
use super::candidates::Candidate;
use super::desc::GemmDesc;
use super::options::{GemmInput, Precision};
use super::plan::{self, GemmCandidate, PlanSource};
use super::{Gemm, operands};
use crate::{DType, Element, Error, Float, Result, Stream, Tensor};
use std::fmt;
use std::time::Duration;

/// Candidates that are expected to take so many times as long as the best are not measured.
const HOPELESS: f64 = 8.0;

/// Measurements of a candidate, of which the median counts.
const SAMPLES: usize = 7;

/// What a measurement on a GPU should last, so that events resolve it.
const SAMPLE_NS: f64 = 500_000.0;

/// Most launches of a measurement.
const MOST_LAUNCHES: f64 = 64.0;

/// What [`Gemm::autotune`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmTuning {
    measured: Vec<Measured>,
}

/// One candidate, and how it did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// Which.
    pub candidate: GemmCandidate,
    /// Median of its times.
    pub time: Duration,
    /// Whether its results agree with those of the cost model's choice. One that does not is never
    /// chosen.
    pub agrees: bool,
}

impl GemmTuning {
    /// All that were measured, the fastest first.
    pub fn measured(&self) -> &[Measured] {
        &self.measured
    }

    /// What runs from now on; `None` where there is nothing to compute.
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
    /// Measures the candidates on these operands and takes the fastest from now on, for every
    /// product of the same extents, layouts and options on this kind of device.
    ///
    /// Each is held against the answer of the cost model's choice first. The winner is kept in a
    /// file for this GPU, driver and version, which later processes read: in the folder that the
    /// environment variable `WARPSMITH_TUNING_DIR` names (empty: nowhere), else in `warpsmith` of
    /// the user's cache folder. Trouble with the file is a warning (`tracing`), never an error.
    /// Candidates that are expected to take eight times as long as the best are left out.
    ///
    /// Waits for the device.
    ///
    /// # Errors
    /// See [`Gemm`]; also a fault of a kernel, which shows here.
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

/// The median time of one launch.
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

/// Whether two answers are the same up to the roundings of any kernel. A check against gross
/// errors: the bounds that tests hold kernels to need the operands.
///
/// Sums of k products differ by what the arithmetic loses of the largest result, twice.
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
