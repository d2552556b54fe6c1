//! One row of few vectors, all of one block.
//!
//! Such a launch is over in the time that [`super::body`] takes to find out where an item's elements
//! are. So there are no items here: threads have every so manieth vector of memory.

use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp;
use spec::reduce::{ReduceParams, THREADS};

use super::body::Arrays;
use super::fold::{Fold, Indices};
use super::load::{Load, Raw};
use super::settle::Scratch;

/// Vectors of a thread that are on their way at a time.
const AT_ONCE: usize = 4;
/// Bytes from one of them to the next.
const STEP: usize = THREADS as usize * 16;
/// Warps of a block.
const WARPS: u32 = THREADS / thread::WARP_THREADS;
/// Words of shared memory, where an accumulator is one.
pub(super) const WORDS: usize = Scratch::words(WARPS as usize, 1);

/// Where elements are does not matter.
const NOWHERE: Indices = Indices {
    first: 0,
    step: 0,
    lane: 0,
};

/// A launch over one small row.
///
/// # Safety
/// The arrays are those of `params`, of a plan for a small row; `scratch` is shared memory of
/// [`WORDS`] words; the whole block is here.
#[inline(always)]
pub(super) unsafe fn row<F: Fold, T: Load<V, Number = F::Number>, const V: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) {
    const { assert!(F::WORDS == 1, "an accumulator is a word") };
    let thread = thread::thread_idx_x();
    let vectors = (params.view.n / V as u64) as u32;
    let mut at = arrays.x.wrapping_add(thread as usize * 16);
    let count = (vectors + THREADS - 1).saturating_sub(thread) / THREADS;
    let mut local = [F::start(params)];
    let mut k = 0;
    while k < count {
        let mut raws: [Raw; AT_ONCE] = [[0; 4]; AT_ONCE];
        for (u, raw) in raws.iter_mut().enumerate() {
            if k + (u as u32) < count {
                // SAFETY: a vector of the row, which begins at 16 bytes.
                *raw = unsafe { T::vector(at.wrapping_add(u * STEP), params.mask) };
            }
        }
        let mut left = opaque((count - k).min(AT_ONCE as u32)); // no copies of what follows
        while left > 0 {
            // All elements are of one result: a lane of so many.
            local = F::batch::<1, V>(local, |u, _| T::number(raws[0], u), 0, params);
            raws = core::array::from_fn(|u| raws[(u + 1) % AT_ONCE]);
            left -= 1;
        }
        at = at.wrapping_add(AT_ONCE * STEP);
        k += AT_ONCE as u32;
    }
    // SAFETY: the whole block is here; slots of their own, the one output.
    unsafe {
        let acc = F::close(local[0], count * V as u32, &NOWHERE, 0);
        let acc = merged::<F>(acc, thread::WARP_THREADS, params);
        let scratch = Scratch::new(scratch, WARPS as usize);
        let lane = thread::lane_idx();
        if lane == 0 {
            scratch.write(thread / thread::WARP_THREADS, acc);
        }
        thread::sync_threads();
        if thread < thread::WARP_THREADS {
            let mut acc = F::empty(params);
            if lane < WARPS {
                acc = scratch.read(lane, acc);
            }
            acc = merged::<F>(acc, WARPS, params);
            if lane == 0 {
                F::finish(acc, params, arrays.out, 0);
            }
        }
    }
}

/// What so many neighbouring lanes have together, a power of two.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
unsafe fn merged<F: Fold>(mut acc: F::Acc, lanes: u32, params: &ReduceParams) -> F::Acc {
    let mut apart = lanes / 2;
    while apart > 0 {
        // SAFETY: passed on to the caller.
        let other = unsafe { warp::shfl_bfly(warp::FULL_MASK, acc, apart) };
        acc = F::merge(acc, other, params);
        apart /= 2;
    }
    acc
}
