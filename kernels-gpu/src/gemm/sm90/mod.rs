//! Hopper's GEMM: see [`kernel`] for how it works, [`spec::gemm::sm90`] for what it is called with.

mod entries;
mod kernel;
mod load;
mod store;

pub use entries::*;
