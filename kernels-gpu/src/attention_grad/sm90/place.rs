//! Which sequence a block of keys belongs to, where sequences have lengths of their own.
//!
//! The blocks of all sequences lie one behind the other along x. A grid has blocks for as many
//! sequences as there can be, so the last may be left over. One warp finds the place in the arrays of
//! lengths, and leaves in shared memory what the walk is.

use abi::attention::{Mask, Positions, Sequence};
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_shared_v4_u32, st_shared_v4_u32};
use cuda_std::thread::{WARP_THREADS, sync_threads, thread_idx_x};
use cuda_std::warp::uniform;

use super::kernel::{Backward, Config};
use super::load::is_leader;
use super::schedule::{Slots, TileScheduler};
use crate::attention::packed_order::Count;

impl<C: Config> Backward<'_, C> {
    /// Finds the place; false if the block is left over.
    ///
    /// # Safety
    /// All threads of the block call it, once, when lengths can be read.
    #[inline(always)]
    pub(super) unsafe fn find_place(&self) -> bool {
        // SAFETY: one warp writes, before all others read.
        unsafe {
            if thread_idx_x() < WARP_THREADS {
                self.write_place();
            }
            sync_threads();
        }
        self.place_words(0)[3] != 0
    }

    /// The walk at the place that was found.
    ///
    /// # Safety
    /// Warps call it, converged, after [`find_place`](Self::find_place).
    #[inline(always)]
    pub(super) unsafe fn place(&self) -> TileScheduler {
        // SAFETY: passed on to the caller. All threads read the same, which is in uniform registers
        // thereby.
        let read = |at| unsafe { self.place_words(at).map(|word| uniform(word)) };
        let [batch_idx, key_block, first_query_tile, _] = read(0);
        let [first_query, first_key, head_kv, first_head] = read(32);
        let [tile, left, part, slot] = read(48);
        let mask = self.place_mask();
        // SAFETY: passed on to the caller.
        let mask = unsafe {
            Mask {
                seqlen_q: uniform(mask.seqlen_q),
                seqlen_k: uniform(mask.seqlen_k),
                first: uniform(mask.first as u32) as i32,
                end: uniform(mask.end as u32) as i32,
            }
        };
        let positions = |first, len| Positions { first, len };
        TileScheduler {
            order: C::TILE.order(mask),
            key_block,
            head_kv,
            sequence: Sequence {
                batch_idx,
                q: positions(first_query, mask.seqlen_q),
                k: positions(first_key, mask.seqlen_k),
            },
            slots: Slots {
                first_query_tile,
                key_block: slot,
            },
            first_head,
            end_head: first_head + self.call.params.heads_together,
            add_order: self.add_order(part),
            head: first_head,
            tile,
            left,
        }
    }

    /// The sequence's mask.
    #[inline(always)]
    pub(super) fn place_mask(&self) -> Mask {
        let [seqlen_q, seqlen_k, first, end] = self.place_words(16);
        Mask {
            seqlen_q,
            seqlen_k,
            first: first as i32,
            end: end as i32,
        }
    }

    /// The sequence's index.
    #[inline(always)]
    pub(super) fn place_batch_idx(&self) -> u32 {
        self.place_words(0)[0]
    }

    #[inline(always)]
    fn place_words(&self, at: u32) -> [u32; 4] {
        // SAFETY: `find_place` has written them, and no thread writes them again.
        unsafe { ld_shared_v4_u32(self.place_at().add_bytes(opaque(at))) }
    }

    /// # Safety
    /// A warp calls it, converged.
    #[inline(always)]
    unsafe fn write_place(&self) {
        let (lengths, params) = (self.call.lengths, &self.call.params.fwd);
        let key_blocks = Count {
            lengths,
            params,
            tiles: |sequence: &Sequence| C::TILE.key_blocks(sequence.k.len),
        };
        let query_tiles = Count {
            lengths,
            params,
            tiles: |sequence: &Sequence| C::TILE.query_tiles(sequence.q.len),
        };
        let in_grid = self.in_grid();
        // SAFETY: the lengths are the launch's; all lanes have the same index.
        unsafe {
            let through = key_blocks.through();
            let mut words = [[0; 4]; 4];
            if in_grid.index < key_blocks.all(through) {
                let found = key_blocks.find(through, in_grid.index);
                let mut sequence = key_blocks.of(found.batch_idx);
                let slots = Slots {
                    first_query_tile: query_tiles.before(found.batch_idx),
                    key_block: in_grid.index,
                };
                // Sequences that overlap may have more queries than there are places for.
                let tiles = C::TILE.query_tiles(sequence.q.len);
                let end = u64::from(slots.first_query_tile) + u64::from(tiles);
                if end > C::TILE.query_slots(params) {
                    sequence.q.len = 0;
                }
                let at = self.scheduler_of(&in_grid, (sequence, found.index), slots);
                let (mask, part) = (&at.order.mask, at.add_order.index);
                let bounds = [mask.first, mask.end].map(|bound| bound as u32);
                words = [
                    [sequence.batch_idx, found.index, slots.first_query_tile, 1],
                    [mask.seqlen_q, mask.seqlen_k, bounds[0], bounds[1]],
                    [
                        sequence.q.first,
                        sequence.k.first,
                        at.head_kv,
                        at.first_head,
                    ],
                    [at.tile, at.left, part, slots.key_block],
                ];
            }
            if is_leader() {
                let mut i = 0;
                while i < words.len() {
                    let to = self.place_at().add_bytes(16 * i as u32);
                    st_shared_v4_u32(to, words[i]);
                    i += 1;
                }
            }
        }
    }
}
