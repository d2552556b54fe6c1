//! What the threads of a block do together.

use core::marker::PhantomData;

use super::InTile;
use super::index::{
    InRow, OfThisThread, Pair, PerBlock, after, in_memory, require_one_dimension_of_blocks,
    require_two_dimensions_of_blocks,
};
use crate::thread::{self, WARP_THREADS};
use crate::warp::{self, Words};

/// The right to barriers, reductions and shared memory of a block of `THREADS` threads. A kernel has
/// one, as a parameter to which a launch passes nothing:
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Sum of each row of `x`.
/// #[kernel(block = 128)]
/// pub fn row_sums(x: View2<'_, f32>, mut sums: Disjoint<'_, f32, PerBlock>, mut block: Block<'_, 128>) {
///     for row in block.rows(x.rows()) {
///         let mut sum = 0.0;
///         for at in row.columns(x.columns()) {
///             sum += x[(at.row(), at.column())];
///         }
///         let sum = block.reduce(sum, |a, b| a + b);
///         if let Some(at) = row.leader() {
///             sums[&at] = sum;
///         }
///     }
/// }
/// ```
///
/// `#[kernel(block = ..)]` gives the extents of the block, whose product is `THREADS`. A launch with
/// another block is refused.
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// #[kernel]
/// pub fn the_block_is_missing(block: Block<'_, 128>) {}
/// ```
/// ```compile_fail,E0080
/// # use cuda_std::prelude::*;
/// #[kernel(block = 64)]
/// pub fn another_block(block: Block<'_, 128>) {}
/// ```
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// #[kernel(requires = "x.len() >= z.len()")]
/// pub fn a_requirement_without_its_parameter(x: &[f32], mut y: Disjoint<'_, f32, Index1>) {}
/// ```
///
/// All threads of the block call [`sync`](Self::sync), [`reduce`](Self::reduce) and the like, or
/// none does. cuda_builder refuses a safe kernel in which a condition that differs between threads
/// decides that.
#[derive(Debug)]
pub struct Block<'kernel, const THREADS: u32> {
    thread: u32,
    /// Threads along x.
    width: u32,
    /// The thread's row of so many, and its column.
    place: (u32, u32),
    of_this_thread: PhantomData<(&'kernel (), OfThisThread)>,
}

