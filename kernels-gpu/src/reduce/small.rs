//! Few rows of up to 16 KiB: a block has one, with as many threads as take four vectors each.
//!
//! Such a launch takes as long as its longest chain of waits: the parameters, one load, shuffles, a
//! store. So all of a thread's vectors go through one tree, and one branch on the operation leads
//! to code that has no other. A row of 2 KiB or less is one warp's, which waits at no barrier.

use abi::reduce::{ReduceParams, SMALL_VECTORS_OF_THREAD};
use cuda_std::thread;

use super::body::Arrays;
use super::fold::{Fold, Indices, by_operation};
use super::load::{Load, Raw, ahead};
use super::long::{WARPS, of_part};
use super::settle::Scratch;

/// Vectors that a thread has of a row.
const FEW: usize = SMALL_VECTORS_OF_THREAD as usize;

/// The kernel's work. `L` is the number of elements of [`FEW`] vectors.
///
/// # Safety
/// The arrays are those of `params`, of a plan for small rows; `scratch` is shared memory of
/// [`super::long::words`]; the whole block is here.
#[inline(always)]
pub(super) unsafe fn rows<F, T, const V: usize, const L: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    let row = thread::block_idx_x();
    let (at, _, vectors) = of_part::<F, T, V>(arrays, row, 0, params);
    let scratch = Scratch::new(scratch, WARPS as usize);
    let threads = thread::block_dim_x();
    // SAFETY: the row has that many vectors, of which no thread has more than `FEW`; the whole block
    // is here, and one thread writes the output.
    unsafe {
        // Ahead of the branch on the operation, which takes no time then.
        let raws = ahead(at, vectors, threads);
        let acc = by_operation!(F, |params| {
            let acc = of_few::<F, T, V, L>(&raws, vectors, threads, params);
            of_threads::<F>(acc, threads, &scratch, params)
        });
        if thread::thread_idx_x() == 0 {
            F::finish::<V>(acc, params, arrays.out, u64::from(row));
        }
    }
}

/// The accumulator of a thread's vectors.
#[inline(always)]
fn of_few<F, T, const V: usize, const L: usize>(
    raws: &[Raw; FEW],
    vectors: u32,
    threads: u32,
    params: &ReduceParams,
) -> F::Acc
where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    const {
        assert!(
            L == FEW * V && F::TAKES_SOME,
            "one tree takes all that a thread has"
        );
    }
    let thread = thread::thread_idx_x();
    let xs = |u: usize| T::number(raws[u / V], u % V);
    let is_there = |u: usize| thread + (u / V) as u32 * threads < vectors;
    let local = F::some::<L>(F::start(params), xs, is_there, params);
    let indices = Indices {
        first: 0,
        step: 0,
        lane: 0,
    };
    F::close_joined::<V>(local, 0, &indices)
}

/// Merges the accumulators of a block of `threads`; the first warp has the result.
///
/// # Safety
/// The whole block is here; nobody else uses the slots.
#[inline(always)]
unsafe fn of_threads<F: Fold>(
    acc: F::Acc,
    threads: u32,
    scratch: &Scratch,
    params: &ReduceParams,
) -> F::Acc {
    let (thread, lane) = (thread::thread_idx_x(), thread::lane_idx());
    // SAFETY: passed on to the caller; a slot for each warp, read after the barrier.
    unsafe {
        let mut acc = F::merge_lanes(acc, thread::WARP_THREADS, params);
        if threads > thread::WARP_THREADS {
            if lane == 0 {
                scratch.write(thread / thread::WARP_THREADS, acc);
            }
            thread::sync_threads();
            acc = F::empty(params);
            if thread < threads / thread::WARP_THREADS {
                acc = scratch.read(thread, acc);
            }
            acc = F::merge_lanes(acc, WARPS, params);
        }
        acc
    }
}
