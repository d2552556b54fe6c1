//! Attention, forward.

mod lengths;
mod merge;
mod simt;
mod sm80;
pub mod sm90;

pub use merge::attention_merge;
pub use simt::*;
pub use sm80::*;
