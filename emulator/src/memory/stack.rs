//! The memory of `alloca`: local memory beside the frames, separate for each thread, and freed when
//! the function returns or by `stackrestore`.

use super::host::Starved;
use super::local::{LOCAL_LIMIT, LocalMemory};
use crate::exec::row::{LANES, Lanes, Row};

/// First local address of `alloca`; the frames lie below.
pub(crate) const STACK_BASE: u64 = 1 << 20;

/// The dynamic part of the threads' stacks.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct DynamicStack {
    pub(crate) memory: LocalMemory,
    /// Bytes in use, for each lane.
    tops: Row<u64>,
    /// For each lane, the calls that have allocated, innermost last: depth, and bytes in use
    /// before.
    calls: Vec<Vec<(usize, u64)>>,
    /// Whether anything was allocated in this block.
    used: bool,
}

impl DynamicStack {
    /// Frees everything, for the next block.
    pub(crate) fn reset(&mut self) {
        if self.used {
            self.tops = Row::default();
            self.calls.iter_mut().for_each(Vec::clear);
            self.used = false;
        }
    }

    /// Whether any lane addresses this part.
    #[inline(always)]
    pub(crate) fn holds(&self, addresses: &Row<u64>, mask: u32) -> bool {
        self.used && self.lanes(addresses, mask) != 0
    }

    /// The lanes that address this part.
    pub(crate) fn lanes(&self, addresses: &Row<u64>, mask: u32) -> u32 {
        Lanes(mask)
            .filter(|&lane| addresses.0[lane] >= STACK_BASE)
            .fold(0, |mask, lane| mask | 1 << lane)
    }

    /// The end of a lane's allocations, as a local address.
    pub(crate) fn end(&self, lane: usize) -> u64 {
        STACK_BASE + self.tops.0[lane]
    }

    /// Allocates for one lane in a call of depth `depth`; returns the local address.
    ///
    /// # Errors
    /// The bytes that the thread would then use, if they are too many, or if the host has no memory
    /// for them, which starves the launch.
    pub(crate) fn alloc(
        &mut self,
        lane: usize,
        depth: usize,
        (bytes, align): (u64, u64),
        starved: &Starved,
    ) -> Result<u64, u64> {
        let before = self.tops.0[lane];
        let start = before.next_multiple_of(align.max(4));
        let end = start.saturating_add(bytes);
        if end > LOCAL_LIMIT {
            return Err(end);
        }
        self.calls.resize(LANES, Vec::new());
        let calls = &mut self.calls[lane];
        if calls.last().is_none_or(|(known, _)| *known < depth) {
            calls.push((depth, before));
        }
        self.used = true;
        // No other allocation shares a word with this one.
        let end = end.next_multiple_of(4);
        if !self.memory.reserve(end, starved) {
            return Err(end);
        }
        self.memory.forget(start, end, 1 << lane);
        self.tops.0[lane] = end;
        Ok(STACK_BASE + start)
    }

    /// Resets the end to an earlier value of [`DynamicStack::end`].
    ///
    /// # Errors
    /// If it is beyond the current end.
    pub(crate) fn restore(&mut self, lane: usize, end: u64) -> Result<(), ()> {
        let bytes = end.wrapping_sub(STACK_BASE);
        if bytes > self.tops.0[lane] {
            return Err(());
        }
        self.tops.0[lane] = bytes;
        Ok(())
    }

    /// Frees what calls of `depth` and deeper have allocated.
    pub(crate) fn leave(&mut self, depth: usize, mask: u32) {
        if !self.used {
            return;
        }
        for lane in Lanes(mask) {
            while let Some((known, before)) = self.calls[lane].last().copied()
                && known >= depth
            {
                self.tops.0[lane] = before;
                self.calls[lane].pop();
            }
        }
    }
}
