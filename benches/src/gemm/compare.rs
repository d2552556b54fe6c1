//! Measures one case: operands, the contestants, their times, and whether their results agree.

use half::{bf16, f16};
use warpsmith::{E4m3, GemmInput, GemmOutput};

use super::cases::{Beside, Case, Precision};
use super::library;
use super::peers::Peers;
use super::product::Product;
use crate::error::Result;
use crate::inputs::Sample;
use crate::machine::Machine;
use crate::opponent::{Opponent, fastest, promising, split};
use crate::results::{Mode, Row, Side, Unit};
use crate::timing::{Measured, Schedule, Timer, copies};

/// The state that all cases of a run share.
pub(super) struct Bench<'a> {
    pub(super) timer: Timer,
    pub(super) peers: Peers,
    pub(super) machine: Machine,
    pub(super) repetitions: usize,
    /// Prefix of the names of those of our kernels from which to choose.
    pub(super) kernel: Option<&'a str>,
    /// How many of these are measured.
    pub(super) tried: usize,
    /// Whether each of them is measured beside the peer, not only the best one.
    pub(super) all_candidates: bool,
    /// How many algorithms the library is asked for.
    pub(super) heuristics: usize,
}

impl Bench<'_> {
    /// Measures `case`.
    pub(super) fn row(&self, case: &Case) -> Result<Row> {
        match case.precision {
            Precision::Bf16 => self.measure::<bf16, bf16>(case),
            Precision::Bf16F32 => self.measure::<bf16, f32>(case),
            Precision::F16 => self.measure::<f16, f16>(case),
            Precision::F32 | Precision::Tf32 => self.measure::<f32, f32>(case),
            Precision::E4m3 | Precision::E4m3Fast => self.measure::<E4m3, bf16>(case),
            Precision::F64 => self.measure::<f64, f64>(case),
            Precision::Int8 => self.measure::<i8, i32>(case),
        }
    }

    fn measure<In, Out>(&self, case: &Case) -> Result<Row>
    where
        In: GemmInput + Sample,
        Out: GemmOutput + Sample,
    {
        let stream = self.timer.stream();
        let l2_bytes = self.machine.l2_bytes;
        let copies = l2_bytes.map_or(1, |l2_bytes| copies(case.bytes(), l2_bytes));
        let product = Product::<In, Out>::new(case, stream.device(), copies)?;
        let opponents = self.opponents(case, &product)?;
        let ours = self.ours(&product)?;
        let ours_count = ours.len();
        let (mut works, names) = split(ours.into_iter().chain(opponents).collect());
        let schedule = self.timer.plan(self.repetitions, copies, &mut works)?;
        let measured = self.timer.interleaved(&schedule, &mut works)?;
        let mut difference = None;
        if case.beside != Beside::PlainOfOurs {
            let (ours, theirs) = works.split_at_mut(ours_count);
            for peer in theirs {
                let apart = product.difference(ours, peer, stream)?;
                difference = Some(apart.max(difference.unwrap_or_default()));
            }
        }
        let sides = names.into_iter().zip(&measured.times);
        let sides = sides.map(|((name, choice), times)| Side::new(&name, choice, times));
        let mut ours: Vec<Side> = sides.collect();
        let mut peers = ours.split_off(ours_count);
        for sides in [&mut ours, &mut peers] {
            sides.sort_by(|x, y| x.ms.total_cmp(&y.ms));
        }
        Ok(self.filled(case, &schedule, &measured, (ours, peers), difference))
    }

    /// The available peers of the case, each with its fastest algorithm or kernel.
    fn opponents<'a, In, Out>(
        &'a self,
        case: &Case,
        product: &'a Product<In, Out>,
    ) -> Result<Vec<Opponent<'a>>>
    where
        In: GemmInput + Sample,
        Out: GemmOutput + Sample,
    {
        let mut found = Vec::new();
        match case.beside {
            Beside::Library => {
                if let Some(library) = &self.peers.library {
                    let fastest = library::fastest(library, product, &self.timer, self.heuristics);
                    found.extend(fastest?);
                }
            }
            Beside::Ampere => {
                if let Some(triton) = &self.peers.triton {
                    found.extend(triton.fastest(product, &self.timer)?);
                }
                if let Some(cutlass) = &self.peers.cutlass {
                    found.extend(cutlass.fastest(product, &self.timer)?);
                }
            }
            Beside::PlainOfOurs => found.push(product.plain(self.timer.stream())),
        }
        Ok(found)
    }

    /// Ours with the best of the kernels that it may choose from, or with all that are not much
    /// slower.
    fn ours<'a, In, Out>(&'a self, product: &'a Product<In, Out>) -> Result<Vec<Opponent<'a>>>
    where
        In: GemmInput + Sample,
        Out: GemmOutput + Sample,
    {
        let stream = self.timer.stream();
        let begin = self.kernel.or(product.case.kernel);
        if begin.is_none() && self.tried < 2 && !self.all_candidates {
            return Ok(vec![product.chosen(stream)?]);
        }
        let begin = begin.unwrap_or_default();
        let mut kernels = product.kernels(stream)?;
        // A complete name selects that kernel only, not others of which it is a prefix.
        match kernels.iter().any(|name| name == begin) {
            true => kernels.retain(|name| name == begin),
            false => kernels.retain(|name| name.starts_with(begin)),
        }
        if !self.all_candidates {
            kernels.truncate(self.tried.max(1));
        }
        let ours = kernels
            .into_iter()
            .map(|kernel| product.by_kernel(kernel, stream))
            .collect();
        let ours = match self.all_candidates {
            true => promising(&self.timer, product.copies.len(), ours)?.0,
            false => Vec::from_iter(fastest(&self.timer, product.copies.len(), ours)?),
        };
        // An unknown name is refused when it is launched, with a list of the known ones.
        Ok(match ours.is_empty() {
            true => vec![product.by_kernel(begin.to_owned(), stream)],
            false => ours,
        })
    }

    fn filled(
        &self,
        case: &Case,
        schedule: &Schedule,
        measured: &Measured,
        (ours, peers): (Vec<Side>, Vec<Side>),
        difference: Option<f64>,
    ) -> Row {
        let mut slower_ours = ours.into_iter();
        let ours = slower_ours.next().unwrap_or_default();
        let mut peers = peers.into_iter();
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
            mode: Mode::Alone,
            candidates: match (self.kernel, self.all_candidates) {
                (Some(kernel), _) => kernel.to_owned(),
                (None, true) => "all".to_owned(),
                (None, false) => self.tried.to_string(),
            },
            flops,
            bytes,
            ours,
            slower_ours: slower_ours.collect(),
            peer: peers.next(),
            slower_peers: peers.collect(),
            unit: Unit::Flops,
            bounds: Vec::from_iter(self.machine.roofline(input, is_tf32, flops, bytes)),
            difference,
            difference_allowed: case.precision.difference_allowed(),
            sm_clock_mhz: measured.sm_clock_mhz,
            share_of_copy: copied_per_s.map(|rate| weights_per_s / rate),
            launches: schedule.launches,
            copies: schedule.copies,
            repetitions: schedule.repetitions,
            target: case.target,
        }
    }
}
