//! The sums over rows that cross-entropy needs: by one block, in a fixed order.

use crate::row::group::Group;
use cuda_std::hint::opaque;
use cuda_std::thread;
use spec::rows::RowParams;

/// Rows whose values a thread loads together.
const CHUNK: u64 = 4;

/// The sum of `f` over all rows, in every thread of the block.
///
/// # Safety
/// All threads call it; `scratch` is shared memory for exchanges.
#[inline(always)]
unsafe fn sum(params: &RowParams, scratch: *mut u32, f: impl Fn(u64) -> f32) -> f32 {
    let threads = u64::from(thread::block_dim_x());
    let mut total = 0.0;
    let mut row = u64::from(thread::thread_idx_x());
    while row < params.rows {
        let mut values = [0.0; CHUNK as usize];
        let mut i = 0;
        while i < CHUNK {
            let at = row + i * threads;
            if at < params.rows {
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
/// weights, those of the targets are added up instead; a target that is not a class counts 1.
///
/// # Safety
/// `targets` has an element a row, `weights` is null or has one a class; launched with one block of
/// `params.threads`.
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
            factor.write(1.0 / count);
        }
    }
}

/// `loss = factor · sum of the losses`.
///
/// # Safety
/// `losses` has an element a row; launched with one block of `params.threads`.
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
            loss.write(total * factor);
        }
    }
}
