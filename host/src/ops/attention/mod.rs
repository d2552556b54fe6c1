//! Scaled dot-product attention.

pub(in crate::ops) mod block_mask;
pub(in crate::ops) mod call;
mod candidates;
mod costs;
mod decode;
pub(in crate::ops) mod desc;
pub(in crate::ops) mod extents;
pub(in crate::ops) mod factors;
mod lengths;
mod merge;
pub(in crate::ops) mod operands;
mod packing;
mod pages;
pub(in crate::ops) mod run;
mod scales;
pub(in crate::ops) mod score;
mod simt;
mod sm75;
pub(super) mod sm80;
pub(in crate::ops) mod sm90;
mod splits;

use crate::error::named;
use crate::ops::indices::Indices;
use crate::ops::plan::Desc as _;
use crate::{E4m3, Element, Error, Float, Result, Tensor};
use desc::AttentionDesc;
use std::marker::PhantomData;

pub use block_mask::{BlockMask, BlockMaskShape};
pub(in crate::ops) use costs::AttentionCosts;
pub use lengths::Lengths;
pub use merge::AttentionMerge;
pub use score::{AttentionBias, AttentionMask, ScoreFunction, ScoreTensor, ScoreValue};

/// Scaled dot-product attention, forward: `o = softmax(softmax_scale * q @ k^T + mask) @ v`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `q` | `[batch, seqlen_q, heads_q, head_dim]` | f32, f16, bf16 | any; see Performance |
/// | `k` | `[batch, seqlen_k, heads_kv, head_dim]` | as `q` | any; `heads_q % heads_kv == 0` |
/// | `v` | `[batch, seqlen_k, heads_kv, head_dim_v]` | as `q` | any |
/// | `o` (written) | `[batch, seqlen_q, heads_q, head_dim_v]` | as `q`, or set by [`output`](Self::output) | any where no two indices refer to one element; must not overlap an input |
/// | `lse` (written with [`lse`](Self::lse)) | `[batch, heads_q, seqlen_q]` | f32 | contiguous; natural log; `-inf` for a row with no visible key (then its `o` is 0) |
/// | [`sink`](Self::sink) (optional) | `[heads_q]` | f32 | any |
///
/// [`layout`](Self::layout) selects tensors with heads before positions, and
/// [`qkv_packed`](Self::qkv_packed) takes q, k and v from one tensor. Query head `h` attends to
/// key/value head `h / (heads_q / heads_kv)` (MQA and GQA). `head_dim` and `head_dim_v` are at most
/// 256 and need not be equal. On Hopper, f16 and bf16 may have `head_dim` up to 576 and `head_dim_v` up to
/// 512. Where `v` is a view of the first elements of `k`, as in MLA's absorbed form, keys are then read
/// once. `softmax_scale` is dimensionless and for the natural exponential; its
/// default is `1 / sqrt(head_dim)`.
///
/// # Masks
/// Query `i` sees key `j` if `i + shift - left <= j <= i + shift + right`, with the bounds of
/// [`window`](Self::window); [`causal`](Self::causal) sets `right` to 0. By default the mask is
/// aligned to the bottom-right corner: the last query is at the last key,
/// `shift = seqlen_k - seqlen_q`. With [`causal_top_left`](Self::causal_top_left) or
/// [`align_top_left`](Self::align_top_left), the first query is at the first key, `shift = 0`.
/// Causal masks for `seqlen_q = 2, seqlen_k = 5`, and for `3, 2` (1 = visible):
///
/// ```text
/// bottom-right  1 1 1 1 0    0 0      top-left  1 0 0 0 0    1 0
///               1 1 1 1 1    1 0                1 1 0 0 0    1 1
///                            1 1                             1 1
/// ```
///
/// # Sequences of different lengths
/// | option | effect |
/// |---|---|
/// | [`cu_seqlens`](Self::cu_seqlens) | sequences are packed: `q` is `[total_q, heads_q, head_dim]`, `k` and `v` are `[total_k, heads_kv, ..]`, `lse` is `[heads_q, total_q]`; sequence b is positions `cu[b]..cu[b + 1]` |
/// | [`seqused_q`](Self::seqused_q), [`seqused_k`](Self::seqused_k) | only this many positions of each sequence are used |
/// | [`leftpad_k`](Self::leftpad_k) | this many keys at the start of each sequence are padding; `seqused_k` includes them |
///
/// Queries and keys can be packed independently of each other. Lengths may be 0, and masks are
/// aligned to the actual lengths of each sequence. Unused positions are never read, so they may be
/// NaN. Rows of `o` and `lse` that belong to no sequence are not written; in tensors that `run`
/// creates they are 0 and `-inf`. Lengths on the host are checked. Lengths in device memory are
/// read when the kernel runs, so that they may change between replays of a captured CUDA graph. The
/// kernel clamps them to the tensors' extents. Sequences must not overlap.
///
/// # Paged keys and values
/// With [`pages`](Self::pages), `k` and `v` are pools of pages, and a table lists the pages of each
/// sequence, in any order. Sequences may share pages. A page has any number of positions. Entries
/// of the table for positions beyond a sequence's end are never read. A negative or too large entry
/// is read as the last page: the result is then useless, but no other memory is read.
/// `cu_seqlens_k` and `leftpad_k` are errors with pages. The fast kernels for few queries need
/// pages of a multiple of 16 positions. Hopper's kernels for long queries do not support pages. The
/// bits of a result are those of the same kernel and number of key splits without pages.
///
/// # Keys and values in e4m3
/// [`of_e4m3`](Attention::of_e4m3) takes `k` and `v` in e4m3, dense or in pages, beside `q` in f16 or bf16.
/// An element times its factor ([`k_scale`](Attention::k_scale), [`v_scale`](Attention::v_scale)) is the
/// key's or the value's. Products are in f16, which has all of e4m3. Queries in bf16 are multiplied by a
/// power of two for each row first; what is smaller than 2^-29 of a row's largest element is rounded. It
/// runs on sm_80 and newer, by conversions of sm_89 where there are some.
///
/// # Numerics
/// Scores and sums are in f32, with an online softmax in base 2; `o` is rounded once. Tensor-core
/// kernels round probabilities to the dtype of `v` (small ones of f16 to 0). A key that no query of its
/// sequence sees reaches nothing, whatever it, its value and the entry of its page hold. If only some
/// queries see a key, portable kernels keep its value from the others, too. Tensor-core kernels multiply
/// it by 0: if it is NaN or infinite, `o` is NaN in those rows of the same tile of queries that do not
/// see it. `lse` is right in every row. [`plan`](Self::plan) shows the tiles, and
/// [`with_kernel`](Self::with_kernel) selects a portable kernel. If scaled scores have a magnitude beyond
/// 1.4e9 (2^31 in base 2), the `o` of tensor-core kernels may be 0, infinite or NaN, and `lse` infinite.
/// Portable kernels have no such limit. Error bound:
/// [`reference::attention`](crate::reference::attention) with the [`model`](Self::model).
/// Deterministic: the same bits every run. The bits depend on the kernel and on the number of key
/// splits ([`plan`](Self::plan)), and thereby on the device.
///
/// # Batch invariance
/// With [`batch_invariant`](Self::batch_invariant), the bits of a row of `o` and `lse` depend on this
/// query, its head, and the keys and values that it sees. They do not depend on other queries of the
/// sequence, on other sequences, on the batch, or on the room in a table of pages. So a prompt and its
/// tokens one by one give the same. This holds for the same dtypes, head dimensions and options on one
/// kind of device. All keys are paged or none, rows begin at multiples of 16 bytes, and keys and values
/// are finite. Of the candidates one family remains:
///
/// - Keys in pages: the kernels for few queries, whatever the number of queries is. Keys are split
///   every 1,024, counted from the first (every 128th part of sequences beyond 131,072).
/// - Others: those of long queries (on Hopper by `wgmma`), without splits, so decoding is slow: keep
///   keys in pages for that.
/// - Others with a window, or causal from the top left: the portable kernels.
///
/// [`key_splits`](Self::key_splits) can only be 1.
///
/// On an H200 (bf16), decoding one sequence takes 1.1 times as long with keys in pages. Otherwise it
/// takes 6.3 times as long with 8,192 keys, and 11 times with 131,072. A prompt of 4,096 in pages takes
/// 1.5 times as long.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::Shape`], [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (head
/// dimensions or a kernel that do not exist), [`ArgumentError::Value`](crate::ArgumentError::Value)
/// (an invalid scale, softcap, length or number of parts),
/// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) (an extent that is too large),
/// [`Error::Device`]. No launch happens on error.
///
/// # Performance
/// Inputs are read in place if the stride of their last dimension is 1; otherwise they are copied
/// first. An `o` whose last stride is not 1 costs a copy as well. Lengths on the host are copied to
/// the device at each launch. If few queries of several heads share keys, the heads are packed into
/// one tile ([`pack_heads`](Self::pack_heads)). If that leaves SMs idle, the keys are split
/// ([`key_splits`](Self::key_splits)), which needs memory for partial results. [`plan`](Self::plan)
/// shows which kernel runs, and how. The first launch with a bias, a mask, a block mask, ALiBi or
/// a function of scores composes a kernel. This takes some milliseconds, so launch once before
/// capturing a CUDA graph. Others with the same options, whatever their sizes and numbers, use the same kernel.
///
/// # Sources
/// Dao, FlashAttention-2, arXiv:2307.08691; Shah et al., FlashAttention-3, arXiv:2407.08608;
/// Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Attention, Device, Scatter, Tensor};
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
/// let results = packed.lse().run(&stream)?;
/// assert_eq!((results.o.shape(), results.lse.shape()), (&[4, 4, 8][..], &[4, 4][..]));
///
/// // A paged cache of two sequences, in pages of 4 positions: sequence 0 has pages 2 and 0, sequence
/// // 1 has page 1. One key and value of each is appended, behind 5 and 2 that are there: at
/// // positions 5 % 4 of page 0 and 2 of page 1, whose rows are 0 * 4 + 1 and 1 * 4 + 2.
/// let pool = Tensor::full(&stream, &[3, 4, 2, 8], 0.25_f32)?;
/// let table = Tensor::from_slice(&device, &[2, 2], &[2, 0, 1, -1])?;
/// let rows = Tensor::from_slice(&device, &[2], &[1, 6])?;
/// let new = Tensor::full(&stream, &[2, 2, 8], 0.25_f32)?;
/// Scatter::new(&rows, &new).run_into(&pool.reshape(&[12, 2, 8])?, &stream)?;
/// let q = Tensor::full(&stream, &[2, 1, 4, 8], 0.5_f32)?;
/// let paged = Attention::new(&q, &pool, &pool).pages(&table).seqused_k(&[6, 3]);
/// assert_eq!(paged.run(&stream)?.to_vec()?, [0.25; 64]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Attention<'a, T: Float, Out: Float = T, Kv: Element = T> {
    pub(in crate::ops) q: Tensor<T>,
    pub(in crate::ops) k: Tensor<Kv>,
    pub(in crate::ops) v: Tensor<Kv>,
    pub(in crate::ops) options: Options<'a>,
    output: PhantomData<Out>,
}

