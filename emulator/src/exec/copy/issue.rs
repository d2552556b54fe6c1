//! Bulk and tensor copies at issue: their operands, and the checks of addresses and sizes.

use std::rc::Rc;

use super::Issuer;
use super::reduce::of_map;
use super::shape::{Shape, TensorBox};
use super::tensor_map::read_map;
use super::transfer::{Across, Load, Store};
use crate::check::{Channel, Proxy};
use crate::exec::block::Block;
use crate::exec::engine::Landing;
use crate::exec::fault::{Checked, Fault};
use crate::exec::mbarrier::{MBARRIER_BYTES, Place, misuse};
use crate::exec::registers::Slot;
use crate::exec::row::Lanes;
use crate::exec::warp::Warp;
use crate::profile::Copied;
use crate::program::{
    AtomicOp, AtomicType, BulkCopy, Combine, Direction, GlobalSide, GroupKind, Pointer,
};
use crate::report::FaultKind;

/// Required alignment of addresses and sizes of bulk copies, in bytes.
const ALIGN: u64 = 16;

/// A copy that one lane issues, or several as one.
struct Issue<'a> {
    op: &'a BulkCopy,
    shape: Shape,
    reduce: Option<(AtomicOp, AtomicType)>,
    /// Index of the path in the warp.
    index: usize,
    /// The first of the lanes that issue it.
    lane: usize,
    lanes: u32,
}

impl Warp {
    /// Issues the copies of the lanes of `active`.
    pub(in crate::exec) fn bulk_copy(
        &mut self,
        block: &mut Block<'_>,
        op: &BulkCopy,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        block.cluster.effect();
        let as_one = self.stores_as_one(block, op, index, active);
        let issuers = if as_one {
            active & active.wrapping_neg()
        } else {
            active
        };
        for lane in Lanes(issuers) {
            let shape = self.shape(block, op, index, lane)?;
            let what = match op.global {
                GlobalSide::Tensor { .. } => Copied::Tensor,
                _ => Copied::Bulk,
            };
            block.counters.copy(what, 1, shape.bytes());
            let reduce = reduction(op, &shape, lane)?;
            let issue = Issue {
                op,
                shape,
                reduce,
                index,
                lane,
                lanes: if as_one { active } else { 1 << lane },
            };
            match op.direction {
                Direction::Load | Direction::Across => self.issue_load(block, &issue)?,
                Direction::Store => self.issue_store(block, &issue)?,
                Direction::Prefetch => {}
            }
        }
        Ok(())
    }

    /// Whether the lanes of a whole warp store the same bytes to the same place: ptxas makes one store
    /// of that. Of a reduction it makes one for each lane.
    fn stores_as_one(&self, block: &Block<'_>, op: &BulkCopy, index: usize, active: u32) -> bool {
        if op.direction != Direction::Store
            || op.combine != Combine::Replace
            || active.count_ones() < 2
            || active != self.paths.live()
        {
            return false;
        }
        let first = active.trailing_zeros() as usize;
        let pointer = |at: &Pointer| {
            let rows = self.addresses(block, at.base, at.offset, index);
            Lanes(active).all(|lane| rows.0[lane] == rows.0[first])
        };
        let number = |slot: &Slot| {
            let row = self.row32(block, *slot);
            Lanes(active).all(|lane| row.0[lane] == row.0[first])
        };
        let global = match &op.global {
            GlobalSide::Linear { at, bytes } => pointer(at) && number(bytes),
            GlobalSide::Tensor {
                map,
                coordinates,
                im2col: None,
            } => pointer(map) && coordinates.iter().all(number),
            GlobalSide::Tensor { .. } | GlobalSide::Shared { .. } => false,
        };
        let agent = block.agent(self.index);
        let mut groups = block.cluster.groups.borrow_mut();
        let committed = groups.of(GroupKind::Bulk, agent).together(active);
        global && op.shared.as_ref().is_none_or(pointer) && committed == active
    }

