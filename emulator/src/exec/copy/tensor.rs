//! Tensor copies at issue: the map, the coordinates, the rules of the addresses.

use std::rc::Rc;

use super::Issuer;
use super::shape::{Shape, TensorBox};
use super::transfer::{Load, Store};
use crate::check::Channel;
use crate::exec::block::Block;
use crate::exec::fault::{Checked, Fault};
use crate::exec::mbarrier::{MBARRIER_BYTES, Place, misuse};
use crate::exec::row::Lanes;
use crate::exec::warp::Warp;
use crate::memory::global::at_or_below;
use crate::memory::space::Space;
use crate::profile::Copied;
use crate::program::{Direction, GroupKind, TensorCopy};
use crate::report::FaultKind;
use crate::tensor_map::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TensorMapDesc};

/// Alignment of a box in shared memory.
const BOX_ALIGN: u64 = 128;

impl Warp {
    /// Issues the tensor copies of the lanes of `active`.
    pub(in crate::exec) fn tensor_copy(
        &mut self,
        block: &mut Block<'_>,
        op: &TensorCopy,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let maps = self.addresses(block, op.map.base, op.map.offset, index);
        block.cluster.effect();
        for lane in Lanes(active) {
            let map = read_map(block, op.map.space, maps.0[lane], lane)?;
            let shape = self.tensor_shape(block, op, map, lane)?;
            block.counters.copy(Copied::Tensor, 1, shape.bytes());
            match op.direction {
                Direction::Load => self.issue_load(block, op, shape, index, lane)?,
                Direction::Store => self.issue_store(block, op, shape, index, lane)?,
                Direction::Prefetch => {}
            }
        }
        Ok(())
    }

    fn tensor_shape(
        &self,
        block: &Block<'_>,
        op: &TensorCopy,
        map: TensorMapDesc,
        lane: usize,
    ) -> Checked<Shape> {
        if map.dims.len() != op.coordinates.len() {
            let message = format!(
                "a copy of {} dimensions through a map of a tensor of {}",
                op.coordinates.len(),
                map.dims.len()
            );
            return Err(Fault::new(FaultKind::TensorMap, Some(lane as u32), message));
        }
        let mut start = [0; 5];
        for (at, slot) in start.iter_mut().zip(&op.coordinates) {
            *at = self.lane32(block, *slot, lane) as i32;
        }
        Ok(Shape::Tensor(Rc::new(TensorBox { map, start })))
    }

    fn issuer(&self, block: &Block<'_>, index: usize, lane: usize, channel: Channel) -> Issuer {
        let pc = self.paths.list[index].pc;
        let agent = block.agent(self.index);
        let mut order = block.cluster.order.borrow_mut();
        Issuer {
            rank: block.rank,
            warp: self.index,
            lane: lane as u32,
            pc,
            operation: order.begin(agent, lane as u32, pc, channel),
        }
    }

    fn issue_load(
        &self,
        block: &Block<'_>,
        op: &TensorCopy,
        shape: Shape,
        index: usize,
        lane: usize,
    ) -> Checked<()> {
        let (Some(shared), Some(mbarrier)) = (&op.shared, &op.mbarrier) else {
            return Ok(());
        };
        let own = 1 << lane;
        let to = self.shared_addresses(block, shared, index, own)?.0[lane];
        let at = self.shared_addresses(block, mbarrier, index, own)?.0[lane];
        let bytes = shape.footprint();
        let target = block.shared_place(to, lane, bytes, BOX_ALIGN, "the destination of a copy")?;
        let barrier =
            block.shared_place(at, lane, MBARRIER_BYTES, MBARRIER_BYTES, "an mbarrier")?;
        if !op.remote {
            block.own_place(target, lane, "the destination")?;
        }
        for rank in receivers(block, self.multicast(block, op, lane), target, lane)? {
            if op.multicast.is_none() && barrier.rank != target.rank {
                let message = format!(
                    "the destination lies in the shared memory of rank {}, its mbarrier in that \
                     of rank {}: both must be the same block's",
                    target.rank, barrier.rank
                );
                return Err(misuse(Some(lane as u32), message).at(at));
            }
            let here = |place: Place| Place { rank, ..place };
            let mbarrier = here(barrier);
            let channel = Channel::Mbarrier {
                rank,
                offset: mbarrier.offset as u32,
            };
            let load = Load {
                issuer: self.issuer(block, index, lane, channel),
                shape: shape.clone(),
                target: here(target),
                mbarrier,
            };
            block.cluster.engine.borrow_mut().issue(Box::new(load));
        }
        Ok(())
    }

