//! Hopper's GEMM: `kernel.rs` explains how it works, [`abi::gemm::sm90`] how it is launched.
//!
//! A kernel with an epilogue of your own is an entry that calls [`Gemm::run`]:
//! `examples/kernels/src/lower_triangle.rs` is one.

#[cfg(feature = "gemm")]
mod entries;
mod held;
#[cfg(feature = "gemm")]
mod integer_entries;
mod kernel;
mod load;
mod order_barrier;
mod partials;
mod ragged;
#[cfg(feature = "gemm")]
mod ragged_entries;
mod store;
mod tile_coords;

#[cfg(feature = "gemm")]
pub use entries::*;
#[cfg(feature = "gemm")]
pub use integer_entries::*;
pub use kernel::{Config, Gemm, Promoted, Running, Sums};
pub use load::Boxes;
pub use ragged::Ragged;
#[cfg(feature = "gemm")]
pub use ragged_entries::*;
pub use store::{Destination, Groups, Store, StoreElement};
pub use tile_coords::{TileCoords, Whole};
