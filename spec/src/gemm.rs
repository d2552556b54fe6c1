//! GEMM: `D[m, n] = alpha * op(A)[m, k] @ op(B)[k, n] + beta * C[m, n]`, batched.
//!
//! Portable SIMT entries are named `gemm_simt_<in>[_<out>]_<layout>_<tile>`, for example
//! `gemm_simt_f32_nt_128x128x16` or `gemm_simt_bf16_f32_nn_64x64x16`; `<out>` stands there where
//! it is not `<in>`. Each takes `(a: *const In, b: *const In, c: *const Out, d: *mut Out,
//! params: GemmParams)`.

/// How one operand lies in memory, the letters of a layout (`nt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transpose {
    /// Row-major as the operation reads it: A is `[m, k]` with k contiguous, B `[k, n]` with n
    /// contiguous.
    N,
    /// Stored transposed: A is `[k, m]` with m contiguous, B `[n, k]` with k contiguous.
    T,
}

impl Transpose {
    /// `n` or `t`.
    pub const fn letter(self) -> char {
        match self {
            Self::N => 'n',
            Self::T => 't',
        }
    }
}

/// Tile of one thread block and how its threads share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileConfig {
    /// Rows of D a block computes.
    pub tile_m: u32,
    /// Columns of D a block computes.
    pub tile_n: u32,
    /// Depth of k staged in shared memory at once.
    pub tile_k: u32,
    /// Threads of the block.
    pub threads: u32,
}

/// For large products: fills a multiprocessor with 8×8 results a thread.
pub const SIMT_LARGE: TileConfig = TileConfig {
    tile_m: 128,
    tile_n: 128,
    tile_k: 16,
    threads: 256,
};

/// For small products, where large tiles would leave multiprocessors idle.
pub const SIMT_SMALL: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: 16,
    threads: 256,
};

/// Scalars and strides of one launch. Grid: x = tiles of D (`m_tiles * n_tiles`, order is the
/// kernel's), y = batch (at most 65,535; the kernel strides over the rest).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmParams {
    /// Rows of D.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Reduction length.
    pub k: u32,
    /// Number of products.
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
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C; at 0, C is never read.
    pub beta: f32,
}
