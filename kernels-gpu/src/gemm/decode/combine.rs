//! The end of a tile: partial sums are added in a fixed order, first over a block's warps, then
//! over the blocks that split k. Then come the epilogue and the stores.

use abi::gemm::decode::partial_pitch;
use abi::gemm::raster::divided;
use abi::gemm::{EpilogueParams, GemmParams};
use cuda_std::epilogue::Coord;
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_v4_f32, st_v4_u32};
use cuda_std::thread;
use cuda_std::wgmma::S32Bits;

use crate::gemm::fused::Unread;
use crate::gemm::stored::{Fused, Half, Output, Stored};

/// Neighbouring columns that a thread adds and stores together.
pub(super) const WIDTH: u32 = 4;
/// Rows whose sums a thread loads before it waits for any of them.
pub(super) const TOGETHER: usize = 4;

pub(super) type Group = [f32; WIDTH as usize];
pub(super) type Groups = [Group; TOGETHER];

/// A block's tile and its partial sums.
pub(super) struct Tile<'a> {
    pub(super) params: &'a GemmParams,
    /// Index of the matrix in the batch.
    pub(super) batch: u64,
    /// First row, in D.
    pub(super) row: u32,
    /// Rows inside D.
    pub(super) rows: u32,
    /// Columns; some may lie outside D.
    pub(super) columns: u32,
    /// First column, in D.
    pub(super) column: u32,
    /// Partial sums that the block has of each result, over parts of its k.
    pub(super) splits: u32,
    /// Rows of a part in memory.
    pub(super) split_rows: u32,
    /// Threads of the block.
    pub(super) threads: u32,
    /// `[splits][split_rows][partial_pitch]`, in shared memory.
    pub(super) sums: *mut f32,
}

/// A thread's share of the results: one group of [`WIDTH`] columns, in `count` rows, every `step`th
/// from `row` on.
#[derive(Clone, Copy)]
pub(super) struct Share {
    row: u32,
    step: u32,
    pub(super) count: u32,
    /// Offsets in a part of the sums: of the first group, and from one to the next.
    pub(super) at: u32,
    at_step: u32,
}

impl Share {
    /// Offset of its `i`th group.
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> u32 {
        self.at + i as u32 * self.at_step
    }

    /// Leaves out the next `count` rows.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.row += count * self.step;
        self.at += count * self.at_step;
        self.count = self.count.saturating_sub(count);
    }

    /// `group` of each of the next [`TOGETHER`] rows that there are; zeros for the others.
    #[inline(always)]
    pub(super) fn groups(&self, group: impl Fn(usize) -> Group) -> Groups {
        let mut groups = [[0.0; WIDTH as usize]; TOGETHER];
        for i in 0..TOGETHER {
            if (i as u32) < self.count {
                groups[i] = group(i);
            }
        }
        groups
    }
}

/// What a thread does at the end of a tile. All of it is known before the main loop, in which
/// threads have time: at the end each instruction counts, as few warps hide little latency.
#[derive(Clone, Copy)]
pub(super) struct Job<T> {
    pub(super) share: Share,
    /// The share's first result in D, its column, and bytes from one row of the share to the next.
    d: *mut u8,
    column: u32,
    step: isize,
    stored: Stored<T>,
    /// Whether groups are inside D, and aligned for a store of all four.
    is_whole: bool,
    /// One of the constants below: what is left to do, in a word that one test answers.
    end: u32,
    /// What results are multiplied by if the end is a factor.
    factor: f32,
}

/// The epilogue has steps, or groups are not whole.
const FUSED: u32 = 0;
/// Nothing but a factor, and D is of A's type, or of f32.
const FACTOR: u32 = 1;
const FACTOR_F32: u32 = 2;

impl<T: Half> Job<T> {
    /// The same, but computed by now: the compiler may not put it off.
    #[inline(always)]
    pub(super) fn known(mut self) -> Self {
        let share = self.share;
        self.share = Share {
            row: opaque(share.row),
            step: opaque(share.step),
            count: opaque(share.count),
            at: opaque(share.at),
            at_step: opaque(share.at_step),
        };
        self.end = opaque(self.end);
        self.factor = f32::from_bits(opaque(self.factor.to_bits()));
        self
    }

    /// Stores the next groups, times the factor.
    ///
    /// # Safety
    /// The groups are whole; D is the launch's, and of `Out`.
    #[inline(always)]
    unsafe fn store<Out: Output>(&mut self, groups: Groups) {
        for i in 0..TOGETHER {
            if (i as u32) < self.share.count {
                let x = groups[i].map(|x| x * self.factor);
                // SAFETY: four elements of D, aligned.
                unsafe { Out::store4_cvt(self.d.cast(), x) };
            }
            self.d = self.d.wrapping_offset(self.step);
        }
        self.share.skip(TOGETHER as u32);
    }

