//! One warp: its registers, local memory and paths, and the loop that runs it.

use super::block::Block;
use super::cluster::waits;
use super::fault::{Checked, Fault};
use super::open::{Missing, Open};
use super::path::{Frame, Path, Paths, State};
use super::races::Site;
use super::registers::{Extent, Registers, Slot};
use super::row::{FULL_MASK, LANES, Row};
use super::tensor::{Flight, Work};
use crate::memory::lanes::Planes;
use crate::memory::local::LocalMemory;
use crate::memory::stack::DynamicStack;
use crate::program::{Guard, Inst, Op};
use crate::report::FaultKind;

/// Instructions that a path runs while others are ready, before another one gets a turn.
const PATIENCE: u32 = 4096;
/// Strong loads and attempts at a lock that a path makes before it counts as polling.
const POLLS: u32 = 32;

/// The state of one warp.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) regs: Registers,
    pub(crate) local: LocalMemory,
    pub(crate) stack: DynamicStack,
    pub(crate) paths: Paths,
    /// The lanes that have a thread of the block.
    pub(crate) lanes: u32,
    /// Thread index of each lane.
    pub(crate) tid: [Row<u32>; 3],
    /// Data of the current access.
    pub(crate) planes: Box<Planes>,
    pub(crate) lane_instructions: u64,
    pub(crate) warp_instructions: u64,
    /// The current access, for the race check.
    pub(crate) site: Site,
    /// Polls since the current path was chosen.
    pub(crate) polls: u32,
    /// `wgmma` instructions that have not been waited for.
    pub(crate) flight: Flight,
    pub(super) work: Work,
    /// Whether its turn ends after an access that others can see: orders are explored.
    pub(crate) stops: bool,
    /// Warp instructions at which the budget of its cluster is spent.
    pub(crate) budget: u64,
    /// Copies of the registers, while they hold what loads have found unwritten.
    pub(super) open: Option<Box<Open>>,
    /// What the load that runs has found unwritten.
    pub(super) missing: Option<Box<Missing>>,
    /// Whether it may find anything unwritten.
    pub(super) tolerates: bool,
    /// Whether an instruction has taken what an unwritten register holds.
    pub(super) took_unwritten: bool,
}

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All lanes have exited.
    Done,
    /// All paths wait.
    Blocked,
    /// It could go on, but its turn is over.
    Yielded,
    /// Every path that can run only polls for what another warp or block writes.
    Polling,
}

/// What an instruction does to the control flow of its path.
pub(super) enum Flow {
    Next,
    Jump(u32),
    /// The path has been split, waits or has ended; the list of paths is up to date.
    Parted,
    /// To the next instruction, after others have had a turn.
    Yield,
}

impl Warp {
    /// Prepares the warp for a new block: every lane is at the start of the kernel.
    pub(crate) fn start(&mut self, block: &Block<'_>) {
        let kernel = &block.launch.program.functions[0];
        let frame = Frame {
            function: 0,
            call: u32::MAX,
            window: Extent::default(),
            local: 0,
        };
        let starved = &block.launch.starved;
        // Without room the launch is starved, and the warp never runs.
        if self.regs.reserve(kernel.registers, starved)
            && self.local.reserve(kernel.frame_bytes, starved)
        {
            self.local.forget(0, kernel.frame_bytes, self.lanes);
        }
        self.stack.reset();
        self.paths.list.clear();
        self.paths.list.push(Path {
            pc: kernel.entry,
            mask: self.lanes,
            frames: vec![frame],
            state: State::Ready,
            chosen: 0,
            expired: false,
        });
        self.stops = block.launch.explorer.is_some();
        self.flight.reset(block.rank, self.index);
        self.lane_instructions = 0;
        self.warp_instructions = 0;
        self.took_unwritten = false;
        self.open = None;
        self.missing = None;
        self.tolerates = false;
    }

    /// The lanes in which a predicate operand is true.
    #[inline(always)]
    pub(crate) fn holds(&self, block: &Block<'_>, guard: Guard) -> u32 {
        let pred = self.regs.pred(&block.launch.program.constants, guard.pred);
        if guard.negated { !pred } else { pred }
    }

