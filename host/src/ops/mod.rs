//! Operations: descriptions that validate before they launch.

mod attention;
mod attention_grad;
mod by_index;
mod check;
mod copy;
mod elementwise;
mod float;
mod gemm;
mod grouped;
mod maps;
mod model;
mod plan;
mod put;
mod reduce;
mod rotary;
mod rows;
mod scan;
mod scatter;
mod take;
mod view;
mod workspaces;

pub use attention::{Attention, AttentionLse, AttentionOutput, Layout, Lengths, merge_attention};
pub use attention_grad::{AttentionGrad, AttentionGrads};
pub use copy::CastElement;
pub use elementwise::{Binary, Chain, ChainElement, Gradient, Map, Number, Select, Unary};
pub use float::Float;
pub use gemm::{Activation, Gemm, GemmInput, GemmOutput, GemmProblem, Precision};
pub use grouped::GroupedGemm;
pub(crate) use maps::MapCache;
pub(crate) use plan::Plans;
pub use plan::{Candidate, MachineModel, Measured, Plan, PlanSource, Tuning};
pub use put::Scatter;
pub use reduce::{Countable, Reduce, Reducible};
pub use rotary::{Rotary, RotaryTable};
pub use rows::{
    CrossEntropy, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad, NormGradients, Normalized,
    Reduction, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad, TopK,
};
pub use scan::Scan;
pub use scatter::ScatterAdd;
pub use take::{IndexElement, Take};
pub(crate) use workspaces::Workspaces;
