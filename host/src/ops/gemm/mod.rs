//! GEMM: matrix multiplication with a fused epilogue.

mod call;
mod candidates;
mod costs;
mod decode;
mod decode_sm90;
mod desc;
mod double;
mod fitting;
mod integer;
mod invariant;
mod k_major;
mod mma;
mod operands;
mod options;
mod run;
mod shape;
mod simt;
mod sm90;
mod splits;
mod tune;

use crate::{Element, Tensor};
pub(super) use call::Memory;
pub(in crate::ops) use costs::GemmCosts;
use desc::BiasAxis;
use options::{Options, Scalar};
pub(super) use shape::MatrixLayout;

pub use abi::gemm::Activation;
pub use fitting::GemmProblem;
pub use options::{GemmInput, GemmOutput, Precision};

/// GEMM with a fused epilogue, batched:
///
/// ```text
/// x = alpha * scale_a * scale_b * row_scales[i] * column_scales[j] * (a @ b)[i, j]
/// x = x + beta * c[i, j] + bias[i or j]
/// d[i, j] = activation(x) + residual[i, j]
/// ```
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `a` | `[m, k]` or `[batch, m, k]` | f64, f32, f16, bf16, e4m3, e5m2, i8 | any; see Performance |
/// | `b` | `[k, n]` or `[batch, k, n]` | as `a`; e4m3 and e5m2 can be mixed | any; see Performance |
/// | `c`, `residual` | broadcast to `d` | as `d` | any; `c` is not read if `beta == 0` |
/// | row or column bias | `[m]` or `[n]`, or with a leading batch dimension | as `d` | any |
/// | row scales, column scales | `[m]`, `[n]` | f32; f64 if `d` is f64; not allowed if `d` is i32 | any |
/// | `alpha`, `beta`, `scale_a`, `scale_b` on the device | one element | f32; f64 if `d` is f64; i32 if `d` is i32 | any |
/// | `d` (written) | `[m, n]`, or `[batch, m, n]` if `a` or `b` has a batch | f32, f16, bf16; f64 for f64 operands; also i32 for i8 operands | any where no two indices refer to one element; must not overlap a tensor that is read, but may be `c` or `residual` itself |
///
/// An operand without a batch, or with a batch of 1, is broadcast over the batch. Transposed
/// operands are views: `a.t()`. If `k == 0`, `a @ b` is 0. If `d` has no elements, nothing is
/// launched.
///
/// # Numerics
/// Accumulation and epilogue are in f32, and the result is rounded once to the dtype of `d`. For
/// f64 operands everything is in f64, and for results in i32 everything is in i32. Error bound:
/// [`reference::gemm`](crate::reference::gemm); for f64
/// [`reference::gemm::double`](crate::reference::gemm::double).
///
/// - Deterministic: every kernel gives the same bits every run. The bits depend on the kernel that
///   is chosen ([`plan`](Self::plan)). All portable kernels give the same bits, for every layout
///   and tile.
/// - Products in f64 have the same bits by every kernel on every device: each element is one chain
///   of fused multiply-adds, with k ascending. So k is not split. The only activation is relu,
///   because the others are approximations in f32; [`Unary`](crate::Unary) has them in f64.
/// - Products of i8 are added up in i32, exactly up to a k of 131,071. Beyond that, sums may wrap,
///   as in cuBLASLt and `torch._int_mm`. So all kernels, parts of k and devices give the same sums.
///   - Results in i32 are `alpha * (a @ b) + beta * c + bias`, then relu, then the residual, in
///     wrapping i32. Scales and other activations are errors.
///   - For results in f32, f16 and bf16, the sum is rounded to the nearest f32. The rest is as for
///     other operands. For int8 quantisation by tokens and channels, set `row_scales` and
///     `column_scales`.
/// - f32 operands are multiplied in full precision, unless [`precision`](Self::precision) allows
///   tf32.
/// - 8-bit floats: partial sums of the tensor cores are promoted to f32 every 128 elements of k,
///   unless [`fast_accumulation`](Self::fast_accumulation) keeps accumulating in the tensor cores.
/// - Activations have an absolute error up to `2^-20 |x|` (`2^-20` for sigmoid and tanh).
/// - `alpha == 0` still reads `a` and `b`, and 0 × ∞ is NaN.
///
/// # Batch invariance
/// With [`batch_invariant`](Self::batch_invariant), the bits of a row of `d` depend on this row of `a`,
/// on `b`, and on the row's own elements of `c`, bias, scales and residual. They do not depend on
/// other rows (which may be NaN), on `m`, on the batch, or on where the row is. The row has the same bits
/// in every product with the same `b`, dtypes, layout (which dimension of `a` is contiguous) and options
/// on one kind of device. Of the candidates only those of one family of kernels remain, with the whole
/// of k in one chain of additions, or in the parts of [`split_k`](Self::split_k). Stream-K and splits
/// that depend on the number of rows do not. On an H200, bf16 products of up to 64 rows take 1.2 to
/// 1.5 times as long; from 256 rows they take as long as without it. A `d` that is not row-major is
/// copied. Products of f64 and i8 lose nothing. The example `batch_invariance` of `warpsmith-benches`
/// measures it.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Mismatch`], [`ShapeError::Overlap`], [`DeviceError::Mismatch`] and
/// [`Error::Device`](crate::Error::Device). [`ShapeError::Overflow`]: a copy of repeated elements,
/// or partial results, of 2^63 bytes or more. [`ShapeError::Strides`]: two indices of `d` that may
/// refer to one element. [`ShapeError::OutOfBounds`]: an extent above 2^32 - 1025.
/// [`ArgumentError::Value`]: options that exclude each other; a `split_k` of 0 or above k.
/// [`ArgumentError::Unsupported`]: no kernel with this `split_k` or this name; of f64, a `split_k`
/// above 1 or a result in another dtype. Of results in f64 and i32, an activation other than relu;
/// of results in i32, scales, or operands other than i8. No launch happens on error.
///
/// # Performance
/// `a` and `b` are copied first if neither their rows nor their columns are contiguous (stride 1).
/// Otherwise some kernels read them in place. Other kernels read a copy in scratch memory:
///
/// - The portable kernels read a copy in f32, except for i8.
/// - The `mma.sync` kernels may read 8-bit floats from a copy in f16.
/// - Candidates whose name ends in `+kmajor` read a copy with contiguous k. They exist for i8, and
///   on Hopper for 8-bit floats, for tf32, and for rows that are not aligned to 16 bytes.
///
/// `c`, `residual` and `d` are accessed in place if they are all row-major, or all column-major,
/// with stride 1. A `d` of one contiguous column counts as a row. A cost model chooses the kernel
/// and counts the copies. After [`autotune`](Self::autotune), measurements choose it.
/// [`plan`](Self::plan) shows the choice.
///
/// # Sources
/// Ideas are from CUTLASS (multistage and warp-specialised persistent kernels), DeepGEMM, fast.cu,
/// and S. Gray's maxas notes on sgemm. The headers of `kernels-gpu/src/gemm` have the details.
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
///
/// // In f64, so are alpha and beta.
/// let a = Tensor::from_ndarray(&device, &array![[0.1, 0.2], [0.3, 0.4]])?;
/// let c = Tensor::from_ndarray(&device, &array![[3.0, 0.0], [0.0, 3.0]])?;
/// let d = Gemm::new(&a, &a.t()).alpha(0.1).beta(1.0 / 3.0, &c).run(&stream)?;
/// let want = array![[1.005, 0.011], [0.011, 1.025]].into_dyn();
/// assert!((d.to_ndarray()? - want).iter().all(|error: &f64| error.abs() < 1e-15));
///
/// // i8 in i32, exactly; or scaled by rows and columns, as a quantised layer is.
/// let a = Tensor::from_ndarray(&device, &array![[127_i8, -128], [1, 2]])?;
/// let b = a.t();
/// let sums = Gemm::new(&a, &b).run(&stream)?;
/// assert_eq!(sums.to_ndarray()?, array![[32_513_i32, -129], [-129, 5]].into_dyn());
/// let scales = Tensor::from_slice(&device, &[2], &[0.5_f32, 2.0])?;
/// let layer = Gemm::new(&a, &b).output::<f32>().row_scales(&scales).column_scales(&scales);
/// let want = array![[8128.25_f32, -129.0], [-129.0, 20.0]].into_dyn();
/// assert_eq!(layer.run(&stream)?.to_ndarray()?, want);
/// # Ok(())
/// # }
/// ```
///
/// [`ShapeError::Mismatch`]: crate::ShapeError::Mismatch
/// [`ShapeError::Overflow`]: crate::ShapeError::Overflow
/// [`ShapeError::Strides`]: crate::ShapeError::Strides
/// [`ShapeError::Overlap`]: crate::ShapeError::Overlap
/// [`DeviceError::Mismatch`]: crate::DeviceError::Mismatch
/// [`ShapeError::OutOfBounds`]: crate::ShapeError::OutOfBounds
/// [`ArgumentError::Value`]: crate::ArgumentError::Value
/// [`ArgumentError::Unsupported`]: crate::ArgumentError::Unsupported
/// [`DeviceError::OutOfMemory`]: crate::DeviceError::OutOfMemory
/// [`DeviceError::Driver`]: crate::DeviceError::Driver
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Gemm<'a, A: Element, B: Element, Out: GemmOutput> {
    a: &'a Tensor<A>,
    b: &'a Tensor<B>,
    options: Options<'a, Out>,
}

