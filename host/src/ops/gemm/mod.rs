//! Matrix products.

mod call;
mod candidates;
mod decode;
mod decode_sm90;
mod desc;
mod mma;
mod operands;
mod options;
mod parts;
mod plan;
mod run;
mod shape;
mod simt;
mod sm90;
mod tune;
mod tuned;

use crate::{Element, Float, Tensor};
pub(super) use call::Memory;
use desc::BiasAxis;
use options::Scalar;

pub use options::{GemmInput, Precision};
pub(crate) use plan::GemmState;
pub use plan::{GemmCandidate, GemmPlan, PlanSource};
pub use spec::gemm::Activation;
pub use tune::{GemmTuning, Measured};

/// Matrix product and what follows it, in one kernel, batched:
///
/// ```text
/// x = alpha * scale_a * scale_b * row_scales[i] * column_scales[j] * (a @ b)[i, j]
/// x = x + beta * c[i, j] + bias[i or j]
/// d[i, j] = activation(x) + residual[i, j]
/// ```
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `a` | `[m, k]` or `[batch, m, k]` | f32, f16, bf16, e4m3, e5m2 | any; see Performance |
/// | `b` | `[k, n]` or `[batch, k, n]` | as `a`; the 8-bit types mix | any; see Performance |
/// | `c`, `residual` | broadcast to `d` | as `d` | any; `c` is not read at `beta == 0` |
/// | bias | `[m]` by rows or `[n]` by columns, or with a batch in front | as `d` | any |
/// | row scales, column scales | `[m]`, `[n]` | f32 | any |
/// | `alpha`, `beta`, scales on the device | one element | f32 | any |
/// | `d` (written) | `[m, n]`, or `[batch, m, n]` where `a` or `b` has a batch | f32, f16, bf16 | any that give each element a place of its own; must overlap nothing that is read, but may be `c` or `residual` itself |
///
/// A batch of 1, or none, is repeated. Transposes are views: `a.t()`. `k == 0` computes with a
/// product of 0; without any element in `d` nothing is launched.
///
/// # Numerics
/// Sums are in f32, everything after them too, rounded once to the dtype of `d`. Error bound:
/// [`reference::gemm`](crate::reference::gemm). Deterministic: same bits every run, unless
/// [`deterministic(false)`](Self::deterministic) allows others; which bits depends on the kernel
/// that is chosen ([`plan`](Self::plan)), and is the same for every layout and tile among the
/// portable ones. f32 operands are multiplied in full, unless [`precision`](Self::precision) says
/// otherwise. Sums of 8-bit operands are completed in f32 every 128 of k, unless
/// [`fast_accumulation`](Self::fast_accumulation) leaves them in the tensor cores. Activations are
/// good to an absolute error of `2^-20 |x|` (`2^-20` for sigmoid and tanh). `alpha == 0` still
/// reads `a` and `b`, and 0 × ∞ is NaN.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::ShapeMismatch`], [`Error::StrideMismatch`] (a `d` that writes an element twice),
/// [`Error::Overlap`], [`Error::DeviceMismatch`], [`Error::OutOfBounds`] (an extent of 2^32 or
/// more), [`Error::InvalidValue`] (options that exclude each other), [`Error::Unsupported`] (a
/// `split_k` or a kernel that there is not), [`Error::OutOfMemory`], [`Error::Driver`]. No launch
/// happens on error.
///
/// # Performance
/// `a` and `b` are read where they lie as long as the stride of their rows or of their columns is
/// 1; else they are copied first, once over the tensor. The same goes for `c`, `residual` and `d`,
/// of which the stride of the rows or of the columns has to be 1 in all. The kernel is chosen by a
/// cost model, or by measurement once [`autotune`](Self::autotune) was called;
/// [`plan`](Self::plan) shows it.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Activation, Device, Gemm, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let a = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0], [3.0, 4.0]])?;
/// let b = Tensor::from_ndarray(&device, &array![[0.0_f32, 1.0], [1.0, 0.0]])?;
/// let d = Gemm::new(&a, &b.t()).alpha(2.0).run(&stream)?;
/// assert_eq!(d.to_ndarray()?, array![[4.0, 2.0], [8.0, 6.0]].into_dyn());
///
/// let bias = Tensor::from_slice(&device, &[2], &[-5.0_f32, 1.0])?;
/// let layer = Gemm::new(&a, &b).column_bias(&bias).activation(Activation::Relu);
/// assert_eq!(layer.run(&stream)?.to_ndarray()?, array![[0.0, 2.0], [0.0, 4.0]].into_dyn());
/// println!("{}", layer.plan(&stream)?);
/// # Ok(())
/// # }
/// ```
///
/// [`Error::ShapeMismatch`]: crate::Error::ShapeMismatch
/// [`Error::StrideMismatch`]: crate::Error::StrideMismatch
/// [`Error::Overlap`]: crate::Error::Overlap
/// [`Error::DeviceMismatch`]: crate::Error::DeviceMismatch
/// [`Error::OutOfBounds`]: crate::Error::OutOfBounds
/// [`Error::InvalidValue`]: crate::Error::InvalidValue
/// [`Error::Unsupported`]: crate::Error::Unsupported
/// [`Error::OutOfMemory`]: crate::Error::OutOfMemory
/// [`Error::Driver`]: crate::Error::Driver
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Gemm<'a, A: Element, B: Element, Out: Float> {
    a: &'a Tensor<A>,
    b: &'a Tensor<B>,
    c: Option<&'a Tensor<Out>>,
    alpha: Scalar<'a>,
    beta: Scalar<'a>,
    scale_a: Scalar<'a>,
    scale_b: Scalar<'a>,
    row_scales: Option<&'a Tensor<f32>>,
    column_scales: Option<&'a Tensor<f32>>,
    bias: Option<(BiasAxis, &'a Tensor<Out>)>,
    activation: Activation,
    residual: Option<&'a Tensor<Out>>,
    precision: Precision,
    fast_accumulation: bool,
    deterministic: bool,
    split_k: Option<u32>,
    kernel: Option<&'a str>,
}

