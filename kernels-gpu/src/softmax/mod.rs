//! Softmax and log-softmax of rows, their gradients, and cross-entropy:
//! `y[r, i] = exp(x[r, i] - max_r) / sum_j exp(x[r, j] - max_r)`.
//!
//! `x`, `y`: `[rows, n]`, element stride 1; f32, f16 or bf16.
//!
//! **Roles**: a row belongs to a few lanes of a warp, a warp, a block or a cluster, as
//! `spec::rows::RowPlan` chooses; every thread reduces and stores its own vectors.
//!
//! **Pipelines**: those of `row::slices`, where bulk copies bring rows; else none: all vectors of a
//! thread are asked for before the first is used. Blocks that share a multiprocessor cover each
//! other's waits. Cross-entropy's launches begin before the ones before them have ended: one over
//! targets lets that of the rows begin at once, which waits for it when the rows are on their way.
//!
//! **Shared memory**: that of `row::slices`, or the scratch of `row::group`; rows that do not begin on
//! a vector lie in the launch's dynamic shared memory where they fit.
//!
//! **Timeline**: held: load; maximum of the thread, of the warp; exponentials relative to the warp's
//! maximum, their sum; one exchange of (maximum, sum) between warps; store. In slices: the copy; the
//! thread's (maximum, sum) as it reads; one exchange; exponentials once more, store.
//!
//! **Numerics**: f32 throughout, one rounding at the store; sums in fixed order. +inf or NaN in a
//! row, or nothing but -inf, gives NaN. n = 0 writes nothing.
//!
//! **Sources**: Milakov and Gimelshein, Online normalizer calculation for softmax,
//! arXiv:1805.02867; the repository of quack for the sizes from which clusters pay.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests --test softmax --test cross_entropy` runs it on
//! the emulator with all checks, every strategy among them.

mod backward;
mod cross_entropy;
mod entries;
mod forward;
mod partial;
mod targets;
mod total;

pub use entries::*;
