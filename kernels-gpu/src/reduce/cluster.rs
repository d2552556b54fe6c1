//! A single row of medium length: each block of one cluster has a part of it.
//!
//! [`super::long`] cuts such a row too, but there the parts meet in global memory: a partial result,
//! a ticket and the partial results of the others are three ways to the L2 cache and back, and a
//! launch needs memory for them. Here every block stores its result in the shared memory of the
//! cluster's first block, which merges them in the same order, so the bits are the same.

use cuda_std::cluster::{
    barrier_cluster_arrive_relaxed_aligned, barrier_cluster_arrive_release_aligned,
    barrier_cluster_wait_acquire_aligned, mapa_shared_cluster, st_shared_cluster_u32,
};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_prefetch_l2_global;
use cuda_std::warp::Words;
use spec::reduce::{BATCH, CLUSTER_PARTS, ReduceParams, THREADS};

use super::body::Arrays;
use super::fold::Fold;
use super::load::Load;
use super::long::{self, WARPS, of_block, of_part, of_thread};
use super::settle::Scratch;

/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;
/// Vectors that a block loads together.
const TOGETHER: u32 = THREADS * BATCH;

/// Words of shared memory, for accumulators of `of_each` words: what [`of_block`] needs, then a slot
/// for each part.
pub(super) const fn words(of_each: usize) -> usize {
    long::words(of_each) + Scratch::words(CLUSTER_PARTS, of_each)
}

/// The kernel's work. Merging accumulators of no elements gives another one, bit for bit.
///
/// # Safety
/// The arrays are those of `params`, of a plan for one long row in at most [`CLUSTER_PARTS`] parts;
/// the grid is one cluster with a block for each; `scratch` is shared memory of [`words`]; the whole
/// block is here.
#[inline(always)]
pub(super) unsafe fn row<F, T, const V: usize, const L: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    let part = thread::block_idx_x();
    let slots = Scratch::new(scratch.wrapping_add(long::words(F::WORDS)), CLUSTER_PARTS);
    // SAFETY: the row has that many vectors from there on; the whole block is here, and its own slots
    // are nobody else's. All threads of the cluster get to both of its barriers. A slot of the first block has
    // one writer, which has waited until that block runs; it is read after the second barrier, for
    // which that block waits before it ends. One thread writes the output.
    unsafe {
        barrier_cluster_arrive_relaxed_aligned(); // this block runs
        let own = Scratch::new(scratch, WARPS as usize);
        let (at, first, vectors) = of_part::<F, T, V>(arrays, 0, part, params);
        if thread::thread_idx_x() == 0 && vectors > TOGETHER {
            // What is not loaded at once is on its way to L2 meanwhile.
            let rest = at.wrapping_add((TOGETHER * VECTOR_BYTES) as usize);
            cp_async_bulk_prefetch_l2_global(rest, (vectors - TOGETHER) * VECTOR_BYTES);
        }
        let acc = of_thread::<F, T, V, L>(at, first, vectors, params);
        let acc = of_block::<F>(acc, &own, params);
        barrier_cluster_wait_acquire_aligned(); // all blocks run
        if thread::thread_idx_x() == 0 {
            give(&slots, part, acc);
        }
        barrier_cluster_arrive_release_aligned();
        barrier_cluster_wait_acquire_aligned(); // all slots are written
        if part == 0 && thread::thread_idx_x() < thread::WARP_THREADS {
            let lane = thread::lane_idx();
            let mut acc = F::empty(params);
            if u64::from(lane) < params.chunks {
                acc = F::merge(acc, slots.read(lane, acc), params);
            }
            acc = F::merge_lanes(acc, thread::WARP_THREADS, params);
            // With tickets, the other warps have no parts, and are merged as well.
            let alone = match lane {
                0 => acc,
                _ => F::empty(params),
            };
            acc = F::merge_lanes(alone, WARPS, params);
            if lane == 0 {
                F::finish::<V>(acc, params, arrays.out, 0);
            }
        }
    }
}

/// Writes a slot of the cluster's first block.
///
/// # Safety
/// That block runs; nobody else uses the slot.
#[inline(always)]
unsafe fn give<A: Words>(slots: &Scratch, slot: u32, acc: A) {
    // SAFETY: the slots are in shared memory, and passed on to the caller.
    unsafe {
        let own = SharedAddr::of(slots.at(slot).cast_const());
        let mut at = mapa_shared_cluster(own, 0);
        acc.map_words(|word| {
            st_shared_cluster_u32(at, word);
            at = at.add_bytes(slots.step_bytes());
            word
        });
    }
}
