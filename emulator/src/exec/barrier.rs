//! Barriers of a block: `bar` and `barrier`, with ids, thread counts and reductions.

use super::block::{BARRIERS, Block, BlockRun};
use super::fault::{Checked, Fault};
use super::path::State;
use super::row::{LANES, Lanes};
use super::warp::Warp;
use crate::check::Stamp;
use crate::explore::Mode;
use crate::profile::Waited;
use crate::program::{Barrier, BarrierKind, Op};
use crate::report::FaultKind;

/// One of the sixteen barriers.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarrierState {
    /// Threads that have arrived.
    arrived: u32,
    /// Threads that the barrier waits for: `None` before the first arrival, `Some(0)` for all
    /// threads.
    expected: Option<u32>,
    /// The lanes that have arrived, by warp.
    by_warp: Vec<(u32, u32)>,
    /// For reductions: threads whose predicate was true, and threads that gave one.
    held: u32,
    asked: u32,
    /// The joined stamps of the arrivals.
    stamp: Stamp,
}

impl Warp {
    /// Runs a barrier for the lanes of `active`. Returns true if the path waits or has been split.
    pub(crate) fn barrier(
        &mut self,
        block: &mut Block<'_>,
        barrier: &Barrier,
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        if active == 0 {
            return Ok(false);
        }
        if barrier.aligned && active != self.paths.live() {
            self.uncount(active);
            self.part(index, active, State::Converging);
            return Ok(true);
        }
        if barrier.aligned && active != self.lanes {
            return Err(self.left_before(active));
        }
        if barrier.kind != BarrierKind::Arrive {
            block.counters.wait(Waited::Barrier);
        }
        let (id, expected) = self.barrier_operands(block, barrier, active)?;
        let whole = active == self.paths.live();
        let state = &mut block.barriers[id];
        if let Some(before) = state.expected
            && before != expected
        {
            let message = format!(
                "barrier {id} with a count of {}, which others use with {}",
                count_name(expected),
                count_name(before)
            );
            return Err(Fault::new(FaultKind::BarrierMisuse, None, message));
        }
        state.expected = Some(expected);
        // A warp that arrives as a whole counts as 32 threads, however many it has.
        state.arrived += if whole {
            LANES as u32
        } else {
            active.count_ones()
        };
        if expected != 0 && state.arrived > expected {
            let message = format!(
                "barrier {id} waits for {expected} threads, and {} have arrived",
                state.arrived
            );
            return Err(Fault::new(FaultKind::BarrierMisuse, None, message));
        }
        state.by_warp.push((self.index, active));
        let known = block.arrival(self.index);
        let mut order = block.cluster.order.borrow_mut();
        order.visit_barrier(Some((block.rank, id)), Mode::Arrive);
        drop(order);
        block.barriers[id].stamp.join(&known);
        if let Some(operand) = barrier.operand {
            let held = active & self.holds(block, operand);
            let state = &mut block.barriers[id];
            state.held += held.count_ones();
            state.asked += active.count_ones();
        }
        block.exited = true;
        if barrier.kind == BarrierKind::Arrive {
            return Ok(false);
        }
        self.part(index, active, State::Waiting);
        Ok(true)
    }

    /// The fault of an aligned barrier that some lanes of the warp skip by exiting.
    #[cold]
    fn left_before(&self, active: u32) -> Box<Fault> {
        let message = format!(
            "an aligned barrier is reached by lanes 0x{active:08x} of warp {}, but lanes 0x{:08x} \
             have exited",
            self.index,
            self.lanes & !active
        );
        Fault::new(FaultKind::DivergentBarrier, None, message).note(
            "all threads of a warp must run the barrier: let them go round the work, not return"
                .to_owned(),
        )
    }

    fn barrier_operands(
        &self,
        block: &Block<'_>,
        barrier: &Barrier,
        active: u32,
    ) -> Checked<(usize, u32)> {
        let first = active.trailing_zeros();
        let misuse = |message: String| Fault::new(FaultKind::BarrierMisuse, Some(first), message);
        let ids = self.row32(block, barrier.id);
        let id = ids.0[first as usize];
        let count = barrier.count.map(|slot| self.row32(block, slot));
        let expected = count.map_or(0, |row| row.0[first as usize]);
        for lane in Lanes(active) {
            if ids.0[lane] != id || count.is_some_and(|row| row.0[lane] != expected) {
                return Err(misuse(
                    "lanes of one warp give different barriers or counts".into(),
                ));
            }
        }
        if id as usize >= BARRIERS {
            return Err(misuse(format!(
                "barrier {id}: there are {BARRIERS}, from 0"
            )));
        }
        if count.is_some() && (expected == 0 || !expected.is_multiple_of(LANES as u32)) {
            return Err(misuse(format!(
                "a count of {expected}: it must be a multiple of 32"
            )));
        }
        let threads: u32 = block.launch.config.block.iter().product();
        if expected > threads.next_multiple_of(LANES as u32) {
            return Err(misuse(format!(
                "a count of {expected}: the block has {threads} threads"
            )));
        }
        Ok((id as usize, expected))
    }
}