    /// The global side of a copy; for a copy from shared memory to a block, the source address
    /// there.
    fn shape(&self, block: &Block<'_>, op: &BulkCopy, index: usize, lane: usize) -> Checked<Shape> {
        let (map, coordinates, im2col) = match &op.global {
            GlobalSide::Tensor {
                map,
                coordinates,
                im2col,
            } => (map, coordinates, im2col),
            GlobalSide::Linear { at, bytes } => {
                let address = self.addresses(block, at.base, at.offset, index).0[lane];
                let bytes = u64::from(self.lane32(block, *bytes, lane));
                aligned("the global address of a copy", address, lane)?;
                aligned("the size of a copy", bytes, lane)?;
                return Ok(Shape::Linear { address, bytes });
            }
            GlobalSide::Shared { from, bytes } => {
                let address = self.shared_addresses(block, from, index, 1 << lane)?.0[lane];
                let bytes = u64::from(self.lane32(block, *bytes, lane));
                aligned("the size of a copy", bytes, lane)?;
                return Ok(Shape::Linear { address, bytes });
            }
        };
        let at = self.addresses(block, map.base, map.offset, index).0[lane];
        let (map, window) = read_map(block, map.space, at, lane)?;
        let wrong = |message: String| {
            let fault = Fault::new(FaultKind::TensorMap, Some(lane as u32), message);
            Err(fault.at(at))
        };
        if map.dims.len() != coordinates.len() {
            return wrong(format!(
                "a copy of {} dimensions through a map of a tensor of {}",
                coordinates.len(),
                map.dims.len()
            ));
        }
        if window.is_some() != im2col.is_some() {
            let (copy, made) = match window {
                Some(_) => ("tile", "im2col"),
                None => ("im2col", "tile"),
            };
            return wrong(format!(
                "a copy in {copy} mode through a map for {made} mode"
            ));
        }
        let mut start = [0; 5];
        for (at, slot) in start.iter_mut().zip(coordinates) {
            *at = self.lane32(block, *slot, lane) as i32;
        }
        let inner = i64::from(start[0]) * map.data_type.bytes() as i64;
        if im2col.is_none() && inner % 16 != 0 && op.mbarrier.is_some() {
            return wrong(format!(
                "a box that begins at coordinate {} of the innermost dimension, {inner} bytes from \
                 its start: the hardware loads from multiples of 16 bytes only",
                start[0]
            ));
        }
        if im2col.is_none() && start[0] < 0 && op.mbarrier.is_none() && op.shared.is_some() {
            return wrong(format!(
                "a store of a box that begins at coordinate {} of the innermost dimension: an H200 \
                 ends with an illegal instruction",
                start[0]
            ));
        }
        let mut offsets = [0; 3];
        let slots = im2col.as_deref().unwrap_or_default();
        for (at, slot) in offsets.iter_mut().zip(slots) {
            let constants = &block.launch.program.constants;
            *at = self.regs.row::<u16>(constants, *slot).0[lane];
        }
        Ok(Shape::Tensor(Rc::new(TensorBox {
            map,
            window,
            start,
            offsets,
        })))
    }

    fn place(
        &self,
        block: &Block<'_>,
        issue: &Issue<'_>,
        at: &Pointer,
        bytes: u64,
        align: u64,
        what: &str,
    ) -> Checked<Place> {
        let lane = issue.lane;
        let rows = self.shared_addresses(block, at, issue.index, 1 << lane)?;
        block.shared_place(rows.0[lane], lane, bytes, align, what)
    }

    /// Issues a copy that an mbarrier completes.
    fn issue_load(&self, block: &Block<'_>, issue: &Issue<'_>) -> Checked<()> {
        let (op, lane) = (issue.op, issue.lane);
        let (Some(shared), Some(mbarrier)) = (&op.shared, &op.mbarrier) else {
            return Ok(());
        };
        let (bytes, align) = (issue.shape.footprint(), issue.shape.align());
        let what = "the destination of a copy";
        let target = self.place(block, issue, shared, bytes, align, what)?;
        let size = MBARRIER_BYTES;
        let barrier = self.place(block, issue, mbarrier, size, size, "an mbarrier")?;
        if !op.remote {
            block.own_place(target, lane, "the destination")?;
        }
        if op.multicast.is_none() && barrier.rank != target.rank {
            let message = format!(
                "the destination lies in the shared memory of rank {}, its mbarrier in that of \
                 rank {}: both must be the same block's",
                target.rank, barrier.rank
            );
            return Err(misuse(Some(lane as u32), message).at(barrier.offset));
        }
        for rank in self.receivers(block, issue, target)? {
            let here = |place: Place| Place { rank, ..place };
            let (target, mbarrier) = (here(target), here(barrier));
            if block.cluster.exited[rank as usize].get() {
                let fault = crate::exec::access_faults::exited_peer;
                return Err(fault(target.offset, lane as u32, rank));
            }
            let channel = Channel::Mbarrier {
                rank,
                offset: mbarrier.offset as u32,
            };
            let issuer = Issuer::new(self, block, issue.index, lane, Proxy::Async, channel);
            let flight: Box<dyn Landing> = match (op.direction, &issue.shape) {
                (Direction::Across, Shape::Linear { address, bytes }) => Box::new(Across {
                    issuer,
                    source: self.own_source(block, *address, *bytes, align, lane)?,
                    target,
                    bytes: *bytes,
                    mbarrier,
                    reduce: issue.reduce,
                }),
                (_, shape) => Box::new(Load {
                    issuer,
                    shape: shape.clone(),
                    target,
                    mbarrier,
                }),
            };
            block.cluster.engine.borrow_mut().issue(flight);
        }
        Ok(())
    }

