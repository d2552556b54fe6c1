//! The `wgmma` that a warp has issued and not waited for, and the registers that they use.
//!
//! From its issue to the wait for its group, a `wgmma` may write its accumulator and read its A
//! registers at any time. So an instruction races with it if it touches the accumulator or changes
//! an A register. And a `wgmma` sees earlier accesses to its registers only after a `wgmma.fence`.
//! Only `wgmma` of one shape on the same accumulator are ordered without one.

use std::collections::VecDeque;

use crate::exec::fault::{Checked, Fault, Second};
use crate::exec::registers::{Registers, Slot};
use crate::exec::row::Row;
use crate::program::{Inst, Op, Program, Width};
use crate::report::FaultKind;

/// What is known of a 32-bit register. Each field is a position of an instruction plus one, 0 for
/// none.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The last `wgmma` in flight with this register in its accumulator.
    sum: u32,
    /// The last `wgmma` in flight that reads A from it.
    input: u32,
    /// The last other instruction since the fence that named it.
    touched: u32,
}

/// A `wgmma` in flight.
#[derive(Debug)]
struct Issued {
    pc: u32,
    /// Its number among the `wgmma` of the warp.
    step: u64,
    /// Positions in the register file of the accumulator's registers.
    sums: Box<[usize]>,
    /// Positions in the register file of A's registers.
    inputs: Box<[usize]>,
}

/// An instruction that names an A register of a `wgmma` in flight, and so may have changed it.
#[derive(Debug)]
struct Suspect {
    pc: u32,
    position: usize,
    before: Row<u32>,
}

/// The `wgmma` of a warp that are in flight.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Rank of the block in the cluster, and warp in the block.
    own: (u32, u32),
    /// Whether there has been a fence: registers are watched from then on.
    watching: bool,
    open: Vec<Issued>,
    groups: VecDeque<Vec<Issued>>,
    marks: Vec<Mark>,
    suspects: Vec<Suspect>,
}

impl Flight {
    /// Forgets everything, for a new block.
    pub(crate) fn reset(&mut self, rank: u32, warp: u32) {
        *self = Self {
            own: (rank, warp),
            ..Self::default()
        };
    }

    /// Whether [`Flight::touch`] must be called for every instruction.
    #[inline(always)]
    pub(crate) fn watches(&self) -> bool {
        self.watching
    }

    /// A `wgmma` that is still in flight: its position, and whether its group was committed.
    pub(crate) fn left(&self) -> Option<(u32, bool)> {
        let open = self.open.first().map(|issued| (issued.pc, false));
        let mut committed = self.groups.iter().flatten();
        open.or_else(|| committed.next().map(|issued| (issued.pc, true)))
    }

    /// Called before an instruction executes for some lanes.
    ///
    /// # Errors
    /// The instruction names a register of an accumulator in flight, or the previous one changed an
    /// A register in flight; with the position of the offender.
    pub(crate) fn touch(
        &mut self,
        program: &Program,
        regs: &Registers,
        inst: &Inst,
        pc: u32,
    ) -> Result<(), (u32, Box<Fault>)> {
        if !self.suspects.is_empty() {
            self.clear_suspects(regs)?;
        }
        if matches!(&inst.op, Op::Tensor(op) if op.is_wgmma()) {
            return Ok(());
        }
        for reg in &program.touched[pc as usize] {
            if reg.width != Width::B32 {
                continue;
            }
            let Some(position) = regs.position::<u32>(reg.slot) else {
                continue;
            };
            let Some(mark) = self.marks.get(position).copied() else {
                continue;
            };
            if mark.sum != 0 {
                let message = "a register of the accumulator of a `wgmma` that was not waited for \
                               is read or written";
                return Err((pc, self.in_flight(message, mark.sum)));
            }
            if mark.input != 0 {
                let before = *regs.row::<u32>(&program.constants, reg.slot);
                self.suspects.push(Suspect {
                    pc,
                    position,
                    before,
                });
            }
            self.marks[position].touched = pc + 1;
        }
        Ok(())
    }

    /// Checks whether the last instruction changed an A register of a `wgmma` in flight.
    #[cold]
    fn clear_suspects(&mut self, regs: &Registers) -> Result<(), (u32, Box<Fault>)> {
        for suspect in std::mem::take(&mut self.suspects) {
            if regs.file_row(suspect.position) != &suspect.before {
                let message = "a register that holds A of a `wgmma` that was not waited for is \
                               written";
                let owner = self.marks[suspect.position].input;
                return Err((suspect.pc, self.in_flight(message, owner)));
            }
        }
        Ok(())
    }

    /// `wgmma.fence`
    pub(super) fn fence(&mut self, positions: usize) {
        self.watching = true;
        self.marks.resize(positions, Mark::default());
        self.marks.iter_mut().for_each(|mark| mark.touched = 0);
    }

