//! Attention.

mod call;
mod candidates;
mod desc;
mod extents;
mod lengths;
mod merge;
mod packing;
mod plan;
mod run;
mod simt;
mod sm75;
mod sm80;
mod sm90;

use crate::ops::cleared::Cleared;
use crate::{Error, Float, Result, Tensor};
use std::marker::PhantomData;

pub use lengths::Lengths;
pub use merge::merge_attention;
pub use plan::{AttentionCandidate, AttentionPlan};

/// What a device remembers of attention.
#[derive(Default)]
pub(crate) struct AttentionState {
    /// Of tiles that blocks have taken, one for each stream.
    counters: Cleared,
}

/// Scaled dot-product attention, forward: `o = softmax(softmax_scale * q @ k^T + mask) @ v`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `q` | `[batch, seqlen_q, heads_q, head_dim]` | f32, f16, bf16 | any; see Performance |
/// | `k` | `[batch, seqlen_k, heads_kv, head_dim]` | as `q` | any; `heads_q % heads_kv == 0` |
/// | `v` | `[batch, seqlen_k, heads_kv, head_dim_v]` | as `q` | any |
/// | `o` (written) | `[batch, seqlen_q, heads_q, head_dim_v]` | as `q`, or as [`output`](Self::output) says | any that give each element a place of its own; must not overlap an input |
/// | `lse` (written) | `[batch, heads_q, seqlen_q]` | f32 | contiguous; natural log; `-inf` for a row with no visible key (then its `o` is 0) |
/// | [`sink`](Self::sink) | `[heads_q]` | f32 | any |
///
/// [`layout`](Self::layout) tells of tensors with heads before positions,
/// [`qkv_packed`](Self::qkv_packed) takes all three out of one, and any view will do. Query head `h`
/// attends to key head `h / (heads_q / heads_kv)`. `head_dim` and `head_dim_v` are at most 256 and need
/// not be equal. `softmax_scale`: dimensionless, natural base; `1 / sqrt(head_dim)` if not said.
///
/// # Masks
/// Query `i` sees key `j` where `i + shift - left <= j <= i + shift + right`, with the bounds of
/// [`window`](Self::window), of which [`causal`](Self::causal) sets `right` to 0. By default the last
/// query is at the last key, `shift = seqlen_k - seqlen_q`; with
/// [`causal_top_left`](Self::causal_top_left) the first is at the first, `shift = 0`. Causal, for
/// `seqlen_q = 2, seqlen_k = 5` and for `3, 2` (1 = visible):
///
/// ```text
/// bottom-right  1 1 1 1 0    0 0      top-left  1 0 0 0 0    1 0
///               1 1 1 1 1    1 0                1 1 0 0 0    1 1
///                            1 1                             1 1
/// ```
///
/// # Sequences of different lengths
/// | given | means |
/// |---|---|
/// | [`cu_seqlens`](Self::cu_seqlens) | sequences are packed: `q` is `[total_q, heads_q, head_dim]`, `k` and `v` `[total_k, heads_kv, ..]`, `lse` `[heads_q, total_q]`; sequence b is positions `cu[b]..cu[b + 1]` |
/// | [`seqused_q`](Self::seqused_q), [`seqused_k`](Self::seqused_k) | only so many positions of each sequence are there |
/// | [`leftpad_k`](Self::leftpad_k) | so many keys at the front of each sequence are not; `seqused_k` counts them |
///
/// Queries and keys may be packed or not independently, lengths may be 0, and masks follow each
/// sequence's own. What is not there is never read: it may be NaN. Rows of `o` and `lse` that belong
/// to no sequence keep what they hold; those of new tensors are 0 and `-inf`. Lengths given on the
/// host are checked. Those in device memory are read when the kernel runs, so that a captured graph
/// may change them; they are cut to what the tensors hold, and sequences must not overlap.
///
/// # Numerics
/// Scores and sums in f32, online softmax in base 2; `o` is rounded once. Kernels with tensor cores
/// round probabilities to the dtype of `v` (small ones of f16 to 0), and a NaN or an infinity in the value
/// of a key that only some queries see may show in the others; the portable kernels never multiply it.
/// Error bound:
/// [`reference::attention`](crate::reference::attention) with what [`model`](Self::model) says.
/// Deterministic: the same bits every run; which, depends on the kernel and on how many parts keys are
/// taken in ([`plan`](Self::plan)), and so on the device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::ShapeMismatch`], [`Error::LengthMismatch`], [`Error::Unsupported`] (head_dim above 256,
/// a kernel that there is not), [`Error::InvalidValue`] (a scale, softcap or length that makes no
/// sense), [`Error::StrideMismatch`], [`Error::Overlap`], [`Error::DeviceMismatch`],
/// [`Error::OutOfBounds`] (an extent that is too large), [`Error::OutOfMemory`], [`Error::Driver`]. No
/// launch happens on error.
///
/// # Performance
/// Inputs are read where they lie as long as the stride of their last dimension is 1; else they
/// are copied first, once over the tensor. An `o` whose last stride is not 1 costs a copy as well.
/// Lengths given on the host are copied to the device each time. Where few queries of several heads share
/// keys, the heads lie side by side ([`pack_heads`](Self::pack_heads)); where that leaves multiprocessors
/// idle, keys are taken in parts ([`key_splits`](Self::key_splits)), which takes memory for the parts.
/// [`plan`](Self::plan) shows which kernel runs, and how.
///
/// # Sources
/// Dao, FlashAttention-2, arXiv:2307.08691; Milakov and Gimelshein, Online normalizer calculation
/// for softmax, arXiv:1805.02867.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Attention, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let q = Tensor::full(&stream, &[1, 2, 4, 8], 0.5_f32)?;
/// let kv = Tensor::full(&stream, &[1, 3, 2, 8], 0.25_f32)?;
/// let o = Attention::new(&q, &kv, &kv).causal().run(&stream)?;
/// assert_eq!(o.to_vec()?, [0.25; 64]);
///
/// // Two sequences, of 1 and 3 queries and of 4 and 2 keys, one behind the other.
/// let q = Tensor::full(&stream, &[4, 4, 8], 0.5_f32)?;
/// let kv = Tensor::full(&stream, &[6, 2, 8], 0.25_f32)?;
/// let packed = Attention::new(&q, &kv, &kv).cu_seqlens(&[0, 1, 4], &[0, 4, 6]);
/// let (o, lse) = packed.run_with_lse(&stream)?;
/// assert_eq!((o.shape(), lse.shape()), (&[4, 4, 8][..], &[4, 4][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed until `run`, `run_with_lse` or `run_into`"]
pub struct Attention<'a, T: Float, Out: Float = T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    layout: Layout,
    causal: bool,
    top_left: bool,
    window: (Option<u32>, Option<u32>),
    softmax_scale: Option<f32>,
    softcap: Option<f32>,
    sink: Option<&'a Tensor<f32>>,
    cu_seqlens_q: Option<Lengths<'a>>,
    cu_seqlens_k: Option<Lengths<'a>>,
    seqused_q: Option<Lengths<'a>>,
    seqused_k: Option<Lengths<'a>>,
    leftpad_k: Option<Lengths<'a>>,
    max_seqlens: Option<(usize, usize)>,
    packs_heads: Option<bool>,
    key_splits: Option<u32>,
    kernel: Option<&'a str>,
    output: PhantomData<Out>,
}

