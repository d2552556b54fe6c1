//! Matrix products.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

mod entries;
#[allow(dead_code)]
mod fused;
mod simt;

pub use entries::*;
