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

/// A row of `extent` elements that begins at coordinates of a tensor.
pub(super) struct TensorRow<'a> {
    map: &'a TensorMapDesc,
    extent: usize,
    /// The part that is inside of the innermost dimension, in the first row of the tensor.
    first: Span,
}

impl<'a> TensorRow<'a> {
    /// The rows from coordinate `start` of the innermost dimension on.
    pub(super) fn new(map: &'a TensorMapDesc, start: i32, extent: usize) -> Self {
        let (before, inside) = clip(i64::from(start), extent, map.dims[0]);
        let first = i64::from(start) + before as i64;
        let offset = (first as u64).wrapping_mul(map.data_type.bytes());
        let first = Span {
            address: map.address.wrapping_add(offset),
            before,
            inside,
        };
        Self { map, extent, first }
    }

    /// The row at these coordinates of the other dimensions.
    pub(super) fn at(&self, coordinates: impl Iterator<Item = i64>) -> Span {
        let mut span = self.first;
        let mut is_inside = span.inside > 0;
        let outer = self.map.dims[1..].iter().zip(&self.map.strides_bytes);
        for ((dim, stride), at) in outer.zip(coordinates) {
            is_inside &= at >= 0 && at < *dim as i64;
            span.address = span.address.wrapping_add((at as u64).wrapping_mul(*stride));
        }
        match is_inside {
            true => span,
            false => Span {
                address: 0,
                before: self.extent,
                inside: 0,
            },
        }
    }
}

/// The part of a row of `extent` elements from coordinate `start` on that is inside the dimension:
/// elements before it, and elements inside.
fn clip(start: i64, extent: usize, dim: u64) -> (usize, usize) {
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
    let row = TensorRow::new(map, start[0], extent);
    let mut at = [0u32; TENSOR_MAP_RANK];
    loop {
        f(row.at((1..rank).map(|axis| {
            i64::from(start[axis]) + i64::from(at[axis]) * i64::from(map.element_strides[axis])
        })))?;
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
