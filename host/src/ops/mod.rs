//! Operations: descriptions that validate before they launch.

mod attention;
mod attention_grad;
mod axes;
mod by_index;
mod check;
mod copy;
mod elementwise;
mod float;
mod gemm;
mod grouped;
mod maps;
mod model;
mod ranked;
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
    Attention, AttentionCandidate, AttentionPlan, Layout, Lengths, merge_attention,
};
pub use attention_grad::{
    AttentionGrad, AttentionGradCandidate, AttentionGradPlan, AttentionGrads,
};
pub use copy::CastElement;
pub use elementwise::{Binary, Chain, ChainElement, Gradient, Map, Number, Select, Unary};
pub use float::Float;
pub(crate) use gemm::GemmState;
pub use gemm::{
    Activation, Gemm, GemmCandidate, GemmInput, GemmOutput, GemmPlan, GemmTuning, Measured,
    PlanSource, Precision,
};
pub use grouped::{GroupedGemm, GroupedPlan};
pub(crate) use maps::MapCache;
pub use ranked::Plan;
pub use reduce::{Countable, Moments, Reduce, Reducible, WithMean};
pub use rotary::Rotary;
pub use rows::{
    CrossEntropy, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad, LossAndGradient,
    NormGradients, Normalized, ParamElement, Reduction, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad,
    TopElements, TopK, WithGradient, WithStats,
};
pub use scan::Scan;
pub use scatter::Scatter;
pub use scatter_add::ScatterAdd;
pub use take::{IndexElement, Take};
pub(crate) use workspaces::Workspaces;
