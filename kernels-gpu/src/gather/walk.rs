//! Where elements of a walk are.

use abi::elementwise::{MAX_RANK, WalkParams};
use cuda_std::hint::opaque;

/// Offsets of elements of a walk in its first `TENSORS` tensors.
#[inline(always)]
pub(super) fn offsets<const TENSORS: usize, const N: usize>(
    walk: &WalkParams,
    elements: [u32; N],
) -> [[i64; TENSORS]; N] {
    let (mut offsets, mut rest, mut dimension) = ([[0_i64; TENSORS]; N], elements, 0);
    while dimension < walk.rank {
        let axis = dimension as usize % MAX_RANK;
        for j in 0..N {
            let (quotient, at) = walk.extents[axis].div_rem(rest[j]);
            for t in 0..TENSORS {
                let step = i64::from(at).wrapping_mul(walk.strides[t][axis]);
                offsets[j][t] = offsets[j][t].wrapping_add(step);
            }
            rest[j] = quotient;
        }
        // Not unrolled: there are few dimensions, and all threads have the same number.
        dimension = opaque(dimension) + 1;
    }
    offsets
}

/// The index; a negative one with `wrap` added, which is 0 or the extent of the axis.
#[inline(always)]
pub(super) fn wrapped(index: i64, wrap: i64) -> i64 {
    index + if index < 0 { wrap } else { 0 }
}
