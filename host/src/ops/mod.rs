//! Operations: functions for the common cases, and builders with every option.
//!
//! ```
//! # fn main() -> warpsmith::Result<()> {
//! use warpsmith::{Device, Softmax, Tensor, ops};
//! let device = Device::emulator()?;
//! let stream = device.stream()?;
//! let x = Tensor::from_slice(&device, &[2, 3], &[1.0_f32, 2.0, 3.0, 6.0, 5.0, 4.0])?;
//! let weight = Tensor::from_slice(&device, &[3], &[1.0_f32, 1.0, 1.0])?;
//!
//! let product = ops::matmul(&x, &x.t(), &stream)?;
//! assert_eq!(product.to_vec()?, [14.0, 28.0, 28.0, 77.0]);
//! let h = ops::gelu(&ops::rms_norm(&x, &weight, &stream)?, &stream)?;
//! assert_eq!(ops::add(&x, &h, &stream)?.shape(), [2, 3]);
//! assert_eq!(ops::sum(&x, None, &stream)?.item()?, 21.0);
//! assert_eq!(ops::mean(&x, Some(0), &stream)?.to_vec()?, [3.5, 3.5, 3.5]);
//! assert_eq!(ops::argmax(&x, Some(-1), &stream)?.to_vec()?, [2, 0]);
//! assert_eq!(ops::cumsum(&x, &stream)?.to_vec()?, [1.0, 3.0, 6.0, 6.0, 11.0, 15.0]);
//! assert_eq!(ops::cummin(&x, &stream)?.to_vec()?, [1.0, 1.0, 1.0, 6.0, 5.0, 4.0]);
//! assert_eq!(ops::top_k(&x, 1, &stream)?.values.to_vec()?, [3.0, 6.0]);
//! // Operators run on the device's default stream.
//! assert_eq!((&(&x * 2.0)? - &x)?.to_vec()?, x.to_vec()?);
//! let targets = Tensor::from_slice(&device, &[2], &[2_i64, 0])?;
//! let row = ops::take(&x, &targets.slice(0, 1..)?, &stream)?;
//! assert_eq!(row.to_vec()?, [1.0, 2.0, 3.0]);
//! assert!(ops::cross_entropy(&x, &targets, &stream)?.item()? < 0.5);
//!
//! // A builder has the options: here another axis, and the result in the input's memory.
//! Softmax::new(&x).axis(0).run_into(&x, &stream)?;
//! # Ok(())
//! # }
//! ```
//!
//! # One rule
//!
//! - `Op::new` takes the inputs in the order of the formula; a gradient takes the tensors of the
//!   forward pass first and the gradient of its result last. The options follow, in any order.
//! - `output::<O>()` sets the dtype of the result. Options for further results, such as
//!   [`CrossEntropy::gradient`], [`Reduce::mean`] and [`LayerNorm::stats`], come last: they make the
//!   results a struct.
//! - `run(&stream)` returns new contiguous tensors. `run_into(&out, &stream)` writes to tensors
//!   that exist. Where an operation allows it, `out` is an input itself: an update in place.
//! - A negative axis counts from the end. Operations along an axis use the last one by default,
//!   reductions all of them, and `x[indices]` ([`Take`], [`Scatter`], [`ScatterAdd`], [`ScatterReduce`]) the
//!   first.

mod attention;
mod attention_grad;
mod axes;
mod by_index;
mod check;
mod copy;
mod elementwise;
mod float;
mod functions;
mod gemm;
mod grouped;
mod indices;
mod kv_cache;
mod maps;
mod model;
mod plan;
mod reduce;
mod rotary;
mod rows;
mod scan;
mod scatter;
mod scatter_add;
mod take;
mod view;
mod workspaces;

pub use attention::{
    Attention, AttentionBias, AttentionLse, AttentionMask, AttentionMerge, AttentionOutput,
    BlockMask, BlockMaskShape, Layout, Lengths, ScoreFunction, ScoreTensor, ScoreValue,
};
pub use attention_grad::{AttentionGrad, AttentionGrads};
pub use copy::CastElement;
pub use elementwise::{Binary, Chain, ChainElement, Gradient, Map, Number, Select, Unary};
pub use float::Float;
pub use functions::*;
pub use gemm::{Activation, Gemm, GemmInput, GemmOutput, GemmProblem, Precision};
pub use grouped::GroupedGemm;
pub use indices::Indices;
pub use kv_cache::{KvAppend, KvCache, KvCacheShape, KvWrite, SequenceId};
pub(crate) use maps::MapCache;
pub(crate) use plan::Plans;
pub use plan::{Candidate, MachineModel, Measured, Plan, PlanSource, Tuning};
pub use reduce::{Countable, Moments, Reduce, Reducible, WithMean};
pub use rotary::Rotary;
pub use rows::{
    Argsort, CrossEntropy, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad, LossAndGradient,
    NormGradients, Normalized, ParamElement, Reduction, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad,
    Sort, SortedElements, Targets, TopElements, TopK, WithGradient, WithIndices, WithStats,
};
pub use scan::{RunningExtremes, Scan, ScanWithIndices};
pub use scatter::Scatter;
pub use scatter_add::{ScatterAdd, ScatterReduce};
pub use take::{IndexElement, Take};
pub(crate) use workspaces::Workspaces;
