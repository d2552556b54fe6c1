//! Portable attention, backward: `dq`, `dk`, `dv` and `delta`; formulas in
//! [`spec::attention::backward`].
//!
//! q and d_o `[batch, seqlen_q, heads_q, ..]`, k and v `[batch, seqlen_k, heads_kv, ..]`; f32, f16 or
//! bf16, f32 inside. Any head_dim and head_dim_v up to the entry's cap, any strides and alignments,
//! every mask, softcaps, sequences of any lengths. No tensor cores and nothing newer than sm_75. Element
//! types are distinguished at run time, only where elements are loaded and stored.
//!
//! # Roles
//! `delta`: 16 lanes a query. `dq`: a block owns 64 queries of a head and goes over the keys. `dkv`: a
//! block owns 64 keys of a key head and goes over the queries of all query heads on it. So every result
//! has one owner, which adds in one order, and there are no atomics; the price is that scores and dP
//! are computed twice. In both, all threads do the same: sixteen lanes share a row that the block owns,
//! a thread has 8 (or 4) rows, and of each 4 columns of a 64×64 tile of scores and `CAP / 16` columns
//! of a result.
//!
//! # Shared memory
//! | what | f32 elements | lifetime |
//! |---|---|---|
//! | dS, or P (of `dkv`), `[16][64]` chunks of 4 rows | 4,096 | their computation to the end of the product with them |
//! | two stages of both factors of scores or dP, `[TILE_D][64 + 4]` each | 2,176, or 4,352 at 256 threads | that product |
//! | in their place two stages of k, or of d_o and q | 2,176 at caps 64 and 128, or 4,160 | p @ d_o, dS @ k, dS @ q of a tile |
//!
//! # Timeline
//! For each tile of the other side that the mask leaves anything of:
//! - Barrier; scores through two stages. Barrier; dP through two stages.
//! - P and dS in registers; masked pairs are 0.
//! - `dq`: dS to shared memory; barrier; `dq += dS @ k`.
//! - `dkv`: P to shared memory; barrier; `dv += P^T @ d_o`; barrier; the same with dS and q for dk.
//!
//! # Numerics
//! Scores and dP: one f32 accumulator, `fma` with head_dim (head_dim_v) ascending. P:
//! [`cuda_std::math::exp2`] of `fma(score, softmax_scale * log2 e, -lse * log2 e)`, or of the capped
//! score likewise. dS: `P * (dP - delta)`, with a softcap of `(dP - delta) * (1 - tanh^2)`. Results:
//! one f32 accumulator, `fma` with keys ascending (dk, dv: query heads, then queries ascending), times
//! softmax_scale (not dv), rounded once. delta: a lane adds every 16th chunk of 4, then the lanes are
//! added pairwise. Pairs that the mask hides, and positions beyond the sequences, are never multiplied:
//! a NaN there reaches no result. The same bits every run, and on every device.
//!
//! # Sources
//! Dao, FlashAttention-2, arXiv:2307.08691, section 3.1.2: delta before the loop, P from lse.
//!
//! # Before you change this
//! `ptxas -v` must show no spills from sm_75 on; run `cargo test -p warpsmith-tests --test
//! attention_backward`.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

mod delta;
mod entries;
mod keys;
mod pairs;
mod queries;
mod tile;

pub use entries::*;
