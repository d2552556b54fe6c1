//! Stores a result from registers to global memory.

use cuda_std::convert::{f32_to_bf16, f32_to_f16};
use cuda_std::hint::opaque;

use super::pairs::shift_in;
use super::thread_tile::{TILE, ThreadTile};
use crate::attention::simt::elements::ElementType;
use crate::simt::element::CHUNK;
use crate::simt::product::Accumulator;

/// Where a result lies: `rows` vectors of `extent` elements.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    /// The first element of the block's first row.
    pub(super) base: *mut u8,
    /// Bytes between rows.
    pub(super) ld_bytes: i64,
    pub(super) rows: u32,
    pub(super) extent: u32,
}

/// Writes this thread's part of a result times `factor`. Rows of queries whose lse is +inf in
/// shared memory are 0, if `has_queries`. The result has turned once around afterwards.
///
/// # Safety
/// The block's rows can be written, and no other block has them. lse is in shared memory, if
/// `has_queries`.
#[inline(always)]
pub(super) unsafe fn write<const COLUMNS: usize>(
    result: &mut Accumulator<CHUNK, COLUMNS>,
    thread_tile: &ThreadTile,
    to: &Destination,
    (factor, has_queries): (f32, bool),
    element: ElementType,
) {
    let mut row = 0;
    while row < opaque(CHUNK as u32) {
        let row_idx = thread_tile.first_row + row;
        let sees_nothing = has_queries && {
            // SAFETY: the caller's promise.
            unsafe { thread_tile.query(row_idx).read() == f32::INFINITY }
        };
        let bytes = (i64::from(row_idx) * to.ld_bytes) as isize;
        let vector = to.base.wrapping_offset(bytes);
        let mut idx = 0;
        while idx < opaque(COLUMNS as u32) {
            let column =
                idx / CHUNK as u32 * TILE as u32 + thread_tile.first_column + idx % CHUNK as u32;
            let value = if sees_nothing {
                0.0
            } else {
                result[0][0] * factor
            };
            if row_idx < to.rows && column < to.extent {
                let at = vector.wrapping_add(column as usize * element.size_bytes());
                // SAFETY: the caller's promise; threads have different rows and columns.
                unsafe { store(at, value, element) }
            }
            let first = result[0][0];
            shift_in(&mut result[0], first);
            idx += 1;
        }
        *result = [result[1], result[2], result[3], result[0]];
        row += 1;
    }
}

/// Rounds and writes an element.
///
/// # Safety
/// It can be written.
#[inline(always)]
unsafe fn store(at: *mut u8, value: f32, element: ElementType) {
    // SAFETY: the caller's promise.
    unsafe {
        if element.is_f32() {
            at.cast::<f32>().write(value);
        } else if element.is_f16() {
            at.cast::<u16>().write(f32_to_f16(value));
        } else {
            at.cast::<u16>().write(f32_to_bf16(value));
        }
    }
}