impl<'a, A: GemmInput<B>, B: Element> Gemm<'a, A, B, A::Output> {
    /// `a @ b`, with a result in the dtype of `a`, in bf16 if that is an 8-bit float, or in i32 if
    /// it is i8; [`output`](Self::output) sets another one.
    pub fn new(a: &'a Tensor<A>, b: &'a Tensor<B>) -> Self {
        let options = Options::default();
        Self { a, b, options }
    }
}

impl<'a, A: GemmInput<B>, B: Element, Out: GemmOutput> Gemm<'a, A, B, Out> {
    /// Sets the dtype of the result. Call it before you set tensors and factors of the epilogue,
    /// because their types depend on it. In the other order, `run` fails with
    /// [`ArgumentError::Value`](crate::ArgumentError::Value).
    pub fn output<O: GemmOutput>(self) -> Gemm<'a, A, B, O> {
        Gemm {
            a: self.a,
            b: self.b,
            options: self.options.output(),
        }
    }

    /// Sets the factor of `a @ b` (default 1).
    pub fn alpha(mut self, alpha: Out::Factor) -> Self {
        self.options.alpha = Scalar::Host(alpha);
        self
    }

    /// Sets the factor of `a @ b` to one element of device memory, which is read when the kernel
    /// runs.
    pub fn alpha_from(mut self, alpha: &'a Tensor<Out::Factor>) -> Self {
        self.options.alpha = Scalar::Device(alpha);
        self
    }

    /// Adds `beta * c`. If `beta == 0`, `c` is not read, and may contain anything.
    pub fn beta(mut self, beta: Out::Factor, c: &'a Tensor<Out>) -> Self {
        self.options.beta = Scalar::Host(beta);
        self.options.c = Some(c);
        self
    }

    /// Adds `beta * c`, where `beta` is one element of device memory, which is read when the kernel
    /// runs. If it is 0, `c` is not read.
    pub fn beta_from(mut self, beta: &'a Tensor<Out::Factor>, c: &'a Tensor<Out>) -> Self {
        self.options.beta = Scalar::Device(beta);
        self.options.c = Some(c);
        self
    }

    /// Sets the scale of `a`, mostly for 8-bit types: `scale * a` is multiplied.
    pub fn scale_a(mut self, scale: Out::Factor) -> Self {
        self.options.scale_a = Scalar::Host(scale);
        self
    }

    /// [`scale_a`](Self::scale_a) as one element of device memory, which is read when the kernel
    /// runs. Cannot be combined with [`row_scales`](Self::row_scales).
    pub fn scale_a_from(mut self, scale: &'a Tensor<Out::Factor>) -> Self {
        self.options.scale_a = Scalar::Device(scale);
        self
    }

    /// Sets the scale of `b`, mostly for 8-bit types: `scale * b` is multiplied.
    pub fn scale_b(mut self, scale: Out::Factor) -> Self {
        self.options.scale_b = Scalar::Host(scale);
        self
    }

    /// [`scale_b`](Self::scale_b) as one element of device memory, which is read when the kernel
    /// runs. Cannot be combined with [`column_scales`](Self::column_scales).
    pub fn scale_b_from(mut self, scale: &'a Tensor<Out::Factor>) -> Self {
        self.options.scale_b = Scalar::Device(scale);
        self
    }

    /// Multiplies row `i` of `a @ b` by `scales[i]`.
    pub fn row_scales(mut self, scales: &'a Tensor<Out::Factor>) -> Self {
        self.options.row_scales = Some(scales);
        self
    }

    /// Multiplies column `j` of `a @ b` by `scales[j]`.
    pub fn column_scales(mut self, scales: &'a Tensor<Out::Factor>) -> Self {
        self.options.column_scales = Some(scales);
        self
    }

    /// Adds `bias[i]` to row `i`. Replaces an earlier bias.
    pub fn row_bias(mut self, bias: &'a Tensor<Out>) -> Self {
        self.options.bias = Some((BiasAxis::Row, bias));
        self
    }

    /// Adds `bias[j]` to column `j`, as a linear layer does. Replaces an earlier bias.
    pub fn column_bias(mut self, bias: &'a Tensor<Out>) -> Self {
        self.options.bias = Some((BiasAxis::Column, bias));
        self
    }

    /// Applies an activation function, after `c` and the bias are added.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.options.activation = activation;
        self
    }

    /// Adds `residual` after the activation.
    pub fn residual(mut self, residual: &'a Tensor<Out>) -> Self {
        self.options.residual = Some(residual);
        self
    }

    /// Sets the precision to which f32 operands are multiplied (default [`Precision::Full`]). No
    /// effect on operands of other dtypes.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Accumulates 8-bit operands in the tensor cores over all of k, without promotion to f32. The
    /// tensor cores keep about 14 bits of the sums, so this is faster, and less accurate the longer
    /// k is. Default false; no effect on operands of other dtypes.
    pub fn fast_accumulation(mut self, fast: bool) -> Self {
        self.options.fast_accumulation = fast;
        self
    }

    /// Whether the result must have the same bits every run (default true). False allows kernels
    /// whose order of additions depends on timing. No such kernel exists, so false only changes the
    /// key of tuned choices.
    pub fn deterministic(mut self, deterministic: bool) -> Self {
        self.options.deterministic = deterministic;
        self
    }

    /// Whether the bits of a row of `d` depend on this row alone (default false). See
    /// [Batch invariance](Gemm#batch-invariance).
    pub fn batch_invariant(mut self, batch_invariant: bool) -> Self {
        self.options.batch_invariant = batch_invariant;
        self
    }

    /// Sets the number of parts into which k is split (split-K); a short k is split into fewer. The
    /// partial results are added in a fixed order. By default the plan chooses.
    pub fn split_k(mut self, splits: u32) -> Self {
        self.options.split_k = Some(splits);
        self
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.options.kernel = Some(name);
        self
    }
}
