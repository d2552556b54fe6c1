//! What most kernels use.

pub use crate::{dynamic_shared, kernel, shared_array, thread};