    /// A 32-bit operand.
    pub(crate) fn row32(&self, block: &Block<'_>, slot: Slot) -> Row<u32> {
        *self.regs.row::<u32>(&block.launch.program.constants, slot)
    }

    /// Runs until all lanes have exited or wait, or until `turns` instructions have run.
    pub(crate) fn run(&mut self, block: &mut Block<'_>, turns: u64) -> Checked<Stop> {
        let end = self
            .warp_instructions
            .saturating_add(turns)
            .min(self.budget);
        let mut fair = self.stops;
        let mut polling = 0;
        self.polls = 0;
        loop {
            self.paths.merge();
            let Some(index) = self.paths.choose(fair) else {
                return self.stuck(block);
            };
            if self.warp_instructions >= self.budget {
                return Err(self.over_budget(block, index));
            }
            let reason = self.run_path(block, index, end)?;
            fair = matches!(reason, Pause::Patience | Pause::Polling);
            if reason == Pause::Polling {
                if self.stops {
                    return Ok(Stop::Yielded);
                }
                // Not at every pause: a loop in which only some lanes poll parts and merges each time.
                self.polls = 0;
                polling += 1;
                if polling > self.paths.list.len() {
                    return Ok(Stop::Polling);
                }
            }
            if reason == Pause::Turns {
                return Ok(Stop::Yielded);
            }
        }
    }

    /// The fault of a path that could go on when the warp has run all that it may.
    #[cold]
    fn over_budget(&self, block: &Block<'_>, index: usize) -> Box<Fault> {
        let group = match block.launch.cluster_blocks() {
            1 => "block",
            _ => "cluster",
        };
        let message = format!(
            "the warps of a {group} ran {} instructions, as many as they may, and are not done",
            block.launch.budget
        );
        let fault = Fault::new(FaultKind::InstructionBudget, None, message);
        fault.in_warp(self.index, self.paths.list[index].pc)
    }

    /// What happens if no path is ready.
    fn stuck(&mut self, block: &mut Block<'_>) -> Checked<Stop> {
        if self.paths.list.is_empty() {
            return Ok(Stop::Done);
        }
        if self.paths.list.iter().all(|path| waits(path.state)) {
            return Ok(Stop::Blocked);
        }
        if self.paths.list.iter().any(|path| waits(path.state)) {
            // The block may yet let the waiting lanes go on; only then is the fault certain.
            return Ok(Stop::Blocked);
        }
        Err(self.cannot_converge(block))
    }

    /// The fault of lanes that wait for each other at different instructions.
    pub(crate) fn cannot_converge(&self, block: &Block<'_>) -> Box<Fault> {
        let first = self
            .paths
            .list
            .iter()
            .find(|path| path.state == State::Converging);
        let pc = first.map_or(0, |path| path.pc);
        let mask = first.map_or(0, |path| path.mask);
        let program = &block.launch.program;
        let is_barrier = match &program.code[pc as usize].op {
            Op::Barrier(_) => true,
            Op::Asynchronous(op) => op.is_aligned(),
            _ => false,
        };
        let (kind, what) = if is_barrier {
            (FaultKind::DivergentBarrier, "an aligned barrier")
        } else {
            (FaultKind::Deadlock, "a warp-wide instruction")
        };
        let message = format!(
            "{what} is reached by lanes 0x{mask:08x} of warp {}, but lanes 0x{:08x} do not come",
            self.index,
            self.paths.live() & !mask
        );
        let mut fault = Fault::new(kind, None, message);
        fault.pc = pc;
        fault.warp = self.index;
        for path in self.paths.list.iter().filter(|path| path.pc != pc) {
            let line = program.code[path.pc as usize].line;
            fault = fault.note(format!("lanes 0x{:08x} wait at PTX line {line}", path.mask));
        }
        fault
    }

