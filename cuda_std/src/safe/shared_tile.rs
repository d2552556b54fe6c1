//! Shared memory with a state.

use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, Ordering};

use super::{Block, Plain};
use crate::shared::Storage;

/// State of a [`SharedTile`]: threads may write it.
#[derive(Debug)]
pub enum Writing {}
/// State of a [`SharedTile`]: this thread has written its elements.
#[derive(Debug)]
pub enum Written {}
/// State of a [`SharedTile`]: all threads read everything.
#[derive(Debug)]
pub enum Reading {}

/// `N` elements of shared memory, which all threads of the block write, then read, then write again.
/// It is a parameter of a safe kernel to which a launch passes nothing:
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `y[i] = x[i - 1] + x[i] + x[i + 1]`, with zeros around `x`.
/// #[kernel(block = 256)]
/// pub fn sum_of_three(
///     x: &[f32],
///     mut y: Disjoint<'_, f32, Index1>,
///     tile: SharedTile<'_, f32, 258>,
///     block: Block<'_, 256>,
/// ) {
///     let i = Index1::here();
///     let (at, thread) = (i.get(), block.thread());
///     let first = at - thread;
///     let tile = tile.fill(&block, |k| (first + k).checked_sub(1).and_then(|k| x.get(k)).copied().unwrap_or(0.0));
///     let tile = tile.sync();
///     if let Some(y) = y.get_mut(&i) {
///         *y = tile[thread] + tile[thread + 1] + tile[thread + 2];
///     }
/// }
/// ```
///
/// | state | has | to the next state |
/// |---|---|---|
/// | [`Writing`] | nothing | [`fill`](Self::fill): each thread writes its own elements |
/// | [`Written`] | nothing | [`sync`](Self::sync): a barrier of the block |
/// | [`Reading`] | the elements, as an array | [`sync`](Self::sync): a barrier of the block |
///
/// Each tile of a kernel has its own hardware barrier, `BARRIER`, from 1 to 15. The second tile is a
/// `SharedTile<'_, T, N, 2>`. Two tiles are thus different types, and no condition can exchange them.
///
/// All threads of the block call `sync`, or none does. cuda_builder refuses a safe kernel in which a
/// condition that differs between threads decides that.
///
/// ```compile_fail,E0608
/// # use cuda_std::prelude::*;
/// #[kernel(block = 32)]
/// pub fn read_before_the_barrier(
///     x: &[f32],
///     mut y: Disjoint<'_, f32, Index1>,
///     tile: SharedTile<'_, f32, 32>,
///     block: Block<'_, 32>,
/// ) {
///     let tile = tile.fill(&block, |k| x[k]);
///     y[&Index1::here()] = tile[31];
/// }
/// ```
/// ```compile_fail,E0505
/// # use cuda_std::prelude::*;
/// #[kernel(block = 32)]
/// pub fn read_after_the_second_barrier(
///     mut y: Disjoint<'_, f32, Index1>,
///     tile: SharedTile<'_, f32, 32>,
///     block: Block<'_, 32>,
/// ) {
///     let tile = tile.fill(&block, |_| 0.0).sync();
///     let element = &tile[0];
///     let tile = tile.sync();
///     y[&Index1::here()] = *element;
///     drop(tile);
/// }
/// ```
/// ```compile_fail,E0080
/// # use cuda_std::prelude::*;
/// #[kernel(block = 32)]
/// pub fn two_tiles_with_one_barrier(
///     a: SharedTile<'_, f32, 32>,
///     b: SharedTile<'_, f32, 32>,
///     block: Block<'_, 32>,
/// ) {
/// }
/// ```
#[derive(Debug)]
pub struct SharedTile<'kernel, T, const N: usize, const BARRIER: u32 = 1, State = Writing> {
    elements: *mut [T; N],
    state: PhantomData<(&'kernel mut T, State)>,
}

/// For `#[kernel]` alone.
#[doc(hidden)]
impl<T: Plain, const N: usize, const BARRIER: u32> SharedTile<'static, T, N, BARRIER> {
    /// The memory, uninitialised.
    pub const STORAGE: Storage<T, N> = Storage::UNINIT;
    /// Its barrier.
    pub const BARRIER: u32 = {
        assert!(
            BARRIER > 0 && BARRIER < 16,
            "the barrier of a tile is 1 to 15"
        );
        BARRIER
    };
}

/// For `#[kernel]` alone: the type of a tile's memory.
#[doc(hidden)]
pub trait Stored {
    /// It.
    type Storage;
}

impl<T: Plain, const N: usize, const BARRIER: u32> Stored for SharedTile<'static, T, N, BARRIER> {
    type Storage = Storage<T, N>;
}