impl<const THREADS: u32> Block<'_, THREADS> {
    /// For `#[kernel]` alone: the block is `width` times `height` times `depth` threads. These are
    /// three constants, so that LLVM removes the branches when it inlines this.
    ///
    /// # Safety
    /// The block has these extents. A thread has one such value, in a kernel whose barriers
    /// cuda_builder holds against its rule.
    ///
    /// # Panics
    /// On the host.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(width: u32, height: u32, depth: u32) -> Self {
        // LLVM then knows quotients and remainders by the extents.
        let below = |index: u32, extent: u32| {
            // SAFETY: the caller's extents.
            unsafe { core::hint::assert_unchecked(index < extent) };
            index
        };
        let plane = match depth {
            1 => 0,
            _ => below(thread::thread_idx_z(), depth) * height,
        };
        let row = match (height, depth) {
            (1, 1) => 0,
            _ => below(thread::thread_idx_y(), height) + plane,
        };
        let column = below(thread::thread_idx_x(), width);
        Self {
            thread: below(row * width + column, THREADS),
            width,
            place: (row, column),
            of_this_thread: PhantomData,
        }
    }

    /// For `#[kernel]` alone: whether a block of these extents has as many threads.
    #[doc(hidden)]
    pub const fn has(extents: [u32; 3]) -> bool {
        extents[0] * extents[1] * extents[2] == THREADS
    }

    /// Index of the thread in the block, from 0: x fastest.
    #[inline(always)]
    pub fn thread(&self) -> usize {
        self.thread as usize
    }

    /// The places that this thread has among `elements` in rows of `COLUMNS`: one in `THREADS`.
    #[inline(always)]
    pub(super) fn places<const COLUMNS: usize>(&self, elements: usize) -> Places<COLUMNS, THREADS> {
        let thread = self.thread();
        Places {
            first: match self.width as usize == COLUMNS {
                true => (self.place.0 as usize, self.place.1 as usize),
                false => (thread / COLUMNS, thread % COLUMNS),
            },
            step: 0,
            thread,
            elements,
        }
    }

    /// `bar.sync 0`: waits for all threads of the block.
    #[inline(always)]
    pub fn sync(&mut self) {
        thread::sync_threads();
    }

    /// The rows in `0..rows` that this block has, in a one-dimensional grid. The first is the block's
    /// index, the step is the number of blocks.
    ///
    /// # Panics
    /// Where the grid has more than one dimension. Where `rows` is 2^63 or more. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn rows(&self, rows: usize) -> Rows<THREADS> {
        require_one_dimension_of_blocks();
        Rows {
            next: thread::block_idx_x() as usize,
            rows: in_memory(rows),
            thread: self.thread,
            of_this_thread: PhantomData,
        }
    }

    /// The thread's elements of the block's tile of `ROWS` times `COLUMNS`. The block in place (y, x)
    /// of a two-dimensional grid has the tile that begins at row `y * ROWS` and column
    /// `x * COLUMNS`. Some of its elements may be outside of what is tiled.
    ///
    /// # Panics
    /// Where the grid has a third dimension. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn tile<const ROWS: usize, const COLUMNS: usize>(
        &self,
    ) -> TileElements<ROWS, COLUMNS, THREADS> {
        require_two_dimensions_of_blocks();
        TileElements {
            first_row: thread::block_idx_y() as usize * ROWS,
            first_column: thread::block_idx_x() as usize * COLUMNS,
            places: self.places::<COLUMNS>(ROWS * COLUMNS),
            of_this_thread: PhantomData,
        }
    }

    /// Reduces the values of all threads by `op`, and returns the result in every thread: a butterfly
    /// in each warp, then warp 0's value with those of warps 1, 2, .. in that order. The same bits
    /// every run. `op` is commutative.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn reduce<T: Words + Send>(&mut self, value: T, op: impl Fn(T, T) -> T) -> T {
        let scratch = crate::shared_array![u64; crate::block::WARPS_MAX];
        const {
            assert!(
                THREADS.is_multiple_of(WARP_THREADS),
                "a block of whole warps"
            );
            assert!(size_of::<T>() <= 8 && align_of::<T>() <= 8);
        }
        let value = self.reduce_in_warps(value, &op);
        let (warp, lane) = (self.thread / WARP_THREADS, self.thread % WARP_THREADS);
        // SAFETY: a word for each warp, in memory that is for this alone. A barrier stands between the
        // writes and the reads, and another behind the reads.
        unsafe {
            if lane == 0 {
                scratch.add(warp as usize).cast::<T>().write(value);
            }
            thread::sync_threads();
            let mut total = scratch.cast::<T>().read();
            for warp in 1..(THREADS / WARP_THREADS) as usize {
                total = op(total, scratch.add(warp).cast::<T>().read());
            }
            thread::sync_threads();
            total
        }
    }

    /// Reduces the values of the 32 lanes of each warp by `op`, and returns the result in each of
    /// them: a butterfly, the same bits every run. `op` is commutative.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn reduce_in_warps<T: Words + Send>(&mut self, value: T, op: impl Fn(T, T) -> T) -> T {
        const {
            assert!(
                THREADS.is_multiple_of(WARP_THREADS),
                "a block of whole warps"
            );
        }
        // SAFETY: the block consists of whole warps, all lanes of which are here: cuda_builder refuses
        // a safe kernel where they might not be.
        unsafe { warp::reduce(value, op) }
    }
}

/// The iterator that [`Block::rows`] returns.
#[derive(Debug)]
pub struct Rows<const THREADS: u32> {
    next: usize,
    rows: usize,
    thread: u32,
    of_this_thread: OfThisThread,
}

impl<const THREADS: u32> Iterator for Rows<THREADS> {
    type Item = Row<THREADS>;

    #[inline(always)]
    fn next(&mut self) -> Option<Row<THREADS>> {
        let row = self.next;
        (row < self.rows).then(|| {
            // Read here: a step that LLVM knew to stay would have it carry an address for each operand
            // from row to row, and ptxas would unroll no loop over columns.
            self.next = after(row, thread::grid_dim_x() as usize);
            Row {
                row_and_thread: Pair::new(row, self.thread as usize),
                of_this_thread: PhantomData,
            }
        })
    }
}

