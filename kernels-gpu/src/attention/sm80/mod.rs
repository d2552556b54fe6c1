//! Attention, forward, by `mma.sync` (sm_80 and newer; f16 on sm_75 too): `o = softmax(softmax_scale * q @ k^T + mask) @
//! v`, `lse` on demand.
//!
//! q `[batch, seqlen_q, heads_q, head_dim]`, k and v `[batch, seqlen_k, heads_kv, ..]`, o as q with
//! head_dim_v; f16 or bf16, o in f32 too; every option of [`spec::attention`], as far as
//! [`spec::attention::sm80`] says.
//!
//! # Roles
//! Four warps; a block computes 128 queries of one head (64 at cap 256), a warp 32 (16) of them: their
//! scores, probabilities and o are in its registers. All threads copy.
//!
//! # Shared memory
//! | what | bytes | lifetime |
//! |---|---|---|
//! | q `[tile_m][cap]` | 16, 32, 32 KiB at caps 64, 128, 256 | throughout |
//! | k `[tile_n][cap]` | 16, 16, 32 KiB | scores of one block |
//! | v `[tile_n][cap]` | 16, 16, 32 KiB | o of one block |
//! | where keys and values begin | 16 | throughout |
//!
//! Chunks of 16 bytes are permuted in each 8 rows (chunk `c` of row `r` lies at `c ^ (r % 8)`), so that
//! neither copies nor `ldmatrix` meet in banks. What lies beyond a sequence or a head dimension is 0.
//!
//! # Timeline
//! q and the last block of keys are copied. For each block of 64 keys (128 at cap 64), last to
//! first: wait for k; start v; scores; mask; wait for v; start the next k; row maximum by shuffles,
//! probabilities; shrink o; o += p @ v. Two blocks of threads on a multiprocessor fill each other's
//! waits.
//!
//! What registers hold through the loop decides: scores and o take 192 of 255. So what follows from a
//! thread's index is computed each time ([`cuda_std::hint::opaque`]), and the addresses of keys and
//! values wait in shared memory.
//!
//! On sm_75, in smaller tiles: copies go through registers, where the loop starts them, and a product of
//! 16 × 16 by 16 × 8 is two of half of k each.
//!
//! # Numerics
//! Scores in f32, maximum and differences in base 2, `ex2.approx.ftz`; probabilities rounded to the
//! element type; row sums of those before rounding; o in f32, times 1 / sum, rounded once. A softcap is
//! `tanh.approx`. The same bits every run.
//!
//! # Sources
//! Dao, FlashAttention-2, arXiv:2307.08691: the order of copies and products.
//!
//! # Before you change this
//! `ptxas -v -arch=sm_80` and `sm_90`: no spills; `cargo test -p warpsmith-tests --test attention`.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

mod copies;
mod element;
mod entries;
mod fragments;
mod kernel;
mod results;
mod softmax;

pub use entries::*;
