//! Rotary position embedding: of each pair (a, b) of a head, `(a cos - b sin, b cos + a sin)`, with
//! the cosine and the sine of the token's position and the pair's column in two tables.
//!
//! Pairs are an element of the first half of the rotated ones and its like of the second
//! (GPT-NeoX), or neighbours (GPT-J). Elements behind the rotated ones are copied. y may be x.
//!
//! **Roles**: all of the 128 threads do the same. A thread has a slot of up to two heads of a
//! token: two vectors of 16 bytes of each (`vectors`), or a pair (`strided`). Neighbouring threads
//! have neighbouring slots, then heads, then tokens.
//!
//! **Timeline**: the token's position; all elements of the heads; the slot's cosines and sines,
//! which both heads share; products, stores. So a thread has four loads of 16 bytes on their way
//! before it waits for its position.
//!
//! **Numerics**: in f32, `a cos` rounded, then one fused multiply-add, and one rounding to the
//! dtype. Copied elements keep their bits. A position without a row of the tables reads none:
//! cosine and sine are NaN.
//!
//! | file | what |
//! |---|---|
//! | `coord` | which token, heads and slot a thread has; its position |
//! | `vectors`, `strided` | the kernels |
//! | `lanes` | vectors of elements as f32 |
//! | `entries` | the entries |
//! | `append` | new keys of a paged cache, turned, with their values |
//!
//! **Sources**: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding,
//! arXiv:2104.09864; the layouts of FlashAttention's `apply_rotary_emb`.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests rotary::`, and
//! `compare.py rotary`.

// Arrays are indexed by what unrolled loops make constant: iterators over them would keep them in
// local memory.
#![allow(clippy::needless_range_loop)]

pub mod append;
mod coord;
pub mod entries;
mod lanes;
mod strided;
mod vectors;
