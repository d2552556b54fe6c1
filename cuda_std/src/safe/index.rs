//! Witnesses: indices that different threads never share.

use core::marker::PhantomData;

use super::{Shape2, Shape3};
use crate::thread::{self, WARP_THREADS};

/// An index that no two threads of a launch share.
///
/// Only functions of [`cuda_std::safe`](crate::safe) make witnesses. They are neither `Copy`, `Clone`
/// nor `Send`, nor is what makes them, so a thread can give none to another: not through a `static`,
/// and not through shared memory.
///
/// ```compile_fail,E0382
/// # use cuda_std::prelude::*;
/// #[kernel]
/// pub fn two_threads_with_one_element(mut y: Disjoint<'_, f32, Index1>) {
///     let i = Index1::here();
///     let copy = i;
///     y[&i] = 0.0;
///     y[&copy] = 1.0;
/// }
/// ```
/// ```compile_fail,E0277
/// # use cuda_std::prelude::*;
/// # use std::sync::Mutex;
/// static KEPT: Mutex<Option<Index1>> = Mutex::new(None); // it would leave the thread
/// ```
/// ```compile_fail,E0277
/// # use cuda_std::safe::GridStride;
/// # use std::sync::Mutex;
/// static KEPT: Mutex<Option<GridStride>> = Mutex::new(None); // so would those that it makes
/// ```
/// ```compile_fail,E0277
/// # use cuda_std::prelude::*;
/// #[kernel(block = 32)]
/// pub fn through_shared_memory(
///     mut y: Disjoint<'_, f32, Index1>,
///     tile: SharedTile<'_, Index1, 32>,
///     block: Block<'_, 32>,
/// ) {
///     let tile = tile.fill(&block, |_| Index1::here()).sync();
///     y[&tile[0]] = 1.0;
/// }
/// ```
///
/// # Safety
/// For one shape whose indices are different elements, witnesses of different threads of a launch
/// never give the same element, and a witness gives elements of the shape alone.
pub unsafe trait Witness {
    /// What says which indices there are.
    type Shape: Copy;

    /// Where the element is, with the first at `pointer`; `None` if the shape has no such index.
    ///
    /// # Safety
    /// The elements of the shape are there.
    unsafe fn element<T>(&self, pointer: *const T, shape: &Self::Shape) -> Option<*const T>;

    /// The index and the extents, for the message of a panic.
    #[doc(hidden)]
    fn out_of_bounds(&self, shape: &Self::Shape) -> !;
}

/// What makes a type neither `Send` nor `Sync`.
pub(super) type OfThisThread = PhantomData<*const ()>;

macro_rules! in_one_dimension {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            index: usize,
            of_this_thread: OfThisThread,
        }

        impl $name {
            #[inline(always)]
            pub(super) fn new(index: usize) -> Self {
                Self { index, of_this_thread: PhantomData }
            }

            /// The index.
            #[inline(always)]
            pub fn get(&self) -> usize {
                self.index
            }
        }

        // SAFETY: the functions that make one give an index to one thread.
        unsafe impl Witness for $name {
            type Shape = usize;

            #[inline(always)]
            unsafe fn element<T>(&self, pointer: *const T, len: &usize) -> Option<*const T> {
                // SAFETY: an element of the shape.
                (self.index < *len).then(|| unsafe { pointer.add(self.index) })
            }

            #[inline(always)]
            #[track_caller]
            fn out_of_bounds(&self, len: &usize) -> ! {
                super::out_of_bounds(self.index, *len)
            }
        }
    )*};
}

/// Two indices as one number. An `Option` of it is two numbers, which LLVM follows through a loop. It does
/// not follow an `Option` in memory, and then computes bounds twice and unrolls nothing.
#[derive(Debug)]
pub(super) struct Pair(u128);

impl Pair {
    #[inline(always)]
    pub(super) fn new(first: usize, second: usize) -> Self {
        Self(first as u128 | (second as u128) << 64)
    }

    #[inline(always)]
    pub(super) fn first(&self) -> usize {
        self.0 as usize
    }

    #[inline(always)]
    pub(super) fn second(&self) -> usize {
        (self.0 >> 64) as usize
    }
}

