//! Merges the results of a block's threads to one for each column, in shared memory, in a fixed
//! order; and the partial results of a split axis, in global memory.

use core::marker::PhantomData;

use abi::reduce::{ReduceParams, THREADS};
use cuda_std::atomic::{self, Order, Scope};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::Words;

use super::fold::Fold;

/// Shared memory for accumulators. Their first words come first, then all second words, and so on,
/// so that neighbours are in different banks.
pub(super) struct Scratch {
    words: *mut u32,
    /// Number of accumulators that fit.
    plane: usize,
}

/// The layout of columns' entries in the slots.
///
/// Column `c` is lane `c >> side_log2` of place `c` modulo the side. Threads write one lane of all
/// places at a time, and read all lanes of a place. Neither has bank conflicts, as the lanes are
/// rotated against each other. They are rotated within 32 places if there are that many. Else they
/// go from entry to entry, and lanes that would meet in a bank are rotated within their places.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Log2 of the places side by side.
    pub(super) side_log2: u32,
    /// Log2 of the lanes of a place.
    pub(super) lanes_log2: u32,
}

impl Layout {
    #[inline(always)]
    pub(super) fn columns(&self) -> u32 {
        1 << (self.side_log2 + self.lanes_log2)
    }

    /// The slot of an entry of a column.
    #[inline(always)]
    pub(super) fn slot(&self, entry: u32, column: u32) -> u32 {
        let lane = column >> self.side_log2;
        let slot = column & ((1 << self.side_log2) - 1);
        // Log2 of the places that are turned together, and of the lanes that begin in the same
        // bank.
        let side = self.side_log2.min(5);
        let alike = (side + self.lanes_log2).saturating_sub(5);
        let rotation = lane >> (5 - side) << (side - alike);
        let within = (1 << side) - 1;
        let slot_rotated = (slot & !within) | ((slot + rotation) & within);
        // Log2 of the entries that a warp has of a lane.
        let apart = 5_u32.saturating_sub(self.side_log2 + self.lanes_log2);
        let by_entry = if self.side_log2 >= 5 {
            0
        } else {
            entry >> apart
        };
        let lane_rotated = (lane + by_entry) & ((1 << self.lanes_log2) - 1);
        let in_entry = (lane_rotated << self.side_log2) + slot_rotated;
        entry * self.columns() + in_entry
    }
}

/// Most entries that one thread merges one after the other.
const RUN: u32 = 16;

impl Scratch {
    /// Words for `plane` accumulators of `of_each` words, and the one for [`Scratch::flag`].
    pub(super) const fn words(plane: usize, of_each: usize) -> usize {
        plane * of_each + 1
    }

    #[inline(always)]
    pub(super) fn new(words: *mut u32, plane: usize) -> Self {
        Self { words, plane }
    }

    /// A word that no accumulator uses.
    #[inline(always)]
    pub(super) fn flag(&self, of_each: usize) -> *mut u32 {
        self.words.wrapping_add(self.plane * of_each)
    }

    /// # Safety
    /// `slot` is inside, and this thread's to write.
    #[inline(always)]
    pub(super) unsafe fn write<A: Words>(&self, slot: u32, acc: A) {
        let mut at = self.words.wrapping_add(slot as usize);
        acc.map_words(|word| {
            // SAFETY: passed on to the caller.
            unsafe { at.write(word) };
            at = at.wrapping_add(self.plane);
            word
        });
    }

    /// # Safety
    /// `slot` was written.
    #[inline(always)]
    pub(super) unsafe fn read<A: Words>(&self, slot: u32, like: A) -> A {
        let mut at = self.words.wrapping_add(slot as usize);
        like.map_words(|_| {
            // SAFETY: passed on to the caller.
            let word = unsafe { at.read() };
            at = at.wrapping_add(self.plane);
            word
        })
    }

    /// Merges the entries of each column into its entry 0; their number is a power of two. Begins
    /// and ends with a barrier.
    ///
    /// # Safety
    /// All threads of the block are here, and have written the slots.
    #[inline(always)]
    pub(super) unsafe fn settle<F: Fold>(
        &self,
        entries: u32,
        layout: &Layout,
        params: &ReduceParams,
    ) {
        let columns_log2 = layout.side_log2 + layout.lanes_log2;
        let mut entries = entries;
        thread::sync_threads();
        while entries > 1 {
            let parts = (entries / RUN).max(1);
            let mut job = thread::thread_idx_x();
            while job < parts << columns_log2 {
                // A thread reads every `parts`th entry, which no other thread writes.
                let (part, column) = (job >> columns_log2, job & (layout.columns() - 1));
                // SAFETY: written slots.
                unsafe {
                    let mut acc = self.read(layout.slot(part, column), F::empty(params));
                    let mut other = part + parts;
                    while other < entries {
                        let more = self.read(layout.slot(other, column), F::empty(params));
                        acc = F::merge(acc, more, params);
                        other += parts;
                    }
                    self.write(layout.slot(part, column), acc);
                }
                job += THREADS;
            }
            thread::sync_threads();
            entries = parts;
        }
    }
}

