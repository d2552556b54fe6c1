//! Operations: descriptions that validate before they launch.

mod attention;
mod check;
mod copy;
mod elementwise;
mod float;
mod gemm;
mod kernels;
mod model;
mod reduce;
mod softmax;
mod view;

pub use attention::Attention;
pub use elementwise::{Binary, Unary};
pub use float::Float;
pub use gemm::Gemm;
pub use reduce::Reduce;
pub use softmax::Softmax;
