//! Attention: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, by online softmax.
//!
//! Every forward entry takes `(q: *const T, k: *const T, v: *const T, o: *mut u8, lse: *mut f32,
//! sink: *const f32, lengths: FlashFwdLengths, params: FlashFwdParams)`; Hopper's take tensor maps
//! instead of `q`, `k` and `v`. The module of a family states what else it requires, and how it is
//! launched. `lse` is null if it is not wanted, `sink` if there is none. Entries of the families
//! that take paged keys have `pages: FlashFwdPages` as their last argument.
//!
//! | file | what |
//! |---|---|
//! | `params` | extents, strides and scalars of a launch |
//! | `lengths` | sequences of different lengths: where each begins, how long it is |
//! | `pages` | paged keys and values |
//! | `mask` | which keys a query sees, and which blocks of keys a tile of queries visits |
//! | [`blocks`] | block masks |
//! | `packing` | GQA packing and split-KV |
//! | `simt` | the portable kernels |
//! | [`sm90`] | kernels by TMA and `wgmma` |
//! | [`sm80`], [`sm75`] | kernels by `mma.sync` |
//! | [`decode`] | kernels for few queries, by `mma.sync` |
//! | [`merge`] | merges partial results |
//!
//! Nothing here panics, for any values, so kernels that call it contain no trap.
//!
//! A query that sees no key gets o = 0 and lse = -inf (with a sink: the sink's logit).

pub mod blocks;
pub mod decode;
pub mod dropout;
mod lengths;
pub(crate) mod mask;
pub mod merge;
mod packing;
mod pages;
pub(crate) mod params;
mod simt;
pub mod sm75;
pub mod sm80;
pub mod sm90;

pub use crate::OutputDType;
pub use lengths::{FlashFwdLengths, Positions, Sequence, SequenceLengths};
pub use mask::{KeyBlocks, KeyRange, Mask, UNLIMITED};
pub use packing::{FwdPacking, MOST_PACKED_HEADS, MOST_SPLITS, packed_heads};
pub use pages::{FlashFwdPages, PagePosition};
pub use params::{BshStrides, FlashFwdParams};
pub use simt::{SIMT_DTYPES, SIMT_TILE, SIMT_WIDE_TILE, SimtEntry, TileConfig};

/// Largest absolute error of a softcap's tanh in the portable kernels, including the rounding of
/// its argument. It is 0.45 · 3 · 2^-24 from the argument, 2^-24 each from the exponential, the sum
/// and the quotient, and 2^-25 from the difference.
pub const SOFTCAP_TANH_ERROR: f64 = 3e-7;
