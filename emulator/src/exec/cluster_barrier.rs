//! `barrier.cluster`, the barrier of all threads of a cluster, split into arrive and wait.

use super::block::Block;
use super::fault::{Checked, Fault};
use super::path::State;
use super::row::LANES;
use super::warp::Warp;
use crate::check::Stamp;
use crate::explore::Mode;
use crate::profile::Waited;
use crate::program::Scope;
use crate::report::FaultKind;

/// State of the barrier: masks of lanes, by warp of the cluster.
#[derive(Debug, Default)]
pub(crate) struct ClusterBarrier {
    /// Lanes that have not exited.
    live: Vec<u32>,
    /// Lanes that have arrived in the current phase.
    arrived: Vec<u32>,
    /// Lanes that have arrived and not waited since.
    open: Vec<u32>,
    arriving: Stamp,
    completed: Stamp,
}

impl ClusterBarrier {
    /// The barrier of `blocks` blocks of `threads` threads.
    pub(crate) fn new(blocks: usize, threads: u32) -> Self {
        let warps = threads.div_ceil(LANES as u32);
        let lanes = |warp: u32| {
            let threads = (threads - warp * LANES as u32).min(LANES as u32);
            u32::MAX >> (LANES as u32 - threads)
        };
        let live: Vec<u32> = (0..blocks).flat_map(|_| (0..warps).map(lanes)).collect();
        Self {
            arrived: vec![0; live.len()],
            open: vec![0; live.len()],
            live,
            ..Self::default()
        }
    }

    /// Lanes exit. Returns whether that completes the phase: all that are left have arrived.
    pub(crate) fn exit(&mut self, warp: u32, lanes: u32) -> bool {
        self.live[warp as usize] &= !lanes;
        self.complete()
    }

    fn arrive(&mut self, warp: u32, lanes: u32, stamp: &Stamp) -> bool {
        self.arrived[warp as usize] |= lanes;
        self.open[warp as usize] |= lanes;
        self.arriving.join(stamp);
        self.complete()
    }

    fn complete(&mut self) -> bool {
        let waiting = self.arrived.iter().any(|lanes| *lanes != 0);
        let missing = |(live, arrived): (&u32, &u32)| live & !arrived != 0;
        if !waiting || self.live.iter().zip(&self.arrived).any(missing) {
            return false;
        }
        self.arrived.fill(0);
        std::mem::swap(&mut self.arriving, &mut self.completed);
        self.arriving.clear();
        true
    }

    /// What the barrier waits for, as a report's text.
    pub(crate) fn describe(&self) -> String {
        let count = |lanes: &[u32]| lanes.iter().map(|lanes| lanes.count_ones()).sum::<u32>();
        format!(
            ", the cluster's barrier: {} of {} threads have arrived",
            count(&self.arrived),
            count(&self.live)
        )
    }
}

impl Warp {
    /// Runs an arrive or a wait. Returns true if the path waits or its lanes have been split.
    pub(super) fn cluster_barrier(
        &mut self,
        block: &mut Block<'_>,
        (wait, aligned, ordered): (bool, bool, bool),
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        if aligned && active != self.paths.live() {
            self.uncount(active);
            self.part(index, active, State::Converging);
            return Ok(true);
        }
        let cluster = block.cluster.clone();
        let mut barrier = cluster.barrier.borrow_mut();
        let agent = block.agent(self.index);
        let open = barrier.open[agent as usize];
        let misuse = |lanes: u32, message: &str| {
            let lane = Some(lanes.trailing_zeros());
            Err(Fault::new(FaultKind::BarrierMisuse, lane, message.into()))
        };
        if !wait {
            if open & active != 0 {
                let message = "a second barrier.cluster.arrive without a wait between";
                return misuse(open & active, message);
            }
            let mut order = cluster.order.borrow_mut();
            order.visit_barrier(None, Mode::Arrive);
            let stamp = order.hand_over(agent, Scope::Cluster, ordered);
            order.arrive_after_uses(agent);
            cluster.effect();
            if barrier.arrive(agent, active, &stamp) {
                order.complete_uses();
                cluster.event.set(true);
            }
            return Ok(false);
        }
        if active & !open != 0 {
            let message = "barrier.cluster.wait without an arrive before";
            return misuse(active & !open, message);
        }
        let waiting = active & barrier.arrived[agent as usize];
        if waiting != 0 {
            self.block_on(index, waiting);
            return Ok(true);
        }
        block.counters.wait(Waited::Cluster);
        let mut order = cluster.order.borrow_mut();
        order.visit_barrier(None, Mode::Pass);
        drop(order);
        barrier.open[agent as usize] &= !active;
        if ordered {
            let mut order = cluster.order.borrow_mut();
            order.acquire(agent, &barrier.completed);
            order.warp_sync(agent, active | !self.paths.live());
        }
        Ok(false)
    }
}