/// An [`Attention`] whose results are o and lse; [`Attention::lse`] makes it.
#[derive(Clone, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct AttentionLse<'a, T: Float, Out: Float = T, Kv: Element = T>(Attention<'a, T, Out, Kv>);

/// The results of an [`AttentionLse`] or an [`AttentionMerge`].
#[derive(Clone, Debug)]
pub struct AttentionOutput<Out: Float> {
    /// The result itself.
    pub o: Tensor<Out>,
    /// Of each row, the natural logarithm of its sum of exponentials.
    pub lse: Tensor<f32>,
}

/// The options of an attention, whose documentation is that of their setters.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ops) struct Options<'a> {
    pub(in crate::ops) layout: Layout,
    causal: bool,
    top_left: bool,
    window: (Option<u32>, Option<u32>),
    softmax_scale: Option<f32>,
    pub(in crate::ops) softcap: Option<f32>,
    pub(in crate::ops) scores: score::ScoreOptions<'a>,
    pub(in crate::ops) sink: Option<&'a Tensor<f32>>,
    k_scale: Option<&'a Tensor<f32>>,
    v_scale: Option<&'a Tensor<f32>>,
    cu_seqlens_q: Option<Lengths<'a>>,
    cu_seqlens_k: Option<Lengths<'a>>,
    seqused_q: Option<Lengths<'a>>,
    seqused_k: Option<Lengths<'a>>,
    leftpad_k: Option<Lengths<'a>>,
    pages: Option<Indices<'a>>,
    max_seqlens: Option<(usize, usize)>,
    packs_heads: Option<bool>,
    key_splits: Option<u32>,
    batch_invariant: bool,
    kernel: Option<&'a str>,
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
    /// Attention of every query to every key, without a mask.
    pub fn new(q: &Tensor<T>, k: &Tensor<T>, v: &Tensor<T>) -> Self {
        Self::of(q, k, v)
    }

    /// Self-attention with q, k and v in one tensor: `[batch, seqlen, 3, heads, head_dim]`, or
    /// `[total, 3, heads, head_dim]` with [`cu_seqlens`](Self::cu_seqlens).
    ///
    /// # Errors
    /// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch) for another shape.
    pub fn qkv_packed(qkv: &Tensor<T>) -> Result<Self> {
        named(AttentionDesc::OPERATION, || {
            let axis = match *qkv.shape() {
                [_, _, 3, _, _] => 2,
                [_, 3, _, _] => 1,
                _ => {
                    let want = "[batch, seqlen, 3, heads, head_dim] or [total, 3, heads, head_dim]";
                    return Err(Error::shape("qkv", qkv.shape(), want));
                }
            };
            let part = |idx| qkv.index_axis(axis, idx);
            Ok(Self::new(&part(0)?, &part(1)?, &part(2)?))
        })
    }
}