    /// The source of a copy, which must be in the block's own shared memory.
    fn own_source(
        &self,
        block: &Block<'_>,
        address: u64,
        bytes: u64,
        align: u64,
        lane: usize,
    ) -> Checked<Place> {
        let what = "the source of a copy";
        let place = block.shared_place(address, lane, bytes, align, what)?;
        block.own_place(place, lane, what)
    }

    /// The ranks of the blocks that receive a load.
    fn receivers(&self, block: &Block<'_>, issue: &Issue<'_>, target: Place) -> Checked<Vec<u32>> {
        let Some(slot) = issue.op.multicast else {
            return Ok(vec![target.rank]);
        };
        let constants = &block.launch.program.constants;
        let mask = u32::from(self.regs.row::<u16>(constants, slot).0[issue.lane]);
        let blocks = block.cluster.shared.len();
        if mask == 0 || mask >> blocks != 0 {
            let message = format!(
                "a multicast to blocks 0x{mask:x} of a cluster of {blocks}: the mask must name \
                 one or more of them"
            );
            let lane = Some(issue.lane as u32);
            return Err(Fault::new(FaultKind::OutOfBounds, lane, message));
        }
        let named = |rank: &u32| mask >> rank & 1 != 0;
        Ok((0..blocks as u32).filter(named).collect())
    }

    /// Issues a copy that a bulk group completes.
    fn issue_store(&self, block: &Block<'_>, issue: &Issue<'_>) -> Checked<()> {
        let (op, lane) = (issue.op, issue.lane);
        let Some(shared) = &op.shared else {
            return Ok(());
        };
        let what = "the source of a copy";
        let (bytes, align) = (issue.shape.footprint(), issue.shape.align());
        let source = self.place(block, issue, shared, bytes, align, what)?;
        let source = block.own_place(source, lane, what)?;
        let warp = block.agent(self.index);
        let issuer = |channel| Issuer::new(self, block, issue.index, lane, Proxy::Async, channel);
        let reader = issuer(Channel::BulkRead { warp });
        let writer = issuer(Channel::BulkWrite { warp });
        let mut groups = block.cluster.groups.borrow_mut();
        let flight = groups.issue(GroupKind::Bulk, warp, issue.lanes, true, reader.pc);
        block.cluster.engine.borrow_mut().issue(Box::new(Store {
            reader,
            writer,
            shape: issue.shape.clone(),
            source,
            flight,
            reduce: issue.reduce,
        }));
        Ok(())
    }
}

/// How a copy combines its data with what is at the destination.
fn reduction(op: &BulkCopy, shape: &Shape, lane: usize) -> Checked<Option<(AtomicOp, AtomicType)>> {
    match (op.combine, shape) {
        (Combine::Replace, _) => Ok(None),
        (Combine::Reduce(op, ty), _) => Ok(Some((op, ty))),
        (Combine::ReduceMapped(op), Shape::Tensor(tensor)) => {
            let ty = tensor.map.data_type;
            let found = of_map(op, ty);
            found.map(|ty| Some((op, ty))).ok_or_else(|| {
                let message = format!("no reduction {op:?} of elements of type {ty:?}");
                Fault::new(FaultKind::TensorMap, Some(lane as u32), message)
            })
        }
        (Combine::ReduceMapped(_), Shape::Linear { .. }) => Ok(None),
    }
}

fn aligned(what: &str, value: u64, lane: usize) -> Checked<()> {
    if value.is_multiple_of(ALIGN) {
        return Ok(());
    }
    let message = format!("{what} is 0x{value:x}: it must be a multiple of {ALIGN}");
    let fault = Fault::new(FaultKind::Misaligned, Some(lane as u32), message);
    Err(fault.at(value))
}
