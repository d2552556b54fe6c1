//! Pairs of an index and its position, and the walks that say where things are.

use abi::elementwise::{MAX_RANK, WalkParams};
use abi::scatter_add::{DIGITS, OrderParams};
use cuda_std::hint::opaque;

/// Behind all pairs that have a position.
pub(super) const NONE: u64 = u64::MAX;

/// The index of a pair.
#[inline(always)]
pub(super) fn index(pair: u64) -> u32 {
    (pair >> 32) as u32
}

/// A digit of its index.
#[inline(always)]
pub(super) fn digit(pair: u64, shift: u32) -> u32 {
    (index(pair) >> shift) & (DIGITS - 1)
}

/// Bytes between element 0 and these elements, in tensors `FIRST` and `SECOND` of a walk.
#[inline(always)]
pub(super) fn offsets<const FIRST: usize, const SECOND: usize, const N: usize>(
    walk: &WalkParams,
    elements: [u32; N],
) -> [[i64; 2]; N] {
    let (mut offsets, mut rest, mut dimension) = ([[0_i64; 2]; N], elements, 0);
    while dimension < walk.rank {
        let axis = dimension as usize % MAX_RANK;
        for j in 0..N {
            let (quotient, at) = walk.extents[axis].div_rem(rest[j]);
            let step = |tensor: usize| i64::from(at).wrapping_mul(walk.strides[tensor][axis]);
            offsets[j][0] = offsets[j][0].wrapping_add(step(FIRST));
            offsets[j][1] = offsets[j][1].wrapping_add(step(SECOND));
            rest[j] = quotient;
        }
        // Not unrolled: there are few dimensions, and all threads have the same number.
        dimension = opaque(dimension) + 1;
    }
    offsets
}

/// The indices at these bytes behind the first one, where `wrap` is added to negative ones; one that
/// is out of range counts as the extent.
///
/// # Safety
/// There are indices of so many bytes.
#[inline(always)]
pub(super) unsafe fn indices_at<const N: usize>(
    indices: *const u8,
    offsets: [i64; N],
    index_bytes: u32,
    (extent, wrap): (u32, u32),
) -> [u32; N] {
    let at = offsets.map(|offset| indices.wrapping_offset(offset as isize));
    // SAFETY: passed on to the caller.
    let indices = unsafe {
        match index_bytes {
            8 => at.map(|at| at.cast::<i64>().read()),
            _ => at.map(|at| i64::from(at.cast::<i32>().read())),
        }
    };
    // A negative one is larger than any extent.
    indices.map(|index| {
        let wrap = if index < 0 { wrap } else { 0 };
        ((index + i64::from(wrap)) as u64).min(extent.into()) as u32
    })
}

/// The pair of position `position`.
///
/// # Safety
/// `indices` are the launch's, and have that position.
#[inline(always)]
pub(super) unsafe fn pair(indices: *const u8, position: u32, params: &OrderParams) -> u64 {
    let [[_, offset]] = offsets::<0, 2, 1>(&params.positions, [position]);
    let (bytes, extent) = (params.index_bytes, (params.extent, params.wrap as u32));
    // SAFETY: passed on to the caller, whose indices are as wide as the launch says.
    let [index] = unsafe { indices_at(indices, [offset], bytes, extent) };
    u64::from(index) << 32 | u64::from(position)
}
