//! Columns of im2col maps: the pixels of a column and their addresses.

use super::tile::{Span, TensorRow};
use crate::exec::fault::Checked;
use crate::tensor_map::{Im2col, TensorMapDesc};

/// Calls `f` for each pixel of the column that begins at `start`, in the order in which they lie in
/// shared memory. The position runs through the bounding box, innermost dimension first, then
/// through the images; the pixel that is read is the one at that position plus `offsets`.
pub(super) fn pixels(
    map: &TensorMapDesc,
    window: &Im2col,
    start: &[i32],
    offsets: &[u16],
    mut f: impl FnMut(Span) -> Checked<()>,
) -> Checked<()> {
    let rank = map.dims.len();
    let spatial = rank - 2;
    let extent = window.channels_per_pixel as usize;
    let row = TensorRow::new(map, start[0], extent);
    let mut at: [i64; 5] = std::array::from_fn(|axis| start.get(axis).map_or(0, |v| i64::from(*v)));
    for _ in 0..window.pixels_per_column {
        f(row.at((1..rank).map(|axis| {
            let offset = offsets.get(axis - 1).filter(|_| axis <= spatial);
            at[axis] + offset.map_or(0, |offset| i64::from(*offset))
        })))?;
        advance(map, window, &mut at);
    }
    Ok(())
}

/// Moves a position to the next one in the bounding box.
fn advance(map: &TensorMapDesc, window: &Im2col, at: &mut [i64; 5]) {
    let spatial = map.dims.len() - 2;
    for axis in 0..spatial {
        let place = &mut at[axis + 1];
        *place += i64::from(map.element_strides[axis + 1]);
        let last = map.dims[axis + 1] as i64 - 1 + i64::from(window.upper_corner[axis]);
        if *place <= last {
            return;
        }
        *place = i64::from(window.lower_corner[axis]);
    }
    at[spatial + 1] += i64::from(map.element_strides[spatial + 1]);
}