fn count_name(count: u32) -> String {
    if count == 0 {
        "all threads".to_owned()
    } else {
        format!("{count} threads")
    }
}

impl BlockRun<'_> {
    /// Completes every barrier that all its threads have reached, and lets them go on.
    pub(crate) fn complete_barriers(&mut self) {
        if !std::mem::take(&mut self.block.exited) {
            return;
        }
        for id in 0..BARRIERS {
            let state = &self.block.barriers[id];
            let complete = match state.expected {
                None => false,
                Some(0) => self.all_arrived(state),
                Some(expected) => state.arrived == expected,
            };
            if complete {
                let state = std::mem::take(&mut self.block.barriers[id]);
                self.release(id, &state);
                self.block.released = true;
            }
        }
    }

    /// Whether all threads that have not exited have arrived.
    fn all_arrived(&self, state: &BarrierState) -> bool {
        self.missing(state) == 0
    }

    /// Threads that have neither exited nor arrived.
    fn missing(&self, state: &BarrierState) -> u32 {
        let missing = |warp: &Warp| {
            let here = state
                .by_warp
                .iter()
                .filter(|(index, _)| *index == warp.index)
                .fold(0, |lanes, (_, mask)| lanes | mask);
            (warp.paths.live() & !here).count_ones()
        };
        self.warps.iter().map(missing).sum()
    }

    fn release(&mut self, id: usize, state: &BarrierState) {
        let program = self.block.launch.program.clone();
        let mut freed = Vec::new();
        for warp in &mut self.warps {
            for i in 0..warp.paths.list.len() {
                let path = &warp.paths.list[i];
                let Op::Barrier(barrier) = &program.code[path.pc as usize].op else {
                    continue;
                };
                if path.state != State::Waiting {
                    continue;
                }
                let (mask, window) = (path.mask, path.frame().window);
                warp.regs.enter(window);
                let own = warp.regs.row::<u32>(&program.constants, barrier.id);
                if own.0[mask.trailing_zeros() as usize] as usize != id {
                    continue;
                }
                if let Some(d) = barrier.d {
                    let all = state.held == state.asked;
                    match barrier.kind {
                        BarrierKind::RedPopc => warp.regs.splat(d.slot, state.held, mask),
                        BarrierKind::RedAnd => {
                            warp.regs
                                .set_pred(d.slot, if all { u32::MAX } else { 0 }, mask);
                        }
                        _ => {
                            let any = state.held != 0;
                            warp.regs
                                .set_pred(d.slot, if any { u32::MAX } else { 0 }, mask);
                        }
                    }
                }
                if let Some(d) = barrier.d {
                    warp.settle_registers(&[d], mask);
                }
                let path = &mut warp.paths.list[i];
                path.state = State::Ready;
                freed.push((warp.index, path.pc));
                path.pc += 1;
            }
        }
        for warp in freed {
            self.learn(warp, &state.stamp);
        }
    }

    /// What a path that waits at a barrier waits for, as a report's text.
    pub(crate) fn describe_wait(&self, warp: u32, barrier: &Barrier, mask: u32) -> String {
        let Some(warp) = self.warps.get(warp as usize) else {
            return String::new();
        };
        let ids = warp.row32(&self.block, barrier.id);
        let id = ids.0[mask.trailing_zeros() as usize] as usize;
        let Some(state) = self.block.barriers.get(id) else {
            return String::new();
        };
        match state.expected {
            Some(0) | None => {
                let live = |warp: &Warp| warp.paths.live().count_ones();
                let threads: u32 = self.warps.iter().map(live).sum();
                let arrived = threads - self.missing(state);
                format!(", barrier {id}: {arrived} of all {threads} live threads have arrived")
            }
            Some(expected) => {
                format!(
                    ", barrier {id}: {} of {expected} threads have arrived",
                    state.arrived
                )
            }
        }
    }
}
