//! The reduction of partial sums: first those of a block's warps, then those of the blocks that
//! split k, each in a fixed order. Then the epilogue and the stores.

use cuda_std::atomic::{Order, Scope, atom_add};
use cuda_std::cluster::{
    barrier_cluster_arrive_relaxed, barrier_cluster_arrive_release, barrier_cluster_wait_acquire,
    ld_shared_cluster_v4_f32, mapa_shared_cluster,
};
use cuda_std::element::Element;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_v4_f32, st_v4_f32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use spec::gemm::GemmParams;
use spec::gemm::decode::partial_pitch;
use spec::gemm::raster::divided;

use crate::gemm::fused::Fused;

/// Neighbouring columns that a thread adds and stores together.
const WIDTH: u32 = 4;
/// Rows whose sums a thread loads before it waits for any of them.
const TOGETHER: usize = 4;

type Group = [f32; WIDTH as usize];
type Groups = [Group; TOGETHER];

/// A block's tile and its partial sums.
pub(super) struct Tile<'a> {
    pub(super) params: &'a GemmParams,
    /// Index of the matrix in the batch.
    pub(super) batch: u64,
    /// Rows inside D.
    pub(super) rows: u32,
    /// Columns; some may lie outside D.
    pub(super) columns: u32,
    /// First column, in D.
    pub(super) column: u32,
    /// Partial sums that the block has of each result, over parts of its k.
    pub(super) parts: u32,
    /// Rows of a part in memory.
    pub(super) part_rows: u32,
    /// Threads of the block.
    pub(super) threads: u32,
    /// `[parts][part_rows][partial_pitch]`, in shared memory.
    pub(super) sums: *mut f32,
}

/// A thread's share of the results: one group of [`WIDTH`] columns, in every `step`th row from
/// `row` on.
#[derive(Clone, Copy)]
struct Share {
    row: u32,
    step: u32,
    /// In the tile.
    column: u32,
}

impl Share {
    /// The `i`th of its rows.
    #[inline(always)]
    fn row(&self, i: usize) -> u32 {
        self.row + i as u32 * self.step
    }
}

