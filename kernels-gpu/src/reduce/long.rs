//! Long rows of whole vectors, and small ones that are alone: a block has a row, or a part of one.
//!
//! To find out where an item's elements are, [`super::body`] takes as long as for a small row, and
//! it takes registers that more blocks could use. With long rows, starting a block costs nothing
//! where four of them share an SM. So this kernel has no items and no loop over them.

use abi::reduce::{BATCH, ReduceParams, THREADS};
use cuda_std::hint::opaque;
use cuda_std::thread;

use super::body::Arrays;
use super::fold::{Fold, Indices, by_operation};
use super::load::{Load, Raw, together_once};
use super::settle::{Partials, Scratch, is_last};

const BATCH_LEN: usize = BATCH as usize;
/// Vectors in flight at a time, of the remainder that fills no batch.
const FEW: usize = BATCH_LEN / 2;
/// Bytes from one of a thread's vectors to the next.
const STEP: usize = THREADS as usize * 16;
/// Warps of a block.
pub(super) const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// Words of shared memory, for accumulators of `of_each` words.
pub(super) const fn words(of_each: usize) -> usize {
    Scratch::words(WARPS as usize, of_each)
}

/// The kernel's work, over long rows. A thread accumulates `L` elements at a time.
///
/// # Safety
/// The arrays are those of `params`, of a plan for long rows; `scratch` is shared memory of
/// [`words`]; the whole block is here.
#[inline(always)]
pub(super) unsafe fn rows<F, T, const V: usize, const L: usize>(
    arrays: &Arrays<F>,
    params: &ReduceParams,
    scratch: *mut u32,
) where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    let (block, parts) = (thread::block_idx_x(), params.chunks as u32);
    let (row, part) = match parts {
        1 => (block, 0),
        _ => (block / parts, block % parts),
    };
    let (at, first, vectors) = of_part::<F, T, V>(arrays, row, part, params);
    // SAFETY: the row has that many vectors from there on; the whole block is here; slots and
    // partial results are this block's own; only the last block writes the output.
    unsafe {
        let acc = by_operation!(F, |params| of_thread::<F, T, V, L>(
            at, first, vectors, params
        ));
        let scratch = Scratch::new(scratch, WARPS as usize);
        let mut acc = of_block::<F>(acc, &scratch, params);
        if parts > 1 {
            let Some(merged) = of_parts(acc, [row, part], arrays, &scratch, params) else {
                return;
            };
            acc = merged;
        }
        if thread::thread_idx_x() == 0 {
            F::finish::<V>(acc, params, arrays.out, u64::from(row));
        }
    }
}

/// Merges the parts of a row, by sections, and then the row's sections: the first warp of the row's
/// last block has the result, and other blocks have none.
///
/// # Safety
/// As for [`rows`], of a row in several parts; the first thread has the accumulator of this
/// block's.
#[inline(always)]
unsafe fn of_parts<F: Fold>(
    acc: F::Acc,
    [row, part]: [u32; 2],
    arrays: &Arrays<F>,
    scratch: &Scratch,
    params: &ReduceParams,
) -> Option<F::Acc> {
    let (parts, of_section) = (params.chunks as u32, params.section as u32);
    let sections = parts.div_ceil(of_section);
    let (results, tickets) = match sections {
        1 => (parts, 1),
        _ => (parts + sections, sections + 1),
    };
    let partials = Partials::<F>::of(arrays.partials, u64::from(row), u64::from(results), 1);
    let tickets = arrays.tickets.wrapping_add((row * tickets) as usize);
    let section = part / of_section;
    let first = section * of_section;
    // First the section's parts, then the row's sections: a loop, so that its code is there once.
    let mut left = opaque(1 + u32::from(sections > 1));
    let mut siblings = partials.some(first, of_section.min(parts - first));
    let (mut acc, mut slot, mut ticket) = (acc, part - first, section);
    loop {
        let ticket_at = tickets.wrapping_add(ticket as usize);
        // SAFETY: passed on to the caller: a place for each part, then one for each section; a
        // ticket for each section, then one for the row. Of a section, one block goes on.
        acc = unsafe { of_siblings(acc, slot, &siblings, ticket_at, scratch, params)? };
        left -= 1;
        if left == 0 {
            return Some(acc);
        }
        siblings = partials.some(parts, sections);
        (slot, ticket) = (section, sections);
    }
}

