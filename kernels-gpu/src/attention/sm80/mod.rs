//! Attention, forward, by `mma.sync` (sm_80 and newer; f16 on sm_75 too):
//! `o = softmax(softmax_scale * q @ k^T + mask) @ v`, `lse` on demand.
//!
//! q `[batch, seqlen_q, heads_q, head_dim]`, k and v `[batch, seqlen_k, heads_kv, ..]`, o as q with
//! head_dim_v; f16 or bf16, o in f32 too; every option of [`abi::attention`], as far as
//! [`abi::attention::sm80`] says.
//!
//! Few queries have [kernels of their own](decode), made of the same parts; what follows is of the
//! others.
//!
//! # Roles
//! All threads do the same, copies included. A block is four warps and computes 128 queries of one
//! head (64 at cap 256), each warp 32 (16) of them. A warp's scores, probabilities and o are in its
//! registers.
//!
//! # Shared memory
//! | what | bytes | lifetime |
//! |---|---|---|
//! | q `[tile_m][cap]` | 16, 32, 32 KiB at caps 64, 128, 256 | throughout |
//! | k `[tile_n][cap]` | 16, 16, 32 KiB | q @ k^T of one block of keys |
//! | v `[tile_n][cap]` | 16, 16, 32 KiB | p @ v of one block of keys |
//! | addresses of the first key and value | 16 | throughout |
//!
//! 16-byte chunks are swizzled within 8 rows (chunk `c` of row `r` is at `c ^ (r % 8)`), so that
//! neither copies nor `ldmatrix` have bank conflicts. Places outside a sequence or a head dimension
//! are filled with zeros.
//!
//! # Timeline
//! Before the loop, the copies of q and of the last block of keys are started. For each block of 64
//! keys (128 at cap 64), from last to first:
//! - Wait for k; start the copy of v.
//! - Scores (q @ k^T), softcap, mask.
//! - Wait for v; start the copy of the next k.
//! - Row max by shuffles, probabilities; rescale o; o += p @ v.
//!
//! Two blocks run on an SM where they fit, and each hides the other's waits.
//!
//! Registers are the limit: in the loop, scores and o take 192 of 255. So what depends only on a
//! thread's index is recomputed at each use ([`cuda_std::hint::opaque`]), and the addresses of keys
//! and values are kept in shared memory.
//!
//! On sm_75, in smaller tiles, copies go through registers and are complete when the loop has
//! started them. A product of 16 × 16 by 16 × 8 takes two instructions, each with half of k.
//!
//! # Numerics
//! Scores in f32, row max and differences in base 2, `ex2.approx.ftz`. Probabilities are rounded to
//! the element type; row sums come from the unrounded probabilities. o is in f32, times 1 / sum,
//! rounded once. A softcap is `tanh.approx`. The same bits every run.
//!
//! # Sources
//! Dao, FlashAttention-2, arXiv:2307.08691: the order of copies and products.
//!
//! # Before you change this
//! `ptxas -v -arch=sm_80` and `sm_90`: no spills; `cargo test -p warpsmith-tests attention::`;
//! docs/decisions/0021-attention-mma.md has measurements.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

pub(crate) mod copies;
pub(crate) mod decode;
mod decode_rows;
mod decode_stages;
pub(crate) mod element;
#[cfg(feature = "attention")]
mod entries;
pub(crate) mod fragments;
pub(crate) mod kernel;
mod results;
pub(crate) mod softmax;
mod stored;

#[cfg(feature = "attention")]
pub use entries::*;
pub(crate) use kernel::Arguments;