impl Tile<'_> {
    /// This thread's share, if `blocks` blocks split the rows and this is number `block`. Empty for
    /// threads that are left over when the others make up whole rows.
    #[inline(always)]
    fn share(&self, block: u32, blocks: u32) -> Share {
        let across = self.columns / WIDTH;
        let (row, group) = divided(thread::thread_idx_x(), across);
        let at_once = divided(self.threads, across).0;
        let first = block * at_once + row;
        Share {
            row: if row < at_once { first } else { self.rows },
            step: blocks * at_once,
            column: group * WIDTH,
        }
    }

    /// Offset of a group's sums in the first part.
    #[inline(always)]
    fn offset(&self, row: u32, column: u32) -> u32 {
        row * partial_pitch(self.columns) + column
    }

    /// The sum over the parts.
    ///
    /// # Safety
    /// They have been stored, by threads that this one has synchronised with.
    #[inline(always)]
    unsafe fn of_parts(&self, row: u32, column: u32) -> Group {
        let stride = self.part_rows * partial_pitch(self.columns);
        let mut total = [0.0; WIDTH as usize];
        let mut part = 0;
        while part < self.parts {
            let offset = self.offset(row, column) + part * stride;
            // SAFETY: inside the sums; a multiple of 16 bytes, as the pitches are.
            let sums = unsafe { ld_v4_f32(self.sums.add(offset as usize)) };
            total = if part == 0 { sums } else { add(total, sums) };
            part += 1;
        }
        total
    }

    /// `group` of each of the share's next rows that the tile has; zeros for the others.
    #[inline(always)]
    fn groups(&self, share: &Share, group: impl Fn(u32) -> Group) -> Groups {
        let mut groups = [[0.0; WIDTH as usize]; TOGETHER];
        for i in 0..TOGETHER {
            if share.row(i) < self.rows {
                groups[i] = group(share.row(i));
            }
        }
        groups
    }

    /// Replaces the first part by the sum over the parts.
    ///
    /// # Safety
    /// As for [`of_parts`](Self::of_parts).
    #[inline(always)]
    unsafe fn add_parts(&self) {
        if self.parts == 1 {
            return;
        }
        let share = self.share(0, 1);
        let mut row = share.row;
        while row < self.rows {
            // SAFETY: a group is one thread's alone.
            unsafe {
                let place = self.sums.add(self.offset(row, share.column) as usize);
                st_v4_f32(place, self.of_parts(row, share.column));
            }
            row += share.step;
        }
    }

    /// Applies the epilogue to this thread's groups and stores what lies inside D.
    ///
    /// # Safety
    /// As the launch's. `totals` gives the sums at the rows of a share that the tile has.
    #[inline(always)]
    unsafe fn finish<Out: Element>(
        &self,
        mut share: Share,
        totals: impl Fn(&Share) -> Groups,
        epilogue: &Fused<Out>,
        d: *mut Out,
    ) {
        let (n, ldd) = (self.params.n, self.params.ldd);
        let column = self.column + share.column;
        if column >= n {
            return;
        }
        let offset = self.batch as i64 * self.params.batch_stride_d
            + i64::from(share.row) * ldd
            + i64::from(column);
        let mut d = d.wrapping_offset(offset as isize);
        let step = i64::from(share.step) * ldd;
        let is_whole = column + WIDTH <= n
            && Out::is_vector_aligned(d)
            && (step as u64).is_multiple_of(u64::from(WIDTH));
        let factor = epilogue.factor_alone().filter(|_| is_whole);
        while share.row < self.rows {
            let mut totals = totals(&share);
            if let Some(factor) = factor {
                for i in 0..TOGETHER {
                    if share.row(i) < self.rows {
                        // SAFETY: four elements of D, aligned.
                        unsafe { Out::store4(d, totals[i].map(|x| x * factor)) };
                    }
                    d = d.wrapping_offset(step as isize);
                }
                share.row += TOGETHER as u32 * share.step;
                continue;
            }
            let mut left = opaque(TOGETHER as u32); // a loop, as the epilogue is long
            while left > 0 && share.row < self.rows {
                // SAFETY: the caller's promise.
                unsafe {
                    self.finish_group((share.row, column), totals[0], epilogue, (d, is_whole));
                }
                for i in 1..TOGETHER {
                    totals.swap(i - 1, i); // all the way round: LLVM would peel off what stays
                }
                share.row += share.step;
                d = d.wrapping_offset(step as isize);
                left -= 1;
            }
        }
    }

    /// Applies the epilogue to one group, at a row and a column of D, and stores it.
    ///
    /// # Safety
    /// As the launch's. `d` is the group's first element. If the group is whole, all four elements
    /// are inside D, and aligned.
    #[inline(always)]
    unsafe fn finish_group<Out: Element>(
        &self,
        (row, column): (u32, u32),
        mut x: Group,
        epilogue: &Fused<Out>,
        (d, is_whole): (*mut Out, bool),
    ) {
        let n = self.params.n;
        let place = |i: usize| Place {
            batch: self.batch,
            row,
            column: (column + i as u32).min(n - 1),
        };
        epilogue.apply_all(place, &mut x);
        if is_whole {
            // SAFETY: the caller's promise.
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

/// How the blocks that split a tile's k add up their sums.
pub(super) trait Combine {
    /// Every thread of a block calls it once its warps have stored their sums in `tile.sums`.
    ///
    /// # Safety
    /// As the launch's.
    unsafe fn finish<Out: Element>(self, tile: &Tile<'_>, epilogue: &Fused<Out>, d: *mut Out);
}

/// A cluster: each block reduces a share of the results, through distributed shared memory.
pub(super) struct Cluster {
    /// Rank of the block with the first share of k, and the distance to the rank of the next share.
    pub(super) first_rank: u32,
    pub(super) ranks_apart: u32,
}

impl Combine for Cluster {
    #[inline(always)]
    unsafe fn finish<Out: Element>(self, tile: &Tile<'_>, epilogue: &Fused<Out>, d: *mut Out) {
        let (split_idx, splits) = (thread::block_idx_y(), thread::grid_dim_y());
        let share = tile.share(split_idx, splits);
        thread::sync_threads(); // the block's sums are stored
        // SAFETY: the sums are in shared memory; those of all blocks are visible after the
        // cluster's first barrier. All threads of the cluster get here. No block exits while others
        // read its shared memory: a thread has stored all that it has read before it arrives.
        unsafe {
            if splits > 1 {
                tile.add_parts();
                barrier_cluster_arrive_release();
                barrier_cluster_wait_acquire(); // the sums of all blocks are visible
            }
            let totals = |share: &Share| {
                if splits == 1 {
                    tile.groups(share, |row| tile.of_parts(row, share.column))
                } else {
                    self.of_ranks(tile, share, splits)
                }
            };
            tile.finish(share, totals, epilogue, d);
            if splits > 1 {
                barrier_cluster_arrive_relaxed();
                barrier_cluster_wait_acquire(); // nobody reads this block's sums any more
            }
        }
    }
}

impl Cluster {
    /// The sums over the blocks that split k. What one block has of all rows is loaded before any of
    /// it is added: a load from another block takes a quarter of a microsecond.
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
            let groups = tile.groups(share, |row| {
                let at = sums.add_bytes(tile.offset(row, share.column) * 4);
                // SAFETY: the caller's promise; a multiple of 16 bytes, as the pitches are.
                unsafe { ld_shared_cluster_v4_f32(at) }
            });
            for i in 0..TOGETHER {
                totals[i] = if split_idx == 0 {
                    groups[i]
                } else {
                    add(totals[i], groups[i])
                };
            }
            rank += self.ranks_apart;
            split_idx += 1;
        }
        totals
    }
}

/// Through global memory: each block draws a ticket, and the last one adds up.
pub(super) struct Tickets {
    /// Partial sums, `[batch][tiles][splits][tile_m][tile_n]`.
    pub(super) partials: *mut f32,
    /// Counters `[batch][tiles]`: how many blocks have stored their sums. 0 before and after a
    /// launch.
    pub(super) tickets: *mut u32,
    /// A word of shared memory, to tell the block's threads what was drawn.
    pub(super) word: *mut u32,
}

impl Combine for Tickets {
    #[inline(always)]
    unsafe fn finish<Out: Element>(self, tile: &Tile<'_>, epilogue: &Fused<Out>, d: *mut Out) {
        let splits = thread::grid_dim_y();
        let share = tile.share(0, 1);
        thread::sync_threads(); // the sums of all warps are stored
        let tile_idx = u64::from(thread::block_idx_z()) * u64::from(thread::grid_dim_x())
            + u64::from(thread::block_idx_x());
        let elements = u64::from(tile.part_rows * tile.columns);
        let first = tile_idx * u64::from(splits) * elements;
        let of_tile = self.partials.wrapping_add(first as usize);
        let at = |row: u32, column: u32| (row * tile.columns + column) as usize;
        if splits > 1 {
            let offset = u64::from(thread::block_idx_y()) * elements;
            let own = of_tile.wrapping_add(offset as usize);
            let mut row = share.row;
            while row < tile.rows {
                // SAFETY: a group of the block's own sums, one thread's alone.
                unsafe {
                    let total = tile.of_parts(row, share.column);
                    st_v4_f32(own.add(at(row, share.column)), total);
                }
                row += share.step;
            }
            // SAFETY: the caller's memory; all threads come here.
            if !unsafe { self.is_last(tile_idx, splits) } {
                return;
            }
        }
        // SAFETY: the sums of the block's own warps, or of blocks that have drawn their tickets.
        unsafe {
            let total = |row| {
                if splits == 1 {
                    tile.of_parts(row, share.column)
                } else {
                    of_blocks(of_tile.add(at(row, share.column)), splits, elements)
                }
            };
            tile.finish(share, |share| tile.groups(share, total), epilogue, d);
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
        total = add(total, unsafe { ld_v4_f32(at) });
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

#[inline(always)]
fn add(a: Group, b: Group) -> Group {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}
