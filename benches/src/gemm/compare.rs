//! One case: operands, both sides, times, and whether their answers agree.

use half::{bf16, f16};
use warpsmith::{E4m3, Float, GemmInput};

use super::cases::{Beside, Case, Precision};
use super::library;
use super::product::Product;
use super::triton::Triton;
use crate::cublaslt::CublasLt;
use crate::error::Result;
use crate::inputs::Sample;
use crate::machine::Machine;
use crate::opponent::{Opponent, fastest, split};
use crate::results::{Row, Side, Unit};
use crate::timing::{Measured, Schedule, Timer, copies};

/// What all cases of a run share.
pub(super) struct Bench<'a> {
    pub(super) timer: Timer,
    pub(super) library: Option<CublasLt>,
    pub(super) triton: Option<Triton>,
    pub(super) machine: Machine,
    pub(super) repetitions: usize,
    /// Begin of the names of the kernels of ours to choose from.
    pub(super) kernel: Option<&'a str>,
    /// How many of them are tried.
    pub(super) tried: usize,
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

    /// Whether `case` may get a peer.
    pub(super) fn has_peer(&self, case: &Case) -> bool {
        match case.beside {
            Beside::Library => self.library.is_some(),
            Beside::Triton => self.triton.is_some(),
            Beside::PlainOfOurs => true,
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
        let product = Product::<In, Out>::new(case, stream.device(), copies)?;
        let opponent = match case.beside {
            Beside::Library => match &self.library {
                Some(library) => library::fastest(library, &product, &self.timer)?,
                None => None,
            },
            Beside::Triton => match &self.triton {
                Some(triton) => triton.fastest(&product, &self.timer)?,
                None => None,
            },
            Beside::PlainOfOurs => Some(product.plain(stream)),
        };
        let does_the_same = opponent.is_some() && case.beside != Beside::PlainOfOurs;
        let sides = std::iter::once(self.ours(&product)?).chain(opponent);
        let (mut works, names) = split(sides.collect());
        let schedule = self.timer.plan(self.repetitions, copies, &mut works)?;
        let measured = self.timer.interleaved(&schedule, &mut works)?;
        let difference = match does_the_same {
            true => Some(product.difference(&mut works, stream)?),
            false => None,
        };
        let sides = names.into_iter().zip(&measured.times);
        let sides = sides.map(|((name, choice), times)| Side::new(&name, choice, times));
        Ok(self.filled(case, &schedule, &measured, sides.collect(), difference))
    }

    /// Ours by the best of the kernels that it may choose from.
    fn ours<'a, In, Out>(&'a self, product: &'a Product<In, Out>) -> Result<Opponent<'a>>
    where
        In: GemmInput<Output = Out> + Sample,
        Out: Float + Sample,
    {
        let stream = self.timer.stream();
        let begin = self.kernel.or(product.case.kernel);
        if begin.is_none() && self.tried < 2 {
            return product.chosen(stream);
        }
        let begin = begin.unwrap_or_default();
        let mut kernels = product.kernels(stream)?;
        // A whole name is meant for itself, not for those that begin with it.
        match kernels.iter().any(|name| name == begin) {
            true => kernels.retain(|name| name == begin),
            false => kernels.retain(|name| name.starts_with(begin)),
        }
        kernels.truncate(self.tried.max(1));
        let ours = kernels
            .into_iter()
            .map(|kernel| product.by_kernel(kernel, stream));
        let best = fastest(&self.timer, product.copies.len(), ours.collect())?;
        // An unknown name is refused when it is called, with those that are known.
        Ok(best.unwrap_or_else(|| product.by_kernel(begin.to_owned(), stream)))
    }

    fn filled(
        &self,
        case: &Case,
        schedule: &Schedule,
        measured: &Measured,
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
        let (input, is_tf32) = (case.precision.input(), case.precision == Precision::Tf32);
        Row {
            set: case.set.to_owned(),
            case: case.to_string(),
            flops,
            bytes,
            ours,
            peer: sides.next(),
            slower_peers: Vec::new(),
            unit: Unit::Flops,
            bounds: Vec::new(),
            difference,
            difference_allowed: case.precision.difference_allowed(),
            roofline_flops_per_s: self.machine.roofline(input, is_tf32, flops, bytes),
            sm_clock_mhz: measured.sm_clock_mhz,
            share_of_copy: copied_per_s.map(|rate| weights_per_s / rate),
            launches: schedule.launches,
            copies: schedule.copies,
            repetitions: schedule.repetitions,
            target: case.target,
        }
    }
}