impl<'kernel, T: Plain, const N: usize, const BARRIER: u32> SharedTile<'kernel, T, N, BARRIER> {
    /// For `#[kernel]` alone.
    ///
    /// # Safety
    /// All threads of the block have one such value, of the same shared memory, in a kernel whose
    /// barriers cuda_builder holds against its rule. Nothing else accesses that memory, and nothing
    /// else uses hardware barrier `BARRIER`.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(storage: *mut Storage<T, N>) -> Self {
        Self {
            elements: storage.cast(),
            state: PhantomData,
        }
    }

    /// Writes the thread's elements: those with its index in the block, and each `THREADS` further
    /// on. `element` gives the one of an index.
    #[inline(always)]
    pub fn fill<const THREADS: u32>(
        self,
        block: &Block<'_, THREADS>,
        mut element: impl FnMut(usize) -> T,
    ) -> SharedTile<'kernel, T, N, BARRIER, Written> {
        for (_, at) in block.places::<N>(N) {
            let value = element(at);
            // SAFETY: an element of this thread alone.
            unsafe { self.write(at, value) };
        }
        self.with_state()
    }

    /// [`fill`](Self::fill) of a tile with rows of `COLUMNS` elements, `element` of a row and a
    /// column. Element (row, column) is at [`swizzled::<COLUMNS>(row, column)`](swizzled).
    #[inline(always)]
    pub fn fill_swizzled<const COLUMNS: usize, const THREADS: u32>(
        self,
        block: &Block<'_, THREADS>,
        mut element: impl FnMut(usize, usize) -> T,
    ) -> SharedTile<'kernel, T, N, BARRIER, Written> {
        const {
            assert!(N.is_multiple_of(COLUMNS), "a tile has whole rows");
        }
        for (row, column) in block.places::<COLUMNS>(N) {
            let value = element(row, column);
            // SAFETY: the place is in the element's row of the tile, in which different columns have
            // different places.
            unsafe { self.write(swizzled::<COLUMNS>(row, column), value) };
        }
        self.with_state()
    }

    /// # Safety
    /// `place` is below `N`, and of this thread alone: no other thread writes or reads it before the barrier that
    /// makes a `Reading`.
    #[inline(always)]
    unsafe fn write(&self, place: usize, value: T) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.elements.cast::<T>().add(place).write(value) };
    }
}

impl<'kernel, const N: usize, const BARRIER: u32> SharedTile<'kernel, u32, N, BARRIER> {
    /// Histogram: writes how often each index occurs among the `indices` of all threads. Waits for all
    /// threads of the block before it counts.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// How often each of 64 values occurs in each row of `x`.
    /// #[kernel(block = 128, requires = "counts.columns() == 64")]
    /// pub fn counts_of_rows(
    ///     x: View2<'_, u32>,
    ///     mut counts: Disjoint<'_, u32, InRow>,
    ///     counters: SharedTile<'_, u32, 64>,
    ///     mut block: Block<'_, 128>,
    /// ) {
    ///     let mut counters = counters;
    ///     for row in block.rows(counts.rows()) {
    ///         let columns = row.columns(x.columns());
    ///         let values = columns.map(|at| x[(at.row(), at.column())] as usize);
    ///         let counted = counters.count(&mut block, values).sync();
    ///         for at in row.columns(64) {
    ///             counts[&at] = counted[at.column()];
    ///         }
    ///         counters = counted.sync();
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// Where an index is `N` or more. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn count<const THREADS: u32>(
        self,
        block: &mut Block<'_, THREADS>,
        indices: impl IntoIterator<Item = usize>,
    ) -> SharedTile<'kernel, u32, N, BARRIER, Written> {
        let counters = self.fill(block, |_| 0);
        barrier::<BARRIER>();
        for index in indices {
            if index >= N {
                super::out_of_bounds(index, N);
            }
            // SAFETY: in bounds. Behind the barrier all threads access the elements as atomics, until the
            // one that makes a `Reading`.
            let counter =
                unsafe { AtomicU32::from_ptr(counters.elements.cast::<u32>().add(index)) };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        counters
    }
}

impl<'kernel, T: Plain, const N: usize, const BARRIER: u32>
    SharedTile<'kernel, T, N, BARRIER, Written>
{
    /// Waits for all threads of the block, after which each reads what all have written.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn sync(self) -> SharedTile<'kernel, T, N, BARRIER, Reading> {
        barrier::<BARRIER>();
        self.with_state()
    }
}

impl<'kernel, T: Plain, const N: usize, const BARRIER: u32>
    SharedTile<'kernel, T, N, BARRIER, Reading>
{
    /// Waits for all threads of the block, after which each may write again.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn sync(self) -> SharedTile<'kernel, T, N, BARRIER, Writing> {
        barrier::<BARRIER>();
        self.with_state()
    }
}

impl<T: Plain, const N: usize, const BARRIER: u32> Deref
    for SharedTile<'_, T, N, BARRIER, Reading>
{
    type Target = [T; N];

    #[inline(always)]
    fn deref(&self) -> &[T; N] {
        // SAFETY: each thread has written its elements before the barrier, so that all are, and none
        // writes before the next one, for which this value is given away.
        unsafe { &*self.elements }
    }
}

impl<'kernel, T, const N: usize, const BARRIER: u32, State>
    SharedTile<'kernel, T, N, BARRIER, State>
{
    #[inline(always)]
    fn with_state<Next>(self) -> SharedTile<'kernel, T, N, BARRIER, Next> {
        SharedTile {
            elements: self.elements,
            state: PhantomData,
        }
    }
}

/// Where an element is in a tile with rows of `COLUMNS` elements, a power of two:
/// `row * COLUMNS + (column ^ (row % COLUMNS))`. In a tile of 32 x 32 words, the elements of a row are
/// thus in 32 banks, and those of a column too. Threads that read a column do not wait for each other.
#[inline(always)]
pub const fn swizzled<const COLUMNS: usize>(row: usize, column: usize) -> usize {
    const { assert!(COLUMNS.is_power_of_two(), "columns are a power of two") }
    row * COLUMNS + (column ^ (row % COLUMNS))
}

/// `bar.sync BARRIER`. The number stands in the instruction's text, so that LLVM merges no barriers of
/// two tiles.
#[inline(always)]
fn barrier<const BARRIER: u32>() {
    on_device!("safe::SharedTile::sync", (), {
        // SAFETY: touches neither memory nor stack.
        unsafe { core::arch::asm!("bar.sync {};", const BARRIER, options(nostack)) }
    })
}

#[cfg(test)]
mod tests {
    use super::swizzled;

    #[test]
    fn swizzled_places_are_all_different() {
        let mut places: Vec<usize> = (0..64)
            .flat_map(|row| (0..16).map(move |column| swizzled::<16>(row, column)))
            .collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..64 * 16));
    }
}
