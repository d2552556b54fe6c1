//! The end of a split-K GEMM: `D = epilogue(sum of the partial results)`; see
//! [`spec::gemm::FinishEntry`].
//!
//! # Roles
//! All threads do the same, in a grid-stride loop over the results in row-major order, so that the
//! lanes of a warp read and write neighbours. One grid stride is split into batch, row and column
//! once; each step adds these with carries, without another division.
//!
//! # Numerics
//! f32 sums in the order of the parts, then the epilogue, rounded once: the same bits every run.

use cuda_std::element::Element;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::{kernel, thread};
use half::{bf16, f16};
use spec::gemm::{EpilogueParams, FINISH_THREADS, GemmParams};

use super::fused::{Fused, Pointers};

/// The place of a result, and its index in row-major order.
#[derive(Clone, Copy)]
struct Index {
    flat: u64,
    batch: u64,
    row: u32,
    column: u32,
}

impl Index {
    #[inline(always)]
    fn of(flat: u64, m: u32, n: u32) -> Self {
        let row = flat / u64::from(n);
        Self {
            flat,
            batch: row / u64::from(m),
            row: (row % u64::from(m)) as u32,
            column: (flat % u64::from(n)) as u32,
        }
    }

    /// The place `step` results further on, without a division.
    #[inline(always)]
    fn plus(self, step: Self, m: u32, n: u32) -> Self {
        let carried = |x: u32, y: u32, limit: u32| {
            // Written so that nothing overflows: the sum of two numbers below `limit` may exceed
            // 2^32.
            let left = limit - y;
            if x >= left { (x - left, 1) } else { (x + y, 0) }
        };
        let (column, rows) = carried(self.column, step.column, n);
        let (row, batches) = carried(self.row, step.row, m);
        let (row, more_batches) = carried(row, rows, m);
        Self {
            flat: self.flat + step.flat,
            batch: self.batch + step.batch + u64::from(batches + more_batches),
            row,
            column,
        }
    }
}

/// # Safety
/// As the launch's: `params` describes what the pointers point to.
#[inline(always)]
unsafe fn finish<Out: Element>(
    partials: *const f32,
    parts: u32,
    d: *mut Out,
    params: &GemmParams,
    epilogue: &Fused<Out>,
) {
    let (m, n) = (params.m, params.n);
    let results = u64::from(m) * u64::from(n) * u64::from(params.batch);
    let threads = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
    let first = u64::from(thread::block_idx_x()) * u64::from(thread::block_dim_x())
        + u64::from(thread::thread_idx_x());
    let step = Index::of(threads, m, n);
    let mut index = Index::of(first, m, n);
    while index.flat < results {
        let mut sum = 0.0;
        for part in 0..parts {
            let place = u64::from(part) * results + index.flat;
            // SAFETY: the caller's promise: `partials` holds `parts` times all results.
            let value = unsafe { partials.wrapping_add(place as usize).read() };
            sum = if part == 0 { value } else { sum + value };
        }
        let Index {
            batch, row, column, ..
        } = index;
        let place = Place { batch, row, column };
        let value = epilogue.apply(place, sum);
        let offset =
            batch as i64 * params.batch_stride_d + i64::from(row) * params.ldd + i64::from(column);
        // SAFETY: the caller's promise; threads have different results.
        unsafe { Out::store(d.wrapping_offset(offset as isize), value) }
        index = index.plus(step, m, n);
    }
}

macro_rules! entries {
    ($($name:ident: $out:ident;)*) => {$(
        #[doc = concat!("Sums of parts to `", stringify!($out), "`; see [`spec::gemm::FinishEntry`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to.
        #[kernel(max_threads = FINISH_THREADS)]
        pub unsafe fn $name(
            partials: *const f32,
            parts: u32,
            c: *const $out,
            d: *mut $out,
            bias: *const $out,
            residual: *const $out,
            row_scale: *const f32,
            column_scale: *const f32,
            alpha: *const f32,
            beta: *const f32,
            params: GemmParams,
            epilogue: EpilogueParams,
        ) {
            let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
            // SAFETY: the caller's promise.
            unsafe {
                let epilogue = Fused::new(pointers, &params, &epilogue);
                finish(partials, parts, d, &params, &epilogue)
            }
        }
    )*};
}

entries! {
    gemm_finish_f32: f32;
    gemm_finish_f16: f16;
    gemm_finish_bf16: bf16;
}