impl<'a, A: GemmInput<B>, B: Element> Gemm<'a, A, B, A::Output> {
    /// `a @ b`, written in the dtype of `a`, or in bf16 where that is one of 8 bits.
    pub fn new(a: &'a Tensor<A>, b: &'a Tensor<B>) -> Self {
        Self::with_output(a, b)
    }
}

impl<'a, A: GemmInput<B>, B: Element> Gemm<'a, A, B, f32> {
    /// `a @ b`, written in f32 whatever the dtype of `a`.
    pub fn with_f32_output(a: &'a Tensor<A>, b: &'a Tensor<B>) -> Self {
        Self::with_output(a, b)
    }
}

impl<'a, A: GemmInput<B>, B: Element, Out: Float> Gemm<'a, A, B, Out> {
    /// `a @ b`, written in the dtype of what it is used with, or as the type says:
    /// `Gemm::<_, _, bf16>::with_output(&a, &b)`.
    pub fn with_output(a: &'a Tensor<A>, b: &'a Tensor<B>) -> Self {
        Self {
            a,
            b,
            c: None,
            alpha: Scalar::Host(1.0),
            beta: Scalar::Host(0.0),
            scale_a: Scalar::Host(1.0),
            scale_b: Scalar::Host(1.0),
            row_scales: None,
            column_scales: None,
            bias: None,
            activation: Activation::Identity,
            residual: None,
            precision: Precision::Full,
            fast_accumulation: false,
            deterministic: true,
            split_k: None,
            kernel: None,
        }
    }

