//! Gradients of scaled dot-product attention.

mod bias;
mod call;
mod candidates;
mod costs;
mod desc;
mod run;
mod simt;
mod sm80;
mod sm90;

use crate::ops::attention::{
    Attention, AttentionBias, AttentionMask, BlockMask, Layout, Lengths, ScoreFunction,
};
use crate::ops::indices::Indices;
use crate::{Float, Tensor};
pub(in crate::ops) use costs::AttentionGradCosts;

/// Gradients of an [`Attention`]: `dq`, `dk`, `dv`, and `d_sink`, the gradient of its sinks. They
/// are computed from `q`, `k`, `v`, the forward's `o` and `lse`, and `d_o`, the gradient with
/// respect to `o`.
///
/// With `S = softmax_scale * q @ k^T` (with a softcap c: `c tanh(S / c)`), `P = exp(S - lse)` of the
/// pairs that the mask leaves, and `delta` the sums of `o * d_o` along `head_dim_v`:
///
/// ```text
/// dv = P^T @ d_o      dS = P * (d_o @ v^T - delta), with a softcap times 1 - (S / c)^2
/// dq = softmax_scale * dS @ k      dk = softmax_scale * dS^T @ q
/// d_sink = -sum of exp(sink - lse) * delta over the queries of a head in all sequences
/// ```
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `q` | `[batch, seqlen_q, heads_q, head_dim]` | f32, f16, bf16 | any; see Performance |
/// | `k` | `[batch, seqlen_k, heads_kv, head_dim]` | as `q` | any; `heads_q % heads_kv == 0` |
/// | `v` | `[batch, seqlen_k, heads_kv, head_dim_v]` | as `q` | any |
/// | `o`, `d_o` | `[batch, seqlen_q, heads_q, head_dim_v]` | as `q` | any |
/// | `lse` | `[batch, heads_q, seqlen_q]`, as [`Attention::lse`] returns it | f32 | any |
/// | [`sink`](Self::sink) (optional) | `[heads_q]` | f32 | any |
/// | `dq`, `dk`, `dv` (written) | as `q`, `k` and `v` | as `q` | any where no two indices refer to one element; must not overlap an input or each other |
/// | `d_sink` (written if it is asked for) | as `sink` | f32 | likewise |
/// | `d_bias` (written if it is asked for) | as [`bias`](Self::bias) | f32 | likewise |
///
/// [`layout`](Self::layout) selects tensors with heads before positions, `o`, `d_o` and the gradients
/// among them. The options have to be those of the forward pass; they are documented with
/// [`Attention`], and so are masks and sequences of different lengths. `dk` and `dv` of a key/value
/// head are sums over the query heads that share it. A query whose `lse` is `-inf` (it saw no key)
/// contributes nothing, and its `dq` is 0.
///
/// # Sinks
/// A sink of the forward pass is in its `lse`: with that, `dq`, `dk` and `dv` are those beside the
/// sink, whether it is given here or not. For its own gradient it has to be given. The gradient of
/// a sink of `-inf`, which has no effect, is 0 unless a `delta` is not finite. A query whose `lse`
/// is `-inf` contributes 0 to all of them, for any `delta`. With a sink of `inf` or NaN the `lse`
/// of the forward pass is not finite, and the gradient is NaN. Sinks are not scaled and not capped.
///
/// # Biases
/// The gradient of a bias is `P * (d_o @ v^T - delta)`, summed in a fixed order over what the bias
/// is broadcast along. Then it takes a tensor of all scores, `batch * heads_q * seqlen_q * seqlen_k`
/// f32, in memory, and a launch more. Where a key is hidden it is 0.
///
/// # Positions of no sequence
/// Positions that belong to no sequence are neither read nor written; in tensors that `run` creates
/// they are 0. Of lengths on the device, positions beyond [`max_seqlens`](Self::max_seqlens) may get no
/// gradient.
///
/// # Numerics
/// Computed in f32; results are rounded once. In the portable kernels, a NaN or an infinity in a
/// position reaches only some gradients. These are the gradients of positions that see it or that
/// it sees, and the `d_sink` of its head. Sums of `d_sink` are shared by 1,024 threads, which are
/// added pairwise. Error bound:
/// [`reference::attention::gradients`](crate::reference::attention::gradients) with the
/// [`model`](Self::model). Deterministic: the same bits every run, as all sums are in a fixed
/// order. The bits depend on the kernel ([`plan`](Self::plan)), and thereby on the device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// As [`Attention`]: [`Error::Shape`](crate::Error::Shape),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (head_dim above 256, a kernel
/// that there is not), [`ArgumentError::Value`](crate::ArgumentError::Value) (also for a `d_sink`
/// without a sink), [`Error::Shape`](crate::Error::Shape),
/// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
/// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds),
/// [`Error::Device`](crate::Error::Device). No launch happens on error.
///
/// # Performance
/// Tensors whose last dimension has gaps are copied first, and gradients with such a layout are
/// copied at the end. `delta` takes a launch of its own and `batch * heads_q * seqlen_q` f32 of
/// memory; on Hopper, sums of `dq` take 64 or 128 (`head_dim`, rounded up) times as much.
/// `d_sink` takes a small launch more, of a block a head, and no memory. [`plan`](Self::plan) shows
/// which kernels run.
///
/// # Sources
/// Dao, FlashAttention-2, arXiv:2307.08691; Shah et al., FlashAttention-3, arXiv:2407.08608.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Attention, AttentionGrad, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let q = Tensor::full(&stream, &[1, 2, 4, 8], 0.5_f32)?;
/// let kv = Tensor::full(&stream, &[1, 3, 2, 8], 0.25_f32)?;
/// let forward = Attention::new(&q, &kv, &kv).causal().lse().run(&stream)?;
///
/// let d_o = Tensor::full(&stream, &[1, 2, 4, 8], 1.0_f32)?;
/// let grad = AttentionGrad::new(&q, &kv, &kv, &forward.o, &forward.lse, &d_o).causal();
/// let grads = grad.run(&stream)?;
/// // All keys are equal, so probabilities are, and their gradient is 0.
/// assert!(grads.dq.to_vec()?.iter().all(|x| x.abs() < 1e-6));
/// // Two query heads on each key head; the first of two queries sees two of three keys.
/// let dv = grads.dv.index_axis(2, 0)?.to_vec()?;
/// assert!((dv[0] - 2.0 * (1.0 / 2.0 + 1.0 / 3.0)).abs() < 1e-6);
/// assert!((dv[16] - 2.0 / 3.0).abs() < 1e-6);
///
/// // Beside a sink a head, whose logit is that of the keys: it takes a part of three, then of four.
/// let sink = Tensor::full(&stream, &[4], 2.0_f32.sqrt() / 4.0)?;
/// let forward = Attention::new(&q, &kv, &kv).causal().sink(&sink).lse().run(&stream)?;
/// let grad = AttentionGrad::new(&q, &kv, &kv, &forward.o, &forward.lse, &d_o).causal().sink(&sink);
/// let d_sink = grad.run(&stream)?.d_sink.map(|d| d.to_vec()).transpose()?;
/// let want = -2.0 * (1.0 / 3.0 * 2.0 / 3.0 + 1.0 / 4.0 * 3.0 / 4.0);
/// assert!(d_sink.is_some_and(|d| d.iter().all(|d| (d - want).abs() < 1e-6)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct AttentionGrad<'a, T: Float> {
    /// The forward pass: its operands and options.
    forward: Attention<'a, T>,
    o: Tensor<T>,
    lse: Tensor<f32>,
    d_o: Tensor<T>,
    kernel: Option<&'a str>,
    bias_gradient: bool,
}

