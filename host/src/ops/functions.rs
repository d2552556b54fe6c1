//! Functions for the common cases: each calls a builder with its defaults.

use super::{
    Argsort, Attention, Binary, ChainElement, Countable, CrossEntropy, Float, Gemm, GemmInput,
    IndexElement, LayerNorm, LogSoftmax, ParamElement, Reduce, Reducible, RmsNorm, Scan, Softmax,
    Sort, Take, Targets, TopElements, TopK, Unary,
};
use crate::{Element, Result, Stream, Tensor};
use abi::elementwise::{BinaryOp, UnaryOp};
use abi::reduce::ReduceOp;
use abi::scan::ScanOp;

/// The matrix product `a @ b`, or the products of a batch.
///
/// # Errors
/// See [`Gemm`].
pub fn matmul<A: GemmInput<B>, B: Element>(
    a: &Tensor<A>,
    b: &Tensor<B>,
    stream: &Stream,
) -> Result<Tensor<A::Output>> {
    Gemm::new(a, b).run(stream)
}

/// Attention of every query to every key, without a mask: shapes `[batch, seqlen, heads, head_dim]`.
///
/// # Errors
/// See [`Attention`].
pub fn attention<T: Float>(
    q: &Tensor<T>,
    k: &Tensor<T>,
    v: &Tensor<T>,
    stream: &Stream,
) -> Result<Tensor<T>> {
    Attention::new(q, k, v).run(stream)
}

/// Softmax along the last axis.
///
/// # Errors
/// See [`Softmax`].
pub fn softmax<T: Float>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    Softmax::new(x).run(stream)
}

/// The logarithm of softmax along the last axis.
///
/// # Errors
/// See [`LogSoftmax`].
pub fn log_softmax<T: Float>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    LogSoftmax::new(x).run(stream)
}

/// Layer norm along the last axis, with an epsilon of 10⁻⁵.
///
/// # Errors
/// See [`LayerNorm`].
pub fn layer_norm<T: Float, W: ParamElement<T>>(
    x: &Tensor<T>,
    weight: &Tensor<W>,
    bias: &Tensor<W>,
    stream: &Stream,
) -> Result<Tensor<T>> {
    LayerNorm::new(x).weight(weight).bias(bias).run(stream)
}

/// RMS norm along the last axis, with an epsilon of 10⁻⁵.
///
/// # Errors
/// See [`RmsNorm`].
pub fn rms_norm<T: Float, W: ParamElement<T>>(
    x: &Tensor<T>,
    weight: &Tensor<W>,
    stream: &Stream,
) -> Result<Tensor<T>> {
    RmsNorm::new(x).weight(weight).run(stream)
}

/// The mean cross-entropy of rows of logits and their targets: classes, of which -100 marks rows to
/// ignore, or probabilities.
///
/// # Errors
/// See [`CrossEntropy`].
pub fn cross_entropy<'a, T: Float>(
    logits: &'a Tensor<T>,
    targets: impl Into<Targets<'a, T>>,
    stream: &Stream,
) -> Result<Tensor<f32>> {
    CrossEntropy::new(logits, targets).run(stream)
}

/// Running sums along the last axis.
///
/// # Errors
/// See [`Scan`].
pub fn cumsum<T: Reducible>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    Scan::new(ScanOp::Sum, x).run(stream)
}

/// Running maxima along the last axis; NaN from the first NaN on.
///
/// # Errors
/// See [`Scan`].
pub fn cummax<T: Reducible>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    Scan::new(ScanOp::Max, x).run(stream)
}

/// Running minima along the last axis; NaN from the first NaN on.
///
/// # Errors
/// See [`Scan`].
pub fn cummin<T: Reducible>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    Scan::new(ScanOp::Min, x).run(stream)
}

/// Running `ln Σ exp(x)` of floats along the last axis.
///
/// # Errors
/// See [`Scan`].
pub fn logcumsumexp<T: Reducible>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    Scan::new(ScanOp::Logsumexp, x).run(stream)
}

