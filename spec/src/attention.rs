//! Attention: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, online softmax.
//!
//! Portable SIMT entries: `flash_fwd_simt_<dtype>_d<head_dim cap>` with caps [`SIMT_HEAD_DIMS`];
//! each takes `(q: *const T, k: *const T, v: *const T, o: *mut T, lse: *mut f32,
//! params: FlashFwdParams)` and serves any head_dim and head_dim_v up to its cap.

/// The head_dim caps that the portable kernels are built for.
pub const SIMT_HEAD_DIMS: [u32; 3] = [64, 128, 256];

/// Element strides of a `[batch, seqlen, heads, head_dim]` tensor whose last dimension is
/// contiguous.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BshStrides {
    /// Between batches.
    pub batch: i64,
    /// Between positions.
    pub seq: i64,
    /// Between heads.
    pub head: i64,
}

/// Extents, strides and scalars of one forward launch. Grid: x = query tiles, y = heads_q,
/// z = batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashFwdParams {
    /// Independent sequences.
    pub batch: u32,
    /// Queries a sequence.
    pub seqlen_q: u32,
    /// Keys a sequence.
    pub seqlen_k: u32,
    /// Query heads; a multiple of `heads_kv`.
    pub heads_q: u32,
    /// Key and value heads.
    pub heads_kv: u32,
    /// Extent of a query and a key.
    pub head_dim: u32,
    /// Extent of a value.
    pub head_dim_v: u32,
    /// 1: query i sees keys j <= i + seqlen_k - seqlen_q; 0: all.
    pub causal: u32,
    /// Strides of q.
    pub q: BshStrides,
    /// Strides of k.
    pub k: BshStrides,
    /// Strides of v.
    pub v: BshStrides,
    /// Strides of o.
    pub o: BshStrides,
    /// softmax_scale * log2(e).
    pub softmax_scale_log2: f32,
    /// 1: write lse, `[batch, heads_q, seqlen_q]` contiguous, natural log.
    pub write_lse: u32,
}