    /// Runs one path until another one should run.
    fn run_path(&mut self, block: &mut Block<'_>, index: usize, end: u64) -> Checked<Pause> {
        let launch = block.launch;
        let code = launch.program.code.as_slice();
        let constants = &launch.program.constants;
        let mut patience = PATIENCE;
        let path = &self.paths.list[index];
        self.regs.enter(path.frame().window);
        let (mut pc, mut mask) = (path.pc, path.mask);
        let mut alone = self.paths.list.len() == 1;
        let counting = block.counters.is_on();
        let mut watching = self.flight.watches() || self.open.is_some();
        loop {
            let inst = &code[pc as usize];
            let before = (self.warp_instructions, self.lane_instructions);
            let active = match inst.guard {
                None => mask,
                Some(guard) => {
                    let pred = self.regs.pred(constants, guard.pred);
                    mask & if guard.negated { !pred } else { pred }
                }
            };
            if watching {
                let program = &launch.program;
                if active != 0 && self.flight.watches() {
                    let touched = self.flight.touch(program, &self.regs, inst, pc);
                    touched.map_err(|(pc, fault)| fault.in_warp(self.index, pc))?;
                }
                if self.open.is_some() {
                    self.follow_open(block, (inst, pc), mask, active)?;
                }
            }
            self.warp_instructions += u64::from(inst.weight);
            let lanes = match active {
                FULL_MASK => LANES as u32, // a machine may have no instruction that counts bits
                active => active.count_ones(),
            };
            self.lane_instructions += u64::from(lanes * inst.weight);
            let flow = if let Op::Lanes(kernel, args) = &inst.op {
                if active != 0 {
                    kernel.run(&mut self.regs, constants, args, active);
                }
                Flow::Next
            } else {
                self.paths.list[index].pc = pc;
                if counting {
                    block.counters.at(pc);
                }
                self.site = Site::new(self.index, pc, inst);
                let flow = self
                    .step(block, inst, index, active)
                    .map_err(|fault| fault.in_warp(self.index, pc))?;
                if self.open.is_some() {
                    self.settle(&inst.op, &launch.program.touched[pc as usize], active);
                }
                watching = self.flight.watches() || self.open.is_some();
                if self.stops && block.cluster.order.borrow().has_visits() {
                    self.polls = POLLS;
                }
                flow
            };
            if counting {
                // An instruction that has taken back its count, because it will run again, was not
                // issued.
                let warp = self.warp_instructions.wrapping_sub(before.0);
                let lane = self.lane_instructions.wrapping_sub(before.1);
                block.counters.issued(pc, warp, lane);
            }
            match flow {
                Flow::Next => pc += 1,
                Flow::Jump(target) => pc = target,
                Flow::Parted => return Ok(Pause::Parted),
                Flow::Yield => {
                    self.paths.list[index].pc = pc + 1;
                    return Ok(Pause::Polling);
                }
            }
            if self.polls >= POLLS {
                self.paths.list[index].pc = pc;
                return Ok(Pause::Polling);
            }
            if self.warp_instructions >= end {
                self.paths.list[index].pc = pc;
                return Ok(Pause::Turns);
            }
            if !alone {
                self.paths.list[index].pc = pc;
                patience -= 1;
                if patience == 0 {
                    return Ok(Pause::Patience);
                }
                if self.paths.behind(index) {
                    return Ok(Pause::Parted);
                }
            }
            if self.paths.list.len() == 1 {
                alone = true;
                mask = self.paths.list[index].mask;
            }
        }
    }

