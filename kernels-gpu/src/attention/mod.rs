//! Attention, forward.

mod lengths;
mod merge;
mod simt;

pub use merge::attention_merge;
pub use simt::*;
