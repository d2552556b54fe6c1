//! Adds up the sums of parts of k. Which thread has what is as in the kernel for parts in f32.

use abi::gemm::GemmParams;
use cuda_std::epilogue::Coord;
use cuda_std::mem::ld_v4_u32;
use cuda_std::thread;

use super::ending::{Ending, WIDTH};
use crate::gemm::finish::Index;

/// # Safety
/// As the launch's: `params` describes what the pointers point to.
#[inline(always)]
pub(super) unsafe fn finish(
    (partials, splits): (*const i32, u32),
    d: *mut u8,
    params: &GemmParams,
    ending: &Ending<'_>,
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
    while index.flat < all {
        let Index { batch, row, .. } = index;
        let column = index.group * WIDTH as u32;
        let in_split = (batch * u64::from(m) + u64::from(row)) * u64::from(n) + u64::from(column);
        let count = (n - column).min(WIDTH as u32);
        let mut from = partials.wrapping_add(in_split as usize);
        let mut x = [0_i32; WIDTH];
        for _ in 0..splits {
            // SAFETY: the caller's promise: `partials` holds `splits` times all results, whose rows
            // are aligned for loads of four if they are a multiple of four.
            let values = unsafe { load(from, count, n.is_multiple_of(WIDTH as u32)) };
            for i in 0..WIDTH {
                x[i] = x[i].wrapping_add(values[i] as i32);
            }
            from = from.wrapping_add(results as usize);
        }
        let d = ending.offset(d, batch as i64 * params.batch_stride_d);
        // SAFETY: the caller's promise; threads have different results.
        unsafe { ending.store(d, Coord { batch, row, column }, x, count) };
        index = index.plus(step, m, groups);
    }
}

/// The first `count` of four neighbours at `from`, and zeros; all four of them, and aligned, if
/// `is_whole`.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn load(from: *const i32, count: u32, is_whole: bool) -> [u32; WIDTH] {
    // SAFETY: the caller's promise.
    unsafe {
        if is_whole {
            return ld_v4_u32(from.cast());
        }
        let mut x = [0; WIDTH];
        for i in 0..WIDTH {
            if (i as u32) < count {
                x[i] = from.wrapping_add(i).read() as u32;
            }
        }
        x
    }
}
