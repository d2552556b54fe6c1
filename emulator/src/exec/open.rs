//! What loads find unwritten in memory, followed to where it matters.
//!
//! A load may read bytes that nothing wrote and throw them away: padding of a copied structure, or
//! an element beyond the end that a later choice drops. So such a load is not a fault. From then on
//! the warp keeps two more copies of its registers, in which the unwritten bits are all zeros, or
//! all ones. Operations between registers run on these copies too: a bit in which the copies differ
//! depends on unwritten bytes. Arithmetic depends on all of its sources, as for registers that
//! nothing wrote. The fault is where such bits are an address, a guard, or an operand of anything
//! but moves and arithmetic. A store leaves the bytes unwritten that it gets from such bits, unless
//! it stores nothing else to global memory.

use super::block::Block;
use super::fault::{Checked, Fault};
use super::kernel::{Args, Kernel};
use super::planes::{pack_planes, unpack_planes};
use super::registers::{Registers, Slot};
use super::row::{LANES, Lanes};
use super::warp::Warp;
use crate::memory::lanes::{OpenPart, Planes};
use crate::memory::space::Space;
use crate::program::tensor::{TensorOp, WarpgroupA};
use crate::program::{
    Access, Asynchronous, AtomicOp, Base, Inst, MbarrierKind, Op, Reg, StackOp, Width,
};
use crate::report::FaultKind;

/// Loads that are remembered for reports, counted by lanes.
const REMEMBERED: usize = 256;
/// Instructions between two looks at whether anything unwritten is left.
const PERIOD: u32 = 4096;

/// The copies of a warp's registers.
#[derive(Debug)]
pub(crate) struct Open {
    /// With zeros for unwritten bits.
    low: Registers,
    /// With ones for unwritten bits.
    high: Registers,
    /// The faults of the loads that found unwritten bytes, by lane, the newest last.
    origins: Vec<(u32, Box<Fault>)>,
    age: u32,
}

/// What one load found unwritten.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// The unwritten bits of its data.
    pub(super) bits: Planes,
    pub(super) faults: Vec<(u32, Box<Fault>)>,
}

impl Open {
    fn new(registers: &Registers) -> Self {
        Self {
            low: registers.clone(),
            high: registers.clone(),
            origins: Vec::new(),
            age: 0,
        }
    }

    /// Makes the windows and sizes of the copies those of the registers.
    fn follow(&mut self, registers: &Registers) {
        self.low.follow(registers);
        self.high.follow(registers);
    }

    /// The lanes in which a register depends on unwritten bytes.
    fn lanes(&self, reg: Reg) -> u32 {
        self.low.differs(&self.high, reg)
    }

    fn remember(&mut self, faults: Vec<(u32, Box<Fault>)>) {
        // The lowest lane is found first.
        self.origins.extend(faults.into_iter().rev());
        let over = self.origins.len().saturating_sub(REMEMBERED);
        self.origins.drain(..over);
    }

    /// The newest load of unwritten bytes, by one of these lanes if there is one.
    fn origin(&self, lanes: u32) -> Option<&Fault> {
        let own = self.origins.iter().rev();
        let mut own = own.filter(|(lane, _)| lanes >> lane & 1 != 0);
        let newest = own.next().or(self.origins.last());
        newest.map(|(_, fault)| &**fault)
    }

    /// The fault of a use at `line` by these lanes.
    #[cold]
    fn used(&self, lanes: u32, line: u32) -> Option<Box<Fault>> {
        let fault = Box::new(self.origin(lanes)?.clone());
        Some(fault.note(format!("PTX line {line} uses what this read")))
    }
}

