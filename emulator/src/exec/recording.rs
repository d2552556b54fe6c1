//! What the executor tells a [trace](crate::trace). Only operations at which warps meet, wait or
//! issue work do; others cost nothing.

use super::block::{Block, BlockRun};
use super::cluster::Cluster;
use super::fault::Checked;
use super::mbarrier::{Mbarrier, Place};
use super::warp::Warp;
use crate::profile::Waited;
use crate::program::tensor::TensorOp;
use crate::program::{Asynchronous, Inst, MbarrierKind, Op};

impl Cluster {
    /// A phase of an mbarrier has ended.
    pub(super) fn record_phase(&self, at: Place, mbarrier: &Mbarrier, pc: u32) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().phase(at, mbarrier.knowledge().steps, pc);
        }
    }
}

impl Warp {
    /// Runs an operation of the path `index`, and records what it does.
    #[inline(always)]
    pub(super) fn recorded<'a, T>(
        &mut self,
        block: &mut Block<'a>,
        inst: &Inst,
        index: usize,
        run: impl FnOnce(&mut Self, &mut Block<'a>) -> Checked<T>,
    ) -> Checked<T> {
        if block.cluster.trace.is_none() {
            return run(self, block);
        }
        let pc = self.paths.list[index].pc;
        // A barrier of the block is over when it has been counted; what blocks takes its count back.
        let before = match inst.op {
            Op::Barrier(_) => self.warp_instructions,
            _ => self.warp_instructions - u64::from(inst.weight),
        };
        let since = self.record_run(block, before, pc);
        let ran = run(self, block)?;
        self.record_op(block, &inst.op, since, pc);
        Ok(ran)
    }

    /// Records that the warp has run `instructions`. Returns its clock.
    fn record_run(&self, block: &Block<'_>, instructions: u64, pc: u32) -> u64 {
        let cluster = &block.cluster;
        let Some(trace) = &cluster.trace else {
            return 0;
        };
        let mut order = cluster.order.borrow_mut();
        let agent = block.agent(self.index);
        trace.borrow_mut().ran(&mut order, agent, instructions, pc)
    }

    /// Records an operation that has run; the warp reached it at step `since`.
    fn record_op(&self, block: &Block<'_>, op: &Op, since: u64, pc: u32) {
        let cluster = &block.cluster;
        let Some(trace) = &cluster.trace else {
            return;
        };
        let mut trace = trace.borrow_mut();
        let mut order = cluster.order.borrow_mut();
        let agent = block.agent(self.index);
        let has_acquired = order.steps.has_acquired(agent);
        if has_acquired && let Some(what) = waits_for(op) {
            trace.waited(&order, agent, what, since, pc);
        }
        let Op::Tensor(op) = op else { return };
        match &**op {
            TensorOp::Wgmma(_) => trace.wgmma(agent, pc),
            TensorOp::WgmmaCommit => trace.wgmma_commit(agent),
            TensorOp::WgmmaWait(most) if has_acquired => trace.wgmma_wait(agent, *most),
            _ => {}
        }
    }
}

/// What an operation waits for.
fn waits_for(op: &Op) -> Option<Waited> {
    match op {
        Op::Barrier(_) => Some(Waited::Barrier),
        Op::Tensor(op) if matches!(**op, TensorOp::WgmmaWait(_)) => Some(Waited::Wgmma),
        Op::Asynchronous(op) => match &**op {
            Asynchronous::ClusterBarrier { wait: true, .. } => Some(Waited::Cluster),
            Asynchronous::WaitGroup { .. } => Some(Waited::Copies),
            Asynchronous::Mbarrier(op) if matches!(op.kind, MbarrierKind::Wait { .. }) => {
                Some(Waited::Mbarrier)
            }
            _ => None,
        },
        _ => None,
    }
}

impl BlockRun<'_> {
    /// Records that a warp goes on after a barrier of the block at `pc`, at which it arrived at step
    /// `since`.
    pub(super) fn record_release(&self, warp: u32, since: u64, pc: u32) {
        let cluster = &self.block.cluster;
        if let Some(trace) = &cluster.trace {
            let agent = self.block.agent(warp);
            let mut order = cluster.order.borrow_mut();
            order.steps.has_acquired(agent);
            trace
                .borrow_mut()
                .waited(&order, agent, Waited::Barrier, since, pc);
        }
    }

    /// Records what warp `w` has run when its turn ends.
    pub(super) fn record_turn(&self, w: usize) {
        if self.block.cluster.trace.is_some() {
            let warp = &self.warps[w];
            let first = warp.paths.list.first();
            let pc = first.map_or(warp.site.pc, |path| path.pc);
            warp.record_run(&self.block, warp.warp_instructions, pc);
        }
    }
}
