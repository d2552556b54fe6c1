//! A block's steps: collect pairs that certainly have the first k among them, sort them, write.

use abi::topk::TopKParams;
use cuda_std::thread;
use half::{bf16, f16};

use super::cut::{Count, Shared, Wanted, cut};
use super::groups::{Largest, List, are_enough};
use super::key::{Float, Pair, Value};
use super::row::{Listed, Pairs, Part};
use super::sort::{COUNTED, Results, put_first};

/// Adds a pair to those collected, if there is room.
///
/// # Safety
/// Between barriers, nobody reads them or writes them otherwise.
#[inline(always)]
unsafe fn collect<P: Pair>(pair: P, capacity: u32, shared: Shared) {
    // SAFETY: passed on to the caller; the place is this thread's alone.
    unsafe {
        let slot = shared.slot(Count::Pairs);
        if slot < capacity {
            shared.pairs::<P>().add(slot as usize).write(pair);
        }
    }
}

/// Collects all pairs that reach a bound, which at least `k` do and no more than there is room for.
/// Returns how many these are.
///
/// # Safety
/// All threads of the block are here, nobody uses its shared memory, and the pairs are readable.
#[inline(always)]
unsafe fn collect_exactly(pairs: &impl Pairs, k: u32, params: &TopKParams, shared: Shared) -> u32 {
    let len = pairs.len();
    let wanted = Wanted {
        k: if k < len { k } else { len },
        most: params.capacity,
        bits: params.key_bits + params.index_bits,
    };
    // SAFETY: passed on to the caller; barriers separate the count's uses.
    unsafe {
        if thread::thread_idx_x() == 0 {
            shared.count(Count::Pairs).write(0);
        }
        let least = cut(pairs, wanted, shared);
        thread::sync_threads();
        pairs.each(|pair| {
            if pair >= least {
                collect(pair, params.capacity, shared);
            }
        });
        thread::sync_threads();
        shared.count(Count::Pairs).read()
    }
}

/// Collects the pairs of all elements that reach what the largest elements of groups give as a
/// bound. Returns how many these are, which may be more than there is room for, or too few.
///
/// # Safety
/// All threads of the block are here, nobody uses its shared memory, the part is readable, and the
/// groups [are enough](are_enough).
#[inline(always)]
unsafe fn by_groups<T: Float>(part: &Part<T>, params: &TopKParams, shared: Shared) -> u32 {
    let capacity = params.capacity;
    let list = List {
        shared,
        first: shared.pairs::<u64>().wrapping_add(capacity as usize).cast(),
        capacity,
    };
    // SAFETY: passed on to the caller; barriers separate the uses of counts, list and pairs.
    unsafe {
        if thread::thread_idx_x() == 0 {
            shared.count(Count::Pairs).write(0);
            shared.count(Count::Groups).write(0);
        }
        let largest = Largest::of(part);
        let bound = largest.bound(params.k, shared);
        thread::sync_threads();
        largest.list(bound, &list);
        thread::sync_threads();
        let is_too_long = list.reaching(part, bound, |bits, index| {
            collect(T::pair(bits, index, &part.pairing), capacity, shared);
        });
        thread::sync_threads();
        if is_too_long {
            u32::MAX
        } else {
            shared.count(Count::Pairs).read()
        }
    }
}

/// An element type, with how pairs are collected at first.
pub(super) trait Collected: Value + Sized {
    /// As [`by_groups`], of types whose groups have a largest element in f32. Others give too few: 0.
    ///
    /// # Safety
    /// As for [`by_groups`].
    #[inline(always)]
    unsafe fn collect_by_groups(_: &Part<Self>, _: &TopKParams, _: Shared) -> u32 {
        0
    }
}

macro_rules! by_groups {
    ($($ty:ty)*) => {$(
        impl Collected for $ty {
            #[inline(always)]
            unsafe fn collect_by_groups(
                part: &Part<Self>,
                params: &TopKParams,
                shared: Shared,
            ) -> u32 {
                // SAFETY: passed on to the caller.
                unsafe { by_groups(part, params, shared) }
            }
        }
    )*};
}

