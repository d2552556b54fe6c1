//! The entries.

use abi::topk::{SHORT_THREADS, THREADS, TopKParams};
use cuda_std::{dynamic_shared, kernel};
use half::{bf16, f16};

use super::body;
use super::cut::Shared;
use super::short::short;

macro_rules! rows {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("The first k of rows of ", stringify!($ty), ", a block a row or a part.")]
        ///
        /// # Safety
        /// Launched as `abi::topk` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS[1], min_blocks = 2)]
        pub unsafe fn $name(
            x: *const u8,
            values: *mut u8,
            indices: *mut i64,
            pairs: *mut u64,
            params: TopKParams,
        ) {
            // SAFETY: the launch's promise; the shared memory is for this alone.
            unsafe {
                let shared = Shared::new(dynamic_shared![u32]);
                body::of_elements::<$ty>(x, values, indices, pairs, &params, shared);
            }
        }
    )*};
}

macro_rules! short_rows {
    ($($name:ident($ty:ty, $packed:ty);)*) => {$(
        #[doc = concat!("The first k of short rows of ", stringify!($ty), ", lanes of a warp a row.")]
        ///
        /// # Safety
        /// Launched as `abi::topk` says, with arrays of these extents and strides.
        #[kernel(max_threads = SHORT_THREADS)]
        pub unsafe fn $name(x: *const u8, values: *mut u8, indices: *mut i64, params: TopKParams) {
            // SAFETY: the launch's promise.
            unsafe { short::<$ty, $packed>(x, values, indices, &params) }
        }
    )*};
}

macro_rules! of_pairs {
    ($($name:ident($pair:ty);)*) => {$(
        #[doc = concat!("The first k of rows of pairs in ", stringify!($pair), ", a block a row.")]
        ///
        /// # Safety
        /// Launched as `abi::topk` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS[1], min_blocks = 2)]
        pub unsafe fn $name(
            x: *const u8,
            values: *mut u8,
            indices: *mut i64,
            pairs: *const u64,
            params: TopKParams,
        ) {
            // SAFETY: the launch's promise; the shared memory is for this alone.
            unsafe {
                let shared = Shared::new(dynamic_shared![u32]);
                body::of_pairs::<$pair>(x, values, indices, pairs, &params, shared);
            }
        }
    )*};
}

abi::topk_rows!(rows);
abi::topk_short!(short_rows);
abi::topk_of_pairs!(of_pairs);
