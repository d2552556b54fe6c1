//! Attention: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, online softmax.
//!
//! Every forward entry takes `(q: *const T, k: *const T, v: *const T, o: *mut u8, lse: *mut f32,
//! sink: *const f32, lengths: FlashFwdLengths, params: FlashFwdParams)`; what a family demands
//! beyond, and how it is launched, stands with the family. Null stands for an `lse` that is not
//! wanted and for a `sink` that there is not.
//!
//! | file | what |
//! |---|---|
//! | `params` | extents, strides and scalars of a launch |
//! | `lengths` | sequences of different lengths: where each lies, how long it is |
//! | `mask` | which keys a query sees, and which blocks of keys a tile of queries visits |
//! | `packing` | heads side by side in a tile, keys in parts |
//! | `simt` | the portable kernels |
//! | [`sm80`], [`sm75`] | kernels by `mma.sync` |
//! | [`merge`] | two partial results as one |
//!
//! Nothing here panics, for any values: kernels that call it contain no trap.
//!
//! A query that sees no key gets o = 0 and lse = -inf (with a sink: the sink's logit).

mod lengths;
mod mask;
pub mod merge;
mod packing;
mod params;
mod simt;
pub mod sm75;
pub mod sm80;
pub mod sm90;

pub use lengths::{FlashFwdLengths, Positions, Sequence, SequenceLengths};
pub use mask::{KeyBlocks, KeyRange, Mask, UNLIMITED};
pub use packing::{FwdPacking, MOST_PACKED_HEADS, MOST_SPLITS, packed_heads};
pub use params::{BshStrides, FlashFwdParams, OutputDType};
pub use simt::{
    SIMT_DTYPES, SIMT_HEAD_DIMS, SIMT_TILE, SIMT_WIDE_TILE, SimtEntry, TileConfig,
    simt_head_dim_cap, simt_tile,
};

/// Largest absolute error of the tanh of a softcap in the portable kernels, rounding of its argument
/// included: 0.45 · 3 · 2^-24 of the argument, 2^-24 each of the exponential, the sum and the quotient,
/// 2^-25 of the difference.
pub const SOFTCAP_TANH_ERROR: f64 = 3e-7;