    /// Factor of the product; 1 if not said.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.alpha = Scalar::Host(alpha);
        self
    }

    /// Factor of the product, one element that is read when the kernel runs.
    pub fn alpha_from(mut self, alpha: &'a Tensor<f32>) -> Self {
        self.alpha = Scalar::Device(alpha);
        self
    }

    /// Adds `beta * c`. At `beta == 0`, `c` is not read: it may hold anything.
    pub fn beta(mut self, beta: f32, c: &'a Tensor<Out>) -> Self {
        self.beta = Scalar::Host(beta);
        self.c = Some(c);
        self
    }

    /// Adds `beta * c`, where `beta` is one element that is read when the kernel runs. Where that
    /// is 0, `c` is not read.
    pub fn beta_from(mut self, beta: &'a Tensor<f32>, c: &'a Tensor<Out>) -> Self {
        self.beta = Scalar::Device(beta);
        self.c = Some(c);
        self
    }

    /// What one of `a`'s elements stands for: `scale * a` is multiplied. For 8-bit types.
    pub fn scale_a(mut self, scale: f32) -> Self {
        self.scale_a = Scalar::Host(scale);
        self
    }

    /// [`scale_a`](Self::scale_a) as one element that is read when the kernel runs. Excludes
    /// [`row_scales`](Self::row_scales), of which it is a short form.
    pub fn scale_a_from(mut self, scale: &'a Tensor<f32>) -> Self {
        self.scale_a = Scalar::Device(scale);
        self
    }

    /// What one of `b`'s elements stands for: `scale * b` is multiplied. For 8-bit types.
    pub fn scale_b(mut self, scale: f32) -> Self {
        self.scale_b = Scalar::Host(scale);
        self
    }

    /// [`scale_b`](Self::scale_b) as one element that is read when the kernel runs. Excludes
    /// [`column_scales`](Self::column_scales), of which it is a short form.
    pub fn scale_b_from(mut self, scale: &'a Tensor<f32>) -> Self {
        self.scale_b = Scalar::Device(scale);
        self
    }

    /// Multiplies each row of the product by a factor of its own.
    pub fn row_scales(mut self, scales: &'a Tensor<f32>) -> Self {
        self.row_scales = Some(scales);
        self
    }

    /// Multiplies each column of the product by a factor of its own.
    pub fn column_scales(mut self, scales: &'a Tensor<f32>) -> Self {
        self.column_scales = Some(scales);
        self
    }

    /// Adds an element of `bias` to each row; in the place of an earlier bias.
    pub fn row_bias(mut self, bias: &'a Tensor<Out>) -> Self {
        self.bias = Some((BiasAxis::Row, bias));
        self
    }

    /// Adds an element of `bias` to each column, as a linear layer does; in the place of an earlier
    /// bias.
    pub fn column_bias(mut self, bias: &'a Tensor<Out>) -> Self {
        self.bias = Some((BiasAxis::Column, bias));
        self
    }

    /// Applies a function to each result, after `c` and the bias.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Adds `residual` to what the activation gives.
    pub fn residual(mut self, residual: &'a Tensor<Out>) -> Self {
        self.residual = Some(residual);
        self
    }

    /// What products of f32 operands keep of them; [`Precision::Full`] if not said. No effect on
    /// other operands.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Leaves sums of 8-bit operands in the tensor cores, which keep about 14 bits of them: faster,
    /// and less exact the longer k is. False if not said; no effect on other operands.
    pub fn fast_accumulation(mut self, fast: bool) -> Self {
        self.fast_accumulation = fast;
        self
    }

    /// The same bits every run; true if not said. False allows kernels that add in the order in
    /// which they come.
    pub fn deterministic(mut self, deterministic: bool) -> Self {
        self.deterministic = deterministic;
        self
    }

    /// Computes k in so many parts, or fewer where k is short, which are added in their order; the
    /// plan chooses if not said.
    pub fn split_k(mut self, parts: u32) -> Self {
        self.split_k = Some(parts);
        self
    }

    /// Runs that candidate of the [`plan`](Self::plan), by its name, or fails.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }
}
