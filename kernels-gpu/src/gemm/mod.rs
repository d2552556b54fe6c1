//! Matrix products.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

#[cfg(feature = "entries")]
pub mod decode;
#[cfg(feature = "entries")]
mod entries;
#[cfg(feature = "entries")]
mod finish;
#[cfg(feature = "entries")]
mod fused;
#[cfg(feature = "entries")]
mod mma;
#[cfg(feature = "entries")]
mod simt;
pub mod sm90;
#[cfg(feature = "entries")]
mod store;

#[cfg(feature = "entries")]
pub use entries::*;
#[cfg(feature = "entries")]
pub use finish::*;
#[cfg(feature = "entries")]
pub use mma::*;
