//! Kernels without `unsafe`.

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::prelude::*;
use cuda_std::safe::swizzled;

/// `c = a + b`, with one element per thread.
#[kernel(requires = "a.len() >= c.len() && b.len() >= c.len()")]
pub fn safe_vector_add(a: &[f32], b: &[f32], mut c: Disjoint<'_, f32, Index1>) {
    let i = Index1::here();
    if let Some(c) = c.get_mut(&i) {
        *c = a[i.get()] + b[i.get()];
    }
}

/// `y = alpha * x + y`, in a grid-stride loop.
#[kernel(requires = "x.len() >= y.len()")]
pub fn safe_axpy(alpha: f32, x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
    for i in Index1::grid_stride(y.len()) {
        y[&i] = math::fma(alpha, x[i.get()], y[&i]);
    }
}

/// Threads of a block of the stencil.
const STENCIL: u32 = 256;
/// Elements on each side that a result depends on.
const HALO: usize = 2;

/// Mean of each element and its two neighbours on each side; outside of `x` there are zeros. A block
/// reads its elements and the halo into shared memory once.
#[kernel(block = STENCIL)]
pub fn safe_stencil(
    x: &[f32],
    mut y: Disjoint<'_, f32, Index1>,
    tile: SharedTile<'_, f32, { STENCIL as usize + 2 * HALO }>,
    block: Block<'_, STENCIL>,
) {
    let i = Index1::here();
    let (thread, first) = (block.thread(), i.get() - block.thread());
    let tile = tile.fill(&block, |k| {
        let at = (first + k).wrapping_sub(HALO);
        x.get(at).copied().unwrap_or(0.0)
    });
    let tile = tile.sync();
    if let Some(y) = y.get_mut(&i) {
        let mut sum = 0.0;
        for k in 0..=2 * HALO {
            sum += tile[thread + k];
        }
        *y = sum / 5.0;
    }
}

/// Rows and columns of a tile of the transposition.
const SIDE: usize = 32;

/// `y = x^T`, by tiles of 32 x 32 through shared memory.
#[kernel(
    block = (32, 8),
    requires = "x.rows() == y.columns() && x.columns() == y.rows() \
                && x.column_stride() == 1 && y.column_stride() == 1"
)]
pub fn safe_transpose(
    x: View2<'_, f32>,
    mut y: Disjoint<'_, f32, InTile<SIDE, SIDE>>,
    tile: SharedTile<'_, f32, { SIDE * SIDE }>,
    block: Block<'_, 256>,
) {
    let elements = block.tile::<SIDE, SIDE>();
    let (first_row, first_column) = (elements.first_row(), elements.first_column());
    // The tile of x in the mirrored place.
    let tile = tile.fill_swizzled::<SIDE, _>(&block, |row, column| {
        let element = x.get(first_column + row, first_row + column);
        element.copied().unwrap_or(0.0)
    });
    let tile = tile.sync();
    for at in elements {
        let (row, column) = at.in_tile();
        if let Some(y) = y.get_mut(&at) {
            *y = tile[swizzled::<SIDE>(column, row)];
        }
    }
}

/// Softmax of each row, a block a row.
#[kernel(
    block = 128,
    requires = "x.rows() == y.rows() && x.columns() == y.columns() \
                && x.column_stride() == 1 && y.column_stride() == 1"
)]
pub fn safe_softmax(x: View2<'_, f32>, mut y: Disjoint<'_, f32, InRow>, mut block: Block<'_, 128>) {
    let columns = x.columns();
    for row in block.rows(x.rows()) {
        let mut largest = f32::NEG_INFINITY;
        for at in row.columns(columns) {
            largest = math::max_nan(largest, x[(at.row(), at.column())]);
        }
        let largest = block.reduce(largest, math::max_nan);
        let mut sum = 0.0;
        for at in row.columns(columns) {
            let power = math::exp(x[(at.row(), at.column())] - largest);
            y[&at] = power;
            sum += power;
        }
        let sum = block.reduce(sum, |a, b| a + b);
        for at in row.columns(columns) {
            y[&at] /= sum;
        }
    }
}

/// How often each value occurs. A value that has no counter is counted in the last one.
#[kernel]
pub fn safe_histogram(values: &[u32], counts: &[AtomicU32]) {
    let last = counts.len() - 1;
    for i in Index1::grid_stride(values.len()) {
        let value = (values[i.get()] as usize).min(last);
        counts[value].fetch_add(1, Ordering::Relaxed);
    }
}

/// `sums[s]` is the sum of `x[starts[s]..starts[s + 1]]`, a block a segment.
#[kernel(block = 128)]
pub fn safe_segmented_sum(
    x: &[f32],
    starts: &[u32],
    mut sums: Disjoint<'_, f32, PerBlock>,
    mut block: Block<'_, 128>,
) {
    for segment in block.rows(sums.len()) {
        let s = segment.get();
        let x = &x[starts[s] as usize..starts[s + 1] as usize];
        let mut sum = 0.0;
        for at in segment.columns(x.len()) {
            sum += x[at.column()];
        }
        let sum = block.reduce(sum, |a, b| a + b);
        if let Some(at) = segment.leader() {
            sums[&at] = sum;
        }
    }
}
