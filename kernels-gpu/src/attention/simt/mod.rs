//! Portable attention, forward: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, `lse` on demand.
//!
//! q `[batch, seqlen_q, heads_q, head_dim]`, k and v `[batch, seqlen_k, heads_kv, ..]`, o as q with
//! head_dim_v; f32, f16 or bf16 in and out, f32 inside. Any head_dim and head_dim_v up to the
//! entry's cap, any strides and alignments, every option of [`abi::attention`]. No tensor cores
//! and nothing newer than sm_75. Element types are distinguished at run time, only where elements
//! are loaded and stored, so there is one kernel for each cap.
//!
//! # Roles
//! All threads do the same. A block computes 64 queries of one head, by 128 threads, or by 256 at
//! cap 256. Sixteen lanes share a row. A thread has 8 (or 4) rows; of each, it owns 4 keys of a
//! 64×64 tile of scores, and `CAP / 16` columns of o.
//!
//! # Shared memory
//! | what | f32 elements | lifetime |
//! |---|---|---|
//! | probabilities, `[16][64]` chunks of 4 rows | 4,096 | softmax to the end of the tile |
//! | q and k, two stages of both `[TILE_D][64 + 4]` | 2,176, or 4,352 at cap 256 | q @ k^T of a tile |
//! | in their place v, two stages `[8][CAP + 4]` | 1,088, 2,112, or 4,160 at cap 256 | p @ v of a tile |
//!
//! # Timeline
//! For each tile of 64 keys:
//! - Barrier; scores = q @ k^T through two stages.
//! - Softcap, scale and mask; row max by shuffles; probabilities, which go to shared memory;
//!   rescale o.
//! - Barrier; o += p @ v through two stages.
//!
//! Tiles that every row sees in full skip the mask.
//!
//! # Numerics
//! Scores: one f32 accumulator, `fma` with head_dim ascending; times `softmax_scale * log2 e`,
//! rounded, or through [`softcap`](softmax::softcap). Probabilities: [`cuda_std::math::exp2`] of
//! the score minus the row's maximum so far, in f32. o: one f32 accumulator, `fma` with keys
//! ascending, times 1 / sum. A row that sees no key: o = 0, lse = -inf or the sink's logit. Keys
//! that a row does not see, and positions beyond the sequences, are never multiplied: a NaN there
//! reaches no result. The same bits every run.
//!
//! # Sources
//! Online softmax after Milakov and Gimelshein, arXiv:1805.02867, and FlashAttention,
//! arXiv:2205.14135.
//!
//! # Before you change this
//! `ptxas -v` must show no spills from sm_75 on; run `cargo test -p warpsmith-tests attention`.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

pub(crate) mod elements;
#[cfg(feature = "attention")]
mod entries;
pub(crate) mod kernel;
pub(crate) mod mask;
pub(crate) mod operand;
pub(crate) mod softmax;
pub(crate) mod values;

#[cfg(feature = "attention")]
pub use entries::*;