    /// Stores all groups, times the factor.
    ///
    /// # Safety
    /// As for [`store`](Self::store). `totals` gives the sums of the share's next rows.
    #[inline(always)]
    unsafe fn store_all<Out: Output>(mut self, totals: impl Fn(&Share) -> Groups) {
        while self.share.count > 0 {
            let totals = totals(&self.share);
            // SAFETY: passed on to the caller.
            unsafe { self.store::<Out>(totals) };
        }
    }
}

impl Tile<'_> {
    /// This thread's job, if `blocks` blocks split the rows and this is number `block`. Nothing for
    /// threads that are left over when the others make up whole rows.
    #[inline(always)]
    pub(super) fn job<T: Half>(
        &self,
        (block, blocks): (u32, u32),
        (d, stored): (*mut u8, Stored<T>),
        epilogue: &Unread<'_>,
    ) -> Job<T> {
        let (n, ldd) = (self.params.n, self.params.ldd);
        let across = self.columns / WIDTH;
        let (row, group) = divided(thread::thread_idx_x(), across);
        let at_once = divided(self.threads, across).0;
        let (first, step) = (block * at_once + row, blocks * at_once);
        let left = self.rows.saturating_sub(first);
        let column = self.column + group * WIDTH;
        let is_any = row < at_once && column < n;
        let pitch = partial_pitch(self.columns);
        let of_batch = self.batch as i64 * self.params.batch_stride_d;
        let d = stored.at(
            d,
            of_batch + i64::from(self.row + first) * ldd + i64::from(column),
        );
        let step_in_d = stored.bytes(i64::from(step) * ldd);
        let is_whole = column + WIDTH <= n && stored.is_vector_aligned(d, step_in_d);
        let end = match (
            is_whole && epilogue.factor_alone().is_some(),
            stored.is_f32(),
        ) {
            (false, _) => FUSED,
            (true, false) => FACTOR,
            (true, true) => FACTOR_F32,
        };
        Job {
            share: Share {
                row: first,
                step,
                count: if is_any {
                    divided(left + step - 1, step).0
                } else {
                    0
                },
                at: first * pitch + group * WIDTH,
                at_step: step * pitch,
            },
            d,
            column,
            step: step_in_d,
            stored,
            is_whole,
            end,
            factor: self.params.alpha,
        }
    }

    /// The sum over the parts, `at` an offset in each.
    ///
    /// # Safety
    /// They have been stored, by threads that this one has synchronised with.
    #[inline(always)]
    pub(super) unsafe fn of_splits<S: Sums>(&self, at: u32) -> Group {
        let stride = self.split_rows * partial_pitch(self.columns);
        let mut total = [0.0; WIDTH as usize];
        let mut split = 0;
        while split < self.splits {
            // SAFETY: inside the sums; a multiple of 16 bytes, as the pitches are.
            let sums = unsafe { ld_v4_f32(self.sums.add((at + split * stride) as usize)) };
            total = if split == 0 {
                sums
            } else {
                S::add(total, sums)
            };
            split += 1;
        }
        total
    }

    /// Applies the epilogue to this thread's groups and stores what lies inside D.
    ///
    /// A mere factor has a loop of its own for each type of D if `APART`. That is faster: the
    /// compiler prepares for the long epilogue before a loop that may need it, and multiplies all
    /// rows before it branches on the type. But `totals` is there three times.
    ///
    /// # Safety
    /// As the launch's. `totals` gives the sums of the share's next rows.
    #[inline(always)]
    pub(super) unsafe fn finish<T: Half, const APART: bool>(
        &self,
        mut job: Job<T>,
        totals: impl Fn(&Share) -> Groups,
        epilogue: &Unread<'_>,
    ) {
        // Opaque, so that the tests are made in this order: the end that is wanted most has least.
        if APART && opaque(job.end) == FACTOR {
            // SAFETY: the caller's promise.
            return unsafe { job.store_all::<T>(totals) };
        }
        if APART && opaque(job.end) == FACTOR_F32 {
            // SAFETY: the caller's promise.
            return unsafe { job.store_all::<f32>(totals) };
        }
        // SAFETY: the caller's promise.
        let epilogue = unsafe { job.stored.read(*epilogue) };
        while job.share.count > 0 {
            let mut totals = totals(&job.share);
            if !APART && job.end != FUSED {
                // SAFETY: the caller's promise.
                unsafe {
                    if job.stored.is_f32_now() {
                        job.store::<f32>(totals);
                    } else {
                        job.store::<T>(totals);
                    }
                }
                continue;
            }
            let mut left = opaque(TOGETHER as u32); // a loop, as the epilogue is long
            while left > 0 && job.share.count > 0 {
                // SAFETY: the caller's promise.
                unsafe { self.finish_group(&job, totals[0], &epilogue) };
                for i in 1..TOGETHER {
                    totals.swap(i - 1, i); // all the way round: LLVM would peel off what stays
                }
                job.share.skip(1);
                job.d = job.d.wrapping_offset(job.step);
                left -= 1;
            }
        }
    }

    /// Stores this thread's groups inside D, of i32, times alpha.
    ///
    /// # Safety
    /// As for [`finish`](Self::finish).
    #[inline(always)]
    unsafe fn finish_integers<T: Half>(
        &self,
        mut job: Job<T>,
        totals: impl Fn(&Share) -> Groups,
        epilogue: &Unread<'_>,
    ) {
        let pointer = epilogue.pointers.alpha;
        let alpha = if pointer.is_null() {
            self.params.alpha.to_bits()
        } else {
            // SAFETY: the caller's promise.
            unsafe { pointer.cast::<u32>().read() }
        };
        while job.share.count > 0 {
            let totals = totals(&job.share);
            for i in 0..TOGETHER {
                if (i as u32) < job.share.count {
                    let x = totals[i].map(|x| x.to_bits().wrapping_mul(alpha));
                    let to = job.d.cast::<u32>();
                    // SAFETY: elements of D, aligned for a store of four if they are whole.
                    unsafe {
                        if job.is_whole {
                            st_v4_u32(to, x);
                        } else {
                            for (j, &x) in x.iter().enumerate() {
                                if job.column + (j as u32) < self.params.n {
                                    to.add(j).write(x);
                                }
                            }
                        }
                    }
                }
                job.d = job.d.wrapping_offset(job.step);
            }
            job.share.skip(TOGETHER as u32);
        }
    }

    /// Applies the epilogue to the job's next group and stores it.
    ///
    /// # Safety
    /// As the launch's.
    #[inline(always)]
    unsafe fn finish_group<T: Half>(&self, job: &Job<T>, mut x: Group, epilogue: &Fused<T>) {
        let n = self.params.n;
        let coord = |i: usize| Coord {
            batch: self.batch,
            row: self.row + job.share.row,
            column: (job.column + i as u32).min(n - 1),
        };
        epilogue.all(coord, &mut x);
        let inside = (n - job.column, job.is_whole);
        // SAFETY: elements of D, aligned for a store of four if they are whole.
        unsafe { job.stored.store((job.d, 0), x, inside) };
    }
}

