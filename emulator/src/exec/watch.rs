//! Keeps account of the lanes in which registers are unwritten.

use super::block::Block;
use super::fault::{Checked, Fault};
use super::warp::Warp;
use crate::program::{Doubt, Watch, WatchStep};
use crate::report::FaultKind;

impl Warp {
    /// Does what an instruction does to watched registers, for the lanes of `active`.
    pub(super) fn watch(&mut self, block: &Block<'_>, watch: &Watch, active: u32) -> Checked<()> {
        if watch.follows && !self.took_unwritten {
            return Ok(());
        }
        let constants = &block.launch.program.constants;
        for step in &watch.steps {
            let unwritten = |slot| self.regs.pred(constants, slot);
            let (to, value) = match step {
                WatchStep::Begin { slot, unwritten } => {
                    (*slot, if *unwritten { active } else { 0 })
                }
                WatchStep::Write(to) => (*to, 0),
                WatchStep::Read { slot, when, doubt } => {
                    let asked = when.map_or(active, |when| active & self.holds(block, when));
                    let lanes = unwritten(*slot) & asked;
                    if lanes == 0 {
                        continue;
                    }
                    let kind = FaultKind::UnwrittenRegister;
                    let place =
                        |fault: Box<Fault>| fault.in_place(block.rank, self.index, self.site.pc);
                    let findings = &block.cluster.findings;
                    findings.note((kind, self.site.pc), false, || {
                        place(unwritten_read(doubt, lanes))
                    })?;
                    // One report is enough.
                    (*slot, unwritten(*slot) & !lanes)
                }
                WatchStep::Take { to, from, all } => {
                    let from = from.iter().map(|slot| unwritten(*slot));
                    let value = if *all {
                        from.fold(0, |any, one| any | one)
                    } else {
                        from.fold(u32::MAX, |every, one| every & one)
                    };
                    self.took_unwritten |= value & active != 0;
                    (*to, value)
                }
                WatchStep::Select { to, from, when, by } => {
                    let holds = self.holds(block, *when);
                    let [first, second] = from.map(|slot| slot.map_or(0, unwritten));
                    let value = holds & first | !holds & second | by.map_or(0, unwritten);
                    self.took_unwritten |= value & active != 0;
                    (*to, value)
                }
            };
            self.regs.set_pred(to, value, active);
        }
        Ok(())
    }
}

#[cold]
fn unwritten_read(doubt: &Doubt, lanes: u32) -> Box<Fault> {
    let Doubt { register, origins } = doubt;
    let message = format!(
        "`{register}` is used here, and what it holds was never written on the way that lanes \
         0x{lanes:08x} took"
    );
    let lane = Some(lanes.trailing_zeros());
    let mut fault = Fault::new(FaultKind::UnwrittenRegister, lane, message);
    for (origin, line) in origins {
        fault = fault.note(format!(
            "it may come from `{origin}`, which PTX line {line} takes unwritten"
        ));
    }
    fault.note("write it on every way that leads here, or before they part".to_owned())
}
