//! Matrix products.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

pub mod decode;
mod entries;
mod finish;
mod fused;
mod mma;
mod simt;
mod sm90;
mod store;

pub use entries::*;
pub use finish::*;
pub use mma::*;
pub use sm90::*;
