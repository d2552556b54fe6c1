//! The sums over rows that cross-entropy needs, in a fixed order. One block adds up few rows. Many
//! rows take several blocks ([`abi::rows::total_blocks`]), and one more launch adds up their sums.

use crate::row::group::Group;
use abi::rows::{RowParams, flags};
use cuda_std::hint::opaque;
use cuda_std::thread;

/// Rows whose values a thread loads together.
const CHUNK: u64 = 4;

/// The sum of `f` over the block's rows, in every thread of the block.
///
/// # Safety
/// All threads call it; `scratch` is shared memory for exchanges.
#[inline(always)]
unsafe fn sum(params: &RowParams, scratch: *mut u32, f: impl Fn(u64) -> f32) -> f32 {
    let threads = u64::from(thread::block_dim_x());
    let (mut first, mut end) = (0, params.rows);
    if thread::grid_dim_x() > 1 {
        // A branch, as a division takes longer than a small launch's sums.
        let of_block = params.rows.div_ceil(u64::from(thread::grid_dim_x()));
        first = u64::from(thread::block_idx_x()) * of_block;
        end = (first + of_block).min(params.rows);
    }
    let mut total = 0.0;
    let mut row = first + u64::from(thread::thread_idx_x());
    while row < end {
        let mut values = [0.0; CHUNK as usize];
        let mut i = 0;
        while i < CHUNK {
            let at = row + i * threads;
            if at < end {
                values[i as usize] = f(at);
            }
            i += 1;
        }
        total += (values[0] + values[1]) + (values[2] + values[3]);
        row += threads * u64::from(opaque(CHUNK as u32));
    }
    // SAFETY: passed on to the caller.
    unsafe {
        let mut group = Group::of_block(params, scratch);
        group.reduce::<_, false>(total, |a, b| a + b)
    }
}

/// `factor = 1 / the number of targets that are not ignored`; infinite if all are. If classes have
/// weights, those of the targets are added up instead; a target that is not a class counts 1. If there
/// are several blocks, factor b is the number of block b's targets.
///
/// # Safety
/// `targets` has an element a row, `weights` is null or has one a class, `factor` has an element a block;
/// launched with blocks of `params.threads`.
#[inline(always)]
pub(super) unsafe fn weight(
    targets: *const i64,
    weights: *const f32,
    factor: *mut f32,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: elements of the targets; the block calls it.
    unsafe {
        let counts = |row: u64| {
            let class = targets.wrapping_add(row as usize).read();
            if class == params.ignore_index {
                0.0
            } else if weights.is_null() || class as u64 >= params.n {
                1.0
            } else {
                weights.wrapping_add(class as usize).read()
            }
        };
        let count = sum(params, scratch, counts);
        if thread::thread_idx_x() == 0 {
            let is_whole = thread::grid_dim_x() == 1;
            let to = factor.wrapping_add(thread::block_idx_x() as usize);
            to.write(if is_whole { 1.0 / count } else { count });
        }
    }
}

/// `loss = factor · sum of the losses`, or with [`flags::RECIPROCAL`] 1 over it; element b of block b's.
///
/// # Safety
/// `losses` has an element a row, `loss` one a block; launched with blocks of `params.threads`.
#[inline(always)]
pub(super) unsafe fn total(
    losses: *const f32,
    factor: *const f32,
    loss: *mut f32,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: elements of the losses; the block calls it.
    unsafe {
        let total = sum(params, scratch, |row| {
            losses.wrapping_add(row as usize).read()
        });
        if thread::thread_idx_x() == 0 {
            let factor = if factor.is_null() { 1.0 } else { factor.read() };
            let total = total * factor;
            let is_inverse = params.flags & flags::RECIPROCAL != 0;
            let to = loss.wrapping_add(thread::block_idx_x() as usize);
            to.write(if is_inverse { 1.0 / total } else { total });
        }
    }
}
