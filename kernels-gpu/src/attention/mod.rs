//! Attention, forward.

mod lengths;
mod merge;
mod merge_parts;
mod simt;
mod sm80;
pub mod sm90;

pub use merge::attention_merge;
pub use merge_parts::attention_merge_parts;
pub use simt::*;
pub use sm80::*;