macro_rules! in_two_dimensions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            row_and_column: Pair,
            of_this_thread: OfThisThread,
        }

        impl $name {
            #[inline(always)]
            pub(super) fn new(row: usize, column: usize) -> Self {
                Self { row_and_column: Pair::new(row, column), of_this_thread: PhantomData }
            }

            /// The row.
            #[inline(always)]
            pub fn row(&self) -> usize {
                self.row_and_column.first()
            }

            /// The column.
            #[inline(always)]
            pub fn column(&self) -> usize {
                self.row_and_column.second()
            }
        }

        // SAFETY: the functions that make one give a pair of row and column to one thread.
        unsafe impl Witness for $name {
            type Shape = Shape2;

            #[inline(always)]
            unsafe fn element<T>(&self, pointer: *const T, shape: &Shape2) -> Option<*const T> {
                // SAFETY: passed on to the caller.
        unsafe { shape.element(pointer, self.row(), self.column()) }
            }

            #[inline(always)]
            #[track_caller]
            fn out_of_bounds(&self, shape: &Shape2) -> ! {
                shape.out_of_bounds(self.row(), self.column())
            }
        }
    )*};
}

in_one_dimension! {
    /// Index of a thread in a one-dimensional launch, or that plus a multiple of the number of
    /// threads.
    Index1;
    /// Index of a warp in a one-dimensional launch, held by its lane 0.
    PerWarp;
    /// Index of a block in a one-dimensional grid, or that plus a multiple of the number of blocks,
    /// held by one thread of the block.
    PerBlock;
}

in_two_dimensions! {
    /// Row and column of a thread in a two-dimensional launch: y and x.
    Index2;
    /// A column of a block's own [`Row`](super::Row), held by one thread of the block.
    InRow;
}

/// Plane, row and column of a thread in a three-dimensional launch: z, y and x.
#[derive(Debug)]
pub struct Index3 {
    plane: usize,
    in_plane: Index2,
}

impl Index3 {
    /// That of this thread.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn here() -> Self {
        let (blocks, threads) = (thread::block_idx_z(), thread::block_dim_z());
        Self {
            plane: along(blocks, threads, thread::thread_idx_z()),
            in_plane: Index2::of_y_and_x(),
        }
    }

    /// The plane.
    #[inline(always)]
    pub fn plane(&self) -> usize {
        self.plane
    }

    /// The row.
    #[inline(always)]
    pub fn row(&self) -> usize {
        self.in_plane.row()
    }

    /// The column.
    #[inline(always)]
    pub fn column(&self) -> usize {
        self.in_plane.column()
    }
}

// SAFETY: each thread of a launch has its own z, y and x.
unsafe impl Witness for Index3 {
    type Shape = Shape3;

    #[inline(always)]
    unsafe fn element<T>(&self, pointer: *const T, shape: &Shape3) -> Option<*const T> {
        // SAFETY: passed on to the caller.
        unsafe { shape.element(pointer, self.plane, self.row(), self.column()) }
    }

    #[inline(always)]
    #[track_caller]
    fn out_of_bounds(&self, shape: &Shape3) -> ! {
        shape.out_of_bounds(self.plane, self.row(), self.column())
    }
}

impl Index1 {
    /// That of this thread.
    ///
    /// # Panics
    /// Where grid or block have more than one dimension. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn here() -> Self {
        require_one_dimension();
        Self::new(thread_in_grid())
    }

    /// Grid-stride loop: the indices in `0..len` that this thread has. The first is that of
    /// [`here`](Self::here), the step is the number of threads.
    ///
    /// # Panics
    /// Where grid or block have more than one dimension. Where `len` is 2^63 or more. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn grid_stride(len: usize) -> GridStride {
        require_one_dimension();
        let step = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
        GridStride {
            next: thread_in_grid(),
            step: step as usize,
            len: in_memory(len),
            of_this_thread: PhantomData,
        }
    }
}

/// The number of indices of a loop, for [`after`]. LLVM knows of a parameter's length that memory holds
/// it.
#[inline(always)]
#[track_caller]
pub(super) fn in_memory(elements: usize) -> usize {
    assert!(
        elements <= isize::MAX as usize,
        "a loop over more elements than memory holds"
    );
    elements
}

