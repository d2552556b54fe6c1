//! Hopper's GEMM: see `kernel.rs` for how it works, [`spec::gemm::sm90`] for what it is called with.
//!
//! A kernel with an epilogue of your own is an entry that calls [`Gemm::run`]: see
//! `examples/kernels/src/lower_triangle.rs`.

#[cfg(feature = "entries")]
mod entries;
mod kernel;
mod load;
mod partials;
mod store;
mod turns;

#[cfg(feature = "entries")]
pub use entries::*;
pub use kernel::{Config, Gemm};
pub use store::{Destination, Groups, Store, StoreElement};
