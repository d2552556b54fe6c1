//! `wgmma`: computed when it is issued; its registers and operands are watched until it is waited
//! for.

use super::mma::{Operand, Operands, input};
use super::tile::{self, Tile};
use super::warpgroup::{Step, WARPS, Warpgroup};
use crate::check::{Channel, Operation};
use crate::exec::block::Block;
use crate::exec::fault::{Checked, Fault};
use crate::exec::registers::Slot;
use crate::exec::row::{FULL_MASK, LANES, Row};
use crate::exec::warp::Warp;
use crate::profile::Waited;
use crate::program::tensor::{WarpgroupA, Wgmma};
use crate::report::FaultKind;
use crate::semantics::tensor::fragment;

/// Rows of the result that one warp computes.
const ROWS: u32 = 16;

impl Warp {
    /// Runs one warp's part of a `wgmma.mma_async`: a quarter of the rows.
    pub(super) fn wgmma(&mut self, block: &mut Block<'_>, wgmma: &Wgmma, pc: u32) -> Checked<()> {
        let a_descriptor = match wgmma.a {
            WarpgroupA::Shared(slot, _) => self.uniform(block, slot, "the descriptor of A")?,
            WarpgroupA::Registers(_) => 0,
        };
        let b_descriptor = self.uniform(block, wgmma.b, "the descriptor of B")?;
        let step = Step {
            pc,
            descriptors: (a_descriptor, b_descriptor),
        };
        self.join_warpgroup(block, step)?;
        let scale_d = self.holds(block, wgmma.scale_d);
        if scale_d != 0 && scale_d != FULL_MASK {
            let message = format!("scale-d holds in lanes 0x{scale_d:08x} only");
            return Err(Fault::new(FaultKind::BarrierMisuse, None, message));
        }
        if self.index.is_multiple_of(WARPS) {
            let product = &wgmma.product;
            block.counters.wgmma(input(product.a), product.flops());
        }
        let operation = self.begin_wgmma(block, pc);
        let mut work = std::mem::take(&mut self.work);
        self.read_a(block, wgmma, a_descriptor, operation.as_ref(), &mut work.a)?;
        let b = self.read_b(block, wgmma, b_descriptor, operation.as_ref())?;
        let inputs: &[Slot] = match &wgmma.a {
            WarpgroupA::Registers(regs) => regs,
            WarpgroupA::Shared(..) => &[],
        };
        let order = block.cluster.order.borrow();
        let finish = operation.as_ref().map(|operation| order.finish(operation));
        let now = order.steps.of(block.agent(self.index));
        let end = finish.unwrap_or_default().at(now);
        drop(order);
        let place = (self.index % WARPS) as usize;
        let step = self.warpgroup(block).issued(place, &end);
        self.flight
            .issue(&self.regs, (pc, step), (&wgmma.d, inputs))?;
        let operands = Operands::new(wgmma.sum, &work.a, &b);
        for (i, d) in wgmma.d.iter().enumerate() {
            let cell = self.regs.row_mut::<u32>(*d);
            let start = match scale_d {
                0 => Row([0; LANES]),
                _ => *cell,
            };
            *cell = operands.add(i, ROWS as usize, &start);
        }
        self.work = work;
        self.warpgroup(block).share(place, b);
        Ok(())
    }

    /// B, which the first warp that runs the instruction reads for all four.
    fn read_b(
        &self,
        block: &mut Block<'_>,
        wgmma: &Wgmma,
        descriptor: u64,
        operation: Option<&Operation>,
    ) -> Checked<Operand> {
        let place = (self.index % WARPS) as usize;
        let (mut b, is_read) = self.warpgroup(block).shared(place);
        if !is_read {
            let tile = Tile {
                name: "B",
                element: wgmma.product.b,
                descriptor,
                transposed: wgmma.b_transposed,
            };
            let columns = 0..wgmma.product.n as u32;
            tile::read(block, tile, columns, operation.is_some(), &mut b)?;
            b.decode_b(&wgmma.product, wgmma.sum, wgmma.negated.1);
        }
        if let Some(operation) = operation {
            tile::check_races(block, &b, operation)?;
        }
        Ok(b)
    }

    /// A 64-bit operand that must be the same in all lanes.
    fn uniform(&self, block: &Block<'_>, slot: Slot, what: &str) -> Checked<u64> {
        let row = self.regs.row::<u64>(&block.launch.program.constants, slot);
        super::uniform(row, what)
    }

    /// A in this warp's rows.
    fn read_a(
        &self,
        block: &Block<'_>,
        wgmma: &Wgmma,
        descriptor: u64,
        operation: Option<&Operation>,
        a: &mut Operand,
    ) -> Checked<()> {
        let product = &wgmma.product;
        match &wgmma.a {
            WarpgroupA::Registers(regs) => {
                let place = |lane, reg, per| fragment::a(ROWS as usize, per, lane, reg, 0);
                self.fragment_bits(block, (product, product.a), regs, place, &mut a.bits);
            }
            WarpgroupA::Shared(_, transposed) => {
                let tile = Tile {
                    name: "A",
                    element: product.a,
                    descriptor,
                    transposed: *transposed,
                };
                let first = self.index % WARPS * ROWS;
                tile::read(block, tile, first..first + ROWS, operation.is_some(), a)?;
                if let Some(operation) = operation {
                    tile::check_races(block, a, operation)?;
                }
            }
        }
        a.decode_a(product, wgmma.sum, wgmma.negated.0);
        Ok(())
    }

    /// The asynchronous operation for the race check of its reads; `None` if races are not checked
    /// for.
    fn begin_wgmma(&self, block: &Block<'_>, pc: u32) -> Option<Operation> {
        let mut order = block.cluster.order.borrow_mut();
        let warp = block.agent(self.index);
        order
            .is_on()
            .then(|| order.begin(warp, 0, pc, Channel::Wgmma { warp }))
    }

    /// `wgmma.wait_group`; false while other warps of the warpgroup have not run what it waits for.
    pub(super) fn wait_wgmma(&mut self, block: &mut Block<'_>, most: u32) -> bool {
        if let Some(step) = self.flight.last_step(most as usize) {
            let place = (self.index % WARPS) as usize;
            let Some(learned) = self.warpgroup(block).wait(place, step) else {
                return false;
            };
            let warp = block.agent(self.index);
            block.cluster.order.borrow_mut().acquire(warp, &learned);
        }
        block.counters.wait(Waited::Wgmma);
        self.flight.wait(most as usize);
        true
    }

    /// The warpgroup of this warp.
    fn warpgroup<'a>(&self, block: &'a mut Block<'_>) -> &'a mut Warpgroup {
        &mut block.warpgroups[(self.index / WARPS) as usize]
    }
}