    fn multicast(&self, block: &Block<'_>, op: &TensorCopy, lane: usize) -> Option<u32> {
        let slot = op.multicast?;
        let constants = &block.launch.program.constants;
        Some(u32::from(self.regs.row::<u16>(constants, slot).0[lane]))
    }

    fn issue_store(
        &self,
        block: &Block<'_>,
        op: &TensorCopy,
        shape: Shape,
        index: usize,
        lane: usize,
    ) -> Checked<()> {
        let Some(shared) = &op.shared else {
            return Ok(());
        };
        let from = self.shared_addresses(block, shared, index, 1 << lane)?.0[lane];
        let what = "the source of a copy";
        let source = block.shared_place(from, lane, shape.footprint(), BOX_ALIGN, what)?;
        let source = block.own_place(source, lane, what)?;
        let agent = block.agent(self.index);
        let channel = Channel::BulkWrite { warp: agent };
        let issuer = self.issuer(block, index, lane, channel);
        let flight = block.cluster.groups.borrow_mut().issue(
            GroupKind::Bulk,
            agent,
            1 << lane,
            true,
            issuer.pc,
        );
        block.cluster.engine.borrow_mut().issue(Box::new(Store {
            issuer,
            shape,
            source,
            flight,
        }));
        Ok(())
    }
}

/// The blocks that a load goes to.
fn receivers(
    block: &Block<'_>,
    multicast: Option<u32>,
    target: Place,
    lane: usize,
) -> Checked<Vec<u32>> {
    let Some(mask) = multicast else {
        return Ok(vec![target.rank]);
    };
    let blocks = block.cluster.shared.len();
    if mask == 0 || mask >> blocks != 0 {
        let message = format!(
            "a multicast to blocks 0x{mask:x} of a cluster of {blocks}: the mask must name one or \
             more of them"
        );
        return Err(Fault::new(
            FaultKind::OutOfBounds,
            Some(lane as u32),
            message,
        ));
    }
    Ok((0..blocks as u32)
        .filter(|rank| mask >> rank & 1 != 0)
        .collect())
}

/// The map at an address.
pub(super) fn read_map(
    block: &Block<'_>,
    space: Space,
    address: u64,
    lane: usize,
) -> Checked<TensorMapDesc> {
    let wrong = |message: String| {
        let fault = Fault::new(FaultKind::TensorMap, Some(lane as u32), message);
        Err(fault.at(address))
    };
    if !address.is_multiple_of(TENSOR_MAP_ALIGN) {
        return wrong(format!(
            "the tensor map at 0x{address:x}: the address must be a multiple of {TENSOR_MAP_ALIGN}"
        ));
    }
    let (space, own) = match space {
        Space::Generic => {
            let space = Space::of_generic(address);
            (space, address.wrapping_sub(space.window()))
        }
        space => (space, address),
    };
    let mut bytes = [0; TENSOR_MAP_BYTES];
    let in_bounds = match space {
        Space::Param => {
            let params = &block.launch.params;
            let found = params
                .get(own as usize..)
                .and_then(|rest| rest.get(..TENSOR_MAP_BYTES));
            found.map(|found| bytes.copy_from_slice(found)).is_some()
        }
        Space::Global | Space::Generic => {
            let found = at_or_below(&block.launch.memory, own).filter(|(_, found)| {
                let end = (own - found.base).checked_add(TENSOR_MAP_BYTES as u64);
                !found.is_freed() && end.is_some_and(|end| end <= found.len)
            });
            found
                .map(|(_, found)| {
                    found
                        .bytes()
                        .copy_out((own - found.base) as usize, &mut bytes)
                })
                .is_some()
        }
        Space::Shared | Space::Local => false,
    };
    if !in_bounds {
        return wrong(format!(
            "no tensor map can be at 0x{address:x} of {} memory: it must lie in global memory or \
             in a kernel parameter, with all of its {TENSOR_MAP_BYTES} bytes",
            space.name()
        ));
    }
    match TensorMapDesc::decode(&bytes) {
        Ok((map, None)) => Ok(map),
        Ok((_, Some(_))) => wrong("a tile copy through a map for im2col".to_owned()),
        Err(error) => wrong(format!("the tensor map at 0x{address:x}: {error}")),
    }
}