/// `x[indices]`: rows of `x` along its first axis.
///
/// # Errors
/// See [`Take`].
pub fn take<T: Element, I: IndexElement>(
    x: &Tensor<T>,
    indices: &Tensor<I>,
    stream: &Stream,
) -> Result<Tensor<T>> {
    Take::new(x, indices).run(stream)
}

/// The elements along the last axis in ascending order.
///
/// # Errors
/// See [`Sort`].
pub fn sort<T: Element>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    Sort::new(x).run(stream)
}

/// The indices of the elements along the last axis in ascending order.
///
/// # Errors
/// See [`Argsort`].
pub fn argsort<T: Element>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<i64>> {
    Argsort::new(x).run(stream)
}

/// The `k` largest elements along the last axis, with their indices.
///
/// # Errors
/// See [`TopK`].
pub fn top_k<T: Reducible>(x: &Tensor<T>, k: usize, stream: &Stream) -> Result<TopElements<T>> {
    TopK::new(x, k).run(stream)
}

/// A reduction along this axis, or over all elements.
fn along<T: Countable>(op: ReduceOp, x: &Tensor<T>, axis: Option<isize>) -> Reduce<'_, T> {
    let reduce = Reduce::new(op, x);
    axis.map_or(reduce, |axis| reduce.axis(axis))
}

/// Functions that reduce an axis to values.
macro_rules! reductions {
    ($($name:ident $op:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        /// Along an axis, or over all elements for `None`.
        ///
        /// # Errors
        /// See [`Reduce`].
        pub fn $name<T: Reducible>(
            x: &Tensor<T>,
            axis: Option<isize>,
            stream: &Stream,
        ) -> Result<Tensor<T::Value>> {
            along(ReduceOp::$op, x, axis).run(stream)
        }
    )*};
}

reductions! {
    sum Sum "The sum of elements.";
    mean Mean "The mean of floats. The mean of integers needs [`Reduce::output`].";
    max Max "The largest element.";
    min Min "The smallest element.";
}

/// Functions that reduce an axis to an index.
macro_rules! extremes {
    ($($name:ident $op:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        /// The first of equals counts. Along an axis, or for `None` the row-major index among all
        /// elements.
        ///
        /// # Errors
        /// See [`Reduce`].
        pub fn $name<T: Countable>(
            x: &Tensor<T>,
            axis: Option<isize>,
            stream: &Stream,
        ) -> Result<Tensor<i64>> {
            along(ReduceOp::$op, x, axis).output().run(stream)
        }
    )*};
}

extremes! {
    argmax Argmax "The index of the largest element.";
    argmin Argmin "The index of the smallest element.";
}

/// Elementwise functions of one tensor.
macro_rules! unary {
    ($($name:ident $op:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        /// See [`Unary`].
        pub fn $name<T: ChainElement>(x: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
            Unary::new(UnaryOp::$op, x).run(stream)
        }
    )*};
}

unary! {
    neg Neg "`-x` of each element.";
    abs Abs "`|x|` of each element.";
    exp Exp "`e^x` of each element.";
    log Log "The natural logarithm of each element.";
    sqrt Sqrt "The square root of each element.";
    tanh Tanh "The hyperbolic tangent of each element.";
    sigmoid Sigmoid "`1 / (1 + e^-x)` of each element.";
    relu Relu "`max(x, 0)` of each element.";
    gelu Gelu "`x Φ(x)` of each element, with the standard normal distribution function Φ.";
    silu Silu "`x sigmoid(x)` of each element.";
}

/// Elementwise functions of two tensors.
macro_rules! binary {
    ($($name:ident $op:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        /// Shapes broadcast as in NumPy.
        ///
        /// # Errors
        /// See [`Binary`].
        pub fn $name<T: ChainElement>(
            a: &Tensor<T>,
            b: &Tensor<T>,
            stream: &Stream,
        ) -> Result<Tensor<T>> {
            Binary::new(BinaryOp::$op, a, b).run(stream)
        }
    )*};
}

binary! {
    add Add "`a + b` of each pair of elements.";
    sub Sub "`a - b` of each pair of elements.";
    mul Mul "`a · b` of each pair of elements.";
    div Div "`a / b` of each pair of elements.";
    maximum Max "The larger of each pair of elements.";
    minimum Min "The smaller of each pair of elements.";
}
