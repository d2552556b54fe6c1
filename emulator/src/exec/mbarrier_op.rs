//! The `mbarrier` instructions.

use super::block::Block;
use super::fault::Checked;
use super::mbarrier::{MBARRIER_BYTES, Place, misuse};
use super::path::Path;
use super::row::{LANES, Lanes, Row};
use super::warp::Warp;
use crate::check::{Actor, Kind, Stamp, Target};
use crate::explore::Mode;
use crate::profile::Waited;
use crate::program::{Mbarrier, MbarrierKind, Scope, Until};

impl Warp {
    /// Runs an `mbarrier` instruction. Returns true if the path waits or its lanes have been split.
    pub(super) fn mbarrier(
        &mut self,
        block: &mut Block<'_>,
        op: &Mbarrier,
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        let addresses = self.shared_addresses(block, &op.at, index, active)?;
        if let MbarrierKind::Wait { p, until, blocks } = op.kind {
            let wait = (p, until, blocks);
            return self.mbarrier_wait(block, op, wait, &addresses, index, active);
        }
        let agent = block.agent(self.index);
        let arrives = matches!(op.kind, MbarrierKind::Arrive { .. });
        let kind = match op.kind {
            MbarrierKind::Init { .. } | MbarrierKind::Inval => Kind::Write,
            _ => Kind::STRONG_WRITE,
        };
        block.cluster.effect();
        let pc = self.paths.list[index].pc;
        // Whoever acquires what an arrival releases knows of the arrival, too.
        if arrives {
            for lane in Lanes(active) {
                let at = self.mbarrier_place(block, op, addresses.0[lane], lane)?;
                self.note_mbarrier(block, at, kind, index, 1 << lane)?;
                if op.ordered {
                    let mut order = block.cluster.order.borrow_mut();
                    order.use_peer(agent, at.rank, (pc, lane as u32), at.offset);
                }
            }
        }
        let stamp = match arrives {
            true => block
                .cluster
                .order
                .borrow_mut()
                .hand_over(agent, Scope::Block, op.ordered),
            false => Stamp::default(),
        };
        let mut states = Row([0u64; LANES]);
        for lane in Lanes(active) {
            let at = self.mbarrier_place(block, op, addresses.0[lane], lane)?;
            let mode = match op.kind {
                MbarrierKind::Init { .. } | MbarrierKind::Inval => Mode::Write,
                _ => Mode::Arrive,
            };
            let mut order = block.cluster.order.borrow_mut();
            order.visit_mbarrier((at.rank, at.offset), mode);
            drop(order);
            let done = self.change(block, (op, pc), at, lane, &stamp);
            states.0[lane] = done.map_err(|why| named(block, at, lane, &why))?;
            if !arrives {
                self.note_mbarrier(block, at, kind, index, 1 << lane)?;
            }
        }
        if let Some(d) = op.d {
            self.regs.put(d, &states, active);
        }
        Ok(false)
    }

    fn mbarrier_place(
        &self,
        block: &Block<'_>,
        op: &Mbarrier,
        address: u64,
        lane: usize,
    ) -> Checked<Place> {
        let place =
            block.shared_place(address, lane, MBARRIER_BYTES, MBARRIER_BYTES, "an mbarrier")?;
        if op.remote {
            Ok(place)
        } else {
            block.own_place(place, lane, "the mbarrier")
        }
    }

    /// Tells the race check that lanes use an mbarrier: a use that is not ordered after its
    /// initialisation is a race.
    fn note_mbarrier(
        &self,
        block: &Block<'_>,
        at: Place,
        kind: Kind,
        index: usize,
        lanes: u32,
    ) -> Checked<()> {
        let mut order = block.cluster.order.borrow_mut();
        if !order.is_on() {
            return Ok(());
        }
        let actor = Actor::Warp {
            warp: block.agent(self.index),
            pc: self.paths.list[index].pc,
        };
        let target = Target::Shared { rank: at.rank };
        let offsets = Row([at.offset; LANES]);
        let bytes = MBARRIER_BYTES as usize;
        order.lanes(actor, target, kind, &offsets, lanes, bytes)
    }

    /// Carries out the instruction for one lane; returns the state before it.
    fn change(
        &self,
        block: &Block<'_>,
        (op, pc): (&Mbarrier, u32),
        at: Place,
        lane: usize,
        stamp: &Stamp,
    ) -> Result<u64, String> {
        let cluster = &block.cluster;
        let mut table = cluster.mbarriers.borrow_mut();
        let mut state = 0;
        let completes = match op.kind {
            MbarrierKind::Init { count } => {
                table.init(at, self.lane32(block, count, lane))?;
                let shared = cluster.shared[at.rank as usize].bytes();
                shared.mark_range(at.offset as usize, MBARRIER_BYTES as usize);
                false
            }
            MbarrierKind::Inval => {
                table.invalidate(at)?;
                false
            }
            MbarrierKind::Arrive {
                count,
                expect,
                drop,
                no_complete,
            } => {
                let barrier = table.get(at)?;
                state = barrier.state();
                if let Some(bytes) = expect {
                    barrier.expect(self.lane32(block, bytes, lane))?;
                }
                let count = count.map_or(1, |count| self.lane32(block, count, lane));
                barrier.arrive(count, drop, no_complete, stamp)?
            }
            MbarrierKind::ExpectTx { bytes } => {
                table.get(at)?.expect(self.lane32(block, bytes, lane))?;
                false
            }
            MbarrierKind::CompleteTx { bytes } => {
                let bytes = self.lane32(block, bytes, lane);
                table.get(at)?.complete(bytes, stamp)?
            }
            MbarrierKind::Wait { .. } => false,
        };
        if completes {
            cluster.event.set(true);
            cluster.record_phase(at, table.get(at)?, pc);
        }
        Ok(state)
    }

