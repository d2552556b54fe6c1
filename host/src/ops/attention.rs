//! Attention.

use crate::ops::check;
use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::float::Float;
use crate::ops::{kernels, model};
use crate::reference::Model;
use crate::{Error, LaunchConfig, Result, Stream, Tensor};
use spec::attention::{BshStrides, SIMT_HEAD_DIMS, SimtEntry, SimtFwdParams};
use std::f64::consts::LOG2_E;

/// Scaled dot-product attention, forward: `o = softmax(softmax_scale * q @ k^T + mask) @ v`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `q` | `[batch, seqlen_q, heads_q, head_dim]` | f32, f16, bf16 | any; see Performance |
/// | `k` | `[batch, seqlen_k, heads_kv, head_dim]` | as `q` | any; `heads_q % heads_kv == 0` |
/// | `v` | `[batch, seqlen_k, heads_kv, head_dim_v]` | as `q` | any |
/// | `o` (written) | `[batch, seqlen_q, heads_q, head_dim_v]` | as `q` | any that give each element a place of its own; must not overlap an input |
/// | `lse` (written) | `[batch, heads_q, seqlen_q]` | f32 | contiguous; natural log; `-inf` for a row with no visible key (then its `o` is 0) |
///
/// Query head `h` attends to key head `h / (heads_q / heads_kv)`. `head_dim` and `head_dim_v` are
/// at most 256 and need not be equal.
///
/// `causal` aligns to the bottom-right corner. For `seqlen_q = 2, seqlen_k = 5` (1 = visible):
/// `1 1 1 1 0` / `1 1 1 1 1`; for `seqlen_q = 3, seqlen_k = 2`: `0 0` / `1 0` / `1 1`.
/// `softmax_scale`: dimensionless, natural base; `1 / sqrt(head_dim)` if not said.
///
/// # Numerics
/// Scores, probabilities and sums in f32, online softmax in base 2; `o` is rounded once. Error
/// bound: [`reference::attention`](crate::reference::attention). Deterministic: same bits every
/// run, on every device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::ShapeMismatch`], [`Error::Unsupported`] (head_dim above 256),
/// [`Error::InvalidValue`] (a scale that is not finite), [`Error::StrideMismatch`],
/// [`Error::Overlap`], [`Error::DeviceMismatch`], [`Error::OutOfBounds`] (an extent of 2^32 or
/// more), [`Error::OutOfMemory`], [`Error::Driver`]. No launch happens on error.
///
/// # Performance
/// Inputs are read where they lie as long as the stride of their last dimension is 1; else they
/// are copied first, once over the tensor. An `o` whose last stride is not 1 costs a copy as well.
/// Memory beyond the outputs: none.
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run`, `run_with_lse` or `run_into`"]
pub struct Attention<'a, T: Float> {
    q: &'a Tensor<T>,
    k: &'a Tensor<T>,
    v: &'a Tensor<T>,
    causal: bool,
    softmax_scale: Option<f32>,
}

impl<'a, T: Float> Attention<'a, T> {
    /// Attention of every query to every key.
    pub fn new(q: &'a Tensor<T>, k: &'a Tensor<T>, v: &'a Tensor<T>) -> Self {
        Self {
            q,
            k,
            v,
            causal: false,
            softmax_scale: None,
        }
    }

    /// Query `i` sees keys `j <= i + seqlen_k - seqlen_q` only.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Factor of the scores instead of `1 / sqrt(head_dim)`. Any finite number up to f32's largest over
    /// log2(e), about 2.35e38.
    pub fn softmax_scale(mut self, softmax_scale: f32) -> Self {
        self.softmax_scale = Some(softmax_scale);
        self
    }

    /// `o` in a new tensor.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        let desc = self.validate(stream)?;
        let o = Tensor::empty(stream, &desc.shape_o())?;
        self.launch(&desc, &o, None, stream)?;
        Ok(o)
    }

    /// `o` and `lse`, the natural logarithm of each row's sum of exponentials, in new tensors.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run_with_lse(&self, stream: &Stream) -> Result<(Tensor<T>, Tensor<f32>)> {
        let desc = self.validate(stream)?;
        let o = Tensor::empty(stream, &desc.shape_o())?;
        let lse = Tensor::empty(stream, &desc.shape_lse())?;
        self.launch(&desc, &o, Some(&lse), stream)?;
        Ok((o, lse))
    }

    /// `o`, and `lse` where it is wanted, into tensors of their shapes.
    ///
    /// # Errors
    /// See [`Attention`].
    pub fn run_into(
        &self,
        o: &Tensor<T>,
        lse: Option<&Tensor<f32>>,
        stream: &Stream,
    ) -> Result<()> {
        let desc = self.validate(stream)?;
        check::output("o", o, &desc.shape_o(), stream)?;
        for (operand, input) in [("q", self.q), ("k", self.k), ("v", self.v)] {
            check::no_overlap("o", o, operand, input)?;
        }
        if let Some(lse) = lse {
            check::output("lse", lse, &desc.shape_lse(), stream)?;
            if !lse.is_contiguous() {
                return Err(Error::StrideMismatch {
                    operand: "lse",
                    got: lse.strides().into(),
                    want: "those of a contiguous tensor".into(),
                });
            }
            check::no_overlap("lse", lse, "o", o)?;
            for (operand, input) in [("q", self.q), ("k", self.k), ("v", self.v)] {
                check::no_overlap("lse", lse, operand, input)?;
            }
        }
        self.launch(&desc, o, lse, stream)
    }

    /// How the kernel computes, for the bound of [`reference::attention`](crate::reference).
    pub fn model(&self) -> Model {
        model::attention(self.k.shape().get(1).copied().unwrap_or(0))
    }

    fn validate(&self, stream: &Stream) -> Result<AttentionDesc> {
        for (operand, input) in [("q", self.q), ("k", self.k), ("v", self.v)] {
            check::device(operand, input, stream)?;
            if input.rank() != 4 {
                let want = "[batch, seqlen, heads, head_dim]";
                return Err(check::shape_mismatch(operand, input, want));
            }
        }
        if let Some(scale) = self.softmax_scale
            && !((f64::from(scale) * LOG2_E) as f32).is_finite()
        {
            return Err(Error::InvalidValue {
                what: "softmax_scale",
                got: scale.to_string().into(),
                want: format!("a finite number, of magnitude up to {:e}", MAX_SCALE).into(),
            });
        }
        let desc = AttentionDesc::new(self.q, self.k, self.v)?;
        desc.params()?; // before anything is copied or allocated
        Ok(desc)
    }

    fn launch(
        &self,
        desc: &AttentionDesc,
        o: &Tensor<T>,
        lse: Option<&Tensor<f32>>,
        stream: &Stream,
    ) -> Result<()> {
        if !last_dimension_is_dense(o) {
            let dense = Tensor::empty(stream, o.shape())?;
            self.launch(desc, &dense, lse, stream)?;
            return strided_copy(&dense, o, stream);
        }
        let [q, k, v] = [self.q, self.k, self.v].map(|input| dense(input, stream));
        let (q, k, v) = (q?, k?, v?);
        let scale = match self.softmax_scale {
            Some(scale) => f64::from(scale),
            None => 1.0 / (desc.head_dim.max(1) as f64).sqrt(),
        };
        let params = SimtFwdParams {
            causal: u32::from(self.causal),
            q: strides(&q)?,
            k: strides(&k)?,
            v: strides(&v)?,
            o: strides(o)?,
            softmax_scale_log2: (scale * LOG2_E) as f32,
            write_lse: u32::from(lse.is_some()),
            ..desc.params()?
        };
        if desc.shape_lse().contains(&0) {
            return Ok(());
        }
        let Some(grid) = params.simt_grid() else {
            let got = desc.batch as u64 * desc.heads_q as u64;
            return Err(Error::OutOfBounds {
                what: "batch * heads_q",
                got,
                limit: HEADS_LIMIT,
            });
        };
        let entry = SimtEntry {
            dtype: T::DTYPE,
            head_dim_cap: desc.head_dim_cap,
        };
        let kernel = kernels::kernel(stream, entry)?;
        let config = LaunchConfig {
            grid,
            block: [entry.tile().threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        // SAFETY: extents and strides are those of the tensors, whose layouts lie inside of their
        // storage and whose last dimensions are dense; o and lse are injective and overlap no
        // input; lse is contiguous, and null where it is not written.
        unsafe { kernel.launch(stream, config, (&q, &k, &v, o, lse, params)) }
    }
}

/// Extents that fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttentionDesc {
    batch: usize,
    seqlen_q: usize,
    seqlen_k: usize,
    heads_q: usize,
    heads_kv: usize,
    head_dim: usize,
    head_dim_v: usize,
    /// The kernel's head_dim.
    head_dim_cap: u32,
}

impl AttentionDesc {
    fn new<T: Float>(q: &Tensor<T>, k: &Tensor<T>, v: &Tensor<T>) -> Result<Self> {
        let (&[batch, seqlen_q, heads_q, head_dim], &[_, seqlen_k, heads_kv, _], &[.., head_dim_v]) =
            (q.shape(), k.shape(), v.shape())
        else {
            return Err(Error::Bug("attention's ranks were not checked"));
        };
        if *k.shape() != [batch, seqlen_k, heads_kv, head_dim] {
            let want = format!(
                "[{batch}, seqlen_k, heads_kv, {head_dim}], as q is {:?}",
                q.shape()
            );
            return Err(check::shape_mismatch("k", k, want));
        }
        if *v.shape() != [batch, seqlen_k, heads_kv, head_dim_v] {
            let want = format!(
                "[{batch}, {seqlen_k}, {heads_kv}, head_dim_v], as k is {:?}",
                k.shape()
            );
            return Err(check::shape_mismatch("v", v, want));
        }
        if heads_q != 0 && (heads_kv == 0 || heads_q % heads_kv != 0) {
            let want = format!("heads_kv that divides q's {heads_q} heads");
            return Err(check::shape_mismatch("k", k, want));
        }
        let cap = check::extent("head_dim", head_dim)
            .and_then(|d| Ok((d, check::extent("head_dim_v", head_dim_v)?)))
            .map(|(d, d_v)| spec::attention::simt_head_dim_cap(d, d_v))?;
        let head_dim_cap = cap.ok_or_else(|| Error::Unsupported {
            what: format!("attention with head_dim {head_dim} and head_dim_v {head_dim_v}").into(),
            supported: format!(
                "head_dim and head_dim_v up to {}",
                SIMT_HEAD_DIMS[SIMT_HEAD_DIMS.len() - 1]
            )
            .into(),
        })?;
        Ok(Self {
            batch,
            seqlen_q,
            seqlen_k,
            heads_q,
            heads_kv,
            head_dim,
            head_dim_v,
            head_dim_cap,
        })
    }

    fn shape_o(&self) -> [usize; 4] {
        [self.batch, self.seqlen_q, self.heads_q, self.head_dim_v]
    }

    fn shape_lse(&self) -> [usize; 3] {
        [self.batch, self.heads_q, self.seqlen_q]
    }

    /// The extents of a launch; all else is 0.
    fn params(&self) -> Result<SimtFwdParams> {
        let none = BshStrides {
            batch: 0,
            seq: 0,
            head: 0,
        };
        Ok(SimtFwdParams {
            batch: check::extent("batch", self.batch)?,
            seqlen_q: check::extent("seqlen_q", self.seqlen_q)?,
            seqlen_k: check::extent("seqlen_k", self.seqlen_k)?,
            heads_q: check::extent("heads_q", self.heads_q)?,
            heads_kv: check::extent("heads_kv", self.heads_kv)?,
            head_dim: check::extent("head_dim", self.head_dim)?,
            head_dim_v: check::extent("head_dim_v", self.head_dim_v)?,
            causal: 0,
            q: none,
            k: none,
            v: none,
            o: none,
            softmax_scale_log2: 0.0,
            write_lse: 0,
        })
    }
}

fn last_dimension_is_dense<T: Float>(tensor: &Tensor<T>) -> bool {
    tensor.strides().last() == Some(&1) || tensor.shape().last().is_some_and(|&d| d <= 1)
}

/// `tensor`, or a copy of it where its last dimension has gaps.
fn dense<T: Float>(tensor: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    if last_dimension_is_dense(tensor) {
        return Ok(tensor.clone());
    }
    contiguous(tensor, stream)
}

/// The strides of a tensor of four dimensions.
fn strides<T: Float>(tensor: &Tensor<T>) -> Result<BshStrides> {
    match *tensor.strides() {
        [batch, seq, head, _] => Ok(BshStrides { batch, seq, head }),
        _ => Err(Error::Bug("attention's ranks were not checked")),
    }
}

/// Largest scale that is finite in base 2 too, rounded down.
const MAX_SCALE: f32 = 2.35e38;

/// Heads of all batches that a grid can hold, and one.
const HEADS_LIMIT: u64 = 65_535 * 65_535 + 1;
