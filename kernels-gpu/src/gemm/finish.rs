//! The end of a split-K GEMM: `D = epilogue(sum of the partial results)`; see
//! [`abi::gemm::FinishEntry`].
//!
//! # Roles
//! All threads do the same, in a grid-stride loop over groups of four neighbours of a row, in
//! row-major order. So the lanes of a warp read and write neighbours. One grid stride is split into
//! batch, row and group once; each step adds these with carries, without another division.
//!
//! # Numerics
//! f32 sums in the order of the parts, then the epilogue, rounded once: the same bits every run.

use abi::gemm::{EpilogueParams, FINISH_THREADS, GemmParams};
use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::hint::opaque;
use cuda_std::mem::ld_v4_f32;
use cuda_std::{kernel, thread};
use half::{bf16, f16};

use super::fused::{Fused, Pointers};

/// Neighbours that a thread takes together.
const WIDTH: usize = 4;

/// The place of a group, and its index in row-major order.
#[derive(Clone, Copy)]
pub(super) struct Index {
    pub(super) flat: u64,
    pub(super) batch: u64,
    pub(super) row: u32,
    pub(super) group: u32,
}

impl Index {
    #[inline(always)]
    pub(super) fn of(flat: u64, m: u32, groups: u32) -> Self {
        let row = flat / u64::from(groups);
        Self {
            flat,
            batch: row / u64::from(m),
            row: (row % u64::from(m)) as u32,
            group: (flat % u64::from(groups)) as u32,
        }
    }

    /// The place `step` groups further on, without a division.
    #[inline(always)]
    pub(super) fn plus(self, step: Self, m: u32, groups: u32) -> Self {
        let carried = |x: u32, y: u32, limit: u32| {
            // Written so that nothing overflows: the sum of two numbers below `limit` may exceed
            // 2^32.
            let left = limit - y;
            if x >= left { (x - left, 1) } else { (x + y, 0) }
        };
        let (group, rows) = carried(self.group, step.group, groups);
        let (row, batches) = carried(self.row, step.row, m);
        let (row, more_batches) = carried(row, rows, m);
        Self {
            flat: self.flat + step.flat,
            batch: self.batch + step.batch + u64::from(batches + more_batches),
            row,
            group,
        }
    }
}

/// # Safety
/// As the launch's: `params` describes what the pointers point to.
#[inline(always)]
unsafe fn finish<Out: Element>(
    partials: *const f32,
    splits: u32,
    d: *mut Out,
    params: &GemmParams,
    epilogue: &Fused<Out>,
) {
    let (m, n) = (params.m, params.n);
    let groups = n.div_ceil(WIDTH as u32);
    let all = u64::from(m) * u64::from(groups) * u64::from(params.batch);
    let results = u64::from(m) * u64::from(n) * u64::from(params.batch);
    let threads = u64::from(thread::grid_dim_x()) * u64::from(thread::block_dim_x());
    let first = u64::from(thread::block_idx_x()) * u64::from(thread::block_dim_x())
        + u64::from(thread::thread_idx_x());
    let step = Index::of(threads, m, groups);
    let mut index = Index::of(first, m, groups);
    let is_whole = n.is_multiple_of(WIDTH as u32);
    while index.flat < all {
        let Index { batch, row, .. } = index;
        let column = index.group * WIDTH as u32;
        let in_split = (batch * u64::from(m) + u64::from(row)) * u64::from(n) + u64::from(column);
        let count = (n - column).min(WIDTH as u32);
        let mut x = [0.0; WIDTH];
        for split in 0..splits {
            let idx = u64::from(split) * results + in_split;
            // SAFETY: the caller's promise: `partials` holds `splits` times all results.
            let values = unsafe { load(partials.wrapping_add(idx as usize), count, is_whole) };
            for i in 0..WIDTH {
                x[i] = if split == 0 {
                    values[i]
                } else {
                    x[i] + values[i]
                };
            }
        }
        let mut i = 0;
        while i < opaque(WIDTH as u32) {
            // A loop, as the epilogue is long. `x` goes all the way round.
            let column = column + i.min(count - 1);
            let coord = Coord { batch, row, column };
            x = [x[1], x[2], x[3], epilogue.apply(coord, x[0])];
            i += 1;
        }
        let offset =
            batch as i64 * params.batch_stride_d + i64::from(row) * params.ldd + i64::from(column);
        let d = d.wrapping_offset(offset as isize);
        // SAFETY: the caller's promise; threads have different results.
        unsafe {
            if is_whole && Out::is_vector_aligned(d) {
                Out::store4(d, x);
            } else {
                for i in 0..WIDTH {
                    if (i as u32) < count {
                        Out::store(d.wrapping_add(i), x[i]);
                    }
                }
            }
        }
        index = index.plus(step, m, groups);
    }
}

/// The first `count` of four neighbours at `from`, and zeros; all four of them, and aligned, if
/// `is_whole`.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn load(from: *const f32, count: u32, is_whole: bool) -> [f32; WIDTH] {
    // SAFETY: the caller's promise.
    unsafe {
        if is_whole {
            return ld_v4_f32(from);
        }
        let mut x = [0.0; WIDTH];
        for i in 0..WIDTH {
            if (i as u32) < count {
                x[i] = from.add(i).read();
            }
        }
        x
    }
}

macro_rules! kernels {
    ($($name:ident($out:ident);)*) => {$(
        #[doc = concat!("Sums of parts to `", stringify!($out), "`; see [`abi::gemm::FinishEntry`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to.
        #[kernel(max_threads = FINISH_THREADS)]
        pub unsafe fn $name(
            partials: *const f32,
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
            splits: u32,
        ) {
            let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
            // SAFETY: the caller's promise.
            unsafe {
                let epilogue = Fused::new(pointers, &params, &epilogue);
                finish(partials, splits, d, &params, &epilogue)
            }
        }
    )*};
}

abi::gemm_finish!(kernels);
