//! Attention, backward, by `mma.sync` (sm_80 and newer): `dq`, `dk` and `dv`; formulas in
//! [`abi::attention_grad`].
//!
//! q and d_o `[batch, seqlen_q, heads_q, ..]`, k and v `[batch, seqlen_k, heads_kv, ..]`; f16 or
//! bf16. head_dim and head_dim_v are multiples of 8 up to the entry's cap. Masks, softcaps and
//! lengths of sequences are free; see [`abi::attention_grad::sm80`].
//!
//! # Roles
//! Blocks that own queries of a head go over the keys and write dq. Blocks that own keys of a key
//! head go over the queries of all query heads on it and write dk and dv (at cap 256 one of them).
//! So every result has one owner, which adds in one order, and there are no atomics. The price is
//! that scores and dP are computed twice (at cap 256 scores three times). The *rows* are those that
//! a block owns, and the *columns* those that it goes over. q and d_o, k and v are the first and
//! the second vectors of either. All threads of the four warps do the same, copies included; a warp
//! has a quarter of the rows, and all results of these.
//!
//! | cap | part | rows | columns of a stage | at a time |
//! |---|---|---|---|---|
//! | 64 | dq, dk and dv | 128 | 64 | 32 |
//! | 128 | dq | 128 | 32 | 32 |
//! | 128 | dk and dv | 64 | 64 | 64 |
//! | 256 | dq, dk, dv | 64 | 32 | 32 |
//!
//! # Shared memory
//! | what | lifetime |
//! |---|---|
//! | first vectors of the rows, and the second if there is a dS | throughout |
//! | first and second vectors of the columns, two stages; for dq and dk at cap 256 one | a tile |
//! | lse and delta of the queries: of the rows, or a stage of the columns | as these |
//!
//! Chunks are swizzled as in the forward kernels. Places outside a sequence or a head dimension are
//! filled with zeros.
//!
//! # Timeline
//! For each tile of columns that the mask leaves anything of:
//! - Wait for its stage; start the copies of the next one.
//! - For 32 or 64 of its columns at a time: scores, dP. P and dS stay in registers, where they are
//!   the first operand of the products with them: rows of the accumulators are rows of the results.
//! - `dv += P^T @ d_o`; `dk += dS^T @ q`, or `dq += dS @ k`.
//!
//! With one stage, dP of a tile is computed while its first vectors are on their way. The second
//! vectors of the next one are copied while scores and the product with dS are computed.
//!
//! # Size
//! Loops of one length have their code once: ptxas unrolls them, and makes of turning arrays
//! (`rotate`) other names of registers. Only what few tiles come to, masks and softcaps, and the
//! writing of results may stay loops there.
//!
//! # Numerics
//! Scores and dP in f32; P by `ex2.approx.ftz` of `fma(score, softmax_scale * log2 e, -lse * log2
//! e)`; a softcap is `tanh.approx`. P and dS are rounded to the element type; results in f32,
//! columns ascending (dk, dv: query heads, then queries), times softmax_scale (not dv), rounded
//! once. A hidden pair's P and dS are 0, but are multiplied. The same bits every run.
//!
//! # Sources
//! Dao, FlashAttention-2, arXiv:2307.08691.
//!
//! # Before you change this
//! `ptxas -v -arch=sm_80` and `sm_90`: no spills; `cargo test -p warpsmith-tests --test
//! attention_grad`.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

mod entries;
mod kernel;
mod moments;
mod pairs;
mod products;
mod results;
mod schedule;
mod tile;
mod vectors;

pub use entries::*;
