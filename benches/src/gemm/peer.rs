//! cuBLASLt's fastest algorithm for a case, by measurement.

use warpsmith::DevicePtr;

use super::cases::Case;
use super::compare::{Copy, Operands};
use crate::cublaslt::{self, Algorithm, CublasLt, CublasLtError, Extras, Matmul};
use crate::error::Result;
use crate::inputs::Sample;
use crate::timing::{Launch, Schedule, Timer, Times};

/// How many algorithms the library is asked for. It knows fewer for most products.
const ASKED: usize = 64;
/// After one run each, those that took this much longer than the fastest are left out.
const HOPELESS: f64 = 1.3;

/// Repetitions that the rest are judged by.
const REPETITIONS: usize = 9;

/// One product, and the algorithm that was fastest at it.
pub(super) struct Peer<'lib> {
    library: &'lib CublasLt,
    matmul: Matmul<'lib>,
    algorithm: Algorithm,
    /// How many algorithms were tried.
    tried: usize,
}

impl<'lib> Peer<'lib> {
    /// Measures all algorithms that the library has for `case`; `None` where it has none.
    pub(super) fn fastest<In: Sample, Out: Sample>(
        library: &'lib CublasLt,
        case: &Case,
        timer: &Timer,
        operands: &Operands<In, Out>,
    ) -> Result<Option<Self>> {
        let matmul = Matmul::new(library, case.problem(), extras(operands))?;
        let mut algorithms = match matmul.algorithms(ASKED) {
            Err(CublasLtError::NoAlgorithm(_)) => return Ok(None),
            algorithms => algorithms?,
        };
        // Some are named and refused when they are called.
        algorithms.retain(|algorithm| enqueue(&matmul, algorithm, &operands.copies[0]).is_ok());
        timer.stream().synchronize()?;
        let tried = algorithms.len();
        let once = Schedule {
            warmups: 1,
            repetitions: 1,
            launches: 1,
            copies: operands.copies.len(),
        };
        for is_final in [false, true] {
            let launch = |algorithm: &Algorithm| launch(&matmul, *algorithm, operands);
            let mut works: Vec<Launch<'_>> = algorithms.iter().map(launch).collect();
            let schedule = match is_final {
                false => once,
                true => timer.plan(REPETITIONS, once.copies, &mut works)?,
            };
            let times = timer.interleaved(&schedule, &mut works)?.times;
            drop(works);
            algorithms = by_time(&times, algorithms);
        }
        Ok(algorithms.first().map(|&algorithm| Self {
            library,
            matmul,
            algorithm,
            tried,
        }))
    }

    /// Its runs.
    pub(super) fn launch<'a, In: Sample, Out: Sample>(
        &'a self,
        operands: &'a Operands<In, Out>,
    ) -> Launch<'a> {
        launch(&self.matmul, self.algorithm, operands)
    }

    /// The library's name.
    pub(super) fn name(&self) -> String {
        self.library.name()
    }

    /// Which algorithm it is.
    pub(super) fn choice(&self) -> String {
        format!("heuristic {} of {}", self.algorithm.rank, self.tried)
    }
}

/// The fastest first, the hopeless left out.
fn by_time(times: &[Times], algorithms: Vec<Algorithm>) -> Vec<Algorithm> {
    let medians = times.iter().map(|times| times.median_ms);
    let limit = HOPELESS * medians.clone().fold(f64::INFINITY, f64::min);
    let mut timed: Vec<(f64, Algorithm)> = medians.zip(algorithms).collect();
    timed.retain(|(ms, _)| *ms <= limit);
    timed.sort_by(|x, y| x.0.total_cmp(&y.0));
    timed.into_iter().map(|(_, algorithm)| algorithm).collect()
}

/// The addresses of bias and scales, which live as long as the operands.
fn extras<In: Sample, Out: Sample>(operands: &Operands<In, Out>) -> Extras {
    let bias = operands.bias.as_ref();
    let scales = operands.scales.as_ref();
    Extras {
        bias: bias.map(|bias| bytes(bias.device_ptr())),
        scales: scales.map(|[a, b]| [a.device_ptr(), b.device_ptr()]),
    }
}

fn bytes<T>(address: DevicePtr<T>) -> DevicePtr<u8> {
    DevicePtr::from_raw(address.as_raw())
}

fn launch<'a, In: Sample, Out: Sample>(
    matmul: &'a Matmul<'_>,
    algorithm: Algorithm,
    operands: &'a Operands<In, Out>,
) -> Launch<'a> {
    Box::new(move |copy| enqueue(matmul, &algorithm, &operands.copies[copy]))
}

fn enqueue<In: Sample, Out: Sample>(
    matmul: &Matmul<'_>,
    algorithm: &Algorithm,
    copy: &Copy<In, Out>,
) -> Result<()> {
    let operands = cublaslt::Operands {
        a: bytes(copy.a.device_ptr()),
        b: bytes(copy.b.device_ptr()),
        d: bytes(copy.theirs.device_ptr()),
    };
    // SAFETY: the tensors are those of the case that the product describes, stored without gaps,
    // and outlive the timing, which synchronizes the stream.
    Ok(unsafe { matmul.enqueue(algorithm, operands) }?)
}
