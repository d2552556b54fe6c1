//! Autotuning: measures the candidates of an operation.

use super::{Candidate, Choice, Desc, MachineModel, all, choose};
use crate::element::{as_bytes, as_bytes_mut};
use crate::{DType, DeviceError, Element, Error, Result, Stream, Tensor};
use half::{bf16, f16};
use std::fmt;
use std::time::Duration;

/// Candidates whose estimate exceeds the least one by more than this factor are not measured.
const HOPELESS: f64 = 8.0;

/// Measurements per candidate; their median counts.
const SAMPLES: usize = 7;

/// Duration of a measurement on a GPU to aim for, so that events resolve it.
const SAMPLE_NS: f64 = 500_000.0;

/// Most launches of a measurement.
const MOST_LAUNCHES: f64 = 64.0;

/// Total size of the copies of operands: a few times the L2 of today's GPUs (40 to 126 MB).
const COLD_BYTES: u64 = 256 << 20;

/// Most copies. Operands of which so many fit into L2 are so small that reading them counts little.
const COPIES_MAX: u64 = 128;

/// Copies keep addresses modulo this, the alignment of allocations.
const KEPT_ALIGN_BYTES: usize = 256;

/// The measurements of an operation's `autotune`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    description: String,
    measured: Vec<Measured>,
}

/// The measurement of one candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The candidate.
    pub candidate: Candidate,
    /// Median of its measured times.
    pub time: Duration,
    /// Whether its result agrees with that of the cost model's choice. A candidate whose result
    /// differs is never chosen.
    pub agrees: bool,
}

impl Tuning {
    /// The tuning of an operation that has nothing to compute.
    pub(in crate::ops) fn empty() -> Self {
        Self {
            description: "nothing to compute".into(),
            measured: Vec::new(),
        }
    }

    /// The operation and its description, as in the file of tuned choices.
    pub fn description(&self) -> &str {
        &self.description
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

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)?;
        for measured in &self.measured {
            let wrong = if measured.agrees { "" } else { ", WRONG" };
            let Measured {
                candidate, time, ..
            } = measured;
            write!(f, "\n{time:?}{wrong}: {candidate}")?;
        }
        Ok(())
    }
}

