//! Softmax and log-softmax of rows, their gradients, and cross-entropy:
//! `y[r, i] = exp(x[r, i] - max_r) / sum_j exp(x[r, j] - max_r)`.
//!
//! `x`, `y`: `[rows, n]`, element stride 1; f32, f16 or bf16.
//!
//! **Roles**: a row is shared by a few lanes of a warp, a warp, a block or a cluster, as the host
//! chooses (`abi::rows::RowPlan`). Every thread reduces and stores its own vectors.
//!
//! **Pipelines**: those of `row::slices`, where bulk copies load rows. Otherwise none: a thread
//! issues the loads of all of its vectors before it uses the first, and blocks on the same SM hide
//! each other's waits. Cross-entropy uses PDL (`griddepcontrol`). The launch that counts the
//! targets lets the launch over the rows begin at once. That one waits for the count only when its
//! rows are in flight.
//!
//! **Shared memory**: that of `row::slices`; otherwise the scratch of `row::group`. Rows that
//! go element by element are in the launch's dynamic shared memory if they fit.
//!
//! **Timeline**:
//! - Rows in registers: load; maximum of the thread, then of the warp; exponentials relative to the
//!   warp's maximum, and their sum; one exchange of (maximum, sum) between warps; store.
//! - Rows in slices (`sums`): bulk copy; of each part that lands, the thread's maximum, then its sum
//!   of exponentials; one exchange of (maximum, sum); the exponentials again, and store.
//!
//! **Numerics**: f32 throughout, one rounding at the store; sums in fixed order. +inf or NaN in a
//! row, or nothing but -inf, gives NaN. n = 0 writes nothing.
//!
//! **Sources**: Milakov and Gimelshein, Online normalizer calculation for softmax,
//! arXiv:1805.02867; the repository of quack for the sizes from which clusters pay.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests -- softmax:: cross_entropy::`
//! runs it on the emulator with all checks, every strategy among them; docs/decisions/0040 to
//! 0048 have the measurements.

mod backward;
mod cross_entropy;
mod entries;
mod forward;
mod partial;
mod soft;
mod sums;
mod targets;
mod total;

pub use entries::*;