    /// Runs one operation that is not lane-wise.
    fn step(
        &mut self,
        block: &mut Block<'_>,
        inst: &Inst,
        index: usize,
        active: u32,
    ) -> Checked<Flow> {
        match &inst.op {
            Op::Branch { target } => return Ok(self.branch(index, active, *target)),
            Op::Collective(collective) => return self.meet(block, collective, index, active),
            Op::Barrier(barrier) => {
                let waits = self.recorded(block, inst, index, |warp, block| {
                    warp.barrier(block, barrier, index, active)
                })?;
                return Ok(if waits { Flow::Parted } else { Flow::Next });
            }
            Op::Tensor(op) => {
                let goes_on = self.recorded(block, inst, index, |warp, block| {
                    warp.tensor(block, op, index, active)
                })?;
                return Ok(if goes_on { Flow::Next } else { Flow::Parted });
            }
            _ if active == 0 => return Ok(Flow::Next),
            Op::Asynchronous(op) => {
                let waits = self.recorded(block, inst, index, |warp, block| {
                    warp.asynchronous(block, op, index, active)
                })?;
                return Ok(if waits { Flow::Parted } else { Flow::Next });
            }
            Op::Exit => {
                self.exit(block, index, active);
                return Ok(Flow::Parted);
            }
            Op::Return => {
                self.return_lanes(block, index, active);
                return Ok(Flow::Parted);
            }
            Op::Call(call) => {
                self.call(block, call, index, active)?;
                return Ok(Flow::Parted);
            }
            Op::BranchIndexed {
                index: slot,
                targets,
            } => {
                let choice = self.row32(block, *slot);
                self.branch_indexed(index, active, &choice, targets)?;
                return Ok(Flow::Parted);
            }
            Op::Load(access) => self.load(block, access, index, active)?,
            Op::Store(access) => self.store(block, access, index, active)?,
            Op::OpenStore(store) => self.open_store(block, store, index, active)?,
            Op::Atomic(atomic) => self.atomic(block, atomic, index, active)?,
            Op::Image(op) => self.image(block, op, active)?,
            Op::Special { d, source } => self.special(block, *d, *source, active),
            Op::FrameAddress { d, offset } => {
                let address = self.paths.list[index].frame().local + offset;
                match d.width {
                    crate::program::Width::B64 => self.regs.splat(d.slot, address, active),
                    _ => self.regs.splat(d.slot, address as u32, active),
                }
                self.settle_registers(&[*d], active);
            }
            Op::Stack(op) => self.stack(block, op, index, active)?,
            Op::Pack { d, parts } => self.pack(block, *d, parts, active),
            Op::Unpack { parts, a } => self.unpack(block, parts, *a, active),
            Op::Printf(printf) => self.printf(block, printf, index, active)?,
            Op::Heap(call) => self.heap(block, call, index, active)?,
            Op::AssertFail(places) => {
                return Err(self.assertion(block, places, index, active)?);
            }
            Op::Trap => {
                let lane = Some(active.trailing_zeros());
                let message = format!("lanes 0x{active:08x} ran into a trap");
                return Err(Fault::new(FaultKind::Trap, lane, message).note(
                    "a failed assertion, or in Rust a panic: an index out of bounds, a division by \
                     zero, an unwrapped `None`; debug builds and `warpsmith build --checked` \
                     name its text and its line"
                        .into(),
                ));
            }
            Op::Fence => self.fence(block, inst.scope),
            Op::Watch(watch) => self.watch(block, watch, active)?,
            Op::Yield => return Ok(Flow::Yield),
            Op::Nothing | Op::Lanes(..) => {}
        }
        Ok(Flow::Next)
    }

    fn branch(&mut self, index: usize, taken: u32, target: u32) -> Flow {
        let path = &mut self.paths.list[index];
        if taken == path.mask {
            return Flow::Jump(target);
        }
        if taken == 0 {
            return Flow::Next;
        }
        let other = Path {
            pc: target,
            mask: taken,
            ..path.clone()
        };
        path.mask &= !taken;
        path.pc += 1;
        self.paths.list.push(other);
        Flow::Parted
    }

    /// Splits the lanes of `wait` off a path; they stay at the instruction in state `state`, while
    /// the others go on. Returns the index of the path of `wait`.
    pub(crate) fn part(&mut self, index: usize, wait: u32, state: State) -> usize {
        let path = &mut self.paths.list[index];
        if path.mask == wait {
            path.state = state;
            return index;
        }
        let waiting = Path {
            mask: wait,
            state,
            ..path.clone()
        };
        path.mask &= !wait;
        path.pc += 1;
        self.paths.list.push(waiting);
        self.paths.list.len() - 1
    }

    /// Makes the lanes of `wait` run their instruction again after the next event, while the other
    /// lanes of the path go on.
    pub(crate) fn block_on(&mut self, index: usize, wait: u32) {
        self.uncount(wait);
        self.part(index, wait, State::Blocked);
    }

    /// Takes back the count of an instruction that will run again.
    pub(crate) fn uncount(&mut self, active: u32) {
        self.warp_instructions -= 1;
        self.lane_instructions -= u64::from(active.count_ones());
    }
}

/// Why a path stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// The paths have changed, or another path should run first.
    Parted,
    /// It has run for long while others were ready.
    Patience,
    /// It polls or sleeps.
    Polling,
    /// The warp's turn is over.
    Turns,
}