impl<'a, T: Float> Attention<'a, T, T, E4m3> {
    /// Attention to keys and values in e4m3; q is f16 or bf16. See
    /// [Keys and values in e4m3](Attention#keys-and-values-in-e4m3).
    pub fn of_e4m3(q: &Tensor<T>, k: &Tensor<E4m3>, v: &Tensor<E4m3>) -> Self {
        Self::of(q, k, v)
    }
}

impl<'a, T: Float, Out: Float> Attention<'a, T, Out, E4m3> {
    /// Sets the factors of the keys (default 1), in device memory: one, `[heads_kv]`, or
    /// `[batch, heads_kv]`. A key is its elements times its factor.
    pub fn k_scale(mut self, scale: &'a Tensor<f32>) -> Self {
        self.options.k_scale = Some(scale);
        self
    }

    /// Sets the factors of the values, likewise.
    pub fn v_scale(mut self, scale: &'a Tensor<f32>) -> Self {
        self.options.v_scale = Some(scale);
        self
    }
}

impl<T: Float, Kv: Element> Attention<'_, T, T, Kv> {
    /// Attention without options.
    pub(in crate::ops) fn of(q: &Tensor<T>, k: &Tensor<Kv>, v: &Tensor<Kv>) -> Self {
        Self {
            q: q.clone(),
            k: k.clone(),
            v: v.clone(),
            options: Options::default(),
            output: PhantomData,
        }
    }
}