/// Leaves this block's partial result beside those of its siblings, and merges all of them if it is
/// the last one.
///
/// # Safety
/// `partials` has a place for each sibling, and this block's is its own; the ticket is theirs. The
/// first thread has the accumulator; the whole block is here.
#[inline(always)]
unsafe fn of_siblings<F: Fold>(
    acc: F::Acc,
    slot: u32,
    partials: &Partials<F>,
    ticket: *mut u32,
    scratch: &Scratch,
    params: &ReduceParams,
) -> Option<F::Acc> {
    let thread = thread::thread_idx_x();
    // SAFETY: passed on to the caller; the last one reads what all have written.
    unsafe {
        if thread == 0 {
            partials.write(u64::from(slot), 0, acc);
        }
        if !is_last(ticket, partials.parts(), scratch.flag(F::WORDS)) {
            return None;
        }
        let merged = partials.merged(u64::from(thread), u64::from(THREADS), 0, params);
        Some(of_block::<F>(merged, scratch, params))
    }
}

/// Where a part of a row begins, with which of the row's elements, and how many vectors it has.
#[inline(always)]
pub(super) fn of_part<F, T, const V: usize>(
    arrays: &Arrays<F>,
    row: u32,
    part: u32,
    params: &ReduceParams,
) -> (*const u8, u64, u32)
where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    let first = u64::from(part) * params.chunk_len;
    let vectors = (params.chunk_len.min(params.view.n - first) / V as u64) as u32;
    let element = i64::from(row)
        .wrapping_mul(params.view.outer_stride)
        .wrapping_add(first as i64);
    let at = arrays
        .x
        .wrapping_offset(element.wrapping_mul(T::bytes(params.mask)) as isize);
    (at, first, vectors)
}

/// A thread's accumulator of the block's `vectors` vectors, which begin with element `first` of the
/// row.
///
/// # Safety
/// They are readable, and aligned.
#[inline(always)]
pub(super) unsafe fn of_thread<F, T, const V: usize, const L: usize>(
    row: *const u8,
    first: u64,
    vectors: u32,
    params: &ReduceParams,
) -> F::Acc
where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    // SAFETY: passed on to the caller.
    unsafe { of_rest::<F, T, V, L>([F::start(params)], 0, row, first, vectors, params) }
}

/// The same where the thread has its first vectors already, those of [`super::load::ahead`]: the
/// branch on the operation comes behind their loads, and takes no time then.
///
/// # Safety
/// As for [`of_thread`].
#[inline(always)]
pub(super) unsafe fn of_thread_after<F, T, const V: usize, const L: usize>(
    x: [Raw; BATCH_LEN],
    row: *const u8,
    first: u64,
    vectors: u32,
    params: &ReduceParams,
) -> F::Acc
where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    const { assert!(F::TAKES_SOME, "a batch may have some vectors only") }
    let count = count(vectors);
    let local = by_operation!(F, |params| {
        with_some::<F, T, V, L, _>([F::start(params)], x, 0, count, params)
    });
    // SAFETY: passed on to the caller.
    unsafe { of_rest::<F, T, V, L>(local, count.min(BATCH), row, first, vectors, params) }
}

/// Vectors of this thread.
#[inline(always)]
fn count(vectors: u32) -> u32 {
    (vectors + THREADS - 1).saturating_sub(thread::thread_idx_x()) / THREADS
}

