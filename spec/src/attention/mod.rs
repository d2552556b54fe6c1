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
//! | `simt` | the portable kernels |
//!
//! Nothing here panics, for any values: kernels that call it contain no trap.
//!
//! A query that sees no key gets o = 0 and lse = -inf (with a sink: the sink's logit).

mod lengths;
mod mask;
mod params;
mod simt;

pub use lengths::{FlashFwdLengths, Positions, Sequence, SequenceLengths};
pub use mask::{KeyBlocks, KeyRange, Mask, UNLIMITED};
pub use params::{BshStrides, FlashFwdParams, OutputDType};
pub use simt::{
    SIMT_DTYPES, SIMT_HEAD_DIMS, SIMT_TILE, SIMT_WIDE_TILE, SimtEntry, SimtFwdParams, TileConfig,
    simt_head_dim_cap, simt_tile,
};