impl Warp {
    /// Runs an operation between registers on the copies, if there are any.
    pub(super) fn on_copies(&mut self, mut run: impl FnMut(&mut Self)) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        open.follow(&self.regs);
        for copy in [&mut open.low, &mut open.high] {
            std::mem::swap(&mut self.regs, copy);
            run(self);
            std::mem::swap(&mut self.regs, copy);
        }
        self.open = Some(open);
    }

    /// What an instruction that is about to run does to the copies. `mask` has the lanes of its
    /// path, `active` those that its guard lets through.
    #[cold]
    pub(super) fn follow_open(
        &mut self,
        block: &Block<'_>,
        (inst, pc): (&Inst, u32),
        mask: u32,
        active: u32,
    ) -> Checked<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        open.follow(&self.regs);
        open.age += 1;
        if open.age.is_multiple_of(PERIOD) && open.low == open.high {
            self.open = None;
            return Ok(());
        }
        if let Some(guard) = inst.guard {
            let pred = register(guard.pred, Width::Pred);
            let lanes = pred.map_or(0, |pred| open.lanes(pred)) & mask;
            self.refuse(block, lanes, inst.line)?;
        }
        if active == 0 {
            return Ok(());
        }
        if let Op::Lanes(kernel, args) = &inst.op {
            self.compute(block, *kernel, args, inst.computes, active);
            return Ok(());
        }
        let named = &block.launch.program.touched[pc as usize];
        self.refuse(block, self.matters(&inst.op, named) & active, inst.line)
    }

    fn refuse(&self, block: &Block<'_>, lanes: u32, line: u32) -> Checked<()> {
        let fault = match &self.open {
            Some(open) if lanes != 0 => open.used(lanes, line),
            _ => None,
        };
        fault.map_or(Ok(()), |fault| {
            let findings = &block.cluster.findings;
            findings.note((fault.kind, fault.pc), false, || fault)
        })
    }

    /// Runs a lane-wise operation on the copies.
    fn compute(
        &mut self,
        block: &Block<'_>,
        kernel: Kernel,
        args: &Args,
        computes: bool,
        active: u32,
    ) {
        let constants = &block.launch.program.constants;
        let Some(open) = &mut self.open else { return };
        let sources = [args.a, args.b, args.c, args.f];
        let sources = sources.into_iter().zip(args.widths.sources);
        let sources = sources.filter_map(|(slot, width)| register(slot, width?));
        let doubtful = sources.fold(0, |lanes, reg| lanes | open.lanes(reg)) & active;
        kernel.run(&mut open.low, constants, args, active);
        kernel.run(&mut open.high, constants, args, active);
        if computes
            && doubtful != 0
            && let Some(width) = args.widths.d
        {
            let slot = args.d;
            open.low.fill(Reg { slot, width }, false, doubtful);
            open.high.fill(Reg { slot, width }, true, doubtful);
        }
    }

    /// The lanes in which an operation other than a lane-wise one depends on unwritten bytes.
    fn matters(&self, op: &Op, named: &[Reg]) -> u32 {
        let Some(open) = &self.open else { return 0 };
        let all = |regs: &[Reg]| regs.iter().fold(0, |lanes, reg| lanes | open.lanes(*reg));
        let slots = |slots: &[Slot]| {
            let own = slots.iter().filter_map(|slot| register(*slot, Width::B32));
            own.fold(0, |lanes, reg| lanes | open.lanes(reg))
        };
        let base = |base: &Base| match base {
            Base::Register(reg) => open.lanes(*reg),
            _ => 0,
        };
        let but = |slots: &[Option<Slot>]| {
            let own = named.iter().filter(|reg| !slots.contains(&Some(reg.slot)));
            own.fold(0, |lanes, reg| lanes | open.lanes(*reg))
        };
        match op {
            Op::Load(access) | Op::Store(access) => base(&access.base),
            Op::OpenStore(store) => base(&store.access.base),
            Op::Atomic(atomic) => base(&atomic.base) | all(&atomic.b) | all(&atomic.c),
            Op::BranchIndexed { .. } | Op::Call(_) => but(&[]),
            Op::Printf(_) | Op::AssertFail(_) | Op::Heap(_) => but(&[]),
            Op::Barrier(barrier) => but(&[barrier.d.map(|d| d.slot)]),
            Op::Stack(op) => match **op {
                StackOp::Alloc { d, .. } | StackOp::Save(d) => but(&[Some(d.slot)]),
                StackOp::Restore(_) => but(&[]),
            },
            Op::Asynchronous(op) => match &**op {
                Asynchronous::Mbarrier(op) => {
                    let p = match op.kind {
                        MbarrierKind::Wait { p, .. } => Some(p),
                        _ => None,
                    };
                    but(&[op.d, p])
                }
                Asynchronous::RankOf { d, .. } => but(&[Some(d.slot)]),
                _ => but(&[]),
            },
            Op::Tensor(op) => match &**op {
                TensorOp::LoadMatrix(matrices) => base(&matrices.base),
                TensorOp::LoadFragment(fragment) => {
                    base(&fragment.base) | slots(&[fragment.stride])
                }
                TensorOp::StoreMatrix(_) | TensorOp::StoreFragment(_) => but(&[]),
                TensorOp::Wgmma(wgmma) => match &wgmma.a {
                    WarpgroupA::Registers(a) => slots(a),
                    WarpgroupA::Shared(..) => 0,
                },
                TensorOp::Mma(_) | TensorOp::MoveMatrix { .. } | TensorOp::ConvertSums(_) => 0,
                TensorOp::WgmmaFence | TensorOp::WgmmaCommit | TensorOp::WgmmaWait(_) => 0,
            },
            _ => 0,
        }
    }

    /// After an operation that only ran on the registers: the copies take over what it wrote.
    #[cold]
    pub(super) fn settle(&mut self, op: &Op, named: &[Reg], active: u32) {
        let runs_on_copies = match op {
            Op::Lanes(..) | Op::Special { .. } | Op::FrameAddress { .. } => true,
            Op::Pack { .. } | Op::Unpack { .. } | Op::Load(_) | Op::Collective(_) => true,
            Op::Tensor(op) => op.runs_on_copies(),
            Op::Atomic(atomic) => atomic.op == AtomicOp::Exch,
            Op::Store(_) | Op::OpenStore(_) | Op::Watch(_) => true, // they write no register
            _ => false,
        };
        if !runs_on_copies {
            self.settle_registers(named, active);
        } else if matches!(op, Op::Tensor(op) if op.computes()) {
            self.open_whole(named);
        }
    }

    /// Registers that depend on unwritten bytes in some bits do in all: a sum of products has
    /// no single bits.
    fn open_whole(&mut self, regs: &[Reg]) {
        let Some(open) = &mut self.open else { return };
        open.follow(&self.regs);
        for reg in regs {
            let lanes = open.lanes(*reg);
            open.low.fill(*reg, false, lanes);
            open.high.fill(*reg, true, lanes);
        }
    }

    /// The copies take over registers.
    pub(super) fn settle_registers(&mut self, regs: &[Reg], active: u32) {
        let Some(open) = &mut self.open else { return };
        open.follow(&self.regs);
        for reg in regs {
            open.low.take_over(&self.regs, *reg, active);
            open.high.take_over(&self.regs, *reg, active);
        }
    }

    /// What becomes of a read of bytes that nothing wrote, first by lane `first`: a fault, unless it
    /// is followed to where it matters, or is not looked for. Returns the lanes that it is followed
    /// in.
    #[cold]
    pub(super) fn found_missing(
        &mut self,
        block: &Block<'_>,
        first: u32,
        mask: u32,
        bits: Box<Planes>,
        faulty: &dyn Fn(u32) -> Box<Fault>,
    ) -> Checked<u32> {
        if !block.launch.checks.unwritten {
            return Ok(0);
        }
        let (warp, pc) = (self.index, self.site.pc);
        let placed = |lane| faulty(lane).in_place(block.rank, warp, pc);
        if !self.tolerates {
            let findings = &block.cluster.findings;
            findings.note((FaultKind::Uninitialized, pc), false, || placed(first))?;
            return Ok(0);
        }
        let missing = self.missing.get_or_insert_default();
        for (plane, own) in missing.bits.iter_mut().zip(&*bits) {
            plane.blend(own, mask);
        }
        let reads = |lane: &usize| bits.iter().any(|plane| plane.0[*lane] != 0);
        let mut lanes = 0;
        for lane in Lanes(mask).filter(reads) {
            missing.faults.push((lane as u32, placed(lane as u32)));
            lanes |= 1 << lane;
        }
        Ok(lanes)
    }

    /// Notes what a load has found, and runs `unpack` for the data with zeros and with ones where
    /// nothing wrote, each on its copy.
    #[cold]
    pub(super) fn unpack_open(&mut self, mut unpack: impl FnMut(&mut Registers, &Planes)) {
        let missing = self.missing.take();
        if self.open.is_none() {
            if missing
                .as_ref()
                .is_none_or(|missing| missing.faults.is_empty())
            {
                return;
            }
            self.open = Some(Box::new(Open::new(&self.regs)));
        }
        let Some(open) = &mut self.open else { return };
        open.follow(&self.regs);
        let (mut low, mut high) = (*self.planes, *self.planes);
        if let Some(missing) = missing {
            for (plane, bits) in missing.bits.iter().enumerate() {
                for lane in 0..LANES {
                    low[plane].0[lane] &= !bits.0[lane];
                    high[plane].0[lane] |= bits.0[lane];
                }
            }
            open.remember(missing.faults);
        }
        unpack(&mut open.low, &low);
        unpack(&mut open.high, &high);
    }

    /// The results of an exchange on the copies: those of lanes that found unwritten bytes depend on
    /// them in all bits.
    pub(super) fn settle_exchange(&mut self, results: &[Reg], mask: u32) {
        let faults = self.missing.take().unwrap_or_default().faults;
        if !faults.is_empty() && self.open.is_none() {
            self.open = Some(Box::new(Open::new(&self.regs)));
        }
        self.settle_registers(results, mask);
        if let Some(open) = &mut self.open {
            let lanes = faults.iter().fold(0, |lanes, (lane, _)| lanes | 1 << lane);
            for reg in results {
                open.low.fill(*reg, false, lanes);
                open.high.fill(*reg, true, lanes);
            }
            open.remember(faults);
        }
    }

    /// A load's registers on the copies.
    pub(super) fn unpack_access(&mut self, access: &Access, mask: u32) {
        self.unpack_open(|regs, planes| unpack_planes(regs, planes, access, mask));
    }

    /// The bytes of a store that depend on unwritten bytes, if there are any.
    #[cold]
    pub(super) fn open_bytes(
        &mut self,
        block: &Block<'_>,
        access: &Access,
        mask: u32,
    ) -> Vec<OpenPart> {
        let constants = &block.launch.program.constants;
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        open.follow(&self.regs);
        let (mut low, mut high) = (Planes::default(), Planes::default());
        pack_planes(&open.low, constants, &mut low, access);
        pack_planes(&open.high, constants, &mut high, access);
        let part = |number: usize| {
            let is_open = |lane: &usize| {
                let bits = low[number / 4].0[*lane] ^ high[number / 4].0[*lane];
                bits >> (8 * (number % 4)) & 0xff == 0xff
            };
            let own = Lanes(mask).filter(is_open);
            let lanes = own.fold(0, |lanes, lane| lanes | 1 << lane);
            (lanes != 0).then_some(OpenPart {
                number,
                bytes: 1,
                lanes,
            })
        };
        (0..access.bytes).filter_map(part).collect()
    }

    /// Refuses a store of only unwritten bytes to global memory. A value from the
    /// thread's own memory may be the payload of an enum, which is copied for any tag.
    pub(super) fn check_stored(
        &self,
        block: &Block<'_>,
        parts: &[OpenPart],
        bytes: usize,
        mask: u32,
        line: u32,
    ) -> Checked<()> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        if parts.len() < bytes {
            return Ok(());
        }
        let lanes = parts.iter().fold(mask, |lanes, part| lanes & part.lanes);
        let is_own = |fault: &Fault| fault.space == Some(Space::Local);
        if lanes == 0 || open.origin(lanes).is_none_or(is_own) {
            return Ok(());
        }
        self.refuse(block, lanes, line)
    }
}

fn register(slot: Slot, width: Width) -> Option<Reg> {
    slot.in_register().map(|_| Reg { slot, width })
}
