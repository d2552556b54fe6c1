//! What all threads do before the roles part: shared memory, the list of work tiles, barriers, L2
//! prefetch.

use abi::gemm::GemmParams;
use abi::gemm::sm90::TILE_ALIGN;
use abi::gemm::stream_k::{Cut, StreamK};
use cuda_std::cluster::{
    barrier_cluster_arrive_release_aligned, barrier_cluster_wait_acquire_aligned,
};
use cuda_std::dynamic_shared;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::pipeline::Pipeline;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::TileRing;
use cuda_std::tma::{self, TensorMap};

use super::super::load::prefetch_tile;
use super::{Config, Gemm, LaunchOf};
use crate::gemm::sm90::tile_coords::TileCoords;

impl<C: Config, const TILE_M: u32, const TILE_N: u32, const STAGES: u32, const BLOCKS: usize>
    Gemm<C, TILE_M, TILE_N, STAGES, BLOCKS>
{
    /// Shared memory and work of this block.
    ///
    /// # Safety
    /// As [`Gemm::run`].
    #[inline(always)]
    pub(super) unsafe fn new(
        [map_a, map_b]: [*const TensorMap; 2],
        params: &GemmParams,
        launch: LaunchOf<C>,
        workspace: *mut u32,
    ) -> Self {
        let map = C::TILE.smem();
        let block = thread::block_idx_x();
        let k_tiles = params.k.div_ceil(Self::TILE_K);
        let (shared, sharers) = if Self::CUTS {
            C::TileCoords::cut(&launch)
        } else {
            (0, 0)
        };
        let cut = Cut {
            shared,
            sharers,
            blocks: thread::grid_dim_x() / Self::CLUSTER.blocks(),
        };
        let cluster = block / Self::CLUSTER.blocks();
        // SAFETY: the launch gives the memory that the map speaks of.
        unsafe {
            let shared = dynamic_shared![u8];
            let first = SharedAddr::of(shared).bits();
            let base = first.next_multiple_of(TILE_ALIGN);
            let at = |offset| SharedAddr::from_bits(base + offset);
            let behind = shared.add((base - first + map.end) as usize).cast();
            let ring = (at(0), map.b);
            let coords = C::TileCoords::new(&launch, params, ring, behind, TILE_M);
            Self {
                a: TileRing::at(at(0)),
                b: TileRing::at(at(map.b)),
                pipeline: Pipeline::at(at(map.barriers)),
                boxes: at(map.store),
                map_a,
                map_b,
                work: StreamK::new(coords.count(), cut, k_tiles, cluster),
                coords,
                block,
                workspace,
            }
        }
    }

    /// Initialises the barriers and makes them visible to the cluster.
    ///
    /// # Safety
    /// All threads of the cluster call it, once.
    #[inline(always)]
    pub(super) unsafe fn prepare(&self) {
        // SAFETY: one thread initialises them, and nobody goes on before that is done.
        unsafe {
            if thread::thread_idx_x() == 0 {
                tma::prefetch_tensormap(self.map_a);
                tma::prefetch_tensormap(self.map_b);
                self.pipeline
                    .init(C::TILE.readers() * Self::CLUSTER.blocks());
                fence_mbarrier_init_release_cluster();
            }
            if Self::CLUSTER.blocks() == 1 {
                thread::sync_threads();
            } else {
                barrier_cluster_arrive_release_aligned();
                barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Prefetches B of the first stages into L2 while the preceding launches still run. L2 is
    /// coherent: what these have yet to write is seen there. Not done if several blocks read the
    /// same columns of B: prefetches of the same lines are served one after the other and slow all
    /// of them down.
    ///
    /// # Safety
    /// The maps are of the operands that `params` describes. One thread calls it.
    #[inline(always)]
    pub(super) unsafe fn bring_near(&self, params: &GemmParams) {
        if params.m > TILE_M || self.work.count == 0 {
            return;
        }
        let work_tile = self.work.work_tile(0);
        let (_, column, batch) = self.coord(work_tile.tile);
        let batch = if params.batch_stride_b == 0 { 0 } else { batch };
        let mut k_tile = work_tile.k_begin;
        while k_tile < work_tile.k_end && k_tile < work_tile.k_begin + STAGES {
            let at = [column, k_tile * Self::TILE_K, batch];
            // SAFETY: passed on to the caller.
            unsafe { prefetch_tile::<C::B, TILE_N>(self.map_b, at) };
            k_tile += 1;
        }
    }
}
