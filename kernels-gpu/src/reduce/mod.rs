//! Reductions over one axis of `[outer, n, inner]`: sum, mean, max, min, argmax, argmin, logsumexp.
//!
//! **Roles**: pass 1, `_row`: a warp (up to `WARP_MAX` elements) or a block has a chunk of the
//! axis; `_col`: a thread has one, neighbours have neighbouring inner indices. Pass 2, `_final`: a
//! warp or a block reduces the partials of an output. All stride over what is left.
//!
//! **Pipelines**: none. **Shared memory**: an accumulator for each warp, alive in `block::combine`.
//!
//! **Numerics**: f32 accumulators (`ops.rs`), every order fixed, so a result has the same bits
//! each time. The additions that one element can go through are `ReducePlan::additions`: the
//! thread's own (a chunk shared by 32 or 256 threads, or at most 256 in a column), then trees.
//!
//! **Before you change this**: `spec::reduce::ReducePlan` promises the chain lengths;
//! `cargo test -p warpsmith-tests` runs it on the emulator.

mod entries;
mod ops;
mod passes;

pub use entries::*;
