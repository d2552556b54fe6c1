//! Rows of a few vectors: a thread has one vector of a row, and loads several rows at a time.
//!
//! What [`super::body`] does for an item (where it is, singles, barriers) costs several times as
//! much as the 16 bytes that a thread has of such a row. Here only the row itself is computed, and
//! no thread waits for another warp.

use abi::reduce::{ReduceParams, SHORT_ROWS_OF_THREAD, THREADS};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::{self, Words};

use super::body::Arrays;
use super::fold::{Fold, Indices};
use super::load::{Load, Raw};

/// Rows whose vectors a thread has in flight.
const ROWS: usize = SHORT_ROWS_OF_THREAD as usize;

/// Rows computed at a time, with one branch on the operation for all of them.
const AT_ONCE: usize = 4;

/// The kernel's work, over short rows.
///
/// # Safety
/// The arrays are those of `params`, of a plan for short rows; the whole block is here.
#[inline(always)]
pub(super) unsafe fn rows<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
) {
    let view = &params.view;
    let lane = thread::lane_idx();
    let slot = lane & ((1 << params.along_log2) - 1);
    let group = u64::from(lane >> params.along_log2);
    // The lanes of a warp read neighbours in memory, and the warp's rows follow each other.
    let groups = u64::from(thread::WARP_THREADS >> params.along_log2);
    let of_warp = groups * ROWS as u64;
    let warp = u64::from(thread::thread_idx_x() / thread::WARP_THREADS);
    let has_vector = u64::from(slot) * (V as u64) < view.n;
    let indices = Indices {
        first: u64::from(slot) * V as u64,
        step: 1,
        lane: 0,
    };
    let row_bytes = view.outer_stride.wrapping_mul(T::bytes(params.mask));
    let warps = u64::from(THREADS / thread::WARP_THREADS);
    let mut row = (u64::from(thread::block_idx_x()) * warps + warp) * of_warp + group;
    // All lanes of a warp stay in the loop, or none: the shuffles below need them all.
    while row - group < view.outer {
        let mut at = arrays
            .x
            .wrapping_offset((row as i64).wrapping_mul(row_bytes) as isize)
            .wrapping_add(slot as usize * 16);
        let mut raws: [Raw; ROWS] = [[0; 4]; ROWS];
        for (r, raw) in raws.iter_mut().enumerate() {
            if has_vector && row + r as u64 * groups < view.outer {
                // SAFETY: a vector of a row of the view, aligned as the caller says.
                *raw = unsafe { T::vector(at, params.mask) };
            }
            at = at.wrapping_offset(row_bytes.wrapping_mul(groups as i64) as isize);
        }
        let mut left = opaque((ROWS / AT_ONCE) as u32); // not unrolled
        while left > 0 {
            let xs = |u: usize, r: usize| T::number(raws[r], u);
            let accs = F::once::<AT_ONCE, V>(xs, &indices, params).map(|acc| match has_vector {
                true => acc,
                false => F::empty(params),
            });
            // SAFETY: all lanes go through the same rows; outputs of the launch, each with one
            // writer.
            unsafe {
                let mut own = Own::of_lanes::<F>(accs, slot, params);
                let mut number = row + groups * u64::from(own.first);
                while own.count > 0 {
                    if own.is_writer && number < view.outer {
                        F::finish::<V>(own.accs[0], params, arrays.out, number);
                    }
                    number += groups * u64::from(own.step);
                    // Rotates the array, as registers cannot be indexed in a loop.
                    own.accs = core::array::from_fn(|r| own.accs[(r + 1) % AT_ONCE]);
                    own.count -= 1;
                }
            }
            row += groups * AT_ONCE as u64;
            raws = core::array::from_fn(|r| raws[(r + AT_ONCE) % ROWS]);
            left -= 1;
        }
        row += (u64::from(thread::grid_dim_x()) * warps - 1) * of_warp;
    }
}

/// Rows whose results a lane has: `first`, `first + step`, .. of those computed together.
struct Own<A> {
    accs: [A; AT_ONCE],
    count: u32,
    first: u32,
    step: u32,
    /// True for one of the lanes that have the same rows.
    is_writer: bool,
}

impl<A: Words> Own<A> {
    /// Merges over the lanes of a row. When two lanes exchange results, each goes on with half of
    /// the rows, as long as there are several.
    ///
    /// # Safety
    /// All lanes of the warp are here.
    #[inline(always)]
    unsafe fn of_lanes<F: Fold<Acc = A>>(
        mut accs: [A; AT_ONCE],
        slot: u32,
        params: &ReduceParams,
    ) -> Self {
        let lanes = 1 << params.along_log2;
        let (mut count, mut first, mut step) = (AT_ONCE as u32, 0, 1);
        // SAFETY: passed on to the caller.
        let half = |mine: [A; 2], is_second: bool, apart: u32| unsafe {
            let (kept, given) = match is_second {
                false => (mine[0], mine[1]),
                true => (mine[1], mine[0]),
            };
            let other = warp::shfl_bfly(warp::FULL_MASK, given, apart);
            F::merge(kept, other, params)
        };
        if lanes >= 2 {
            let is_second = slot & (lanes / 2) != 0;
            accs[0] = half([accs[0], accs[1]], is_second, lanes / 2);
            accs[1] = half([accs[2], accs[3]], is_second, lanes / 2);
            (count, first, step) = (2, u32::from(is_second), 2);
        }
        if lanes >= 4 {
            let is_second = slot & (lanes / 4) != 0;
            accs[0] = half([accs[0], accs[1]], is_second, lanes / 4);
            (count, first) = (1, first + 2 * u32::from(is_second));
        }
        let alike = (lanes / 4).max(1);
        let mut apart = alike / 2;
        while apart > 0 {
            // SAFETY: passed on to the caller.
            let other = unsafe { warp::shfl_bfly(warp::FULL_MASK, accs[0], apart) };
            accs[0] = F::merge(accs[0], other, params);
            apart /= 2;
        }
        Self {
            accs,
            count,
            first,
            step,
            is_writer: slot & (alike - 1) == 0,
        }
    }
}
