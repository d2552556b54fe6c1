//! Blocks that split k are a cluster and add up through distributed shared memory.

use core::marker::PhantomData;

use cuda_std::cluster::{
    barrier_cluster_arrive_relaxed, barrier_cluster_arrive_release, barrier_cluster_wait_acquire,
    ld_shared_cluster_v4_f32, mapa_shared_cluster,
};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use crate::gemm::decode::combine::{Combine, Groups, Job, Share, Sums, TOGETHER, Tile, WIDTH};
use crate::gemm::fused::Unread;
use crate::gemm::stored::Half;

/// A cluster: each block reduces a share of the results. Its warps split no k.
pub(super) struct Cluster<S> {
    /// Rank of the block with the first share of k, and the distance to the rank of the next share.
    pub(super) first_rank: u32,
    pub(super) ranks_apart: u32,
    pub(super) sums: PhantomData<S>,
}

impl<S: Sums> Cluster<S> {
    /// The sums over the blocks that split k. A block loads all rows of another block before it
    /// adds any of them: a load from another block takes a quarter of a microsecond.
    ///
    /// # Safety
    /// The blocks' sums have been stored.
    #[inline(always)]
    unsafe fn of_ranks(&self, tile: &Tile<'_>, share: &Share, splits: u32) -> Groups {
        // SAFETY: the launch's shared memory.
        let own = unsafe { SharedAddr::of(tile.sums) };
        let mut rank = self.first_rank;
        let mut totals = [[0.0; WIDTH as usize]; TOGETHER];
        let mut split_idx = 0;
        while split_idx < splits {
            let sums = mapa_shared_cluster(own, rank);
            let groups = share.groups(|i| {
                let at = sums.add_bytes(share.at(i) * 4);
                // SAFETY: the caller's promise; a multiple of 16 bytes, as the pitches are.
                unsafe { ld_shared_cluster_v4_f32(at) }
            });
            for i in 0..TOGETHER {
                totals[i] = if split_idx == 0 {
                    groups[i]
                } else {
                    S::add(totals[i], groups[i])
                };
            }
            rank += self.ranks_apart;
            split_idx += 1;
        }
        totals
    }
}

impl<S: Sums> Combine for Cluster<S> {
    #[inline(always)]
    fn block(&self) -> (u32, u32) {
        (thread::block_idx_y(), thread::grid_dim_y())
    }

    #[inline(always)]
    unsafe fn finish<T: Half>(self, tile: &Tile<'_>, job: Job<T>, epilogue: &Unread<'_>) {
        let splits = thread::grid_dim_y();
        // SAFETY: the sums are in shared memory; those of all blocks are visible after the
        // cluster's first barrier. All threads of the cluster get here. No block exits while others
        // read its shared memory: a thread has stored all that it has read before it arrives.
        unsafe {
            if splits > 1 {
                barrier_cluster_arrive_release();
                barrier_cluster_wait_acquire(); // the sums of all blocks are visible
            } else {
                thread::sync_threads(); // the block's sums are stored
            }
            let totals = |share: &Share| {
                if splits == 1 {
                    share.groups(|i| tile.of_splits::<S>(share.at(i)))
                } else {
                    self.of_ranks(tile, share, splits)
                }
            };
            S::finish(tile, job, totals, epilogue);
            if splits > 1 {
                barrier_cluster_arrive_relaxed();
                barrier_cluster_wait_acquire(); // nobody reads this block's sums any more
            }
        }
    }
}
