//! Stores of registers that nobody wrote: the bytes that they store are as unwritten as the
//! registers.
//!
//! Where no lane stores such a register, it is a store like any other. Else all bits of such an
//! element are set in the store, so that a host which compares with a reference finds it. Its bytes
//! then count as not written.

use super::access::{Intent, count, each_rank, global};
use super::block::Block;
use super::fault::{Checked, Fault};
use super::row::{Lanes, Row};
use super::warp::Warp;
use crate::memory::lanes::{OpenPart, leave_open};
use crate::memory::space::Space;
use crate::profile::Touch;
use crate::program::{Access, Doubt, Inst, Op, OpenStore};
use crate::report::FaultKind;

/// The bytes that stores have left unwritten in a cluster, for reports.
#[derive(Debug, Default)]
pub(crate) struct LeftOpen(Vec<Left>);

/// What one element of one store has left unwritten.
#[derive(Clone, Copy, Debug)]
struct Left {
    pc: u32,
    element: usize,
    space: Space,
    /// The range of addresses in the space.
    low: u64,
    high: u64,
}

impl LeftOpen {
    fn add(&mut self, new: Left) {
        let key = |left: &Left| (left.pc, left.element, left.space);
        match self.0.iter_mut().find(|left| key(left) == key(&new)) {
            Some(left) => {
                left.low = left.low.min(new.low);
                left.high = left.high.max(new.high);
            }
            None => self.0.push(new),
        }
    }

    /// Adds to the report of a read of unwritten memory which stores may have left it so.
    pub(super) fn explain(&self, code: &[Inst], mut fault: Box<Fault>) -> Box<Fault> {
        let (FaultKind::Uninitialized, Some(address)) = (fault.kind, fault.address) else {
            return fault;
        };
        let end = address.saturating_add(fault.bytes);
        for left in &self.0 {
            let inst = &code[left.pc as usize];
            if let Op::OpenStore(store) = &inst.op
                && fault.space == Some(left.space)
                && let Some(Some((_, doubt))) = store.elements.get(left.element)
                && left.low < end
                && address < left.high
            {
                fault = explain(doubt, inst.line, fault);
            }
        }
        fault
    }
}

#[cold]
fn explain(doubt: &Doubt, line: u32, fault: Box<Fault>) -> Box<Fault> {
    let Doubt { register, origins } = doubt;
    let fault = fault.note(format!(
        "PTX line {line} stored `{register}` here or nearby, in lanes on whose way nothing had \
         written it: such bytes count as unwritten"
    ));
    origins.iter().fold(fault, |fault, (origin, line)| {
        fault.note(format!(
            "`{register}` may come from `{origin}`, which PTX line {line} takes unwritten"
        ))
    })
}

impl Warp {
    /// Runs a store of registers that may be unwritten, for the lanes of `mask`.
    pub(super) fn open_store(
        &mut self,
        block: &mut Block<'_>,
        store: &OpenStore,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        let constants = &block.launch.program.constants;
        let access = &store.access;
        let part = |(number, element): (usize, &Option<(_, Doubt)>)| {
            let (slot, _) = element.as_ref()?;
            let lanes = self.regs.pred(constants, *slot) & mask;
            (lanes != 0).then_some(OpenPart {
                number,
                bytes: access.element,
                lanes,
            })
        };
        let parts: Vec<OpenPart> = store.elements.iter().enumerate().filter_map(part).collect();
        if parts.is_empty() {
            return self.store(block, access, path, mask);
        }
        let addresses = self.addresses(block, access.base, access.offset, path);
        self.collect(block, access);
        block.cluster.effect();
        self.write_parts(block, access, &addresses, mask, &parts)
    }

    /// Runs a store that gets the bytes of `parts` from what loads have found unwritten.
    #[cold]
    pub(super) fn store_parts(
        &mut self,
        block: &mut Block<'_>,
        access: &Access,
        addresses: &Row<u64>,
        mask: u32,
        parts: &[OpenPart],
    ) -> Checked<()> {
        let is_global = |lane: usize| match access.space {
            Space::Generic => Space::of_generic(addresses.0[lane]) == Space::Global,
            space => space == Space::Global,
        };
        let outside = Lanes(mask).filter(|lane| is_global(*lane));
        let outside = outside.fold(0, |lanes, lane| lanes | 1 << lane);
        let line = block.launch.program.code[self.site.pc as usize].line;
        self.check_stored(block, parts, access.bytes, outside, line)?;
        self.write_parts(block, access, addresses, mask, parts)
    }

    /// Writes what a store has collected, with all bits of `parts` set, which stay unwritten.
    fn write_parts(
        &mut self,
        block: &mut Block<'_>,
        access: &Access,
        addresses: &Row<u64>,
        mask: u32,
        parts: &[OpenPart],
    ) -> Checked<()> {
        for part in parts {
            part.fill(&mut self.planes);
        }
        self.each_space(access.space, addresses, mask, |warp, space, own, mask| {
            warp.transfer(block, space, own, mask, access.bytes, Intent::Write)?;
            warp.leave_open(block, (space, access.bytes), own, mask, parts)?;
            count(block, space, Touch::Store, own, mask, access.bytes);
            Ok(())
        })
    }

    /// Marks what a store has just written as its lanes leave it. Of lanes that wrote to one place
    /// the highest decides, as it does for the content.
    fn leave_open(
        &mut self,
        block: &mut Block<'_>,
        (space, bytes): (Space, usize),
        addresses: &Row<u64>,
        mask: u32,
        parts: &[OpenPart],
    ) -> Checked<()> {
        let pc = self.site.pc;
        let record = |block: &Block<'_>, addresses: &Row<u64>, mask: u32| {
            for part in parts.iter().filter(|part| part.lanes & mask != 0) {
                let at = |lane: usize| addresses.0[lane] + part.at() as u64;
                let lanes = Lanes(part.lanes & mask);
                block.cluster.left_open.borrow_mut().add(Left {
                    pc,
                    element: part.number,
                    space,
                    low: lanes.map(at).min().unwrap_or(u64::MAX),
                    high: lanes.map(at).max().unwrap_or(0) + part.bytes as u64,
                });
            }
        };
        match space {
            Space::Global | Space::Generic => {
                record(block, addresses, mask);
                let intent = Intent::Write;
                global(
                    block,
                    addresses,
                    mask,
                    bytes,
                    intent,
                    |_, found, region, offsets| {
                        leave_open(region.bytes(), offsets, found.mask, parts);
                        Ok(())
                    },
                )
            }
            Space::Shared => each_rank(block, addresses, mask, |block, rank, own, mask| {
                record(block, own, mask);
                leave_open(
                    block.cluster.shared[rank as usize].bytes(),
                    own,
                    mask,
                    parts,
                );
                Ok(())
            }),
            Space::Local => {
                record(block, addresses, mask);
                self.leave_local_open(addresses, mask, parts);
                Ok(())
            }
            // Nothing can be stored there.
            Space::Param => Ok(()),
        }
    }
}