    /// Issues a `wgmma`.
    ///
    /// # Errors
    /// There is no fence since its registers were touched, or they overlap those of a `wgmma` in
    /// flight.
    pub(super) fn issue(
        &mut self,
        regs: &Registers,
        (pc, step): (u32, u64),
        (sums, inputs): (&[Slot], &[Slot]),
    ) -> Checked<()> {
        let place = |slot: &Slot| regs.position::<u32>(*slot);
        let sums: Box<[usize]> = sums.iter().filter_map(place).collect();
        let inputs: Box<[usize]> = inputs.iter().filter_map(place).collect();
        self.is_fenced(&sums, &inputs)?;
        for position in &inputs {
            let owner = self.marks[*position].sum;
            if owner != 0 {
                let message = "A lies in the accumulator of a `wgmma` that was not waited for";
                return Err(self.in_flight(message, owner));
            }
        }
        self.chains(&sums)?;
        for position in &sums {
            self.marks[*position].sum = pc + 1;
        }
        for position in &inputs {
            self.marks[*position].input = pc + 1;
        }
        self.open.push(Issued {
            pc,
            step,
            sums,
            inputs,
        });
        Ok(())
    }

    /// Checks that no register has been touched since the last fence.
    fn is_fenced(&self, sums: &[usize], inputs: &[usize]) -> Checked<()> {
        if !self.watching {
            let message = "no `wgmma.fence` before the first `wgmma.mma_async`".to_owned();
            return Err(Fault::new(FaultKind::MissingFence, None, message));
        }
        for position in sums.iter().chain(inputs) {
            let touched = self.marks[*position].touched;
            if touched != 0 {
                let message = "no `wgmma.fence` between this `wgmma.mma_async` and an instruction \
                               that reads or writes one of its registers"
                    .to_owned();
                let mut fault = Fault::new(FaultKind::MissingFence, None, message);
                fault.second = Some(self.second("access", touched));
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Checks that the accumulator is free, or exactly that of other `wgmma` in flight.
    fn chains(&self, sums: &[usize]) -> Checked<()> {
        for position in sums {
            let mark = self.marks[*position];
            if mark.input != 0 {
                let message = "the accumulator lies in registers that hold A of a `wgmma` that was \
                               not waited for";
                return Err(self.in_flight(message, mark.input));
            }
            if mark.sum == 0 {
                continue;
            }
            let all = self.groups.iter().flatten().chain(&self.open);
            for other in all {
                if *other.sums != *sums && other.sums.contains(position) {
                    let message = "the accumulator overlaps that of a `wgmma` with other \
                                   registers that was not waited for";
                    return Err(self.in_flight(message, other.pc + 1));
                }
            }
            // Those that overlap have exactly these registers, so the rest need not be looked at.
            return Ok(());
        }
        Ok(())
    }

    /// `wgmma.commit_group`
    pub(super) fn commit(&mut self) {
        let group = std::mem::take(&mut self.open);
        self.groups.push_back(group);
    }

    /// Number of the last `wgmma` that a wait for all groups but the latest `most` waits for.
    pub(super) fn last_step(&self, most: usize) -> Option<u64> {
        let over = self.groups.len().saturating_sub(most);
        let waited_for = self.groups.iter().take(over).flatten();
        waited_for.last().map(|issued| issued.step)
    }

    /// `wgmma.wait_group`
    pub(super) fn wait(&mut self, most: usize) {
        while self.groups.len() > most {
            for issued in self.groups.pop_front().into_iter().flatten() {
                for position in issued.sums {
                    self.marks[position].sum = 0;
                }
                for position in issued.inputs {
                    self.marks[position].input = 0;
                }
            }
        }
        // Registers of completed `wgmma` may also belong to later ones.
        for issued in self.groups.iter().flatten().chain(&self.open) {
            for position in &issued.sums {
                self.marks[*position].sum = issued.pc + 1;
            }
            for position in &issued.inputs {
                self.marks[*position].input = issued.pc + 1;
            }
        }
    }

    /// The fault of touching a register of a `wgmma` in flight; `owner` is its position plus one.
    #[cold]
    fn in_flight(&self, message: &str, owner: u32) -> Box<Fault> {
        let mut fault = Fault::new(FaultKind::AsyncInFlight, None, message.to_owned());
        fault.second = Some(self.second("wgmma.mma_async", owner));
        let is_open = self.open.iter().any(|issued| issued.pc + 1 == owner);
        let committed = self
            .groups
            .iter()
            .flatten()
            .any(|issued| issued.pc + 1 == owner);
        let note = match is_open && !committed {
            true => {
                "(2) is in no group yet: `wgmma.commit_group` and `wgmma.wait_group` must come in \
                 between"
            }
            false => "`wgmma.wait_group` for the group of (2) must come in between",
        };
        fault.note(note.to_owned())
    }

    /// An instruction of this warp, given by its position plus one, as the second place of a
    /// report.
    fn second(&self, what: &str, mark: u32) -> Second {
        Second {
            cluster: None,
            what: what.to_owned(),
            rank: self.own.0,
            warp: self.own.1,
            lane: None,
            pc: mark - 1,
        }
    }
}
