//! The register-blocked outer product of fragments of two staged tiles.

use cuda_std::math::fma;

use super::element::{CHUNK, F32x4};
use super::operand::pitch;

/// Accumulators of one thread: `ROWS`×`COLUMNS`.
pub(crate) type Accumulator<const ROWS: usize, const COLUMNS: usize> = [[f32; COLUMNS]; ROWS];

/// A thread's elements of one row of a staged tile: chunks of 4, `WIDTH / (COUNT / 4)` apart.
pub(crate) type Fragment<const COUNT: usize> = [f32; COUNT];

/// Elements between a thread's chunks in a tile `width` wide.
pub(crate) const fn chunk_spacing(width: usize, count: usize) -> usize {
    width / (count / CHUNK)
}

/// Reads a thread's fragment of row `k_idx` of a staged tile; `first` is the thread's first element
/// of row 0.
///
/// # Safety
/// The tile is staged, its row `k_idx` within it, and `first` aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn read_fragment<const WIDTH: usize, const COUNT: usize>(
    first: *const f32,
    k_idx: usize,
) -> Fragment<COUNT> {
    let row = first.wrapping_add(k_idx * pitch(WIDTH));
    let mut fragment = [0.0; COUNT];
    for chunk_idx in 0..COUNT / CHUNK {
        let chunk = row.wrapping_add(chunk_idx * chunk_spacing(WIDTH, COUNT));
        // SAFETY: the caller's promise.
        let values = unsafe { chunk.cast::<F32x4>().read() }.0;
        for idx in 0..CHUNK {
            fragment[CHUNK * chunk_idx + idx] = values[idx];
        }
    }
    fragment
}

/// `acc[i][j] = fma(a[i], b[j], acc[i][j])`
#[inline(always)]
pub(crate) fn outer_product<const ROWS: usize, const COLUMNS: usize>(
    acc: &mut Accumulator<ROWS, COLUMNS>,
    a: &Fragment<ROWS>,
    b: &Fragment<COLUMNS>,
) {
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            acc[row][column] = fma(a[row], b[column], acc[row][column]);
        }
    }
}

/// [`outer_product`] in a meander (every other row backwards): each multiply-add shares a factor
/// with the one before, also at the end of a row. So it reads two registers, and takes the third
/// from the reuse cache.
#[inline(always)]
pub(crate) fn outer_product_in_meander<const ROWS: usize, const COLUMNS: usize>(
    acc: &mut Accumulator<ROWS, COLUMNS>,
    a: &Fragment<ROWS>,
    b: &Fragment<COLUMNS>,
) {
    for row in 0..ROWS {
        for idx in 0..COLUMNS {
            let column = if row % 2 == 1 { COLUMNS - 1 - idx } else { idx };
            acc[row][column] = fma(a[row], b[column], acc[row][column]);
        }
    }
}
