//! Partial sums of stream-K on their way from block to block: see [`abi::gemm::stream_k`].
//!
//! A thread hands its accumulators to the thread of the same index in another block, so the sums
//! need no layout of their own. The lanes of a warp write 16 bytes each, side by side, register
//! after register; then the warp sets its flag. No barrier of the whole block is needed.

use abi::gemm::sm90::{MMA_M, WARPGROUP};
use abi::gemm::stream_k::{FLAGS, FLAGS_PER_BLOCK};
use cuda_std::accumulator::Accumulator;
use cuda_std::atomic::{ld_acquire_gpu, st_release_gpu};
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_v4_f32, st_v4_f32};
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::wgmma::MmaAsync;

/// f32 accumulators moved by one access.
const VECTOR: usize = 4;
const WARPS: u32 = WARPGROUP / 32;

/// The workspace, seen from a warpgroup that computes some rows of tiles of `TILE_M` × `TILE_N`.
pub(super) struct Partials<const TILE_M: u32, const TILE_N: u32> {
    /// The calling warp's flag and the calling thread's sums, in the area of block 0.
    flag: *mut u32,
    sums: *mut f32,
}

impl<const TILE_M: u32, const TILE_N: u32> Partials<TILE_M, TILE_N> {
    /// For the warpgroup whose rows of the tile begin at `row_of_tile`.
    ///
    /// # Safety
    /// `workspace` is this launch's alone, and has room for its number of blocks.
    #[inline(always)]
    pub(super) unsafe fn at(workspace: *mut u32, row_of_tile: u32) -> Self {
        let thread = thread::thread_idx_x() % WARPGROUP;
        let warp = row_of_tile / MMA_M * WARPS + thread / 32;
        let of_tile = row_of_tile * TILE_N + thread * VECTOR as u32;
        // SAFETY: inside the workspace.
        unsafe {
            Self {
                flag: workspace.add(warp as usize),
                sums: workspace.add((FLAGS + of_tile) as usize).cast(),
            }
        }
    }

    #[inline(always)]
    unsafe fn of_block(&self, block: u32) -> (*mut u32, *mut f32) {
        let results = block as usize * (TILE_M * TILE_N) as usize;
        // SAFETY: the caller's block is one of the launch.
        unsafe {
            let flag = self.flag.add((block * FLAGS_PER_BLOCK) as usize);
            (flag, self.sums.add(results))
        }
    }

    /// Hands over the sums of `block`.
    ///
    /// # Safety
    /// The warp calls it, converged, once in a launch; `block` is its own, and another block
    /// [adds](Self::add) the sums.
    #[inline(always)]
    pub(super) unsafe fn hand_over<M, const BLOCKS: usize>(
        &self,
        acc: &Accumulator<M, BLOCKS>,
        block: u32,
    ) where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        // SAFETY: nobody else writes there, and nobody reads before the flag is set, which is
        // after all lanes have written.
        unsafe {
            let (flag, mut to) = self.of_block(block);
            let mut of_tile = 0;
            while of_tile < BLOCKS {
                let x = acc.registers()[of_tile].as_ref();
                let mut i = 0;
                while i < x.len() {
                    st_v4_f32(to, [x[i], x[i + 1], x[i + 2], x[i + 3]]);
                    to = to.add(WARPGROUP as usize * VECTOR);
                    i += VECTOR;
                }
                of_tile += 1;
            }
            bar_warp_sync(FULL_MASK);
            if thread::thread_idx_x().is_multiple_of(32) {
                st_release_gpu(flag, 1);
            }
        }
    }

    /// Waits for the sums of blocks `first..end` and adds them, in this order.
    ///
    /// # Safety
    /// The warp calls it, converged; these blocks hand their sums over to this one.
    #[inline(always)]
    pub(super) unsafe fn add<M, const BLOCKS: usize>(
        &self,
        acc: &mut Accumulator<M, BLOCKS>,
        first: u32,
        end: u32,
    ) where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        let mut block = first;
        while block < end {
            // SAFETY: each lane has seen the flag by an acquire, and so what was written before it.
            // This warp alone waits for the flag, and leaves it 0 for the next launch.
            unsafe {
                let (flag, mut from) = self.of_block(block);
                while ld_acquire_gpu(flag) == 0 {}
                bar_warp_sync(FULL_MASK);
                if thread::thread_idx_x().is_multiple_of(32) {
                    flag.write(0);
                }
                let mut of_tile = 0;
                while of_tile < BLOCKS {
                    let x = acc.registers_mut()[of_tile].as_mut();
                    let mut i = 0;
                    while i < x.len() {
                        let [a, b, c, d] = ld_v4_f32(from);
                        x[i] += a;
                        x[i + 1] += b;
                        x[i + 2] += c;
                        x[i + 3] += d;
                        from = from.add(WARPGROUP as usize * VECTOR);
                        i += VECTOR;
                    }
                    of_tile += 1;
                }
            }
            block = opaque(block + 1);
        }
    }
}
