//! The entries: three dtypes by two strategies for pass 1, and pass 2, of each operation.

use cuda_std::{kernel, shared_array};
use half::{bf16, f16};
use spec::reduce::{ReduceParams, THREADS};

use super::ops::{Argmax, Argmin, Logsumexp, Max, Mean, Min, Reduction, Sum};
use super::passes::{Sink, WARPS, columns, partials as reduce_partials, rows};

macro_rules! first_pass {
    ($op:ident -> $out:ty: $($ty:ty, $row:ident, $col:ident;)*) => {$(
        #[doc = concat!(stringify!($op), " of chunks of ", stringify!($ty), " that threads share.")]
        ///
        /// # Safety
        /// Launched as `spec::reduce` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $row(x: *const $ty, partials: *mut u64, out: *mut $out, params: ReduceParams) {
            let scratch = shared_array![<$op as Reduction>::Acc; WARPS];
            let sink = Sink::<$op> { partials: partials.cast(), out };
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { rows(x, &sink, &params, scratch) }
        }

        #[doc = concat!(stringify!($op), " of chunks of ", stringify!($ty), ", one a thread.")]
        ///
        /// # Safety
        /// Launched as `spec::reduce` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $col(x: *const $ty, partials: *mut u64, out: *mut $out, params: ReduceParams) {
            let sink = Sink::<$op> { partials: partials.cast(), out };
            // SAFETY: the launch's promise.
            unsafe { columns(x, &sink, &params) }
        }
    )*};
}

macro_rules! second_pass {
    ($($name:ident = $op:ident -> $out:ty;)*) => {$(
        #[doc = concat!(stringify!($op), " of what pass 1 left.")]
        ///
        /// # Safety
        /// Launched as `spec::reduce` says, after pass 1 with the same parameters.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(partials: *const u64, out: *mut $out, params: ReduceParams) {
            let scratch = shared_array![<$op as Reduction>::Acc; WARPS];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { reduce_partials::<$op>(partials.cast(), out, &params, scratch) }
        }
    )*};
}

first_pass! {
    Sum -> f32:
    f32, reduce_sum_f32_row, reduce_sum_f32_col;
    f16, reduce_sum_f16_row, reduce_sum_f16_col;
    bf16, reduce_sum_bf16_row, reduce_sum_bf16_col;
}
first_pass! {
    Mean -> f32:
    f32, reduce_mean_f32_row, reduce_mean_f32_col;
    f16, reduce_mean_f16_row, reduce_mean_f16_col;
    bf16, reduce_mean_bf16_row, reduce_mean_bf16_col;
}
first_pass! {
    Max -> f32:
    f32, reduce_max_f32_row, reduce_max_f32_col;
    f16, reduce_max_f16_row, reduce_max_f16_col;
    bf16, reduce_max_bf16_row, reduce_max_bf16_col;
}
first_pass! {
    Min -> f32:
    f32, reduce_min_f32_row, reduce_min_f32_col;
    f16, reduce_min_f16_row, reduce_min_f16_col;
    bf16, reduce_min_bf16_row, reduce_min_bf16_col;
}
first_pass! {
    Argmax -> i64:
    f32, reduce_argmax_f32_row, reduce_argmax_f32_col;
    f16, reduce_argmax_f16_row, reduce_argmax_f16_col;
    bf16, reduce_argmax_bf16_row, reduce_argmax_bf16_col;
}
first_pass! {
    Argmin -> i64:
    f32, reduce_argmin_f32_row, reduce_argmin_f32_col;
    f16, reduce_argmin_f16_row, reduce_argmin_f16_col;
    bf16, reduce_argmin_bf16_row, reduce_argmin_bf16_col;
}
first_pass! {
    Logsumexp -> f32:
    f32, reduce_logsumexp_f32_row, reduce_logsumexp_f32_col;
    f16, reduce_logsumexp_f16_row, reduce_logsumexp_f16_col;
    bf16, reduce_logsumexp_bf16_row, reduce_logsumexp_bf16_col;
}

second_pass! {
    reduce_sum_final = Sum -> f32;
    reduce_mean_final = Mean -> f32;
    reduce_max_final = Max -> f32;
    reduce_min_final = Min -> f32;
    reduce_argmax_final = Argmax -> i64;
    reduce_argmin_final = Argmin -> i64;
    reduce_logsumexp_final = Logsumexp -> f32;
}
