//! The adder: adds a tile's dq, which the consumers leave in shared memory, to the sums in device
//! memory, when it is the block's turn.

use abi::attention_grad::sm90::{CHUNK, CHUNKS};
use cuda_std::barrier::{bar_arrive, bar_sync};
use cuda_std::tma::{cp_async_bulk_commit_group, cp_async_bulk_wait_group_read};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

use super::kernel::{Backward, Config, DQ_FREE, DQ_WRITTEN};
use super::load::is_leader;
use super::ordered_add::{add, pass_order, wait_for_order};
use super::schedule::TileScheduler;

/// Bytes of what a thread block adds to a tile's dq.
const BYTES: u32 = CHUNKS * CHUNK * 4;

impl<C: Config> Backward<'_, C> {
    /// Adds the dq of every other tile, from tile `parity` on: an addition takes longer than a tile
    /// until others may see it.
    ///
    /// # Safety
    /// Two warps call it, each converged and with a parity of its own. Their first lanes do
    /// everything; the others are there for the barriers.
    #[inline(always)]
    pub(super) unsafe fn add(&self, mut scheduler: TileScheduler, parity: u32) {
        let params = &self.call.params.fwd;
        let mut is_own = parity == 0;
        // SAFETY: whole warps meet at the barriers. The copies read what the consumers wrote before
        // theirs, and are done with it before the consumers may write again.
        unsafe {
            if parity == 1 {
                bar_arrive(DQ_FREE + 1, Self::OF_DQ); // of the tile before the first
            }
            while scheduler.left > 0 {
                if is_own {
                    let add_order = scheduler.turn();
                    let slot = scheduler.slots.first_query_tile + scheduler.tile;
                    let at = C::TILE.query_tile_idx(params, (scheduler.head, slot));
                    let at = at * u64::from(Self::CTAS);
                    let at = (at + u64::from(Self::rank())) as usize;
                    let counter = self.call.counters.wrapping_add(at);
                    let to = self.call.sums.wrapping_add(at * (CHUNKS * CHUNK) as usize);
                    if is_leader() {
                        wait_for_order(counter, add_order);
                    }
                    bar_warp_sync(FULL_MASK);
                    bar_sync(DQ_WRITTEN + parity, Self::OF_DQ); // the consumers have written their parts
                    if is_leader() {
                        add(to, self.dq_at(), BYTES, add_order);
                        cp_async_bulk_commit_group();
                        cp_async_bulk_wait_group_read::<0>();
                    }
                    bar_warp_sync(FULL_MASK);
                    bar_arrive(DQ_FREE + parity, Self::OF_DQ);
                    if is_leader() {
                        pass_order(counter, add_order);
                    }
                }
                is_own = !is_own;
                scheduler.advance();
            }
        }
    }
}