/// Order of the dimensions of q, k, v and o.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// `[batch, seqlen, heads, head_dim]`, packed `[total, heads, head_dim]`.
    #[default]
    Bshd,
    /// `[batch, heads, seqlen, head_dim]`, packed `[heads, total, head_dim]`.
    Bhsd,
}

impl<T: Float> Attention<'_, T> {
    /// Attention of every query to every key.
    pub fn new(q: &Tensor<T>, k: &Tensor<T>, v: &Tensor<T>) -> Self {
        Self {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            layout: Layout::default(),
            causal: false,
            top_left: false,
            window: (None, None),
            softmax_scale: None,
            softcap: None,
            sink: None,
            cu_seqlens_q: None,
            cu_seqlens_k: None,
            seqused_q: None,
            seqused_k: None,
            leftpad_k: None,
            max_seqlens: None,
            packs_heads: None,
            key_splits: None,
            kernel: None,
            output: PhantomData,
        }
    }

    /// Attention among q, k and v of one tensor: `[batch, seqlen, 3, heads, head_dim]`, or `[total, 3,
    /// heads, head_dim]` for [`cu_seqlens`](Self::cu_seqlens).
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] where it is not of such a shape.
    pub fn qkv_packed(qkv: &Tensor<T>) -> Result<Self> {
        let axis = match *qkv.shape() {
            [_, _, 3, _, _] => 2,
            [_, 3, _, _] => 1,
            _ => {
                return Err(Error::ShapeMismatch {
                    operand: "qkv",
                    got: qkv.shape().into(),
                    want: "[batch, seqlen, 3, heads, head_dim] or [total, 3, heads, head_dim]"
                        .into(),
                });
            }
        };
        let part = |idx| qkv.index_axis(axis, idx);
        Ok(Self::new(&part(0)?, &part(1)?, &part(2)?))
    }
}

