//! What would have come after a read of unwritten shared memory: who writes those bytes.
//!
//! A read that comes before the write it needs finds bytes that nothing wrote. Either the write is
//! missing, or only the order between the two. To find out which, everything but the reader goes
//! on. Writers of these bytes wait for nothing that the reader does after its read.

use super::cluster::{ClusterRun, Round};
use super::fault::{Fault, Unwritten};
use crate::fifo::Fifo;

/// Turns that each of the other warps gets.
const ROUNDS: usize = 4;

impl ClusterRun<'_> {
    /// Adds to the report of such a read who writes the bytes later. The cluster has failed: what
    /// else happens to it has no effect on the launch.
    pub(super) fn with_aftermath(&mut self, fault: Box<Fault>) -> Box<Fault> {
        let Some(read) = fault.unwritten else {
            return fault;
        };
        let blocks = self.blocks.iter_mut();
        let printed: Vec<Fifo> = blocks
            .map(|run| std::mem::take(&mut run.block.printed))
            .collect();
        let note = match self.first_missing(read) {
            Some(missing) => {
                self.go_on(&fault, missing);
                self.is_written(missing)
                    .then(|| self.late(&fault, missing))
                    .flatten()
            }
            // Something wrote them before what was read was used.
            None => self.late(&fault, Unwritten { bytes: 1, ..read }),
        };
        for (run, printed) in self.blocks.iter_mut().zip(printed) {
            run.block.printed = printed;
        }
        match note {
            Some(note) => fault.note(note),
            None => fault,
        }
    }

    /// Lets everything but the reader go on until a byte is written. Other faults do not matter.
    fn go_on(&mut self, fault: &Fault, byte: Unwritten) {
        let mut failed = vec![(fault.rank as usize, fault.warp as usize)];
        for _ in 0..ROUNDS {
            while self.cluster.engine.borrow().len() > 0 && !self.is_written(byte) {
                // One that fails is over as well.
                let _ = self.land();
            }
            for (b, w) in self.turns.clone() {
                if self.is_written(byte) {
                    return;
                }
                if !failed.contains(&(b, w)) && self.turn(b, w, &mut Round::new()).is_err() {
                    failed.push((b, w));
                }
            }
        }
    }

    fn is_written(&self, byte: Unwritten) -> bool {
        let memory = self.cluster.shared[byte.rank as usize].bytes();
        memory.range_written(byte.offset as usize, 1)
    }

    /// The first byte of a range that nothing has written.
    fn first_missing(&self, read: Unwritten) -> Option<Unwritten> {
        let byte = |offset| Unwritten {
            offset,
            bytes: 1,
            ..read
        };
        let mut bytes = (read.offset..read.offset + read.bytes).map(byte);
        bytes.find(|byte| !self.is_written(*byte))
    }

    /// The note on a byte that was written too late, unless the reader itself wrote it: an exchange.
    fn late(&self, fault: &Fault, byte: Unwritten) -> Option<String> {
        let order = self.cluster.order.borrow();
        let Some(writer) = order.writer(byte.rank, byte.offset) else {
            let note =
                "something writes these bytes later, and nothing orders that before the read";
            return Some(note.to_owned());
        };
        let warps = self.launch.warps();
        let (rank, warp) = (writer.warp / warps, writer.warp % warps);
        if (rank, warp, writer.pc) == (fault.rank, fault.warp, fault.pc) {
            return None;
        }
        let code = &self.launch.program.code;
        let line = code.get(writer.pc as usize).map_or(0, |inst| inst.line);
        Some(match writer.over {
            Some(over) => format!(
                "the asynchronous write of PTX line {line} brings these bytes, and the read does \
                 not wait for it: it is {over}"
            ),
            None => {
                let block = match self.blocks.len() {
                    1 => String::new(),
                    _ => format!(" of the block of rank {rank}"),
                };
                format!(
                    "warp {warp}{block} writes these bytes at PTX line {line}, and nothing orders \
                     that before the read: a barrier between the two may be missing"
                )
            }
        })
    }
}