/// How the blocks that split a tile's k add up their sums.
pub(super) trait Combine {
    /// Which of the blocks that end a tile together this one is, and how many they are.
    fn block(&self) -> (u32, u32);

    /// Every thread of a block calls it once its warps have stored their sums in `tile.sums`, with
    /// its job.
    ///
    /// # Safety
    /// As the launch's.
    unsafe fn finish<T: Half>(self, tile: &Tile<'_>, job: Job<T>, epilogue: &Unread<'_>);
}

/// What is added up: f32, or i32 whose bits stand where f32 would.
pub(super) trait Sums {
    fn add(a: Group, b: Group) -> Group;

    /// The type of D.
    fn stored<T: Half>(epilogue: &EpilogueParams) -> Stored<T>;

    /// Stores this thread's results.
    ///
    /// # Safety
    /// As for [`Tile::finish`].
    unsafe fn finish<T: Half>(
        tile: &Tile<'_>,
        job: Job<T>,
        totals: impl Fn(&Share) -> Groups,
        epilogue: &Unread<'_>,
    );
}

impl Sums for f32 {
    #[inline(always)]
    fn add(a: Group, b: Group) -> Group {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
    }

    #[inline(always)]
    fn stored<T: Half>(epilogue: &EpilogueParams) -> Stored<T> {
        Stored::new(epilogue)
    }

    #[inline(always)]
    unsafe fn finish<T: Half>(
        tile: &Tile<'_>,
        job: Job<T>,
        totals: impl Fn(&Share) -> Groups,
        epilogue: &Unread<'_>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { tile.finish::<T, true>(job, totals, epilogue) }
    }
}

impl Sums for S32Bits {
    #[inline(always)]
    fn add(a: Group, b: Group) -> Group {
        let sum = |i: usize| f32::from_bits(a[i].to_bits().wrapping_add(b[i].to_bits()));
        [sum(0), sum(1), sum(2), sum(3)]
    }

    #[inline(always)]
    fn stored<T: Half>(_epilogue: &EpilogueParams) -> Stored<T> {
        Stored::of_words()
    }

    #[inline(always)]
    unsafe fn finish<T: Half>(
        tile: &Tile<'_>,
        job: Job<T>,
        totals: impl Fn(&Share) -> Groups,
        epilogue: &Unread<'_>,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { tile.finish_integers(job, totals, epilogue) }
    }
}
