//! How the sums of a block's warps, and of the blocks that share a tile, become one, in a fixed
//! order, and then results.

use cuda_std::atomic::{Order, Scope, atom_add};
use cuda_std::cluster::{
    barrier_cluster_arrive_relaxed, barrier_cluster_arrive_release, barrier_cluster_wait_acquire,
    ld_shared_cluster_u64, mapa_shared_cluster,
};
use cuda_std::element::Element;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::mem::{ld_v4_f32, st_v4_f32};
use cuda_std::shared::{ClusterAddr, SharedAddr};
use cuda_std::thread;
use spec::gemm::GemmParams;
use spec::gemm::decode::DecodeConfig;

/// Neighbouring columns that a thread adds up at once.
const WIDTH: u32 = 4;

/// A block's tile.
pub(super) struct Tile<'a> {
    pub(super) config: &'a DecodeConfig,
    pub(super) params: &'a GemmParams,
    /// Product of the batch.
    pub(super) batch: u64,
    /// First column.
    pub(super) column: u32,
    /// Threads of the block.
    pub(super) threads: u32,
    /// Sums of the block's warps, `[warps_k][tile_m][partial_pitch]`, in shared memory.
    pub(super) sums: *mut f32,
}

impl Tile<'_> {
    /// Groups of [`WIDTH`] columns of the tile's rows that there are.
    #[inline(always)]
    fn groups(&self) -> u32 {
        self.params.m.min(self.config.tile_m) * (self.config.tile_n / WIDTH)
    }

    /// Row and first column of a group.
    #[inline(always)]
    fn place(&self, group: u32) -> (u32, u32) {
        let across = self.config.tile_n / WIDTH;
        (group / across, group % across * WIDTH)
    }

    /// Where the sums of a group are, of the first warp along k.
    #[inline(always)]
    fn offset(&self, group: u32) -> u32 {
        let (row, column) = self.place(group);
        row * self.config.partial_pitch() + column
    }

    /// The sum over the block's warps.
    ///
    /// # Safety
    /// They have stored their sums, and met.
    #[inline(always)]
    unsafe fn of_warps(&self, group: u32) -> [f32; WIDTH as usize] {
        let stride = self.config.tile_m * self.config.partial_pitch();
        let mut total = [0.0; WIDTH as usize];
        let mut k_idx = 0;
        while k_idx < self.config.warps_k() {
            let offset = self.offset(group) + k_idx * stride;
            // SAFETY: inside of the sums; a multiple of 16 bytes, as the pitches are.
            let sums = unsafe { ld_v4_f32(self.sums.add(offset as usize)) };
            total = if k_idx == 0 { sums } else { add(total, sums) };
            k_idx += 1;
        }
        total
    }

    /// Puts the sum over the block's warps in the place of the first warp's.
    ///
    /// # Safety
    /// As for [`of_warps`](Self::of_warps).
    #[inline(always)]
    unsafe fn add_warps(&self) {
        if self.config.warps_k() == 1 {
            return;
        }
        let mut group = thread::thread_idx_x();
        while group < self.groups() {
            // SAFETY: a group is one thread's alone.
            unsafe {
                let place = self.sums.add(self.offset(group) as usize);
                st_v4_f32(place, self.of_warps(group));
            }
            group += self.threads;
        }
    }

    /// Applies the epilogue to a group and stores what lies in D.
    ///
    /// # Safety
    /// As the launch's.
    #[inline(always)]
    unsafe fn finish<Out: Element>(
        &self,
        group: u32,
        mut x: [f32; WIDTH as usize],
        epilogue: &impl Epilogue,
        d: *mut Out,
    ) {
        let (row, column) = self.place(group);
        let column = self.column + column;
        let n = self.params.n;
        if column >= n {
            return;
        }
        let place = |i: usize| Place {
            batch: self.batch,
            row,
            column: (column + i as u32).min(n - 1),
        };
        epilogue.apply_all(place, &mut x);
        let offset = self.batch as i64 * self.params.batch_stride_d
            + i64::from(row) * self.params.ldd
            + i64::from(column);
        let d = d.wrapping_offset(offset as isize);
        if column + WIDTH <= n && Out::is_vector_aligned(d) {
            // SAFETY: four elements of D, aligned.
            unsafe { Out::store4(d, x) };
            return;
        }
        for i in 0..WIDTH as usize {
            if column + (i as u32) < n {
                // SAFETY: an element of D.
                unsafe { Out::store(d.add(i), x[i]) };
            }
        }
    }
}