/// The index `step` behind one of a loop over [`in_memory`] elements. It does not wrap, by which LLVM
/// counts and unrolls the loop.
#[inline(always)]
pub(super) fn after(index: usize, step: usize) -> usize {
    // SAFETY: an index is below 2^63, and a step is a number of threads or blocks of a grid: below 2^63.
    unsafe { index.unchecked_add(step) }
}

/// The iterator that [`Index1::grid_stride`] returns.
#[derive(Debug)]
pub struct GridStride {
    next: usize,
    step: usize,
    len: usize,
    of_this_thread: OfThisThread,
}

impl Iterator for GridStride {
    type Item = Index1;

    #[inline(always)]
    fn next(&mut self) -> Option<Index1> {
        let index = self.next;
        (index < self.len).then(|| {
            self.next = after(index, self.step);
            Index1::new(index)
        })
    }
}

impl Index2 {
    /// That of this thread.
    ///
    /// # Panics
    /// Where grid or block have a third dimension. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn here() -> Self {
        require_two_dimensions();
        Self::of_y_and_x()
    }

    #[inline(always)]
    fn of_y_and_x() -> Self {
        Self::new(
            along(
                thread::block_idx_y(),
                thread::block_dim_y(),
                thread::thread_idx_y(),
            ),
            along(
                thread::block_idx_x(),
                thread::block_dim_x(),
                thread::thread_idx_x(),
            ),
        )
    }
}

impl PerWarp {
    /// That of this thread's warp in its lane 0, and `None` in the other lanes.
    ///
    /// # Panics
    /// Where grid or block have more than one dimension. On the host.
    #[inline(always)]
    #[track_caller]
    pub fn here() -> Option<Self> {
        require_one_dimension();
        let (thread, warps) = (
            thread::thread_idx_x(),
            thread::block_dim_x().div_ceil(WARP_THREADS),
        );
        let index = along(thread::block_idx_x(), warps, thread / WARP_THREADS);
        thread
            .is_multiple_of(WARP_THREADS)
            .then(|| Self::new(index))
    }
}

/// In 64 bits: a grid may have more than 2^32 threads.
#[inline(always)]
fn along(block: u32, threads: u32, thread: u32) -> usize {
    (u64::from(block) * u64::from(threads) + u64::from(thread)) as usize
}

#[inline(always)]
fn thread_in_grid() -> usize {
    along(
        thread::block_idx_x(),
        thread::block_dim_x(),
        thread::thread_idx_x(),
    )
}

#[inline(always)]
#[track_caller]
fn require_one_dimension() {
    let further = thread::block_dim_y() + thread::block_dim_z() + thread::grid_dim_y();
    let is_one = further + thread::grid_dim_z() == 4;
    assert!(
        is_one,
        "this index needs a grid and a block of one dimension"
    );
}

/// A grid of one dimension.
#[inline(always)]
#[track_caller]
pub(super) fn require_one_dimension_of_blocks() {
    let is_one = thread::grid_dim_y() + thread::grid_dim_z() == 2;
    assert!(is_one, "this index needs a grid of one dimension");
}

/// A grid of two dimensions at most.
#[inline(always)]
#[track_caller]
pub(super) fn require_two_dimensions_of_blocks() {
    assert!(
        thread::grid_dim_z() == 1,
        "this index needs a grid of two dimensions"
    );
}

#[inline(always)]
#[track_caller]
fn require_two_dimensions() {
    let is_two = thread::block_dim_z() + thread::grid_dim_z() == 2;
    assert!(
        is_two,
        "this index needs a grid and a block of two dimensions"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_three_dimensions_follows_the_strides() {
        // [2, 3, 4], contiguous.
        let shape = Shape3 {
            planes: 2,
            rows: 3,
            columns: 4,
            plane_stride: 12,
            row_stride: 4,
            column_stride: 1,
        };
        let elements: [usize; 24] = core::array::from_fn(|at| at);
        let element = |plane, row, column| {
            let in_plane = Index2::new(row, column);
            let at = Index3 { plane, in_plane };
            // SAFETY: 24 elements.
            unsafe {
                at.element(elements.as_ptr(), &shape)
                    .map(|element| *element)
            }
        };
        assert_eq!([element(0, 0, 3), element(1, 2, 3)], [Some(3), Some(23)]);
        for outside in [(2, 0, 0), (0, 3, 0), (0, 0, 4)] {
            assert_eq!(element(outside.0, outside.1, outside.2), None);
        }
    }
}
