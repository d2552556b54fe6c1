//! Kernels whose blocks wait for each other: several passes over all data in one launch.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use cuda_std::atomic::AtomicF32;
use cuda_std::grid;
use cuda_std::prelude::*;

/// `y = x / sum(x)`. `total` is 0 before.
#[kernel(
    block = 128,
    requires = "x.len() == y.len() && total.len() == 1",
    grid = "resident(y)"
)]
pub fn shares(
    x: &[f32],
    total: &[AtomicF32],
    mut y: Disjoint<'_, f32, Index1>,
    mut block: Block<'_, 128>,
) {
    let mut sum = 0.0;
    for i in Index1::grid_stride(x.len()) {
        sum += x[i.get()];
    }
    let sum = block.reduce(sum, |a, b| a + b);
    if block.thread() == 0 {
        total[0].fetch_add(sum, Relaxed);
    }
    grid::sync();
    let total = total[0].load(Relaxed);
    for i in Index1::grid_stride(y.len()) {
        y[&i] = x[i.get()] / total;
    }
}

/// So many steps of Jacobi's method for a rod with heat at its ends: each inner element becomes the mean
/// of its two neighbours. An odd step reads `a` and writes `b`, an even step the reverse.
#[kernel(block = 128, requires = "a.len() == b.len()")]
pub fn jacobi(steps: u32, a: &[AtomicF32], b: &[AtomicF32]) {
    for step in 0..steps {
        let (from, to) = if step % 2 == 0 { (a, b) } else { (b, a) };
        for i in Index1::grid_stride(from.len()) {
            let i = i.get();
            let is_inner = 0 < i && i + 1 < from.len();
            let new = match is_inner {
                true => 0.5 * (from[i - 1].load(Relaxed) + from[i + 1].load(Relaxed)),
                false => from[i].load(Relaxed),
            };
            to[i].store(new, Relaxed);
        }
        grid::sync();
    }
}

/// Running sums of `x`. Each block waits for the block before it, which hands its sum on: `done[block]`
/// says that `sums[block]` is there. Both are 0 before.
#[kernel(
    block = 128,
    requires = "x.len() == y.len() && sums.len() == x.len().div_ceil(128) \
                && done.len() == sums.len()",
    grid = "y",
    cooperative
)]
pub fn chained_sums(
    x: &[u32],
    sums: &[AtomicU32],
    done: &[AtomicU32],
    mut y: Disjoint<'_, u32, Index1>,
    mut block: Block<'_, 128>,
) {
    let i = Index1::here();
    let in_block = block.scan(x.get(i.get()).copied().unwrap_or(0), |a, b| a + b);
    let at = thread::block_idx_x() as usize;
    let before = match at.checked_sub(1) {
        Some(before) => {
            while done[before].load(Acquire) == 0 {}
            sums[before].load(Relaxed)
        }
        None => 0,
    };
    if block.thread() == 127 {
        sums[at].store(before + in_block, Relaxed);
        done[at].store(1, Release);
    }
    if let Some(y) = y.get_mut(&i) {
        *y = before + in_block;
    }
}

/// [`jacobi`] with a bug for a test to find: only the first half of the blocks waits.
///
/// # Safety
/// It cannot be called soundly: the blocks that wait do not end.
#[kernel(block = 128)]
pub unsafe fn half_of_the_grid_waits() {
    if thread::block_idx_x() < thread::grid_dim_x() / 2 {
        grid::sync();
    }
}