/// How the blocks that share a tile add up their sums.
pub(super) trait Combine {
    /// Every thread of a block calls it when its warps have stored their sums in `tile.sums`.
    ///
    /// # Safety
    /// As the launch's.
    unsafe fn finish<Out: Element>(self, tile: &Tile<'_>, epilogue: &impl Epilogue, d: *mut Out);
}

/// Through each other's shared memory, each a share of the results.
pub(super) struct Cluster;

impl Combine for Cluster {
    #[inline(always)]
    unsafe fn finish<Out: Element>(self, tile: &Tile<'_>, epilogue: &impl Epilogue, d: *mut Out) {
        let (split_idx, splits) = (thread::block_idx_y(), thread::grid_dim_y());
        let groups = tile.groups();
        thread::sync_threads(); // all warps' sums are there
        if splits > 1 {
            // SAFETY: the warps' sums are there.
            unsafe { tile.add_warps() };
            // SAFETY: all threads of all blocks of the cluster come here.
            unsafe {
                barrier_cluster_arrive_release();
                barrier_cluster_wait_acquire(); // the sums of all blocks are there
            }
        }
        // SAFETY: the sums are in the block's shared memory.
        let sums = unsafe { SharedAddr::of(tile.sums) };
        let mut group = split_idx * tile.threads + thread::thread_idx_x();
        while group < groups {
            // SAFETY: the sums are there; the blocks of other ranks wait below.
            unsafe {
                let total = if splits == 1 {
                    tile.of_warps(group)
                } else {
                    of_ranks(sums.add_bytes(tile.offset(group) * 4), splits)
                };
                tile.finish(group, total, epilogue, d);
            }
            group += splits * tile.threads;
        }
        if splits > 1 {
            // SAFETY: as above. Nobody's shared memory goes away while others read it.
            unsafe {
                barrier_cluster_arrive_relaxed();
                barrier_cluster_wait_acquire();
            }
        }
    }
}

/// The sum over the cluster's blocks, each of which has its own at `own`.
///
/// # Safety
/// The blocks' sums are there.
#[inline(always)]
unsafe fn of_ranks(own: SharedAddr, ranks: u32) -> [f32; WIDTH as usize] {
    // SAFETY: the caller's.
    let mut total = unsafe { load(mapa_shared_cluster(own, 0)) };
    let mut rank = 1;
    while rank < ranks {
        // SAFETY: the caller's.
        total = add(total, unsafe { load(mapa_shared_cluster(own, rank)) });
        rank += 1;
    }
    total
}

/// Through global memory; the block that comes last adds up.
pub(super) struct Tickets {
    /// `[batch][tiles][splits][tile_m][tile_n]`.
    pub(super) partials: *mut f32,
    /// `[batch][tiles]`, each how many blocks have stored their sums; 0 before and after.
    pub(super) tickets: *mut u32,
    /// A word of shared memory.
    pub(super) word: *mut u32,
}

impl Combine for Tickets {
    #[inline(always)]
    unsafe fn finish<Out: Element>(self, tile: &Tile<'_>, epilogue: &impl Epilogue, d: *mut Out) {
        let splits = thread::grid_dim_y();
        let groups = tile.groups();
        thread::sync_threads(); // all warps' sums are there
        let tile_idx = u64::from(thread::block_idx_z()) * u64::from(thread::grid_dim_x())
            + u64::from(thread::block_idx_x());
        let elements = u64::from(tile.config.tile_m * tile.config.tile_n);
        let first = tile_idx * u64::from(splits) * elements;
        let of_tile = self.partials.wrapping_add(first as usize);
        if splits > 1 {
            let offset = u64::from(thread::block_idx_y()) * elements;
            let own = of_tile.wrapping_add(offset as usize);
            let mut group = thread::thread_idx_x();
            while group < groups {
                // SAFETY: a group of the block's own sums, one thread's alone.
                unsafe { st_v4_f32(own.add((group * WIDTH) as usize), tile.of_warps(group)) };
                group += tile.threads;
            }
            // SAFETY: the caller's memory; all threads come here.
            if !unsafe { self.is_last(tile_idx, splits) } {
                return;
            }
        }
        let mut group = thread::thread_idx_x();
        while group < groups {
            // SAFETY: the sums of the block's warps, or of blocks that have drawn their tickets.
            unsafe {
                let total = if splits == 1 {
                    tile.of_warps(group)
                } else {
                    of_blocks(of_tile.add((group * WIDTH) as usize), splits, elements)
                };
                tile.finish(group, total, epilogue, d);
            }
            group += tile.threads;
        }
    }
}

/// The sum over `blocks` blocks' sums, `stride` elements apart.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn of_blocks(first: *const f32, blocks: u32, stride: u64) -> [f32; WIDTH as usize] {
    // SAFETY: the caller's.
    let mut total = unsafe { ld_v4_f32(first) };
    let mut block = 1;
    while block < blocks {
        let at = first.wrapping_add((u64::from(block) * stride) as usize);
        // SAFETY: the caller's.
        total = add(total, unsafe { ld_v4_f32(at) });
        block += 1;
    }
    total
}

impl Tickets {
    /// Draws a ticket for the block, whose sums are stored; whether it was the last. The last puts
    /// the tickets back to 0.
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

/// Four neighbours in a block of the cluster.
///
/// # Safety
/// They are there, at a multiple of 16 bytes.
#[inline(always)]
unsafe fn load(at: ClusterAddr) -> [f32; WIDTH as usize] {
    // SAFETY: the caller's.
    let pairs = unsafe {
        [
            ld_shared_cluster_u64(at),
            ld_shared_cluster_u64(at.add_bytes(8)),
        ]
    };
    [
        f32::from_bits(pairs[0] as u32),
        f32::from_bits((pairs[0] >> 32) as u32),
        f32::from_bits(pairs[1] as u32),
        f32::from_bits((pairs[1] >> 32) as u32),
    ]
}

#[inline(always)]
fn add(a: [f32; WIDTH as usize], b: [f32; WIDTH as usize]) -> [f32; WIDTH as usize] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}