/// The gradients of an attention, with the shapes of `q`, `k`, `v` and the sinks.
#[derive(Clone, Debug)]
pub struct AttentionGrads<T: Float> {
    /// The gradient with respect to `q`.
    pub dq: Tensor<T>,
    /// The gradient with respect to `k`.
    pub dk: Tensor<T>,
    /// The gradient with respect to `v`.
    pub dv: Tensor<T>,
    /// The gradient with respect to the sinks, `[heads_q]`. `None` if none are set.
    pub d_sink: Option<Tensor<f32>>,
    /// The gradient with respect to the bias, with its shape. `None` if it is not asked for.
    pub d_bias: Option<Tensor<f32>>,
}

/// Options that are the forward's.
macro_rules! as_forward {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        #[doc = concat!("See [`Attention::", stringify!($name), "`].")]
        pub fn $name(mut self, $($argument: $ty),*) -> Self {
            self.forward = self.forward.$name($($argument),*);
            self
        }
    )*};
}

impl<'a, T: Float> AttentionGrad<'a, T> {
    /// Gradients of attention of every query to every key, without a mask.
    pub fn new(
        q: &Tensor<T>,
        k: &Tensor<T>,
        v: &Tensor<T>,
        o: &Tensor<T>,
        lse: &Tensor<f32>,
        d_o: &Tensor<T>,
    ) -> Self {
        Self {
            forward: Attention::new(q, k, v),
            o: o.clone(),
            lse: lse.clone(),
            d_o: d_o.clone(),
            kernel: None,
            bias_gradient: false,
        }
    }

