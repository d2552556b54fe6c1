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
pub use reduce::{Countable, Reduce, Reducible};
pub use rotary::{Rotary, RotaryTable};
pub use rows::{
    CrossEntropy, LayerNorm, LayerNormGrad, LogSoftmax, LogSoftmaxGrad, NormGradients, Normalized,
    Reduction, RmsNorm, RmsNormGrad, Softmax, SoftmaxGrad, TopK,
};
pub use scan::Scan;
pub use scatter::Scatter;
pub use scatter_add::ScatterAdd;
pub use take::{IndexElement, Take};
pub(crate) use workspaces::Workspaces;
