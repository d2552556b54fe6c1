//! Boxes of tensors: the rows of a box and their addresses.

use crate::exec::fault::Checked;
use crate::tensor_map::{TENSOR_MAP_RANK, TensorMapDesc};

/// A row of a box: elements that are contiguous in the tensor and in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Address of the first element inside the tensor.
    pub(super) address: u64,
    /// Number of elements before it that lie outside the tensor.
    pub(super) before: usize,
    /// Number of elements inside the tensor.
    pub(super) inside: usize,
}

/// The part of a row of `extent` elements from coordinate `start` on that is inside the dimension:
/// elements before it, and elements inside.
pub(super) fn clip(start: i64, extent: usize, dim: u64) -> (usize, usize) {
    let before = start.saturating_neg().clamp(0, extent as i64) as usize;
    let end = (dim as i64)
        .saturating_sub(start)
        .clamp(before as i64, extent as i64);
    (before, end as usize - before)
}

/// Calls `f` for each row of the box at `start`, in the order in which they lie in shared memory.
pub(super) fn rows(
    map: &TensorMapDesc,
    start: &[i32],
    mut f: impl FnMut(Span) -> Checked<()>,
) -> Checked<()> {
    let rank = map.dims.len();
    let extent = map.box_dims[0] as usize;
    let (before, inside) = clip(i64::from(start[0]), extent, map.dims[0]);
    let first = i64::from(start[0]) + before as i64;
    let base = map
        .address
        .wrapping_add((first as u64).wrapping_mul(map.data_type.bytes()));
    let mut at = [0u32; TENSOR_MAP_RANK];
    loop {
        let mut address = base;
        let mut is_inside = inside > 0;
        for axis in 1..rank {
            let step = i64::from(at[axis]) * i64::from(map.element_strides[axis]);
            let place = i64::from(start[axis]) + step;
            is_inside &= place >= 0 && place < map.dims[axis] as i64;
            let offset = (place as u64).wrapping_mul(map.strides_bytes[axis - 1]);
            address = address.wrapping_add(offset);
        }
        f(if is_inside {
            Span {
                address,
                before,
                inside,
            }
        } else {
            Span {
                address: 0,
                before: extent,
                inside: 0,
            }
        })?;
        let mut axis = 1;
        loop {
            if axis == rank {
                return Ok(());
            }
            at[axis] += 1;
            if at[axis] < map.box_dims[axis].div_ceil(map.element_strides[axis]) {
                break;
            }
            at[axis] = 0;
            axis += 1;
        }
    }
}
