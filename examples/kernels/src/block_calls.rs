//! Scans, sorts and histograms of a block, without `unsafe`.

use cuda_std::prelude::*;

/// `y[r, c]` is the sum of `x[r, 0..=c]`: a block a row, in steps of 128 columns.
#[kernel(
    block = 128,
    requires = "x.rows() == y.rows() && x.columns() == y.columns()",
    grid = "y"
)]
pub fn running_sums(x: View2<'_, f32>, mut y: Disjoint<'_, f32, InRow>, mut block: Block<'_, 128>) {
    for row in block.rows(y.rows()) {
        let mut columns = row.columns(y.columns());
        let mut before = 0.0;
        for _ in 0..y.columns().div_ceil(128) {
            let at = columns.next();
            let value = at.as_ref().map_or(0.0, |at| x[(at.row(), at.column())]);
            let sum = before + block.scan(value, |a, b| a + b);
            before += block.reduce(value, |a, b| a + b);
            if let Some(at) = at {
                y[&at] = sum;
            }
        }
    }
}

/// Where each element of a row goes, if those that are not zero come first: an exclusive scan of a row of
/// at most 64 elements.
#[kernel(
    block = 64,
    requires = "x.rows() == places.rows() && x.columns() == places.columns() && x.columns() <= 64",
    grid = "places"
)]
pub fn places_of_kept(
    x: View2<'_, f32>,
    mut places: Disjoint<'_, u32, InRow>,
    mut block: Block<'_, 64>,
) {
    for row in block.rows(places.rows()) {
        let at = row.columns(places.columns()).next();
        let value = at.as_ref().map_or(0.0, |at| x[(at.row(), at.column())]);
        let is_kept = u32::from(value != 0.0);
        let place = block.scan_before(is_kept, |a, b| a + b).unwrap_or(0);
        if let Some(at) = at {
            places[&at] = if is_kept == 1 { place } else { u32::MAX };
        }
    }
}

/// The rows of `x`, of at most 256 elements, each sorted: by value, NaNs last.
#[kernel(
    block = 256,
    requires = "x.rows() == y.rows() && x.columns() == y.columns() && x.columns() <= 256",
    grid = "y"
)]
pub fn sorted_rows(x: View2<'_, f32>, mut y: Disjoint<'_, f32, InRow>, mut block: Block<'_, 256>) {
    for row in block.rows(y.rows()) {
        let at = row.columns(y.columns()).next();
        // Of all NaNs the last.
        let beyond = f32::from_bits(0x7fff_ffff);
        let value = at.as_ref().map_or(beyond, |at| x[(at.row(), at.column())]);
        let sorted = block.sort(value, |a, b| a.total_cmp(b).is_lt());
        if let Some(at) = at {
            y[&at] = sorted;
        }
    }
}

/// How often each value below 64 occurs in each row of `x`.
#[kernel(
    block = 128,
    requires = "x.rows() == counts.rows() && counts.columns() == 64",
    grid = "counts"
)]
pub fn counts_of_rows(
    x: View2<'_, u32>,
    mut counts: Disjoint<'_, u32, InRow>,
    counters: SharedTile<'_, u32, 64>,
    mut block: Block<'_, 128>,
) {
    let mut counters = counters;
    for row in block.rows(counts.rows()) {
        let columns = row.columns(x.columns());
        let values = columns.map(|at| x[(at.row(), at.column())] as usize);
        let counted = counters.count(&mut block, values).sync();
        for at in row.columns(64) {
            counts[&at] = counted[at.column()];
        }
        counters = counted.sync();
    }
}