    as_forward! {
        /// Sets the order of the dimensions of all tensors but `lse`.
        layout(layout: Layout);
        /// Causal mask, aligned to the bottom-right corner.
        causal();
        /// Causal mask, aligned to the top-left corner.
        causal_top_left();
        /// Sliding window.
        window(left: impl Into<Option<u32>>, right: impl Into<Option<u32>>);
        /// Aligns the mask to the top-left corner.
        align_top_left();
        /// Sets the factor of the scores.
        softmax_scale(softmax_scale: f32);
        /// Soft-caps the scaled scores.
        softcap(softcap: f32);
        /// The sinks of the forward pass, whose gradient is wanted too: the others need them in `lse`
        /// only.
        sink(sink: &'a Tensor<f32>);
        /// The bias of the forward pass. See [`bias_gradient`](Self::bias_gradient) too.
        bias(bias: impl Into<AttentionBias<'a>>);
        /// The mask of the forward pass.
        mask(mask: impl Into<AttentionMask<'a>>);
        /// The slopes of ALiBi.
        alibi(slopes: &'a Tensor<f32>);
        /// The block mask.
        block_mask(mask: &'a BlockMask);
        /// The dropout of the forward pass: the same bits are drawn.
        dropout(p: f32, seed: u64, offset: u32);
        /// The function of scores, all of whose steps need a derivative.
        score(function: &'a ScoreFunction);
        /// Packed queries and packed keys.
        cu_seqlens(q: impl Into<Lengths<'a>>, k: impl Into<Lengths<'a>>);
        /// Packed queries.
        cu_seqlens_q(cu_seqlens_q: impl Into<Lengths<'a>>);
        /// Packed keys.
        cu_seqlens_k(cu_seqlens_k: impl Into<Lengths<'a>>);
        /// Sets upper bounds of the lengths of packed sequences.
        max_seqlens(q: usize, k: usize);
        /// Number of queries of each sequence that are used.
        seqused_q(seqused_q: impl Into<Lengths<'a>>);
        /// Number of keys of each sequence that are used, including left padding.
        seqused_k(seqused_k: impl Into<Lengths<'a>>);
        /// Number of padding keys at the start of each sequence.
        leftpad_k(leftpad_k: impl Into<Lengths<'a>>);
    }

    /// Keys and values in pages, as [`Attention::pages`] has them. [`run`](Self::run) refuses them with
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported): pages may be shared, and
    /// gradients of shared keys would have to be added up.
    pub fn pages(mut self, table: impl Into<Indices<'a>>) -> Self {
        self.forward = self.forward.pages(table);
        self
    }

    /// Makes [`run`](Self::run) return the gradient of the [`bias`](Self::bias).
    pub fn bias_gradient(mut self) -> Self {
        self.bias_gradient = true;
        self
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails with
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported).
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }
}