/// A row that no other block has.
#[derive(Debug)]
pub struct Row<const THREADS: u32> {
    row_and_thread: Pair,
    of_this_thread: OfThisThread,
}

impl<const THREADS: u32> Row<THREADS> {
    /// Its index.
    #[inline(always)]
    pub fn get(&self) -> usize {
        self.row_and_thread.first()
    }

    #[inline(always)]
    fn thread(&self) -> usize {
        self.row_and_thread.second()
    }

    /// The columns in `0..columns` that this thread has. The first is the thread's index in the
    /// block, the step is `THREADS`.
    ///
    /// # Panics
    /// Where `columns` is 2^63 or more.
    #[inline(always)]
    #[track_caller]
    pub fn columns(&self, columns: usize) -> Columns<THREADS> {
        Columns {
            row: self.get(),
            next: self.thread(),
            columns: in_memory(columns),
            of_this_thread: PhantomData,
        }
    }

    /// The row's index as a witness in thread 0 of the block, and `None` in the other threads.
    #[inline(always)]
    pub fn leader(&self) -> Option<PerBlock> {
        (self.thread() == 0).then(|| PerBlock::new(self.get()))
    }
}

/// The iterator that [`Row::columns`] returns.
#[derive(Debug)]
pub struct Columns<const THREADS: u32> {
    row: usize,
    next: usize,
    columns: usize,
    of_this_thread: OfThisThread,
}

impl<const THREADS: u32> Iterator for Columns<THREADS> {
    type Item = InRow;

    #[inline(always)]
    fn next(&mut self) -> Option<InRow> {
        let column = self.next;
        (column < self.columns).then(|| {
            self.next = after(column, THREADS as usize);
            InRow::new(self.row, column)
        })
    }
}

/// The iterator that [`Block::tile`] returns.
#[derive(Debug)]
pub struct TileElements<const ROWS: usize, const COLUMNS: usize, const THREADS: u32> {
    first_row: usize,
    first_column: usize,
    places: Places<COLUMNS, THREADS>,
    of_this_thread: OfThisThread,
}

impl<const ROWS: usize, const COLUMNS: usize, const THREADS: u32>
    TileElements<ROWS, COLUMNS, THREADS>
{
    /// First row of the tile.
    #[inline(always)]
    pub fn first_row(&self) -> usize {
        self.first_row
    }

    /// First column of the tile.
    #[inline(always)]
    pub fn first_column(&self) -> usize {
        self.first_column
    }
}

impl<const ROWS: usize, const COLUMNS: usize, const THREADS: u32> Iterator
    for TileElements<ROWS, COLUMNS, THREADS>
{
    type Item = InTile<ROWS, COLUMNS>;

    #[inline(always)]
    fn next(&mut self) -> Option<InTile<ROWS, COLUMNS>> {
        let place = self.places.next()?;
        Some(InTile::new((self.first_row, self.first_column), place))
    }
}

/// The iterator that [`Block::places`] returns: rows and columns.
#[derive(Debug)]
pub(super) struct Places<const COLUMNS: usize, const THREADS: u32> {
    /// Row and column of the thread's first element.
    first: (usize, usize),
    step: usize,
    thread: usize,
    elements: usize,
}

impl<const COLUMNS: usize, const THREADS: u32> Iterator for Places<COLUMNS, THREADS> {
    type Item = (usize, usize);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize)> {
        let threads = THREADS as usize;
        let element = self.thread + self.step * threads;
        // Counted by steps, of which LLVM knows the number.
        let is_one = self.step < self.elements.div_ceil(threads)
            && (self.elements.is_multiple_of(threads) || element < self.elements);
        is_one.then(|| {
            let place = match threads.is_multiple_of(COLUMNS) {
                true => (self.first.0 + self.step * (threads / COLUMNS), self.first.1),
                false => (element / COLUMNS, element % COLUMNS),
            };
            self.step += 1;
            place
        })
    }
}
