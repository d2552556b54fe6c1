//! Elementwise operations over strided tensors of rank up to [`MAX_RANK`], with broadcasting by
//! stride 0.
//!
//! | entry | parameters |
//! |---|---|
//! | `dense_<inputs>x<chunks>` | `(y: *mut u8, a, b, c, d: *const u8, params: DenseParams)` |
//! | `strided_<inputs>x<chunks>` | `(y: *mut u8, a, b, c, d: *const u8, params: StridedParams)` |
//! | `copy_b<8, 16, 32, 64, 128>` | `(x: *const uN, y: *mut uN, params: WalkParams)` |
//! | `transpose_b<8, 16, 32, 64>` | `(x: *const u8, y: *mut u8, params: TransposeParams)` |
//!
//! The first two are skeletons, which the host fills with functions ([`FusedEntry`]). Arithmetic is
//! in f32, f64, i32 or i64 ([`Arithmetic`]), rounded once to the output. Elements of y must not
//! overlap inputs, but y may be an input with the same strides.

mod chain;
mod functions;
mod fused;
mod transpose;
mod walk;

pub use chain::{Arithmetic, CHAIN_DTYPES, MAX_INPUTS, MAX_KEPT, MAX_STEPS};
pub use functions::{BinaryOp, GradOp, UnaryOp};
pub use fused::{CHUNK_BYTES, DenseParams, FusedEntry, StridedParams};
pub use transpose::{TransposeEntry, TransposeParams};
pub use walk::{CopyEntry, WalkParams};

/// Most dimensions a launch handles, after the host has merged those it can.
pub const MAX_RANK: usize = 8;

/// Threads of a block.
pub const THREADS: u32 = 128;

/// Elements that a thread handles, in a kernel made with `cuda_std::map::map`.
pub const GROUP: u32 = 8;

/// Most elements of one launch: indices and their division stay within 31 bits. The host splits
/// larger tensors.
pub const MAX_LEN: u64 = 1 << 30;

/// Blocks of a launch over `len` elements, `per_thread` for each thread. No launch is needed if
/// `len` is 0.
pub const fn grid_blocks(len: u64, per_thread: u32) -> u32 {
    let blocks = len.div_ceil(THREADS as u64 * per_thread as u64);
    if blocks == 0 { 1 } else { blocks as u32 }
}