by_groups! { f32 f16 bf16 }

impl Collected for f64 {}
impl Collected for i32 {}
impl Collected for i64 {}

/// Of `count` collected pairs, keeps those that reach a bound which at least the first `k` do, if
/// these are half as many to sort. Returns how many are kept.
///
/// # Safety
/// All threads of the block are here; `count` pairs, `k` or more, have been collected, and nobody
/// else uses its shared memory.
#[inline(always)]
unsafe fn keep_first<P: Pair>(k: u32, count: u32, params: &TopKParams, shared: Shared) -> u32 {
    let most = k.next_power_of_two();
    if count <= most || count <= COUNTED {
        return count;
    }
    let wanted = Wanted {
        k,
        most,
        bits: params.key_bits + params.index_bits,
    };
    let collected = Listed::<P> {
        first: shared.pairs(),
        len: count,
    };
    // SAFETY: passed on to the caller. Between two barriers pairs are read that lie behind all
    // places that are written meanwhile.
    unsafe {
        let least = cut(&collected, wanted, shared);
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            shared.count(Count::Pairs).write(0);
        }
        let mut i = thread::thread_idx_x();
        let mut behind = 0;
        while behind < count {
            let pair = match i < count {
                true => shared.pairs::<P>().add(i as usize).read(),
                false => P::NONE,
            };
            thread::sync_threads();
            if i < count && pair >= least {
                let slot = shared.slot(Count::Pairs) as usize;
                shared.pairs::<P>().add(slot).write(pair);
            }
            i += thread::block_dim_x();
            behind += thread::block_dim_x();
        }
        thread::sync_threads();
        shared.count(Count::Pairs).read()
    }
}

/// The kernel over elements: a block for each row, and in y for each part of it.
///
/// # Safety
/// Launched as `abi::topk` says.
#[inline(always)]
pub(super) unsafe fn of_elements<T: Collected>(
    x: *const u8,
    values: *mut u8,
    indices: *mut i64,
    pairs: *mut u64,
    params: &TopKParams,
    shared: Shared,
) {
    let (row, part) = (u64::from(thread::block_idx_x()), thread::block_idx_y());
    let mut results = Results::of_row(row, x, values, indices, params);
    if params.parts > 1 {
        let before = row * u64::from(params.parts) + u64::from(part);
        let of_part = (before * u64::from(params.k)) as usize;
        results.pairs = pairs.cast::<T::Pair>().wrapping_add(of_part).cast();
    }
    let begin = u64::from(part) * params.part_len;
    let left = params.n - begin;
    let len = if left < params.part_len {
        left
    } else {
        params.part_len
    };
    let part = Part::<T>::new(results.x, begin as u32, len as u32, results.pairing);
    // SAFETY: the part of the row that this block has; all threads are here, and barriers end every
    // use of shared memory.
    unsafe {
        let mut count = 0;
        if are_enough(params.k, part.vectors) {
            count = T::collect_by_groups(&part, params, shared);
        }
        if count < params.k || count > params.capacity {
            thread::sync_threads();
            count = collect_exactly(&part, params.k, params, shared);
        }
        count = keep_first::<T::Pair>(params.k, count, params, shared);
        put_first::<T::Pair>(params.k, count, &results, shared);
    }
}

/// The kernel over pairs that the parts of rows have given: a block for each row.
///
/// # Safety
/// Launched as `abi::topk` says.
#[inline(always)]
pub(super) unsafe fn of_pairs<P: Pair>(
    x: *const u8,
    values: *mut u8,
    indices: *mut i64,
    pairs: *const u64,
    params: &TopKParams,
    shared: Shared,
) {
    let row = u64::from(thread::block_idx_x());
    let results = Results::of_row(row, x, values, indices, params);
    let listed = Listed {
        first: pairs.cast::<P>().wrapping_add((row * params.n) as usize),
        len: params.n as u32,
    };
    // SAFETY: this block's row; all threads are here.
    unsafe {
        let count = collect_exactly(&listed, params.k, params, shared);
        let count = keep_first::<P>(params.k, count, params, shared);
        put_first::<P>(params.k, count, &results, shared);
    }
}
