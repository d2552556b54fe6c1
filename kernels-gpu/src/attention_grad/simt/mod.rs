//! Portable attention, backward: `dq`, `dk`, `dv`, `delta` and the sinks' gradients; formulas in
//! [`abi::attention_grad`].
//!
//! q and d_o `[batch, seqlen_q, heads_q, ..]`, k and v `[batch, seqlen_k, heads_kv, ..]`; f32, f16
//! or bf16, f32 inside. Any head_dim and head_dim_v up to the entry's cap, any strides and
//! alignments, every mask, softcaps, sequences of any lengths. No tensor cores and nothing newer
//! than sm_75. Element types are distinguished at run time, only where elements are loaded and
//! stored.
//!
//! # Roles
//! `delta`: 16 lanes a query. `sink`: a block a head. The other entries run twice. Blocks that own
//! 64 queries of a head go over the keys and write dq. Blocks that own 64 keys of a key head go
//! over the queries of all query heads on it and write dk and dv. So every result has one owner,
//! which adds in one order, and there are no atomics; the price is that scores and dP are computed
//! twice. The *rows* are those that a block owns, and the *columns* those that it goes over. All
//! threads do the same: sixteen lanes share a row. A thread has 4 rows, and of each 4 columns of a
//! 64×64 tile of scores and `CAP / 16` columns of a result.
//!
//! # Shared memory
//! | what | f32 elements | lifetime |
//! |---|---|---|
//! | P or dS, `[16][64]` chunks of 4 rows | 4,096 | their computation to the end of the product with them |
//! | lse and delta of the tile's queries | 128 | a tile |
//! | two stages of both factors of scores or dP, `[8][64 + 4]` each | 2,176 | that product |
//! | in their place two stages of vectors, `[1024 / CAP][CAP + 4]` | up to 2,176 | a product with P or dS |
//!
//! # Timeline
//! For each tile of columns that the mask leaves anything of:
//! - Scores, then dP, each through two stages.
//! - P and dS in registers; masked pairs are 0.
//! - Owners of keys: P to shared memory; `dv += P^T @ d_o`.
//! - dS to shared memory; `dk += dS^T @ q`, or `dq += dS @ k`.
//!
//! # Size
//! Nothing is in the code twice that can be there once. Loops run over the two cases of a step, and
//! results and pairs move through registers (`shift_in`, `swap`) to where the code expects them.
//! With everything unrolled the entries had eight times as much PTX.
//!
//! # Numerics
//! Scores and dP: one f32 accumulator, `fma` with head_dim (head_dim_v) ascending. P:
//! [`cuda_std::math::exp2`] of `fma(score, softmax_scale * log2 e, -lse * log2 e)`, or of the
//! capped score likewise. dS: `P * (dP - delta)`, with a softcap of `(dP - delta) * (1 - tanh^2)`.
//! Results: one f32 accumulator, `fma` with keys ascending (dk, dv: query heads, then queries
//! ascending), times softmax_scale (not dv), rounded once. delta: a lane adds every 16th chunk of
//! 4, then the lanes are added pairwise. Sinks: `fma(exp(sink - lse), delta, sum)` with
//! [`cuda_std::math::exp`], in the order that [`abi::attention_grad::sink`] says. Pairs that the
//! mask hides, and positions beyond the sequences, are never multiplied: a NaN there reaches no
//! result. The same bits every run, and on every device.
//!
//! # Sources
//! Dao, FlashAttention-2, arXiv:2307.08691, section 3.1.2: delta before the loop, P from lse.
//!
//! # Before you change this
//! `ptxas -v` must show no spills from sm_75 on; run `cargo test -p warpsmith-tests --test
//! attention_grad`.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

mod accumulate;
mod band;
mod delta;
mod entries;
mod kernel;
mod pairs;
mod products;
mod results;
mod sink;
mod thread_tile;
mod vectors;

pub use entries::*;
