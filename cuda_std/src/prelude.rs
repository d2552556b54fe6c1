//! What most kernels use.

pub use crate::safe::{
    Block, Disjoint, InRow, InTile, Index1, Index2, PerBlock, PerWarp, SharedTile, View2,
};
pub use crate::{block, convert, dynamic_shared, kernel, math, mem, shared_array, thread, warp};