/// The accumulator of a thread whose local has its first `k` vectors: all, or whole batches. There
/// is one local for all lanes: a thread's elements are numbered vector by vector.
///
/// # Safety
/// As for [`of_thread`].
#[inline(always)]
unsafe fn of_rest<F, T, const V: usize, const L: usize>(
    mut local: [F::Local; 1],
    mut k: u32,
    row: *const u8,
    first: u64,
    vectors: u32,
    params: &ReduceParams,
) -> F::Acc
where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    const {
        assert!(
            (V * BATCH_LEN).is_multiple_of(L),
            "a batch is taken in at so many times"
        )
    };
    let thread = thread::thread_idx_x();
    let count = count(vectors);
    let mut at = row.wrapping_add(thread as usize * 16 + k as usize * STEP);
    while k + BATCH <= count {
        // SAFETY: these are vectors of the row.
        let x = unsafe { together_once::<BATCH_LEN>(at, STEP as i64) };
        let mut taken = 0;
        while taken < BATCH_LEN {
            let xs = |u: usize, _| T::number(x[taken + u / V], u % V);
            local = F::batch::<1, L>(local, xs, k * V as u32, params);
            taken += L / V;
            k += (L / V) as u32;
        }
        at = at.wrapping_add(BATCH_LEN * STEP);
    }
    while k < count {
        let mut raws: [Raw; FEW] = [[0; 4]; FEW];
        for (u, raw) in raws.iter_mut().enumerate() {
            if k + (u as u32) < count {
                // SAFETY: a vector of the row.
                *raw = unsafe { T::vector(at.wrapping_add(u * STEP), params.mask) };
            }
        }
        if F::TAKES_SOME {
            local = with_some::<F, T, V, L, _>(local, raws, k, count, params);
            k += FEW as u32;
        } else {
            let mut left = opaque((count - k).min(FEW as u32)); // not unrolled
            while left > 0 {
                let xs = |u: usize, _| T::number(raws[0], u);
                local = F::batch::<1, V>(local, xs, k * V as u32, params);
                raws = core::array::from_fn(|u| raws[(u + 1) % FEW]);
                k += 1;
                left -= 1;
            }
        }
        at = at.wrapping_add(FEW * STEP);
    }
    let indices = Indices {
        first: first + u64::from(thread) * V as u64,
        step: u64::from(THREADS) * V as u64,
        lane: 1,
    };
    F::close_joined::<V>(local[0], count * V as u32, &indices)
}

/// Takes in some vectors, as far as there are any: `k` of `count` came before.
#[inline(always)]
fn with_some<F, T, const V: usize, const L: usize, const N: usize>(
    mut local: [F::Local; 1],
    raws: [Raw; N],
    k: u32,
    count: u32,
    params: &ReduceParams,
) -> [F::Local; 1]
where
    F: Fold,
    T: Load<V, Number = F::Number>,
{
    let mut taken = 0;
    while taken < N && k + (taken as u32) < count {
        let xs = |u: usize| T::number(raws[taken + u / V], u % V);
        let is_there = |u: usize| k + ((taken + u / V) as u32) < count;
        local = [F::some::<L>(local[0], xs, is_there, params)];
        taken += L / V;
    }
    local
}

/// Merges the accumulators of all threads; the first warp has the result. When it begins, nobody
/// reads the slots.
///
/// # Safety
/// The whole block is here; nobody else uses the slots.
#[inline(always)]
pub(super) unsafe fn of_block<F: Fold>(
    acc: F::Acc,
    scratch: &Scratch,
    params: &ReduceParams,
) -> F::Acc {
    let (thread, lane) = (thread::thread_idx_x(), thread::lane_idx());
    // SAFETY: passed on to the caller; a slot for each warp, read after the barrier.
    unsafe {
        let mut acc = F::merge_lanes(acc, thread::WARP_THREADS, params);
        if lane == 0 {
            scratch.write(thread / thread::WARP_THREADS, acc);
        }
        thread::sync_threads();
        if thread < thread::WARP_THREADS {
            acc = F::empty(params);
            if lane < WARPS {
                acc = scratch.read(lane, acc);
            }
            acc = F::merge_lanes(acc, WARPS, params);
        }
        acc
    }
}
