//! The entries.

use abi::sort::{DIGITS, SortParams, THREADS};
use cuda_std::{kernel, shared_array};

use super::block::block;
use super::count::count;
use super::pass::{Memories, pass};
use super::tile::{Shared, WARPS, room};

macro_rules! shared {
    ($ty:ty) => {
        Shared {
            room: shared_array![u64; room(size_of::<$ty>())],
            bases: shared_array![u32; DIGITS as usize],
            starts: shared_array![u32; DIGITS as usize],
            scratch: shared_array![u32; WARPS as usize],
            scratch_of_row: shared_array![u32; WARPS as usize],
        }
    };
}

macro_rules! blocks {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Sorts rows of ", stringify!($ty), ", in a block.")]
        ///
        /// # Safety
        /// Launched as `abi::sort` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS, min_blocks = 2)]
        pub unsafe fn $name(x: *const u8, values: *mut u8, indices: *mut i64, params: SortParams) {
            // SAFETY: the launch's promise; the shared memory is for this alone.
            unsafe { block::<$ty>(x, values, indices, &params, shared!($ty)) }
        }
    )*};
}

macro_rules! counts {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Counts the digits of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::sort` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS, min_blocks = 2)]
        pub unsafe fn $name(x: *const u8, counts: *mut u32, params: SortParams) {
            let room = shared_array![u32; size_of::<$ty>() * DIGITS as usize];
            // SAFETY: the launch's promise; the shared memory is for this alone.
            unsafe { count::<$ty>(x, counts, &params, room) }
        }
    )*};
}

macro_rules! passes {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Sorts rows of ", stringify!($ty), " by a digit.")]
        ///
        /// # Safety
        /// Launched as `abi::sort` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS, min_blocks = 2)]
        pub unsafe fn $name(
            x: *const u8,
            values: *mut u8,
            indices: *mut i64,
            even: *mut u8,
            odd: *mut u8,
            even_origins: *mut u32,
            odd_origins: *mut u32,
            counts: *const u32,
            status: *mut u64,
            params: SortParams,
        ) {
            let memories = Memories {
                x,
                values,
                indices,
                elements: [even, odd],
                origins: [even_origins, odd_origins],
                counts,
                status,
            };
            // SAFETY: the launch's promise; the shared memory is for this alone.
            unsafe { pass::<$ty>(&memories, &params, shared!($ty)) }
        }
    )*};
}

abi::sort_block!(blocks);
abi::sort_count!(counts);
abi::sort_pass!(passes);
