//! Layer norm and RMS norm of rows, after a residual where there is one:
//! `h = x + residual`, `y[r, i] = (h[r, i] - mean_r) rstd_r weight[i] + bias[i]`, with
//! `rstd_r = 1 / √(mean of (h - mean)² + epsilon)`; RMS norm takes 0 for the mean.
//!
//! `x`, `residual`, `h`, `y`: `[rows, n]`, element stride 1; f32, f16 or bf16. `weight`, `bias`:
//! `[n]`, of the rows' dtype or f32. `mean`, `rstd`: `[rows]`, f32.
//!
//! **Roles**: as for softmax: a row belongs to a few lanes, a warp, a block or a cluster.
//!
//! **Pipelines**: those of `row::ring` and `row::slices`, where bulk copies bring rows (weights then come
//! once a block that stays, or ahead); else none: all
//! vectors of a thread are asked for before the first is used.
//!
//! **Shared memory**: that of `row::ring`, of `row::slices`, or the scratch of `row::group` and rows that do not begin
//! on a vector.
//!
//! **Timeline**: load x and residual, write h; the mean, then the sum of squared deviations of each
//! warp's elements, from where the row is held, and one exchange that merges them; weights through the
//! read-only cache, once a row, or once a block of a ring; store.
//!
//! **Numerics**: f32 throughout, one rounding of h and one of y; h is normalised as it was rounded.
//! Variances are sums of squared deviations from the mean, never differences of squares; element
//! by element they are merged pairwise (`row::moments`). Same bits on every device.
//!
//! **Sources**: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450; Zhang and Sennrich, Root
//! Mean Square Layer Normalization, arXiv:1910.07467.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests --test norms` runs it on the emulator
//! with all checks, every strategy among them.

mod ahead;
mod backward;
mod entries;
mod forward;
mod grad_ring;
mod ring;

pub use entries::*;