impl<'a, T: Float, Out: Float> Attention<'a, T, Out> {
    /// Writes o as another type than that of q: f32, f16 or bf16.
    pub fn output<O: Float>(self) -> Attention<'a, T, O> {
        Attention {
            q: self.q,
            k: self.k,
            v: self.v,
            layout: self.layout,
            causal: self.causal,
            top_left: self.top_left,
            window: self.window,
            softmax_scale: self.softmax_scale,
            softcap: self.softcap,
            sink: self.sink,
            cu_seqlens_q: self.cu_seqlens_q,
            cu_seqlens_k: self.cu_seqlens_k,
            seqused_q: self.seqused_q,
            seqused_k: self.seqused_k,
            leftpad_k: self.leftpad_k,
            max_seqlens: self.max_seqlens,
            packs_heads: self.packs_heads,
            key_splits: self.key_splits,
            kernel: self.kernel,
            output: PhantomData,
        }
    }

    /// Order of the dimensions of q, k, v and o; [`Layout::Bshd`] if not said.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Query `i` sees keys `j <= i + seqlen_k - seqlen_q` only.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self.top_left = false;
        self
    }

    /// Query `i` sees keys `j <= i` only.
    pub fn causal_top_left(mut self) -> Self {
        self.causal = true;
        self.top_left = true;
        self
    }

    /// Query `i` sees no more than `left` keys before and `right` keys after the one it is at; `None`
    /// is all. Beside causal, `right` has no effect.
    pub fn window(mut self, left: impl Into<Option<u32>>, right: impl Into<Option<u32>>) -> Self {
        self.window = (left.into(), right.into());
        self
    }

    /// Puts query 0 at key 0 for a [`window`](Self::window) without causal.
    pub fn align_top_left(mut self) -> Self {
        self.top_left = true;
        self
    }

    /// Factor of the scores instead of `1 / sqrt(head_dim)`. Any finite number up to f32's largest over
    /// log2(e), about 2.35e38.
    pub fn softmax_scale(mut self, softmax_scale: f32) -> Self {
        self.softmax_scale = Some(softmax_scale);
        self
    }

    /// Bounds scores: `s` becomes `softcap * tanh(s / softcap)`. Positive.
    pub fn softcap(mut self, softcap: f32) -> Self {
        self.softcap = Some(softcap);
        self
    }

    /// An extra logit of each query head, `[heads_q]`, that takes part in every row's sum and has no
    /// value; `-inf` is none. `lse` counts it.
    pub fn sink(mut self, sink: &'a Tensor<f32>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Packed queries and packed keys, `batch + 1` positions each: where each sequence begins, and
    /// where the last one ends.
    pub fn cu_seqlens(self, q: impl Into<Lengths<'a>>, k: impl Into<Lengths<'a>>) -> Self {
        self.cu_seqlens_q(q).cu_seqlens_k(k)
    }

    /// Packed queries, beside keys that need not be.
    pub fn cu_seqlens_q(mut self, cu_seqlens_q: impl Into<Lengths<'a>>) -> Self {
        self.cu_seqlens_q = Some(cu_seqlens_q.into());
        self
    }

    /// Packed keys, beside queries that need not be.
    pub fn cu_seqlens_k(mut self, cu_seqlens_k: impl Into<Lengths<'a>>) -> Self {
        self.cu_seqlens_k = Some(cu_seqlens_k.into());
        self
    }

    /// The most queries and keys of a packed sequence. Found where `cu_seqlens` are on the host; where
    /// they are on the device all positions are taken for one sequence if not said, which costs blocks
    /// that do nothing. Queries beyond are not computed.
    pub fn max_seqlens(mut self, q: usize, k: usize) -> Self {
        self.max_seqlens = Some((q, k));
        self
    }

    /// Queries of each sequence that are there, `batch` of them.
    pub fn seqused_q(mut self, seqused_q: impl Into<Lengths<'a>>) -> Self {
        self.seqused_q = Some(seqused_q.into());
        self
    }

    /// Keys of each sequence that are there, left padding included, `batch` of them.
    pub fn seqused_k(mut self, seqused_k: impl Into<Lengths<'a>>) -> Self {
        self.seqused_k = Some(seqused_k.into());
        self
    }

    /// Keys at the front of each sequence that are not there, `batch` of them.
    pub fn leftpad_k(mut self, leftpad_k: impl Into<Lengths<'a>>) -> Self {
        self.leftpad_k = Some(leftpad_k.into());
        self
    }

    /// Whether query heads that share a key head lie side by side in a tile of queries, so that its keys are
    /// read once for all of them. If not said, they do where that is expected to be faster
    /// ([`plan`](Self::plan) shows it). `run` fails with [`Error::Unsupported`] where no kernel does as
    /// asked.
    pub fn pack_heads(mut self, packs: bool) -> Self {
        self.packs_heads = Some(packs);
        self
    }

    /// In how many parts keys are taken, by blocks of their own whose results are merged, in order; 1 is
    /// not at all. If not said, as many as are expected to be fastest. `run` fails with
    /// [`Error::Unsupported`] where no kernel does as asked.
    pub fn key_splits(mut self, splits: u32) -> Self {
        self.key_splits = Some(splits);
        self
    }

    /// Runs that candidate of [`plan`](Self::plan), or fails with [`Error::Unsupported`].
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }
}
