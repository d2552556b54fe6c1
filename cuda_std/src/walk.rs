//! Element offsets in strided tensors, computed from the [`abi::elementwise::WalkParams`] of a
//! launch.

use abi::elementwise::{MAX_RANK, WalkParams};

/// The offset, in elements, of element `index` in tensor `tensor`. Tensor 0 is the output, the
/// inputs follow.
///
/// `index` is below the launch's length.
#[inline(always)]
pub fn offset(params: &WalkParams, tensor: usize, index: u32) -> isize {
    let strides = &params.strides[tensor];
    if params.rank <= 1 {
        return (i64::from(index) * strides[0]) as isize;
    }
    let mut rest = index;
    let mut offset = 0_i64;
    let mut axis = 0;
    while axis < MAX_RANK && axis < params.rank as usize {
        let (quotient, at) = params.extents[axis].div_rem(rest);
        offset = offset.wrapping_add(i64::from(at).wrapping_mul(strides[axis]));
        rest = quotient;
        axis += 1;
    }
    offset as isize
}
