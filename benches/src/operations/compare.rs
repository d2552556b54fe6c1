//! Measures one case: runs ours and the peers in turn, and checks whether their results agree.

use serde_json::json;

use super::prepared::Prepared;
use super::{Case, Offer, Peers, Set, target};
use crate::error::{BenchError, Result};
use crate::machine::Machine;
use crate::opponent::{Opponent, split};
use crate::results::{Mode, Row, Side, Unit};
use crate::timing::{Timer, copies};

/// The state that all cases of a run share.
pub(super) struct Bench<'a> {
    pub(super) timer: Timer,
    pub(super) machine: Machine,
    pub(super) peers: Option<&'a dyn Peers>,
    pub(super) unit: Unit,
    pub(super) repetitions: usize,
    /// Launches between two events, at least.
    pub(super) launches: usize,
    /// The beginning of the name of our kernel, if one was asked for.
    pub(super) kernel: Option<&'a str>,
}

impl Bench<'_> {
    /// Measures `case`. `notes` gets the peers that do not compute it.
    pub(super) fn row(&self, set: &Set, case: &Case, notes: &mut Vec<String>) -> Result<Row> {
        let stream = self.timer.stream();
        let l2_bytes = self.machine.l2_bytes;
        let copies = l2_bytes.map_or(1, |l2_bytes| copies(case.work.bytes as u64, l2_bytes));
        let mut prepared = (case.prepare)(stream, copies)?;
        let offer = match self.peers {
            Some(peers) => peers.prepare(
                &case.name,
                &json!({
                    "name": case.name,
                    "case": case.description,
                    "operands": prepared.described_operands(),
                    "answers": prepared.described_answers(),
                    "copies": copies,
                    "stream": stream.as_raw().addr(),
                }),
            )?,
            None => Offer::default(),
        };
        for (name, reason) in offer.absent {
            notes.push(format!("    without {name}: {reason}"));
        }
        let theirs = self.peers.into_iter().flat_map(|peers| {
            let opponent = move |(idx, name): (usize, &String)| Opponent {
                name: name.clone(),
                choice: None,
                launch: Box::new(move |copy| peers.run(idx, copy)),
            };
            offer.peers.iter().enumerate().map(opponent)
        });
        let ours = prepared.take_ours().ok_or_else(|| BenchError::Peers {
            case: case.name.clone(),
            message: "the case has no launch of ours".to_owned(),
        })?;
        let (mut works, names) = split(std::iter::once(ours).chain(theirs).collect());
        let mut schedule = self.timer.plan(self.repetitions, copies, &mut works)?;
        schedule.launches = schedule.launches.max(self.launches);
        let measured = if set.in_graphs {
            self.timer.interleaved_graphs(&schedule, &mut works)?
        } else {
            self.timer.interleaved(&schedule, &mut works)?
        };
        prepared.clear_ours(stream)?;
        works[0](0)?;
        let difference = self.difference(&prepared, offer.peers.len())?;
        let mut sides: Vec<Side> = names
            .into_iter()
            .zip(&measured.times)
            .map(|((name, choice), times)| Side::new(&name, choice, times))
            .collect();
        let mut peers = sides.split_off(1);
        peers.sort_by(|x, y| x.ms.total_cmp(&y.ms));
        let mut peers = peers.into_iter();
        Ok(Row {
            set: set.name.to_owned(),
            case: case.name.clone(),
            mode: match (set.in_graphs, self.launches) {
                (true, _) => Mode::Graph,
                (false, 1) => Mode::Alone,
                (false, _) => Mode::InARow,
            },
            candidates: self.kernel.unwrap_or_default().to_owned(),
            flops: case.work.flops,
            bytes: case.work.bytes,
            ours: sides.pop().unwrap_or_default(),
            peer: peers.next(),
            slower_ours: Vec::new(),
            slower_peers: peers.collect(),
            unit: self.unit,
            bounds: self.machine.bounds(&case.work),
            difference,
            difference_allowed: case.difference_allowed,
            sm_clock_mhz: measured.sm_clock_mhz,
            share_of_copy: self.share_of_copy(case, measured.times[0].median_ms),
            launches: schedule.launches,
            copies: schedule.copies,
            repetitions: schedule.repetitions,
            target: target(set),
        })
    }

    /// The largest difference of ours from an answer of the first `offered` peers, if there is one.
    fn difference(&self, prepared: &Prepared, offered: usize) -> Result<Option<f64>> {
        let Some(peers) = self.peers else {
            return Ok(None);
        };
        let stream = self.timer.stream();
        let mut largest: Option<f64> = None;
        for peer in 0..offered {
            prepared.clear_theirs(stream)?;
            peers.answer(peer)?;
            stream.synchronize()?;
            let apart = prepared.difference()?;
            largest = Some(apart.max(largest.unwrap_or_default()));
        }
        Ok(largest)
    }

    /// The share of the copy bandwidth, for operations whose rates are in bytes.
    fn share_of_copy(&self, case: &Case, ms: f64) -> Option<f64> {
        let rate = self.machine.copy_bytes_per_s?;
        (self.unit == Unit::Bytes).then(|| case.work.bytes / ms * 1e3 / rate)
    }
}
