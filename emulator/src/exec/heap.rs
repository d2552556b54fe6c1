//! `malloc` and `free` of kernels.

use super::access::Intent;
use super::block::Block;
use super::fault::{Checked, Fault};
use super::row::{LANES, Lanes, Row};
use super::warp::Warp;
use crate::memory::global::{Allocation, Chunk};
use crate::memory::space::Space;
use crate::program::HeapCall;
use crate::report::FaultKind;

impl Warp {
    /// Takes or frees memory for the lanes of `mask`, lowest first.
    pub(super) fn heap(
        &mut self,
        block: &mut Block<'_>,
        call: &HeapCall,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        let frame = self.paths.list[path].frame().local;
        let given = self.peek(block, Space::Local, frame + call.argument, mask, 8)?;
        let memory = block.launch.memory.clone();
        let Some(heap) = memory.iter().find(|found| found.heap.is_some()) else {
            return Ok(()); // the launch made one
        };
        block.cluster.effect();
        let Some(result) = call.result else {
            let mut pointers = Lanes(mask).filter(|lane| given.0[*lane] != 0);
            return pointers.try_for_each(|lane| free(heap, given.0[lane], lane as u32));
        };
        for lane in Lanes(mask) {
            let address = heap.malloc(given.0[lane]);
            self.planes[0].0[lane] = address as u32;
            self.planes[1].0[lane] = (address >> 32) as u32;
        }
        let at = Row([frame + result; LANES]);
        self.transfer(block, Space::Local, &at, mask, 8, Intent::Write)
    }
}

fn free(heap: &Allocation, address: u64, lane: u32) -> Checked<()> {
    let Err(found) = heap.give_back(address) else {
        return Ok(());
    };
    let (kind, what) = match found {
        Chunk::Freed(..) => (FaultKind::UseAfterFree, "was freed before"),
        _ => (FaultKind::OutOfBounds, "is not what `malloc` returned"),
    };
    let message = format!("`free` of 0x{address:x}, which {what}");
    Err(Fault::new(kind, Some(lane), message).at(address))
}
