//! The gradient of a head's sink: minus the sum of `exp(sink - lse) * delta` over its queries.

use abi::attention::{FlashFwdLengths, FlashFwdParams};
use abi::attention_grad::sink::{SINK_THREADS, SINK_TOGETHER, sink_groups_log2};
use cuda_std::hint::opaque;
use cuda_std::math::{exp, fma};
use cuda_std::thread::{self, WARP_THREADS};
use cuda_std::warp;

use super::pairs::shift_in;
use crate::attention::lengths::sequence;

/// Queries of a thread in a pass.
const TOGETHER: usize = SINK_TOGETHER as usize;

/// f32 elements of shared memory: a sum of each warp.
pub(super) const WARPS: usize = (SINK_THREADS / WARP_THREADS) as usize;

/// What is read.
pub(super) struct Read {
    pub(super) sink: *const f32,
    pub(super) lse: *const f32,
    pub(super) delta: *const f32,
}

/// The gradient of head `head_idx`, in thread 0.
///
/// # Safety
/// As the launch's: parameters and lengths describe what the pointers point to. All threads of the
/// block call it together; nothing else uses `scratch`, shared memory of [`WARPS`] elements.
#[inline(always)]
pub(super) unsafe fn of_head(
    read: &Read,
    head_idx: u32,
    (lengths, params): (&FlashFwdLengths, &FlashFwdParams),
    scratch: *mut f32,
) -> f32 {
    // By shifts: of a divisor the compiler would have to see that it is not 0, or trap.
    let groups_log2 = sink_groups_log2(params.batch);
    let group_log2 = SINK_THREADS.ilog2() - groups_log2;
    let (groups, group) = (1 << groups_log2, 1 << group_log2);
    let thread_idx = thread::thread_idx_x();
    let (group_idx, in_group) = (thread_idx >> group_log2, thread_idx & (group - 1));
    // SAFETY: the caller's promise: there is a sink for each head.
    let logit = unsafe { read.sink.wrapping_add(head_idx as usize).read() };
    let mut sum = 0.0;
    let mut batch_idx = group_idx;
    while batch_idx < params.batch {
        // SAFETY: the caller's promise.
        let sequence = unsafe { sequence(lengths, params, batch_idx) };
        let first = params.lse_offset(&sequence, head_idx) as usize;
        let rows = (
            read.lse.wrapping_add(first),
            read.delta.wrapping_add(first),
            sequence.q.len,
        );
        let mut start = in_group;
        while start < sequence.q.len {
            // SAFETY: the caller's promise: the sequence's queries have both.
            sum += unsafe { pass(logit, rows, (start, group)) };
            start += SINK_TOGETHER * group;
        }
        batch_idx += groups;
    }
    // SAFETY: all threads are here; scratch has an element for each warp, and as many warps there
    // are as a warp has lanes.
    let total = unsafe {
        let sum = warp::reduce(sum, |a, b| a + b);
        let (warp_idx, lane) = (thread_idx / WARP_THREADS, thread_idx % WARP_THREADS);
        if lane == 0 {
            scratch.wrapping_add(warp_idx as usize).write(sum);
        }
        thread::sync_threads(); // every warp's sum is written
        warp::reduce(scratch.wrapping_add(lane as usize).read(), |a, b| a + b)
    };
    0.0 - total
}

/// The terms of the queries `start`, `start + apart` and so on of one pass.
///
/// # Safety
/// lse and delta of the first `count` queries can be read.
#[inline(always)]
unsafe fn pass(
    logit: f32,
    (lse_of, delta_of, count): (*const f32, *const f32, u32),
    (start, apart): (u32, u32),
) -> f32 {
    // A query that is not there is one that saw nothing.
    let (mut lse, mut delta) = ([f32::NEG_INFINITY; TOGETHER], [0.0; TOGETHER]);
    for idx in 0..TOGETHER {
        let query_idx = start + idx as u32 * apart;
        if query_idx < count {
            // SAFETY: the caller's promise.
            unsafe {
                lse[idx] = lse_of.wrapping_add(query_idx as usize).read();
                delta[idx] = delta_of.wrapping_add(query_idx as usize).read();
            }
        }
    }
    let mut sum = 0.0;
    let mut idx = 0;
    while idx < opaque(TOGETHER as u32) {
        let with_this = fma(exp(logit - lse[0]), delta[0], sum);
        // Not a factor of 0: its delta need not be finite, nor be written.
        sum = if lse[0] == f32::NEG_INFINITY {
            sum
        } else {
            with_this
        };
        let (first_lse, first_delta) = (lse[0], delta[0]);
        shift_in(&mut lse, first_lse);
        shift_in(&mut delta, first_delta);
        idx += 1;
    }
    sum
}
