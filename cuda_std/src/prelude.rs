//! What most kernels use.

pub use crate::math::{F32Methods as _, F64Methods as _};
pub use crate::safe::{
    Block, Disjoint, InRow, InTile, Index1, Index2, Index3, PerBlock, PerWarp, SharedTile, View2,
    View3,
};
pub use crate::{
    block, convert, dynamic_shared, kernel, kernel_param, math, mem, shared_array, thread, warp,
};