/// Measures the candidates of `desc`, and makes the fastest one its choice.
///
/// The candidates take turns, with launches that rotate through `calls`: see [`rotation`]. `answer`
/// launches a candidate on the first call and reads what it wrote; `agree` compares two answers.
pub(in crate::ops) fn tune<D: Desc, A: Clone>(
    desc: &D,
    stream: &Stream,
    calls: &[<D::Candidate as Choice>::Call<'_>],
    answer: impl FnMut(&D::Candidate) -> Result<A>,
    agree: impl Fn(&A, &A) -> bool,
) -> Result<Tuning> {
    let device = stream.device();
    let mut candidates = all(desc, device.info(), MachineModel::of(device.info()));
    let estimates = candidates.iter().map(Choice::estimated_ns);
    let least = estimates.fold(f64::INFINITY, f64::min);
    candidates.retain(|each| each.is_preferred() || each.estimated_ns() <= HOPELESS * least);
    if candidates.is_empty() {
        return choose(desc, None, stream).map(|_| Tuning::empty());
    }
    let mut trials = judged(candidates, answer, agree)?;
    measure(&mut trials, calls, stream)?;
    trials.sort_by_key(Trial::median);
    // The first one that ran agrees with itself, unless it failed later.
    let winner = trials.iter().find(|trial| trial.agrees);
    let winner = winner.ok_or(Error::Bug("no candidate agrees with itself"))?;
    device.plans().keep(desc, winner.candidate, device.info());
    Ok(Tuning {
        description: format!("{} {desc}", desc.operation()),
        measured: trials.iter().map(Measured::from).collect(),
    })
}

/// `first`, and as many copies of it as L2 cannot hold together, of `bytes` bytes each. Fewer if
/// there is no memory for them; `first` alone on the emulator, which has no L2.
pub(in crate::ops) fn rotation<C>(
    first: C,
    bytes: u64,
    stream: &Stream,
    mut copy: impl FnMut() -> Result<C>,
) -> Result<Vec<C>> {
    let mut calls = vec![first];
    if stream.device().is_emulator() {
        return Ok(calls);
    }
    let copies = COLD_BYTES.div_ceil(bytes.max(1));
    for _ in 1..copies.min(COPIES_MAX) {
        match copy() {
            Ok(copy) => calls.push(copy),
            Err(Error::Device(DeviceError::OutOfMemory { .. })) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(calls)
}

/// Uninitialised memory with the shape, the strides and the alignment of `x`.
pub(in crate::ops) fn like<T: Element>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    let Some((first, last)) = x.layout().bounds() else {
        return Tensor::empty(stream, x.shape());
    };
    // New memory is aligned to as much as `alignment_bytes` tells.
    let aligned = KEPT_ALIGN_BYTES / size_of::<T>();
    let place = x.device_ptr().as_raw() as usize / size_of::<T>() % aligned;
    let before = (x.offset() as i128 - first) as usize;
    let offset = before + (place + aligned - before % aligned) % aligned;
    let behind = (last - x.offset() as i128) as usize;
    let storage = Tensor::empty(stream, &[offset + behind + 1])?;
    storage.as_strided(x.shape(), x.strides(), offset)
}

/// A copy of `x` with its strides and alignment; `x` itself if its elements overlap.
pub(in crate::ops) fn copied<T: Element>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    if !x.is_injective() {
        return Ok(x.clone());
    }
    let copy = like(x, stream)?;
    copy.assign(x, stream)?;
    Ok(copy)
}

/// What `launch` writes to `d`. Elements that it does not write are `blank`.
pub(in crate::ops) fn answer<T: Element>(
    d: &Tensor<T>,
    blank: T,
    stream: &Stream,
    launch: impl FnOnce() -> Result<()>,
) -> Result<Vec<T>> {
    d.fill(blank, stream)?;
    launch()?;
    d.to_vec()
}

/// All bits set: NaN of floats, -1 of integers with a sign.
pub(in crate::ops) fn blank<T: Element>() -> T {
    let mut blank = [T::default()];
    as_bytes_mut(&mut blank).fill(0xff);
    blank[0]
}

/// Floats of 16 bits and more, or integers, for [`agree_within`].
pub(in crate::ops) fn numbers<T: Element>(values: &[T]) -> Vec<f64> {
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        match T::DTYPE {
            DType::F64 => f64::from_bits(bits),
            DType::F32 => f64::from(f32::from_bits(bits as u32)),
            DType::F16 => f16::from_bits(bits as u16).to_f64(),
            DType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            DType::I32 => f64::from(bits as i32),
            _ => bits as i64 as f64,
        }
    };
    as_bytes(values)
        .chunks_exact(size_of::<T>())
        .map(number)
        .collect()
}

/// Whether two results agree up to `error`, relative to the largest finite one. This detects gross
/// errors only: the tight bounds that tests use need the operands.
pub(in crate::ops) fn agree_within(
    want: impl ExactSizeIterator<Item = f64> + Clone,
    got: impl Iterator<Item = f64>,
    error: f64,
) -> bool {
    let finite = want.clone().map(f64::abs).filter(|x| x.is_finite());
    let largest = finite.fold(0.0, f64::max);
    want.zip(got).all(|(want, got)| {
        if !want.is_finite() || !got.is_finite() {
            return want == got || (want.is_nan() && got.is_nan());
        }
        (want - got).abs() <= error * largest
    })
}

/// A candidate that ran, and its measured times.
struct Trial<C> {
    candidate: C,
    agrees: bool,
    times: Vec<Duration>,
}

impl<C: Choice> Trial<C> {
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
        let launches = (SAMPLE_NS / self.candidate.estimated_ns().max(1.0)).ceil();
        launches.min(MOST_LAUNCHES) as usize
    }
}

impl<C: Choice> From<&Trial<C>> for Measured {
    fn from(trial: &Trial<C>) -> Self {
        Self {
            candidate: Candidate::of(&trial.candidate),
            time: trial.median(),
            agrees: trial.agrees,
        }
    }
}

