//! Softmax over one axis: `y[r, i] = exp(x[r, i] - max_r) / sum_j exp(x[r, j] - max_r)`.
//!
//! `x`, `y`: `[rows, n]` of any strides; f32, f16 or bf16.
//!
//! **Roles**: up to `WARP_MAX` elements a warp has a row, 8 rows a block; above it the block's 256
//! threads share one. Warps or blocks stride over the rows.
//!
//! **Pipelines**: none; one read of the row for maximum and sum (online), one for the result. The
//! second finds the row in cache up to about 100 KB.
//!
//! **Shared memory**: a `MaxSum` for each warp, alive in `block::combine`.
//!
//! **Numerics**: f32 throughout, one rounding at the store. A thread adds `n / threads` terms,
//! then warp butterflies and the warps in turn, in fixed order. +inf or NaN in a row, or nothing
//! but -inf, gives NaN. n = 0 writes nothing.
//!
//! **Sources**: Milakov and Gimelshein, Online normalizer calculation for softmax,
//! arXiv:1805.02867.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests` runs it on the emulator.

use cuda_std::{kernel, math, shared_array, thread};
use half::{bf16, f16};
use spec::softmax::{SoftmaxParams, THREADS, WARP_MAX};

use crate::online::MaxSum;
use crate::rows::Rows;
use cuda_std::element::Element;

/// Warps of a block.
const WARPS: usize = (THREADS / thread::WARP_THREADS) as usize;

/// One row of a strided tensor.
struct Row<T> {
    start: *const T,
    stride: i64,
    n: u64,
}

impl<T: Element> Row<T> {
    #[inline(always)]
    fn at(&self, i: u64) -> *const T {
        self.start
            .wrapping_offset(i as isize * self.stride as isize)
    }

    /// Elements that can be handled four at a time.
    #[inline(always)]
    fn vector_len(&self) -> u64 {
        if self.stride == 1 && T::is_vector_aligned(self.start) {
            self.n & !3
        } else {
            0
        }
    }

    /// Maximum and sum of the elements of thread `own` of `threads`.
    #[inline(always)]
    unsafe fn partial(&self, own: u64, threads: u64) -> MaxSum {
        let vector_len = self.vector_len();
        let mut state = MaxSum::EMPTY;
        let mut i = own * 4;
        while i < vector_len {
            // SAFETY: four elements of the row, aligned as `vector_len` found.
            let x = unsafe { T::load4(self.start.wrapping_add(i as usize)) };
            state = state.push(x[0]).push(x[1]).push(x[2]).push(x[3]);
            i += threads * 4;
        }
        let mut i = vector_len + own;
        while i < self.n {
            // SAFETY: an element of the row.
            state = state.push(unsafe { T::load(self.at(i)) });
            i += threads;
        }
        state
    }

    /// Writes the normalised elements of thread `own` of `threads` to `y`.
    #[inline(always)]
    unsafe fn finish(&self, y: *mut T, y_stride: i64, state: MaxSum, own: u64, threads: u64) {
        let sum = if state.max == f32::INFINITY {
            f32::NAN
        } else {
            state.sum
        };
        let value = |x: f32| math::exp(x - state.max) / sum;
        let vector_len = if y_stride == 1 && T::is_vector_aligned(y) {
            self.vector_len()
        } else {
            0
        };
        let mut i = own * 4;
        while i < vector_len {
            // SAFETY: four elements of both rows, aligned as `vector_len` found.
            unsafe {
                let x = T::load4(self.start.wrapping_add(i as usize));
                T::store4(y.wrapping_add(i as usize), x.map(value));
            }
            i += threads * 4;
        }
        let mut i = vector_len + own;
        while i < self.n {
            let to = y.wrapping_offset(i as isize * y_stride as isize);
            // SAFETY: an element of both rows.
            unsafe { T::store(to, value(T::load(self.at(i)))) };
            i += threads;
        }
    }
}

/// All rows of this block.
///
/// # Safety
/// `x` and `y` are tensors of `params`; `scratch` is shared memory for a `MaxSum` a warp.
#[inline(always)]
unsafe fn softmax<T: Element>(
    x: *const T,
    y: *mut T,
    params: &SoftmaxParams,
    scratch: *mut MaxSum,
) {
    let row = |r: u64| Row {
        start: x.wrapping_offset(r as isize * params.x_row_stride as isize),
        stride: params.x_stride,
        n: params.n,
    };
    let out = |r: u64| y.wrapping_offset(r as isize * params.y_row_stride as isize);
    let rows = Rows {
        rows: params.rows,
        len: params.n,
        warp_max: WARP_MAX,
        threads: u64::from(THREADS),
    };
    // SAFETY: rows of the tensors; the scratch is the caller's.
    unsafe {
        rows.each(
            scratch,
            MaxSum::merge,
            |r, own, threads| row(r).partial(own, threads),
            |r, own, threads, state| row(r).finish(out(r), params.y_stride, state, own, threads),
        );
    }
}

macro_rules! entries {
    ($($name:ident: $ty:ty;)*) => {$(
        #[doc = concat!("Softmax of rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::softmax` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: SoftmaxParams) {
            let scratch = shared_array![MaxSum; WARPS];
            // SAFETY: the launch's promise; the array is for this alone.
            unsafe { softmax(x, y, &params, scratch) }
        }
    )*};
}

entries! {
    softmax_f32: f32;
    softmax_f16: f16;
    softmax_bf16: bf16;
}
