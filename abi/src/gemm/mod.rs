//! GEMM: `D[m, n] = alpha * op(A)[m, k] @ op(B)[k, n] + beta * C[m, n]`, batched, and what may
//! follow it in the same kernel ([`epilogue`]).

pub mod decode;
mod double;
pub mod epilogue;
mod finish;
mod grouped;
pub mod integer;
mod mma;
mod order;
pub mod ragged;
pub mod raster;
mod simt;
pub mod sm90;
pub mod stream_k;

pub use double::{
    DOUBLE_K, DOUBLE_LARGE, DOUBLE_SIMT, DOUBLE_SMALL, DOUBLE_STAGES, DoubleEntry, DoubleParams,
    DoubleProduct, double_pitch, double_stage,
};
pub use epilogue::{Activation, EpilogueParams};
pub use finish::{FINISH_THREADS, FinishEntry, finish_blocks};
pub use grouped::{GROUPED_ENTRY, GROUPED_TILE, GroupedParams, grouped_grid, grouped_row_tiles};
pub use mma::{
    MMA_ADA, MMA_LARGE, MMA_SMALL, MMA_STEP_BYTES, MMA_TURING, MmaEntry, MmaTile, OperandMap,
};
pub use simt::{GRID_Y_MAX, SIMT_LARGE, SIMT_SMALL, SimtEntry, TileConfig, batch_idx};

use crate::entry::Parts;
use crate::kernel_param;

/// How one operand is stored: the letters of a layout (`nt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Row-major as the operation reads it: A is `[m, k]` with k contiguous, B `[k, n]` with n
    /// contiguous.
    N,
    /// Stored transposed: A is `[k, m]` with m contiguous, B `[n, k]` with k contiguous.
    T,
}

impl Transpose {
    /// Both.
    pub const ALL: [Self; 2] = [Self::N, Self::T];

    /// `n` or `t`.
    pub const fn letter(self) -> char {
        match self {
            Self::N => 'n',
            Self::T => 't',
        }
    }

    /// Whether it is [`N`](Self::N).
    pub const fn is_n(self) -> bool {
        matches!(self, Self::N)
    }

    /// That of B, where A is row-major: `nn` or `nt`.
    pub(crate) const fn of_b(parts: &mut Parts) -> Self {
        let [trans_a, trans_b] = Self::of_layout(parts);
        assert!(trans_a.is_n(), "an entry's A is not row-major");
        trans_b
    }

    /// Those of A and B, which stand in a name as `nt`.
    pub(crate) const fn of_layout(parts: &mut Parts) -> [Self; 2] {
        use Transpose::{N, T};
        if parts.take("nn") {
            [N, N]
        } else if parts.take("nt") {
            [N, T]
        } else if parts.take("tn") {
            [T, N]
        } else {
            parts.expect("tt");
            [T, T]
        }
    }
}

kernel_param! {
    /// Scalars and strides of one launch.
    #[derive(Debug, PartialEq)]
    pub struct GemmParams {
        /// Rows of D.
        pub m: u32,
        /// Columns of D.
        pub n: u32,
        /// Reduction length.
        pub k: u32,
        /// Number of matrices in the batch.
        pub batch: u32,
        /// Elements between consecutive rows of A as stored (`[m, k]` for `N`, `[k, m]` for `T`).
        pub lda: i64,
        /// Elements between consecutive rows of B as stored (`[k, n]` for `N`, `[n, k]` for `T`).
        pub ldb: i64,
        /// Elements between consecutive rows of C.
        pub ldc: i64,
        /// Elements between consecutive rows of D.
        pub ldd: i64,
        /// Elements between consecutive A of the batch; 0 broadcasts.
        pub batch_stride_a: i64,
        /// Elements between consecutive B of the batch; 0 broadcasts.
        pub batch_stride_b: i64,
        /// Elements between consecutive C of the batch; 0 broadcasts.
        pub batch_stride_c: i64,
        /// Elements between consecutive D of the batch.
        pub batch_stride_d: i64,
        /// Factor of `A @ B`, by IEEE rules: 0 still reads A and B, and 0 × ∞ is NaN. Of results in i32 the
        /// bits of an i32, as in `beta`: see [`integer`].
        pub alpha: f32,
        /// Factor of C; at 0, C is never read.
        pub beta: f32,
    }
}
