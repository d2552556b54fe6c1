//! One case: operands, both sides, times, and whether their answers agree.

use half::{bf16, f16};
use warpsmith::{Activation, Device, E4m3, Float, Gemm, GemmInput, Stream, Tensor};

use super::cases::{Beside, Case, Precision};
use super::peer::Peer;
use crate::cublaslt::{CublasLt, Epilogue};
use crate::error::Result;
use crate::inputs::{Sample, largest_difference, normal_tensor, normals};
use crate::machine::Machine;
use crate::results::{Row, Side};
use crate::timing::{Launch, Schedule, Timer, Times, copies};

/// What all cases of a run share.
pub(super) struct Bench<'a> {
    pub(super) timer: Timer,
    pub(super) library: Option<CublasLt>,
    pub(super) machine: Machine,
    pub(super) repetitions: usize,
    /// The kernel of ours to use, instead of the one that it chooses.
    pub(super) kernel: Option<&'a str>,
}

/// What a launch multiplies: one of the copies.
pub(super) struct Copy<In: Sample, Out: Sample> {
    /// As multiplied: a view where it is stored transposed.
    pub(super) a: Tensor<In>,
    /// As multiplied.
    pub(super) b: Tensor<In>,
    ours: Tensor<Out>,
    /// The other side's answer.
    pub(super) theirs: Tensor<Out>,
}

/// Operands of a case.
pub(super) struct Operands<In: Sample, Out: Sample> {
    /// Of equal values, at different addresses.
    pub(super) copies: Vec<Copy<In, Out>>,
    /// One a column, where the epilogue adds one.
    pub(super) bias: Option<Tensor<Out>>,
    /// Of A and B, where the operands are of 8 bits.
    pub(super) scales: Option<[Tensor<f32>; 2]>,
}

impl Bench<'_> {
    /// Measures `case`.
    pub(super) fn row(&self, case: &Case) -> Result<Row> {
        match case.precision {
            Precision::Bf16 => self.measure::<bf16, bf16>(case),
            Precision::F16 => self.measure::<f16, f16>(case),
            Precision::F32 | Precision::Tf32 => self.measure::<f32, f32>(case),
            Precision::E4m3 | Precision::E4m3Fast => self.measure::<E4m3, bf16>(case),
        }
    }

    fn measure<In, Out>(&self, case: &Case) -> Result<Row>
    where
        In: GemmInput<Output = Out> + Sample,
        Out: Float + Sample,
    {
        let stream = self.timer.stream();
        let l2_bytes = self.machine.l2_bytes;
        let copies = l2_bytes.map_or(1, |l2_bytes| copies(case.bytes(), l2_bytes));
        let operands = Operands::<In, Out>::new(case, stream.device(), copies)?;
        let peer = match (&self.library, case.beside) {
            (Some(library), Beside::Library) => {
                Peer::fastest(library, case, &self.timer, &operands)?
            }
            _ => None,
        };
        let mut works = vec![self.ours(case, &operands)];
        match case.beside {
            Beside::Library => works.extend(peer.as_ref().map(|peer| peer.launch(&operands))),
            Beside::PlainOfOurs => works.push(self.plain(case, &operands)),
        }
        let schedule = self.timer.plan(self.repetitions, copies, &mut works)?;
        let measured = self.timer.interleaved(&schedule, &mut works)?;
        let difference = match peer {
            Some(_) => Some(difference(&operands, &mut works, stream)?),
            None => None,
        };
        drop(works);
        let beside = match (peer, case.beside) {
            (Some(peer), _) => Some((peer.name(), Some(peer.choice()))),
            (None, Beside::PlainOfOurs) => Some(("warpsmith, plain".to_owned(), None)),
            (None, Beside::Library) => None,
        };
        let first = &operands.copies[0];
        let plan = self.gemm(case, &operands, first).plan(stream)?;
        let ours = plan.chosen().map(|candidate| candidate.name.clone());
        let names = std::iter::once(("warpsmith".to_owned(), ours)).chain(beside);
        let side = |((name, choice), times): ((String, _), &Times)| Side::new(&name, choice, times);
        let sides = names.zip(&measured.times).map(side).collect();
        let row = self.filled(case, &schedule, sides, difference);
        Ok(Row {
            sm_clock_mhz: measured.sm_clock_mhz,
            ..row
        })
    }

    fn filled(
        &self,
        case: &Case,
        schedule: &Schedule,
        sides: Vec<Side>,
        difference: Option<f64>,
    ) -> Row {
        let mut sides = sides.into_iter();
        let ours = sides.next().unwrap_or_default();
        let (flops, bytes) = (case.flops(), case.bytes() as f64);
        let weights_per_s = case.weight_bytes() as f64 / ours.ms * 1e3;
        let is_bound_by_weights = case.target.or_share_of_copy.is_some();
        let copied_per_s = self
            .machine
            .copy_bytes_per_s
            .filter(|_| is_bound_by_weights);
        let is_tf32 = case.precision == Precision::Tf32;
        Row {
            set: case.set.to_owned(),
            case: case.to_string(),
            flops,
            bytes,
            ours,
            peer: sides.next(),
            difference,
            difference_allowed: case.precision.difference_allowed(),
            roofline_flops_per_s: self.machine.roofline(
                case.precision.input(),
                is_tf32,
                flops,
                bytes,
            ),
            sm_clock_mhz: None,
            share_of_copy: copied_per_s.map(|rate| weights_per_s / rate),
            launches: schedule.launches,
            copies: schedule.copies,
            repetitions: schedule.repetitions,
            target: case.target,
        }
    }

    /// Ours on one copy, as a user would write it.
    fn gemm<'a, In, Out>(
        &'a self,
        case: &Case,
        operands: &'a Operands<In, Out>,
        Copy { a, b, .. }: &'a Copy<In, Out>,
    ) -> Gemm<'a, In, In, Out>
    where
        In: GemmInput<Output = Out> + Sample,
        Out: Float + Sample,
    {
        let mut gemm = Gemm::new(a, b).fast_accumulation(case.precision == Precision::E4m3Fast);
        if case.precision == Precision::Tf32 {
            gemm = gemm.precision(warpsmith::Precision::Tf32);
        }
        if let Some([scale_a, scale_b]) = &operands.scales {
            gemm = gemm.scale_a_from(scale_a).scale_b_from(scale_b);
        }
        if let Some(bias) = &operands.bias {
            gemm = gemm.column_bias(bias).activation(Activation::GeluTanh);
        }
        match self.kernel {
            Some(name) => gemm.with_kernel(name),
            None => gemm,
        }
    }

    fn ours<'a, In, Out>(&'a self, case: &'a Case, operands: &'a Operands<In, Out>) -> Launch<'a>
    where
        In: GemmInput<Output = Out> + Sample,
        Out: Float + Sample,
    {
        Box::new(move |copy| {
            let copy = &operands.copies[copy];
            let gemm = self.gemm(case, operands, copy);
            Ok(gemm.run_into(&copy.ours, self.timer.stream())?)
        })
    }

    /// Ours without the epilogue.
    fn plain<'a, In, Out>(&'a self, case: &'a Case, operands: &'a Operands<In, Out>) -> Launch<'a>
    where
        In: GemmInput<Output = Out> + Sample,
        Out: Float + Sample,
    {
        Box::new(move |copy| {
            let Copy { a, b, theirs, .. } = &operands.copies[copy];
            let fast = case.precision == Precision::E4m3Fast;
            let gemm = Gemm::new(a, b).fast_accumulation(fast);
            Ok(gemm.run_into(theirs, self.timer.stream())?)
        })
    }
}

