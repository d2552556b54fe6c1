//! The `wgmma` that a warp has issued and not waited for, and the registers that they own.
//!
//! From its issue until the wait for its group, a `wgmma` may write its accumulator and read its A
//! registers whenever it likes: whoever touches the first, or changes the second, races with it.
//! And a `wgmma` sees what was done to its registers before only through a `wgmma.fence`; of the
//! accumulators of `wgmma` of one shape, the order is kept without.

use std::collections::VecDeque;

use crate::exec::fault::{Checked, Fault, Second};
use crate::exec::registers::{Registers, Slot};
use crate::exec::row::Row;
use crate::program::{Inst, Op, Program, Width};
use crate::report::FaultKind;

/// What is known of a 32-bit register, by positions of instructions, plus one.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The last `wgmma` in flight that has it in its accumulator.
    sum: u32,
    /// The last in flight that reads A from it.
    input: u32,
    /// The last other instruction that named it, since the fence.
    touched: u32,
}

/// A `wgmma` in flight.
#[derive(Debug)]
struct Issued {
    pc: u32,
    /// Number among the `wgmma` of the warp.
    step: u64,
    /// Positions of the accumulator's registers.
    sums: Box<[usize]>,
    /// Positions of A's registers.
    inputs: Box<[usize]>,
}

/// An instruction that named a register that a `wgmma` in flight reads.
#[derive(Debug)]
struct Suspect {
    pc: u32,
    position: usize,
    before: Row<u32>,
}

/// The `wgmma` of a warp.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Block of the cluster, and warp of the block.
    own: (u32, u32),
    /// A fence was seen: from here on, registers are watched.
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

    /// Whether [`Flight::touch`] wants to see every instruction.
    #[inline(always)]
    pub(crate) fn watches(&self) -> bool {
        self.watching
    }

    /// Position of a `wgmma` that is in flight still, and whether its group was committed.
    pub(crate) fn left(&self) -> Option<(u32, bool)> {
        let open = self.open.first().map(|issued| (issued.pc, false));
        let mut committed = self.groups.iter().flatten();
        open.or_else(|| committed.next().map(|issued| (issued.pc, true)))
    }

    /// An instruction is about to run for some lanes.
    ///
    /// # Errors
    /// It names a register of an accumulator in flight, or the one before changed an input; and the
    /// position of the one that did.
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

    /// Looks whether the last instruction changed a register that a `wgmma` in flight reads.
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

    /// A `wgmma` is issued.
    ///
    /// # Errors
    /// Its registers were not fenced, or belong to another in flight.
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

    /// Every register was untouched since a fence.
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

    /// The accumulator is free, or exactly that of others in flight.
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
            // Those that overlap have exactly these registers.
            return Ok(());
        }
        Ok(())
    }

    /// `wgmma.commit_group`
    pub(super) fn commit(&mut self) {
        let group = std::mem::take(&mut self.open);
        self.groups.push_back(group);
    }

    /// Number of the last `wgmma` that waiting for all groups but `most` waits for.
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
        // Registers of those that are over may belong to later ones too.
        for issued in self.groups.iter().flatten().chain(&self.open) {
            for position in &issued.sums {
                self.marks[*position].sum = issued.pc + 1;
            }
            for position in &issued.inputs {
                self.marks[*position].input = issued.pc + 1;
            }
        }
    }

    /// The fault of touching what a `wgmma` in flight owns; `owner` is its position plus one.
    #[cold]
    fn in_flight(&self, message: &str, owner: u32) -> Box<Fault> {
        let mut fault = Fault::new(FaultKind::AsyncInFlight, None, message.to_owned());
        fault.second = Some(self.second("wgmma.mma_async", owner));
        fault.note("`wgmma.wait_group` for the group of (2) must come in between".to_owned())
    }

    /// An instruction of this warp, at a position plus one.
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