/// The partial results of one output, or of one tile of outputs.
pub(super) struct Partials<F> {
    words: *mut u32,
    parts: u64,
    columns: u32,
    fold: PhantomData<F>,
}

/// Partial results that are loaded together, if they are short, so that their latencies overlap.
const AT_ONCE: usize = 8;

impl<F: Fold> Partials<F> {
    /// Those of output (or tile) number `group`, which has `columns` columns.
    #[inline(always)]
    pub(super) fn of(partials: *mut u32, group: u64, parts: u64, columns: u32) -> Self {
        let before = group * parts * u64::from(columns);
        Self {
            words: partials.wrapping_add(before as usize * F::WORDS),
            parts,
            columns,
            fold: PhantomData,
        }
    }

    /// Those of `parts` parts from `first` on.
    #[inline(always)]
    pub(super) fn some(&self, first: u32, parts: u32) -> Self {
        Self {
            words: self.at(u64::from(first), 0),
            parts: u64::from(parts),
            ..*self
        }
    }

    #[inline(always)]
    pub(super) fn parts(&self) -> u64 {
        self.parts
    }

    #[inline(always)]
    fn at(&self, part: u64, column: u32) -> *mut u32 {
        let number = part * u64::from(self.columns) + u64::from(column);
        self.words.wrapping_add(number as usize * F::WORDS)
    }

    /// # Safety
    /// It is this thread's to write.
    #[inline(always)]
    pub(super) unsafe fn write(&self, part: u64, column: u32, acc: F::Acc) {
        let mut at = self.at(part, column);
        acc.map_words(|word| {
            // SAFETY: passed on to the caller.
            unsafe { at.write(word) };
            at = at.wrapping_add(1);
            word
        });
    }

    /// # Safety
    /// It was written.
    #[inline(always)]
    unsafe fn read(&self, part: u64, column: u32, like: F::Acc) -> F::Acc {
        let mut at = self.at(part, column);
        like.map_words(|_| {
            // SAFETY: passed on to the caller.
            let word = unsafe { at.read() };
            at = at.wrapping_add(1);
            word
        })
    }

    /// Merges the parts `first`, `first + step`, .. of a column, in this order.
    ///
    /// # Safety
    /// All of them have been written.
    #[inline(always)]
    pub(super) unsafe fn merged(
        &self,
        first: u64,
        step: u64,
        column: u32,
        params: &ReduceParams,
    ) -> F::Acc {
        let empty = F::empty(params);
        let (mut acc, mut part) = (empty, first);
        // SAFETY: passed on to the caller.
        unsafe {
            while F::IS_SHORT && F::WORDS == 1 && part + (AT_ONCE as u64 - 1) * step < self.parts {
                let mut accs: [F::Acc; AT_ONCE] =
                    core::array::from_fn(|i| self.read(part + i as u64 * step, column, empty));
                part += AT_ONCE as u64 * step;
                let mut left = opaque(AT_ONCE as u32);
                while left > 0 {
                    acc = F::merge(acc, accs[0], params);
                    // Rotates the array, as registers cannot be indexed in a loop.
                    accs = core::array::from_fn(|i| accs[(i + 1) % AT_ONCE]);
                    left -= 1;
                }
            }
            while part < self.parts {
                acc = F::merge(acc, self.read(part, column, empty), params);
                part += step;
            }
        }
        acc
    }
}

/// Draws a ticket. Returns whether this block is the last of `parts` that share it; what the others
/// wrote before is then visible, and the ticket is 0 again for the next launch. `flag` is a word of
/// shared memory.
///
/// # Safety
/// The whole block is here; the ticket and the flag are used for nothing else.
#[inline(always)]
pub(super) unsafe fn is_last(ticket: *mut u32, parts: u64, flag: *mut u32) -> bool {
    thread::sync_threads();
    // SAFETY: passed on to the caller; the flag is read after the barrier.
    unsafe {
        if thread::thread_idx_x() == 0 {
            let before = atomic::atom_add(ticket, 1, Order::AcqRel, Scope::Gpu);
            let is_last = u64::from(before) + 1 == parts;
            if is_last {
                atomic::atom_exch(ticket, 0, Order::Relaxed, Scope::Gpu);
            }
            flag.write(u32::from(is_last));
        }
        thread::sync_threads();
        flag.read() != 0
    }
}
