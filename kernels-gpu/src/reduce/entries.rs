//! The entries: those of the general kernel, then those of the special forms.

use cuda_std::{kernel, shared_array};
use half::{bf16, f16};
use spec::reduce::{ReduceParams, THREADS};

use super::arg::Arg;
use super::body::{Arrays, reduce};
use super::count::Count;
use super::extreme::{Extreme, Pairs};
use super::fold::{Fold, Value};
use super::load::Wide;
use super::lse::Lse;
use super::moments::Moments;
use super::settle::Scratch;
use super::{cluster, columns, long, short, short16, small};

macro_rules! entries {
    ($($name:ident: $fold:ty, $ty:ty, $lanes:literal -> $out:ty;)*) => {$(
        #[doc = concat!("`", stringify!($fold), "` of ", stringify!($ty), ", ",
            stringify!($lanes), " at once.")]
        ///
        /// # Safety
        /// Launched as `spec::reduce` says, with arrays of these extents and strides.
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

entries! {
    reduce_value_f32: Value<f32>, f32, 4 -> f32;
    reduce_value_f16: Value<f32>, f16, 8 -> f32;
    reduce_value_bf16: Value<f32>, bf16, 8 -> f32;
    reduce_value_f64: Value<f64>, f64, 2 -> f64;
    reduce_value_i32: Value<i64>, i32, 4 -> i64;
    reduce_value_i64: Value<i64>, i64, 2 -> i64;
    reduce_value_wide: Value<f64>, Wide, 2 -> f64;

    reduce_arg_f32: Arg<f32>, f32, 4 -> i64;
    reduce_arg_f16: Arg<f32>, f16, 8 -> i64;
    reduce_arg_bf16: Arg<f32>, bf16, 8 -> i64;
    reduce_arg_f64: Arg<f64>, f64, 2 -> i64;
    reduce_arg_i32: Arg<i64>, i32, 4 -> i64;
    reduce_arg_i64: Arg<i64>, i64, 2 -> i64;

    reduce_count_b16: Count<u32>, u16, 8 -> i64;
    reduce_count_b32: Count<u32>, u32, 4 -> i64;
    reduce_count_b64: Count<u64>, u64, 2 -> i64;

    reduce_lse_f32: Lse<f32>, f32, 4 -> f32;
    reduce_lse_f16: Lse<f32>, f16, 8 -> f32;
    reduce_lse_bf16: Lse<f32>, bf16, 8 -> f32;
    reduce_lse_f64: Lse<f64>, f64, 2 -> f64;
    reduce_lse_wide: Lse<f64>, Wide, 2 -> f64;

    reduce_moments_f32: Moments<f32>, f32, 4 -> f32;
    reduce_moments_f16: Moments<f32>, f16, 8 -> f32;
    reduce_moments_bf16: Moments<f32>, bf16, 8 -> f32;
    reduce_moments_f64: Moments<f64>, f64, 2 -> f64;
    reduce_moments_wide: Moments<f64>, Wide, 2 -> f64;
}

/// Special forms of the most common operations: fewer registers a thread, so more blocks on each SM.
macro_rules! formed {
    ($($name:ident: $fold:ty, $ty:ty => $out:ty, $blocks:literal blocks $(for $arch:tt)?,
        $kernel:expr $(, $words:expr)?;)*) => {$(
        #[doc = concat!("`", stringify!($fold), "` of ", stringify!($ty), ", as its name says.")]
        ///
        /// # Safety
        /// Launched as `spec::reduce` says, with arrays of these extents and strides.
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

formed! {
    reduce_value_f32_short: Value<f32>, f32 => f32, 4 blocks, short::rows::<Value<f32>, f32, 4>;
    reduce_value_bf16_short: Value<f32>, bf16 => f32, 3 blocks, short16::rows;

    reduce_value_f32_small: Value<f32>, f32 => f32, 4 blocks,
        small::rows::<Value<f32>, f32, 4, 16>, long::words(1);
    reduce_value_bf16_small: Value<f32>, bf16 => f32, 4 blocks,
        small::rows::<Value<f32>, bf16, 8, 32>, long::words(1);

    reduce_value_f32_long: Value<f32>, f32 => f32, 4 blocks,
        long::rows::<Value<f32>, f32, 4, 16>, long::words(1);
    reduce_value_bf16_long: Value<f32>, bf16 => f32, 4 blocks,
        long::rows::<Value<f32>, bf16, 8, 16>, long::words(1);
    reduce_moments_f32_long: Moments<f32>, f32 => f32, 4 blocks,
        long::rows::<Moments<f32>, f32, 4, 32>, long::words(3);
    reduce_moments_bf16_long: Moments<f32>, bf16 => f32, 4 blocks,
        long::rows::<Moments<f32>, bf16, 8, 64>, long::words(3);

    reduce_arg_f32_long: Arg<f32>, f32 => i64, 3 blocks,
        long::rows::<Arg<f32>, f32, 4, 16>, long::words(3);

    reduce_value_f32_cluster: Value<f32>, f32 => f32, 4 blocks for "sm_90",
        cluster::row::<Value<f32>, f32, 4, 16>, cluster::words(1);
    reduce_value_bf16_cluster: Value<f32>, bf16 => f32, 4 blocks for "sm_90",
        cluster::row::<Value<f32>, bf16, 8, 16>, cluster::words(1);

    reduce_value_f32_columns: Value<f32>, f32 => f32, 3 blocks,
        columns::columns::<Value<f32>, f32, 4>, columns_words(4);
    reduce_value_bf16_columns: Value<f32>, bf16 => f32, 3 blocks,
        columns::columns::<Value<f32>, bf16, 8>, columns_words(8);

    reduce_extreme_bf16_long: Extreme, bf16 => f32, 4 blocks for "sm_80",
        long::rows::<Extreme, Pairs, 8, 32>, long::words(1);
    reduce_extreme_bf16_columns: Extreme, bf16 => f32, 3 blocks for "sm_80",
        columns::columns::<Extreme, Pairs, 8>, columns_words(8);
}
