//! What most kernels use.

pub use crate::{block, convert, dynamic_shared, kernel, math, mem, shared_array, thread, warp};