/// Runs each candidate once and compares its answer with the first one's. Those that fail are left
/// out.
///
/// # Errors
/// The first candidate's error, if all fail.
fn judged<C: Choice, A: Clone>(
    candidates: Vec<C>,
    mut answer: impl FnMut(&C) -> Result<A>,
    agree: impl Fn(&A, &A) -> bool,
) -> Result<Vec<Trial<C>>> {
    let mut first: Option<A> = None;
    let mut first_error = None;
    let mut trials = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let got = match answer(&candidate) {
            Ok(got) => got,
            Err(error) => {
                tracing::warn!(%candidate, %error, "a candidate is not measured");
                first_error.get_or_insert(error);
                continue;
            }
        };
        let agrees = agree(first.get_or_insert_with(|| got.clone()), &got);
        if !agrees {
            tracing::error!(%candidate, "a candidate's results are wrong");
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
fn measure<C: Choice>(
    trials: &mut Vec<Trial<C>>,
    calls: &[C::Call<'_>],
    stream: &Stream,
) -> Result<()> {
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

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::super::Shown;
    use super::*;
    use crate::{Device, LaunchConfig};

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Numbered(u32);

    impl fmt::Display for Numbered {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "candidate{}", self.0)
        }
    }

    impl Choice for Numbered {
        type Call<'a> = ();

        fn estimated_ns(&self) -> f64 {
            f64::from(self.0)
        }

        fn shown(&self) -> Shown {
            Shown {
                entry: self.to_string(),
                tile: [0; 3],
                split: 1,
                config: LaunchConfig::linear(1, 1),
            }
        }

        fn launch(&self, _: &()) -> Result<()> {
            Ok(())
        }
    }

    const ALL: [Numbered; 3] = [Numbered(1), Numbered(2), Numbered(3)];

    fn out_of_memory() -> Error {
        Error::Device(DeviceError::OutOfMemory {
            device: "a GPU".into(),
            requested_bytes: 2,
            free_bytes: 1,
        })
    }

    fn agree(want: &[f32], got: &[f32]) -> bool {
        let wide = |x: &f32| f64::from(*x);
        agree_within(want.iter().map(wide), got.iter().map(wide), 1e-2)
    }

    #[test]
    fn a_kernel_that_writes_nothing_agrees_with_no_answer() -> Result<()> {
        let stream = Device::emulator()?.stream()?;
        let d = Tensor::empty(&stream, &[64])?;
        let run = |candidate: &Numbered| {
            answer(&d, f32::NAN, &stream, || match candidate {
                Numbered(2) => Ok(()),
                _ => d.fill(1.0, &stream),
            })
        };
        let trials = judged(ALL.to_vec(), run, |x, y| agree(x, y))?;
        let agreeing: Vec<bool> = trials.iter().map(|trial| trial.agrees).collect();
        assert_eq!(agreeing, [true, false, true]);
        Ok(())
    }

    #[test]
    fn a_candidate_that_fails_is_left_out_unless_all_do() -> Result<()> {
        let run = |candidate: &Numbered| match candidate {
            Numbered(1) => Err(out_of_memory()),
            _ => Ok(vec![1.0_f32]),
        };
        let trials = judged(ALL.to_vec(), run, |x, y| agree(x, y))?;
        let left = trials.iter().map(|trial| trial.candidate);
        assert_eq!(left.collect::<Vec<_>>(), ALL[1..]);
        assert!(trials.iter().all(|trial| trial.agrees));
        let none = judged(
            ALL.to_vec(),
            |_| Err::<Vec<f32>, _>(out_of_memory()),
            |x, y| agree(x, y),
        );
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
        let want = [1.0, -2.0, f32::NAN, f32::INFINITY];
        assert!(agree(&want, &want));
        assert!(agree(&want, &[1.004, -1.99, f32::NAN, f32::INFINITY]));
        for wrong in [
            [1.1, -2.0, f32::NAN, f32::INFINITY],
            [1.0, -2.0, 0.0, f32::INFINITY],
            [1.0, f32::NAN, f32::NAN, f32::INFINITY],
            [1.0, -2.0, f32::NAN, f32::NEG_INFINITY],
        ] {
            assert!(!agree(&want, &wrong), "{wrong:?}");
        }
    }
}
