//! Attention, forward.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

mod entries;
mod flash_fwd;
mod mask;
mod softmax;
mod values;

pub use entries::*;
