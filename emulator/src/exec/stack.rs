//! `alloca`, `stacksave`, `stackrestore`, and accesses to memory of `alloca`.

use super::access::{Intent, check_plain};
use super::access_faults::{out_of_space, uninitialized};
use super::block::Block;
use super::fault::{Checked, Fault};
use super::row::{Lanes, Row};
use super::warp::Warp;
use crate::memory::lanes::{OpenPart, Planes};
use crate::memory::local::LOCAL_LIMIT;
use crate::memory::space::Space;
use crate::memory::stack::STACK_BASE;
use crate::program::{Reg, StackOp, Width};
use crate::report::FaultKind;

impl Warp {
    /// Runs a stack instruction for the lanes of `mask`.
    pub(crate) fn stack(
        &mut self,
        block: &Block<'_>,
        op: &StackOp,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        let depth = self.paths.list[path].frames.len();
        match *op {
            StackOp::Alloc { d, bytes, align } => {
                let bytes = self.stack_operand(block, bytes);
                let mut out = Row::<u64>::default();
                for lane in Lanes(mask) {
                    let size = (bytes.0[lane], align);
                    let starved = &block.launch.starved;
                    let given = self.stack.alloc(lane, depth, size, starved);
                    out.0[lane] = given.map_err(|needed| {
                        let message = format!(
                            "`alloca` of {} bytes makes {needed} bytes; a thread has {LOCAL_LIMIT}",
                            bytes.0[lane]
                        );
                        Fault::new(FaultKind::StackOverflow, Some(lane as u32), message)
                    })?;
                }
                self.put_address(d, &out, mask);
            }
            StackOp::Save(d) => {
                let mut out = Row::<u64>::default();
                Lanes(mask).for_each(|lane| out.0[lane] = self.stack.end(lane));
                self.put_address(d, &out, mask);
            }
            StackOp::Restore(a) => {
                let saved = self.stack_operand(block, a);
                for lane in Lanes(mask) {
                    self.stack.restore(lane, saved.0[lane]).map_err(|()| {
                        let message = format!(
                            "`stackrestore` to 0x{:x}, but the stack ends at 0x{:x}",
                            saved.0[lane],
                            self.stack.end(lane)
                        );
                        Fault::new(FaultKind::StackOverflow, Some(lane as u32), message)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn stack_operand(&self, block: &Block<'_>, reg: Reg) -> Row<u64> {
        let constants = &block.launch.program.constants;
        match reg.width {
            Width::B64 => *self.regs.row::<u64>(constants, reg.slot),
            _ => self.regs.row::<u32>(constants, reg.slot).map(u64::from),
        }
    }

    fn put_address(&mut self, d: Reg, value: &Row<u64>, mask: u32) {
        match d.width {
            Width::B64 => self.regs.put(d.slot, value, mask),
            _ => self.regs.put(d.slot, &value.map(|v| v as u32), mask),
        }
    }

    /// Reads `bytes` of local memory into the planes for each lane of `mask`.
    pub(super) fn read_local(
        &mut self,
        block: &Block<'_>,
        addresses: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) -> Checked<()> {
        let (mut mask, intent) = (mask, Intent::Read);
        let missing = |lane| uninitialized(Space::Local, addresses, lane, bytes);
        if self.stack.holds(addresses, mask) {
            let (low, high, own) = self.part_stack(addresses, mask, bytes, intent)?;
            let memory = &self.stack.memory;
            if let Err(lane) = memory.load(&own, high, bytes, &mut self.planes) {
                let mut bits = Box::<Planes>::default();
                memory.load_anyway(&own, high, bytes, &mut self.planes, &mut bits);
                self.found_missing(block, lane, high, bits, &missing)?;
            }
            mask = low;
        }
        if mask == 0 {
            return Ok(());
        }
        let limit = self.local_limit(block);
        check_plain(addresses, mask, bytes, limit, Space::Local, intent)?;
        if let Err(lane) = self.local.load(addresses, mask, bytes, &mut self.planes) {
            let mut bits = Box::<Planes>::default();
            let planes = &mut self.planes;
            self.local
                .load_anyway(addresses, mask, bytes, planes, &mut bits);
            self.found_missing(block, lane, mask, bits, &missing)?;
        }
        Ok(())
    }

    /// Writes `bytes` from the planes to local memory for each lane of `mask`.
    pub(super) fn write_local(
        &mut self,
        block: &Block<'_>,
        addresses: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) -> Checked<()> {
        let (mut mask, intent) = (mask, Intent::Write);
        if self.stack.holds(addresses, mask) {
            let (low, high, own) = self.part_stack(addresses, mask, bytes, intent)?;
            self.stack.memory.store(&own, high, bytes, &self.planes);
            mask = low;
        }
        if mask == 0 {
            return Ok(());
        }
        let limit = self.local_limit(block);
        check_plain(addresses, mask, bytes, limit, Space::Local, intent)?;
        self.local.store(addresses, mask, bytes, &self.planes);
        Ok(())
    }

    /// Marks what a store has written to local memory as the lanes of `mask` leave it.
    pub(super) fn leave_local_open(&mut self, addresses: &Row<u64>, mask: u32, parts: &[OpenPart]) {
        let high = self.stack.lanes(addresses, mask);
        let own = addresses.map(|address| address.wrapping_sub(STACK_BASE));
        self.stack.memory.leave_open(&own, high, parts);
        self.local.leave_open(addresses, mask & !high, parts);
    }

    /// The end of the local memory of the deepest call.
    fn local_limit(&self, block: &Block<'_>) -> u64 {
        let functions = &block.launch.program.functions;
        let end = |path: &super::path::Path| {
            let frame = path.frame();
            frame.local + functions[frame.function as usize].frame_bytes
        };
        self.paths.list.iter().map(end).max().unwrap_or(0)
    }

    /// Splits an access into the lanes that address frames and those that address memory of
    /// `alloca`, with the latter's offsets there.
    ///
    /// # Errors
    /// An address outside the thread's allocations, or misaligned.
    fn part_stack(
        &self,
        addresses: &Row<u64>,
        mask: u32,
        bytes: usize,
        intent: Intent,
    ) -> Checked<(u32, u32, Row<u64>)> {
        let high = self.stack.lanes(addresses, mask);
        for lane in Lanes(high) {
            let (at, end) = (addresses.0[lane], self.stack.end(lane));
            let inside = at.checked_add(bytes as u64).is_some_and(|to| to <= end);
            if !inside || at & (bytes as u64 - 1) != 0 {
                let size = end - STACK_BASE;
                let region = (STACK_BASE, STACK_BASE + size);
                return Err(out_of_space(
                    addresses,
                    1 << lane,
                    bytes,
                    region.0,
                    region.1,
                    Space::Local,
                    intent,
                ));
            }
        }
        let offsets = addresses.map(|address| address.wrapping_sub(STACK_BASE));
        Ok((mask & !high, high, offsets))
    }
}
