//! The entries, by the table of [`abi::reduce::ReduceEntry`]: the general kernel's, then the
//! special forms'.

use abi::reduce::{ReduceParams, THREADS};
use cuda_std::{kernel, shared_array};
use half::{bf16, f16};

use super::arg::Arg;
use super::body::{Arrays, reduce};
use super::count::Count;
use super::extreme::{Extreme, Pairs};
use super::fold::Fold;
use super::load::{Alone, Wide};
use super::lse::Lse;
use super::moments::Moments;
use super::settle::Scratch;
use super::value::Value;
use super::{cluster, columns, long, short, short16, small};

macro_rules! kernels {
    ($($name:ident($fold:ty, $ty:ty, $lanes:literal -> $out:ty);)*) => {$(
        #[doc = concat!("`", stringify!($fold), "` of ", stringify!($ty), ", ",
            stringify!($lanes), " at once.")]
        ///
        /// # Safety
        /// Launched as `abi::reduce` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS, min_blocks = 2)]
        pub unsafe fn $name(
            x: *const u8,
            partials: *mut u32,
            tickets: *mut u32,
            out: *mut $out,
            params: ReduceParams,
        ) {
            let scratch = shared_array![
                u32;
                Scratch::words(THREADS as usize * $lanes, <$fold as Fold>::WORDS)
            ];
            let arrays = Arrays::<$fold> { x, partials, tickets, out };
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { reduce::<$fold, $ty, $lanes>(&arrays, &params, scratch) }
        }
    )*};
}

abi::reduce_general!(kernels);

/// Special forms of the most common operations: fewer registers a thread, so more blocks on each SM.
macro_rules! formed {
    ($($name:ident(
        $fold:ty, $ty:ty => $out:ty, $blocks:literal blocks $(for $arch:tt)?,
        $kernel:expr $(, $words:expr)?
    );)*) => {$(
        #[doc = concat!("`", stringify!($fold), "` of ", stringify!($ty), ", as its name says.")]
        ///
        /// # Safety
        /// Launched as `abi::reduce` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS, min_blocks = $blocks $(, arch = $arch)?)]
        pub unsafe fn $name(
            x: *const u8,
            partials: *mut u32,
            tickets: *mut u32,
            out: *mut $out,
            params: ReduceParams,
        ) {
            let arrays = Arrays::<$fold> { x, partials, tickets, out };
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { $kernel(&arrays, &params $(, shared_array![u32; $words])?) }
        }
    )*};
}

/// Words of shared memory for columns of vectors of `lanes` elements.
const fn columns_words(lanes: usize) -> usize {
    Scratch::words(THREADS as usize * lanes, 1)
}

abi::reduce_formed!(formed);
