//! Blocks that split k meet through a counter in global memory.

use abi::gemm::decode::partial_pitch;
use cuda_std::atomic::{Order, Scope, atom_add};
use cuda_std::mem::{ld_v4_f32, st_v4_f32};
use cuda_std::thread;

use super::combine::{Combine, Group, Job, Share, Sums, Tile};
use crate::gemm::fused::Unread;
use crate::gemm::stored::Half;

/// Through global memory: each block draws a ticket, and the last one adds up.
pub(super) struct Tickets {
    /// Partial sums, `[batch][tiles][splits][tile_m][partial_pitch(tile_n)]`.
    pub(super) partials: *mut f32,
    /// Counters `[batch][tiles]`: how many blocks have stored their sums. 0 before and after a
    /// launch.
    pub(super) tickets: *mut u32,
    /// A word of shared memory, to tell the block's threads what was drawn.
    pub(super) word: *mut u32,
}

impl Combine for Tickets {
    #[inline(always)]
    fn block(&self) -> (u32, u32) {
        (0, 1) // the last one
    }

    #[inline(always)]
    unsafe fn finish<T: Half>(self, tile: &Tile<'_>, job: Job<T>, epilogue: &Unread<'_>) {
        let splits = thread::grid_dim_y();
        thread::sync_threads(); // the sums of all warps are stored
        let tile_idx = u64::from(thread::block_idx_z()) * u64::from(thread::grid_dim_x())
            + u64::from(thread::block_idx_x());
        // Partial sums in global memory have the pitch of those in shared memory.
        let elements = u64::from(tile.split_rows * partial_pitch(tile.columns));
        let first = tile_idx * u64::from(splits) * elements;
        let of_tile = self.partials.wrapping_add(first as usize);
        if splits > 1 {
            let offset = u64::from(thread::block_idx_y()) * elements;
            let own = of_tile.wrapping_add(offset as usize);
            let mut share = job.share;
            while share.count > 0 {
                // SAFETY: a group of the block's own sums, one thread's alone.
                unsafe { st_v4_f32(own.add(share.at as usize), tile.of_splits::<f32>(share.at)) };
                share.skip(1);
            }
            // SAFETY: the caller's memory; all threads come here.
            if !unsafe { self.is_last(tile_idx, splits) } {
                return;
            }
        }
        // SAFETY: the sums of the block's own warps, or of blocks that have drawn their tickets.
        unsafe {
            let total = |at: u32| {
                if splits == 1 {
                    tile.of_splits::<f32>(at)
                } else {
                    of_blocks(of_tile.add(at as usize), splits, elements)
                }
            };
            let totals = |share: &Share| share.groups(|i| total(share.at(i)));
            tile.finish::<T, false>(job, totals, epilogue);
        }
    }
}

/// The sum over `blocks` blocks' partial sums, `stride` elements apart.
///
/// # Safety
/// They have been stored.
#[inline(always)]
unsafe fn of_blocks(first: *const f32, blocks: u32, stride: u64) -> Group {
    // SAFETY: the caller's promise.
    let mut total = unsafe { ld_v4_f32(first) };
    let mut block = 1;
    while block < blocks {
        let at = first.wrapping_add((u64::from(block) * stride) as usize);
        // SAFETY: the caller's promise.
        total = <f32 as Sums>::add(total, unsafe { ld_v4_f32(at) });
        block += 1;
    }
    total
}

impl Tickets {
    /// Draws a ticket for the block, whose sums are stored. Returns whether it was the last, which
    /// resets the counter to 0.
    ///
    /// # Safety
    /// Every thread of the block calls it.
    #[inline(always)]
    unsafe fn is_last(&self, tile_idx: u64, splits: u32) -> bool {
        thread::sync_threads(); // the block's sums are stored, and the word is free
        if thread::thread_idx_x() == 0 {
            let ticket = self.tickets.wrapping_add(tile_idx as usize);
            // SAFETY: the launch's tickets. Releases the block's sums, acquires all others'.
            unsafe {
                let before = atom_add(ticket, 1, Order::AcqRel, Scope::Gpu);
                if before + 1 == splits {
                    ticket.write(0);
                }
                self.word.write(before);
            }
        }
        thread::sync_threads(); // the ticket is known
        // SAFETY: written above.
        unsafe { self.word.read() + 1 == splits }
    }
}