    fn mbarrier_wait(
        &mut self,
        block: &mut Block<'_>,
        op: &Mbarrier,
        (p, until, blocks): (crate::exec::registers::Slot, Until, bool),
        addresses: &Row<u64>,
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        let expired = std::mem::take(&mut self.paths.list[index].expired);
        let mut passed = 0;
        let mut known = Stamp::default();
        let mut noted = None;
        let mut seen = None;
        let cluster = block.cluster.clone();
        let mut table = cluster.mbarriers.borrow_mut();
        for lane in Lanes(active) {
            let at = self.mbarrier_place(block, op, addresses.0[lane], lane)?;
            let wrong = |why: String| named(block, at, lane, &why);
            if noted != Some(at) {
                let same = Lanes(active).filter(|&other| addresses.0[other] == addresses.0[lane]);
                let lanes = same.fold(0, |lanes, other| lanes | 1 << other);
                self.note_mbarrier(block, at, Kind::STRONG_READ, index, lanes)?;
                noted = Some(at);
            }
            let barrier = table.get(at).map_err(wrong)?;
            let has_passed = match until {
                Until::State(state) => barrier
                    .has_passed(self.lane64(block, state, lane))
                    .map_err(wrong)?,
                Until::Parity(parity) => {
                    barrier.has_parity_passed(self.lane32(block, parity, lane))
                }
            };
            if has_passed || !blocks || expired {
                let mut order = cluster.order.borrow_mut();
                order.visit_mbarrier((at.rank, at.offset), Mode::Read);
            }
            if has_passed {
                passed |= 1 << lane;
                known.join(barrier.knowledge());
                if seen != Some(at) {
                    barrier.note_seen(block.agent(self.index));
                    seen = Some(at);
                }
            }
        }
        if passed != 0 {
            let mut order = cluster.order.borrow_mut();
            let agent = block.agent(self.index);
            order.take_up(agent, &known, op.ordered);
            if op.ordered {
                // Lanes that finish a wait together may have arrived one by one: they are converged
                // again.
                order.warp_sync(agent, passed | !self.paths.live());
            }
        }
        let waiting = active & !passed;
        if waiting != 0 && blocks && !expired {
            self.regs.set_pred(p, u32::MAX, passed);
            self.block_on(index, waiting);
            return Ok(true);
        }
        block.counters.wait(Waited::Mbarrier);
        self.polls += u32::from(waiting != 0);
        self.regs.set_pred(p, passed, active);
        Ok(false)
    }

    /// The mbarrier at which the first lane of a path waits, and how the wait names its phase.
    fn waits_for(
        &self,
        block: &Block<'_>,
        op: &Mbarrier,
        path: &Path,
    ) -> Option<(Place, Until, usize)> {
        let MbarrierKind::Wait { until, .. } = op.kind else {
            return None;
        };
        let lane = path.mask.trailing_zeros() as usize;
        let mut paths = self.paths.list.iter();
        let index = paths.position(|other| std::ptr::eq(other, path))?;
        let addresses = self.shared_addresses(block, &op.at, index, path.mask);
        let place = addresses.and_then(|rows| self.mbarrier_place(block, op, rows.0[lane], lane));
        Some((place.ok()?, until, lane))
    }

    /// What a path that waits at an mbarrier waits for, as a report's text.
    pub(super) fn describe_mbarrier(
        &self,
        block: &Block<'_>,
        op: &Mbarrier,
        path: &Path,
    ) -> String {
        let Some((at, until, lane)) = self.waits_for(block, op, path) else {
            return String::new();
        };
        let phase = match until {
            Until::State(state) => {
                let state = self.lane64(block, state, lane);
                format!("the phase of state 0x{state:x}")
            }
            Until::Parity(parity) => format!("parity {}", self.lane32(block, parity, lane) & 1),
        };
        let mut table = block.cluster.mbarriers.borrow_mut();
        let barrier = match table.get(at) {
            Ok(barrier) => barrier.describe(),
            Err(why) => why,
        };
        format!(
            ", for {phase} of the mbarrier at 0x{:x}: {barrier}",
            at.offset
        )
    }

    /// Why such a path waits for ever, most probably.
    pub(super) fn advise_mbarrier(
        &self,
        block: &Block<'_>,
        op: &Mbarrier,
        path: &Path,
    ) -> Option<String> {
        let (at, ..) = self.waits_for(block, op, path)?;
        let mut table = block.cluster.mbarriers.borrow_mut();
        let why = table.get(at).ok()?.advice(block.agent(self.index));
        Some(format!("the mbarrier at 0x{:x}: {why}", at.offset))
    }
}

/// The fault of an mbarrier that cannot do what a lane requests.
#[cold]
fn named(block: &Block<'_>, at: Place, lane: usize, why: &str) -> Box<super::fault::Fault> {
    let rank = match block.cluster.shared.len() {
        1 => String::new(),
        _ => format!(" of rank {}", at.rank),
    };
    let message = format!("the mbarrier at 0x{:x}{rank}: {why}", at.offset);
    misuse(Some(lane as u32), message).at(at.offset)
}
