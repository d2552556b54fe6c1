//! Stores a gradient from registers to global memory.

use cuda_std::hint::{opaque, rotate};
use cuda_std::mem::st_v2_u32;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, shfl_bfly};

use crate::attention::sm80::element::Half;
use crate::attention::sm80::softmax::Accumulator;

/// Where the block's rows of a gradient lie.
pub(super) struct Destination {
    /// The first element of the block's first row.
    pub(super) base: *mut u8,
    /// Elements between rows.
    pub(super) ld: i64,
    /// Rows that exist.
    pub(super) rows: u32,
    /// Elements of a row, a multiple of 8.
    pub(super) extent: u32,
}

/// Stores a result times `factor`; 0 in rows that `keeps` says no to. `first_row` is the thread's.
/// The result turns once around.
///
/// A lane holds two of every eight columns. Neighbours exchange some, so that each stores four of
/// every
/// 16, and four lanes together whole sectors of 32 bytes.
///
/// # Safety
/// The warp calls it, converged. Rows that exist can be written, 8 bytes at once, and are the
/// block's.
#[inline(always)]
pub(super) unsafe fn write<E: Half, const M: usize, const D: usize>(
    result: &mut Accumulator<M, D>,
    to: &Destination,
    first_row: u32,
    factor: f32,
    keeps: impl Fn(usize, usize) -> bool,
) {
    let lane = thread::thread_idx_x() % 4;
    let is_upper = lane & 1 != 0;
    let first = 8 * (lane % 2) + 4 * (lane / 2);
    let mut is_kept = [[true; 2]; M];
    for i in 0..M {
        for half in 0..2 {
            is_kept[i][half] = keeps(i, half);
        }
    }
    let mut column = first;
    // All columns in turn come to the front: the code of all of them would be a fifth of the
    // kernel.
    while column - first < opaque(8 * D as u32) {
        for i in 0..M {
            for half in 0..2 {
                let row = first_row + (16 * i + 8 * half) as u32;
                let packed = |j: usize| {
                    let scaled = |element: usize| {
                        let value = result[i][j][2 * half + element] * factor;
                        if is_kept[i][half] { value } else { 0.0 }
                    };
                    E::pack(scaled(0), scaled(1))
                };
                let (x, y) = (packed(0), packed(1));
                let offset = i64::from(row) * to.ld + i64::from(column);
                let at = to.base.cast::<u16>().wrapping_offset(offset as isize);
                // SAFETY: the caller's promise.
                unsafe {
                    let got = shfl_bfly(FULL_MASK, if is_upper { x } else { y }, 1);
                    let words = if is_upper { [got, y] } else { [x, got] };
                    if row < to.rows && column < to.extent {
                        st_v2_u32(at.cast(), words);
                    }
                }
            }
            rotate(&mut result[i]);
            rotate(&mut result[i]);
        }
        column += 16;
    }
}
