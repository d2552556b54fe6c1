//! Layer norm and RMS norm of rows, after a residual if there is one:
//! `h = x + residual`, `y[r, i] = (h[r, i] - mean_r) rstd_r weight[i] + bias[i]`, with
//! `rstd_r = 1 / √(mean of (h - mean)² + epsilon)`; in RMS norm the mean is 0. Also gradients.
//!
//! `x`, `residual`, `h`, `y`: `[rows, n]`, element stride 1; f32, f16 or bf16. `weight`, `bias`:
//! `[n]`, of the rows' dtype or f32. `mean`, `rstd`: `[rows]`, f32.
//!
//! **Roles**: as for softmax: a row is shared by a few lanes, a warp, a block or a cluster.
//!
//! **Pipelines**: those of `row::ring`, `row::short` and `row::slices`, where bulk copies load rows.
//! Otherwise none: a thread issues the loads of all of its vectors before it uses the first.
//!
//! **Shared memory**: that of `row::ring`, `row::short` or `row::slices`; otherwise the scratch of
//! `row::group`, and rows that go element by element.
//!
//! **Timeline**: load x and residual, and write h. Then the mean, then the sum of squared
//! deviations of each warp's elements, from where the row is held, and one exchange that merges
//! those of the warps. Load the weights through the read-only cache: for each row, or once a block
//! if rows come through a ring. Normalise and store.
//!
//! **Numerics**: f32 throughout, one rounding of h and one of y; the rounded h is what is
//! normalised. Variances are sums of squared deviations from the mean, never differences of
//! squares; element by element they are merged pairwise (`row::moments`). Same bits on every
//! device.
//!
//! **Sources**: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450; Zhang and Sennrich, Root
//! Mean Square Layer Normalization, arXiv:1910.07467.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests norms::` runs it on the emulator
//! with all checks, every strategy among them; docs/decisions/0040 to 0048 have the numbers.

mod ahead;
mod any;
mod backward;
mod columns;
mod entries;
mod finish;
mod forward;
mod grad_ring;
mod grad_rows;
mod grad_short;
mod gradient;
mod ring;
mod source;
mod tensors;

pub use entries::*;