impl<In: Sample, Out: Sample> Operands<In, Out> {
    fn new(case: &Case, device: &Device, copies: usize) -> Result<Self> {
        let [a, b, _] = case.elements();
        let (a, b) = (normals::<In>(a, 1), normals::<In>(b, 2));
        let bias = match case.epilogue {
            Epilogue::None => None,
            Epilogue::BiasGelu => Some(normal_tensor(device, &[case.n], 3)?),
        };
        let scale = |value: f32| Tensor::from_slice(device, &[1], &[value]);
        let scales = match case.precision {
            Precision::E4m3 | Precision::E4m3Fast => Some([scale(0.5)?, scale(0.25)?]),
            _ => None,
        };
        let copy = |_| Copy::new(case, device, &a, &b);
        Ok(Self {
            copies: (0..copies).map(copy).collect::<Result<_>>()?,
            bias,
            scales,
        })
    }
}

impl<In: Sample, Out: Sample> Copy<In, Out> {
    fn new(case: &Case, device: &Device, a: &[In], b: &[In]) -> Result<Self> {
        let Case { batch, m, n, k, .. } = *case;
        let of_batch = |[rows, columns]: [usize; 2]| match batch {
            1 => vec![rows, columns],
            _ => vec![batch, rows, columns],
        };
        let operand = |values: &[In], shape: [usize; 2], transposed: bool| -> Result<_> {
            let [rows, columns] = shape;
            let stored = if transposed { [columns, rows] } else { shape };
            let tensor = Tensor::from_slice(device, &of_batch(stored), values)?;
            Ok(if transposed { tensor.t() } else { tensor })
        };
        let answer = || Tensor::empty(&device.default_stream(), &of_batch([m, n]));
        Ok(Self {
            a: operand(a, [m, k], case.layout.trans_a())?,
            b: operand(b, [k, n], case.layout.trans_b())?,
            ours: answer()?,
            theirs: answer()?,
        })
    }
}

/// Runs each side once more, and holds the answers against each other. One that is not written
/// stays not a number.
fn difference<In: Sample, Out: Sample>(
    operands: &Operands<In, Out>,
    works: &mut [Launch<'_>],
    stream: &Stream,
) -> Result<f64> {
    let Copy { ours, theirs, .. } = &operands.copies[0];
    for answer in [ours, theirs] {
        answer.fill(Out::rounded(f32::NAN), stream)?;
    }
    for work in works {
        work(0)?;
    }
    stream.synchronize()?;
    Ok(largest_difference(&ours.to_vec()?, &theirs.to_vec()?))
}
