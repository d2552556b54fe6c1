//! Kernels that state what a launch has to meet, and its grid: a launch has no dimensions.

use core::ops::Add;

use cuda_std::prelude::*;
use cuda_std::safe::Plain;

kernel_param! {
    /// A line: `slope * x + offset`.
    #[derive(Debug)]
    pub struct Line {
        /// By which `x` is multiplied.
        pub slope: f32,
        /// What is added.
        pub offset: f32,
    }
}

/// `y = slope * x + offset`, with one element for each thread.
#[kernel(requires = "x.len() >= y.len()", grid = "y")]
pub fn on_line(line: Line, x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
    let i = Index1::here();
    if let Some(y) = y.get_mut(&i) {
        *y = line.slope * x[i.get()] + line.offset;
    }
}

/// `y = factor * x`, four elements a thread: one load and one store of 16 bytes.
#[kernel(requires = "x.len() == y.len()", grid = "y")]
pub fn scale_by_four(factor: f32, x: &[[f32; 4]], mut y: Disjoint<'_, [f32; 4], Index1>) {
    let i = Index1::here();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()].map(|x| factor * x);
    }
}

/// `y[p, r, c] = x[c, r, p]`.
#[kernel(
    block = (32, 4, 2),
    requires = "x.planes() == y.columns() && x.rows() == y.rows() && x.columns() == y.planes()",
    grid = "y"
)]
pub fn turn_around(x: View3<'_, f32>, mut y: Disjoint<'_, f32, Index3>) {
    let at = Index3::here();
    if let Some(y) = y.get_mut(&at) {
        *y = x[(at.column(), at.row(), at.plane())];
    }
}

/// The sums of `N` neighbours each.
#[kernel(
    sums_of_four = <f32, 4>,
    sums_of_three = <u32, 3>,
    requires = "x.len() == N * y.len()",
    grid = "y"
)]
pub fn sums_of_neighbours<T: Plain + Add<Output = T>, const N: usize>(
    x: &[T],
    mut y: Disjoint<'_, T, Index1>,
) {
    let i = Index1::here();
    if let Some(y) = y.get_mut(&i) {
        let x = &x[N * i.get()..][..N];
        let mut sum = x[0];
        for k in 1..N {
            sum = sum + x[k];
        }
        *y = sum;
    }
}

/// Threads of a block of `sums_of_groups`.
const GROUP: u32 = 64;

/// The sums of groups of `n` elements, a block a group.
#[kernel(
    block = GROUP,
    requires = "n > 0 && x.len() % n == 0 && sums.len() == x.len() / n",
    grid = "sums"
)]
pub fn sums_of_groups(
    n: u32,
    x: &[f32],
    mut sums: Disjoint<'_, f32, PerBlock>,
    mut block: Block<'_, GROUP>,
) {
    for group in block.rows(sums.len()) {
        let n = n as usize;
        let x = &x[group.get() * n..][..n];
        let mut sum = 0.0;
        for at in group.columns(x.len()) {
            sum += x[at.column()];
        }
        let sum = block.reduce(sum, |a, b| a + b);
        if let Some(at) = group.leader() {
            sums[&at] = sum;
        }
    }
}
