//! Rows of a few vectors: one vector a thread, several rows on their way, and nothing but the row
//! itself is computed for a row.
//!
//! What [`super::body`] does for an item (where it is, singles, barriers) costs several times the
//! 16 bytes that a thread has of such a row. So here no thread waits for another warp.

use cuda_std::hint::opaque;
use cuda_std::thread;
use spec::reduce::{ROWS_SHORT, ReduceParams, SHORT_LANES, SHORT_ROWS_OF_THREAD, THREADS};

use super::body::{Arrays, of_lanes};
use super::fold::{Fold, Indices};
use super::load::{Load, Raw};

/// Rows of which a thread has a vector on its way.
const ROWS: usize = SHORT_ROWS_OF_THREAD as usize;
/// True where [`rows`] may be called: the view's rows are short, and each begins at 16 bytes.
#[inline(always)]
pub(super) fn is_short<F: Fold, const V: usize>(x: *const u8, params: &ReduceParams) -> bool {
    F::HAS_SHORT
        && V as u64 >= SHORT_LANES
        && params.rows == ROWS_SHORT
        && x.addr().is_multiple_of(16)
}

/// A launch over short rows.
///
/// # Safety
/// The arrays are those of `params`, of which [`is_short`] is true; the whole block is here.
#[inline(always)]
pub(super) unsafe fn rows<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
) {
    let view = &params.view;
    let thread = thread::thread_idx_x();
    let place = thread & ((1 << params.along_log2) - 1);
    let groups = u64::from(THREADS >> params.along_log2);
    let has_vector = u64::from(place) * (V as u64) < view.n;
    let indices = Indices {
        first: u64::from(place) * V as u64,
        step: 1,
        lane: 0,
    };
    let size = T::bytes(params.mask);
    let row_bytes = view.outer_stride.wrapping_mul(size);
    let group_bytes = row_bytes.wrapping_mul(groups as i64);
    let of_block = groups * ROWS as u64;
    let mut first = u64::from(thread::block_idx_x()) * of_block;
    while first < view.outer {
        let mut row = first + u64::from(thread >> params.along_log2);
        let mut at = arrays
            .x
            .wrapping_offset((row as i64).wrapping_mul(row_bytes) as isize)
            .wrapping_add(place as usize * 16);
        let mut raws: [Raw; ROWS] = [[0; 4]; ROWS];
        for (r, raw) in raws.iter_mut().enumerate() {
            if has_vector && row + r as u64 * groups < view.outer {
                // SAFETY: a vector of a row of the view, aligned as the caller says.
                *raw = unsafe { T::vector(at, params.mask) };
            }
            at = at.wrapping_offset(group_bytes as isize);
        }
        let mut left = opaque(ROWS as u32); // no copies of what follows
        while left > 0 {
            let xs = |u: usize, _: usize| T::number(raws[0], u);
            let [local] = F::batch::<1, V>([F::start(params)], xs, 0, params);
            let acc = match has_vector {
                true => F::close(local, V as u32, &indices, 0),
                false => F::empty(params),
            };
            // SAFETY: all lanes go through the same rows.
            let acc = unsafe { of_lanes::<F>(acc, params) };
            if place == 0 && row < view.outer {
                // SAFETY: an output of the launch, which this thread alone writes.
                unsafe { F::finish(acc, params, arrays.out, row) };
            }
            row += groups;
            // What comes next moves to the front: a loop has no register by number.
            raws = core::array::from_fn(|r| raws[(r + 1) % ROWS]);
            left -= 1;
        }
        first += u64::from(thread::grid_dim_x()) * of_block;
    }
}
