//! A single row of medium length: each block of one cluster has a part of it.
//!
//! [`super::long`] cuts such a row too, but there the parts meet in global memory. A partial
//! result, a ticket and the partial results of the others are three ways to the L2 cache and back,
//! and a launch needs memory for them. Here every block stores its result in the shared memory of
//! the cluster's first block, which merges them in the same order, so the bits are the same. The
//! stores count on an mbarrier: only the block that merges waits.

use abi::reduce::{BATCH, CLUSTER_PARTS, ReduceParams, THREADS};
use cuda_std::cluster::{
    barrier_cluster_arrive_release_aligned, barrier_cluster_wait_acquire_aligned,
    mapa_shared_cluster, st_async_shared_cluster_v4_u32,
};
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tma::cp_async_bulk_prefetch_l2_global;
use cuda_std::warp::Words;
use cuda_std::{mem, thread};

use super::body::Arrays;
use super::fold::Fold;
use super::load::{Load, ahead};
use super::long::{self, WARPS, of_block, of_part, of_thread_after};
use super::settle::Scratch;

/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;
/// Vectors that a block loads together.
const TOGETHER: u32 = THREADS * BATCH;
/// Words of a slot: what one asynchronous store writes.
const SLOT_WORDS: usize = 4;
/// Words of the barrier.
const BARRIER_WORDS: usize = 2;

/// Words of shared memory, for accumulators of `of_each` words: a slot for each part and the barrier,
/// then what [`of_block`] needs.
pub(super) const fn words(of_each: usize) -> usize {
    SLOT_WORDS * CLUSTER_PARTS + BARRIER_WORDS + long::words(of_each)
}

/// What the parts meet in, in the shared memory of the cluster's first block.
struct Meeting {
    slots: *mut u32,
    /// Completes when all slots are written.
    written: Mbarrier,
}

impl Meeting {
    /// Begins it in the first block, and waits until that has happened and all blocks run.
    ///
    /// # Safety
    /// All threads of the cluster call it, once; `slots` is shared memory for slots and barrier, the
    /// same place in each block, aligned to 16, which nothing else uses.
    #[inline(always)]
    unsafe fn begin(slots: *mut u32, part: u32, parts: u32) -> Self {
        let after = slots.wrapping_add(SLOT_WORDS * CLUSTER_PARTS);
        // SAFETY: passed on to the caller. One thread of the first block makes the barrier, and the
        // others of the cluster use it after the cluster's.
        unsafe {
            let written = Mbarrier::at(SharedAddr::of(after.cast_const()));
            if part == 0 && thread::thread_idx_x() == 0 {
                written.init(1);
                fence_mbarrier_init_release_cluster();
                written.arrive_expect_tx(parts * (SLOT_WORDS * 4) as u32);
            }
            barrier_cluster_arrive_release_aligned();
            barrier_cluster_wait_acquire_aligned();
            Self { slots, written }
        }
    }

    #[inline(always)]
    fn slot(&self, part: u32) -> *mut u32 {
        self.slots.wrapping_add(SLOT_WORDS * part as usize)
    }

    /// Gives the first block a part's accumulator.
    ///
    /// # Safety
    /// One thread of the cluster calls it for each part, once.
    #[inline(always)]
    unsafe fn give<A: Words>(&self, part: u32, acc: A) {
        let (mut words, mut count) = ([0; SLOT_WORDS], 0);
        acc.map_words(|word| {
            words[count] = word;
            count += 1;
            word
        });
        // SAFETY: passed on to the caller; the first block waits for every slot before it ends, and
        // reads none before.
        unsafe {
            let slot = SharedAddr::of(self.slot(part).cast_const());
            let at = mapa_shared_cluster(slot, 0);
            st_async_shared_cluster_v4_u32(at, words, self.written.of_rank(0));
        }
    }

    /// A part's accumulator.
    ///
    /// # Safety
    /// All slots are written, of the same type, and this is the first block.
    #[inline(always)]
    unsafe fn take<A: Words>(&self, part: u32, like: A) -> A {
        // SAFETY: passed on to the caller.
        let words = unsafe { mem::ld_shared_v4_u32(SharedAddr::of(self.slot(part).cast_const())) };
        let mut count = 0;
        like.map_words(|_| {
            count += 1;
            words[count - 1]
        })
    }
}

/// The kernel's work. Merging accumulators of no elements gives another one, bit for bit.
///
/// The blocks meet before they wait for the launch before: what that takes is over by then.
///
/// # Safety
/// The arrays are those of `params`, of a plan for one long row in at most [`CLUSTER_PARTS`] parts.
/// The grid is one cluster with a block for each. `scratch` is shared memory of [`words`], aligned
/// to 16, and the whole block is here.
#[inline(always)]
pub(super) unsafe fn row<F, T, const V: usize, const L: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    const { assert!(F::WORDS <= SLOT_WORDS, "an accumulator fits into a slot") };
    griddepcontrol_launch_dependents();
    let (part, parts) = (thread::block_idx_x(), thread::grid_dim_x());
    let own = scratch.wrapping_add(SLOT_WORDS * CLUSTER_PARTS + BARRIER_WORDS);
    let own = Scratch::new(own, WARPS as usize);
    // SAFETY: the row has that many vectors from there on; the whole block is here, and its own slots
    // are nobody else's. Each block gives its part, and the first one, which they are given to, ends
    // when all are there. One thread writes the output.
    unsafe {
        let meeting = Meeting::begin(scratch, part, parts);
        let (at, first, vectors) = of_part::<F, T, V>(arrays, 0, part, params);
        griddepcontrol_wait();
        if thread::thread_idx_x() == 0 && vectors > TOGETHER {
            // What is not loaded at once is on its way to L2 meanwhile.
            let rest = at.wrapping_add((TOGETHER * VECTOR_BYTES) as usize);
            cp_async_bulk_prefetch_l2_global(rest, (vectors - TOGETHER) * VECTOR_BYTES);
        }
        let x = ahead(at, vectors, THREADS);
        let acc = of_thread_after::<F, T, V, L>(x, at, first, vectors, params);
        let acc = of_block::<F>(acc, &own, params);
        if thread::thread_idx_x() == 0 {
            meeting.give(part, acc);
        }
        if part == 0 && thread::thread_idx_x() < thread::WARP_THREADS {
            let lane = thread::lane_idx();
            meeting.written.wait_parity(0);
            let mut acc = F::empty(params);
            if lane < parts {
                acc = F::merge(acc, meeting.take(lane, acc), params);
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