impl<'a, T: Float, Out: Float, Kv: Element> Attention<'a, T, Out, Kv> {
    /// Sets the dtype of `o`: f32, f16 or bf16 (default: that of `q`).
    pub fn output<O: Float>(self) -> Attention<'a, T, O, Kv> {
        Attention {
            q: self.q,
            k: self.k,
            v: self.v,
            options: self.options,
            output: PhantomData,
        }
    }

    /// Sets the factors of keys and values, which are in e4m3.
    pub(in crate::ops) fn with_scales(mut self, k: &'a Tensor<f32>, v: &'a Tensor<f32>) -> Self {
        self.options.k_scale = Some(k);
        self.options.v_scale = Some(v);
        self
    }

    /// Makes the result include lse. Set other options before it.
    pub fn lse(self) -> AttentionLse<'a, T, Out, Kv> {
        AttentionLse(self)
    }

    /// Sets the order of the dimensions of q, k, v and o (default [`Layout::Bshd`]).
    pub fn layout(mut self, layout: Layout) -> Self {
        self.options.layout = layout;
        self
    }

    /// Causal mask, aligned to the bottom-right corner: query `i` sees keys
    /// `j <= i + seqlen_k - seqlen_q` only.
    pub fn causal(mut self) -> Self {
        self.options.causal = true;
        self.options.top_left = false;
        self
    }

    /// Causal mask, aligned to the top-left corner: query `i` sees keys `j <= i` only.
    pub fn causal_top_left(mut self) -> Self {
        self.options.causal = true;
        self.options.top_left = true;
        self
    }

    /// Sliding window: a query sees at most `left` keys before and `right` keys after its own
    /// position; `None` is unlimited. With a causal mask, `right` has no effect.
    pub fn window(mut self, left: impl Into<Option<u32>>, right: impl Into<Option<u32>>) -> Self {
        self.options.window = (left.into(), right.into());
        self
    }

    /// Aligns the mask to the top-left corner (query 0 at key 0), for a [`window`](Self::window)
    /// without a causal mask.
    pub fn align_top_left(mut self) -> Self {
        self.options.top_left = true;
        self
    }

    /// Sets the factor of the scores (default `1 / sqrt(head_dim)`): a finite number with a
    /// magnitude up to about 2.35e38, f32's largest number divided by log2(e).
    pub fn softmax_scale(mut self, softmax_scale: f32) -> Self {
        self.options.softmax_scale = Some(softmax_scale);
        self
    }

    /// Soft-caps the scaled scores: `s` becomes `softcap * tanh(s / softcap)`. It must be positive.
    pub fn softcap(mut self, softcap: f32) -> Self {
        self.options.softcap = Some(softcap);
        self
    }

    /// Attention sink: an extra logit per query head, `[heads_q]`, which is added to the softmax
    /// denominator of every row and has no value; `-inf` disables it. `lse` includes it. Kernels may
    /// take a magnitude above 2.35e38, f32's largest number divided by log2(e), as infinite.
    pub fn sink(mut self, sink: &'a Tensor<f32>) -> Self {
        self.options.sink = Some(sink);
        self
    }

    /// Packed queries and packed keys, with `batch + 1` positions each: the start of each sequence,
    /// and the end of the last one.
    pub fn cu_seqlens(self, q: impl Into<Lengths<'a>>, k: impl Into<Lengths<'a>>) -> Self {
        self.cu_seqlens_q(q).cu_seqlens_k(k)
    }

    /// Packed queries; keys need not be packed. See [`cu_seqlens`](Self::cu_seqlens).
    pub fn cu_seqlens_q(mut self, cu_seqlens_q: impl Into<Lengths<'a>>) -> Self {
        self.options.cu_seqlens_q = Some(cu_seqlens_q.into());
        self
    }

    /// Packed keys; queries need not be packed. See [`cu_seqlens`](Self::cu_seqlens).
    pub fn cu_seqlens_k(mut self, cu_seqlens_k: impl Into<Lengths<'a>>) -> Self {
        self.options.cu_seqlens_k = Some(cu_seqlens_k.into());
        self
    }

    /// Sets upper bounds of the lengths of packed sequences, in queries and keys. They are computed
    /// from `cu_seqlens` on the host. With `cu_seqlens` on the device, the default bound is the
    /// total number of positions, which costs blocks without work. Queries beyond the bound are
    /// not computed. If only queries or only keys are packed, the other bound is ignored. If
    /// neither are packed, setting the bounds is an error.
    pub fn max_seqlens(mut self, q: usize, k: usize) -> Self {
        self.options.max_seqlens = Some((q, k));
        self
    }

    /// Number of queries of each sequence that are used, `[batch]`.
    pub fn seqused_q(mut self, seqused_q: impl Into<Lengths<'a>>) -> Self {
        self.options.seqused_q = Some(seqused_q.into());
        self
    }

    /// Number of keys of each sequence that are used, including left padding, `[batch]`.
    pub fn seqused_k(mut self, seqused_k: impl Into<Lengths<'a>>) -> Self {
        self.options.seqused_k = Some(seqused_k.into());
        self
    }

    /// Number of padding keys at the start of each sequence, `[batch]`.
    pub fn leftpad_k(mut self, leftpad_k: impl Into<Lengths<'a>>) -> Self {
        self.options.leftpad_k = Some(leftpad_k.into());
        self
    }

    /// Paged keys and values. `k` and `v` are pools, `[pages, page_size, heads_kv, ..]` (with
    /// [`Layout::Bhsd`] `[pages, heads_kv, page_size, ..]`), and `table`, `[batch, n]`, names the
    /// pages of each sequence: its key `j` is position `j % page_size` of page
    /// `table[b, j / page_size]`. [`seqused_k`](Self::seqused_k) says how many keys each sequence
    /// has; otherwise all have `n * page_size`. See [`Attention`].
    pub fn pages(mut self, table: impl Into<Indices<'a>>) -> Self {
        self.options.pages = Some(table.into());
        self
    }

    /// Whether query heads that share a key/value head are packed into one tile of queries (GQA
    /// packing), so that the tile reads the keys once for all of them. By default they are packed
    /// where that is estimated to be faster ([`plan`](Self::plan) shows it). `run` fails with
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) if no kernel supports the
    /// requested value.
    pub fn pack_heads(mut self, packs: bool) -> Self {
        self.options.packs_heads = Some(packs);
        self
    }

    /// Sets the number of key splits (split-KV), 1 to 128; 1 does not split. Different blocks
    /// compute the splits, and a merge adds their results in order. By default the plan chooses the
    /// number with the least estimated time. `run` fails with
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) for other numbers, and with
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) if no kernel supports it.
    pub fn key_splits(mut self, splits: u32) -> Self {
        self.options.key_splits = Some(splits);
        self
    }

    /// Whether the bits of a row of `o` and `lse` depend on this query, its head and its keys alone
    /// (default false): see [Batch invariance](Attention#batch-invariance).
    pub fn batch_invariant(mut self, batch_invariant: bool) -> Self {
        self.options.batch_invariant = batch_invariant;
        self
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or the best one of the entry
    /// with this name, or fails with
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported).
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.options.kernel = Some(name);
        self
    }
}
