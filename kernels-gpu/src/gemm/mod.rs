//! Matrix products.
#![expect(
    clippy::needless_range_loop,
    reason = "LLVM keeps an array in registers where it is indexed, not where it is iterated over"
)]

mod entries;
mod epilogue;
mod simt;

pub use entries::*;
