//! Whole rows in a block: one row, or several short ones.

use abi::sort::{DIGIT_BITS, DIGITS, ITEMS, SortParams};
use cuda_std::atomic::{Order as Memory, Scope, atom_or};
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};

use super::tile::{Digits, Shared, exchanged, places, slot};
use super::word::{Order, Word};
use crate::rank::lane_idx;

/// The bit of a place at which its row begins; below is the index in the row.
const ROW_BIT: u32 = 16;

/// The bits in which the keys of these elements of the block differ.
///
/// # Safety
/// All threads of the block are here; `starts` is free until the next barrier.
#[inline(always)]
unsafe fn differing<T: Word>(
    words: &[T; ITEMS],
    len: u32,
    order: &Order<T>,
    shared: Shared,
) -> u64 {
    let (mut ones, mut zeros) = (0, 0);
    for j in 0..ITEMS {
        if slot(j) < len {
            let key = words[j].key(order).wide();
            (ones, zeros) = (ones | key, zeros | !key);
        }
    }
    let found = shared.starts.cast::<u64>();
    // SAFETY: all lanes shuffle together; the words are written before the first barrier, and atomic
    // up to the second.
    unsafe {
        let mut apart = 1;
        while apart < opaque(thread::WARP_THREADS) {
            ones |= warp::shfl_bfly(warp::FULL_MASK, ones, apart);
            zeros |= warp::shfl_bfly(warp::FULL_MASK, zeros, apart);
            apart *= 2;
        }
        if thread::thread_idx_x() < 2 {
            found.add(thread::thread_idx_x() as usize).write(0);
        }
        thread::sync_threads();
        if lane_idx() == 0 {
            atom_or(found, ones, Memory::Relaxed, Scope::Cta);
            atom_or(found.add(1), zeros, Memory::Relaxed, Scope::Cta);
        }
        thread::sync_threads();
        found.read() & found.add(1).read()
    }
}

/// The kernel: `params.per_block` rows in a block.
///
/// # Safety
/// Launched as `abi::sort` says.
#[inline(always)]
pub(super) unsafe fn block<T: Word>(
    x: *const u8,
    values: *mut u8,
    indices: *mut i64,
    params: &SortParams,
    shared: Shared,
) {
    let order = T::order(params);
    let first_row = u64::from(thread::block_idx_x()) * u64::from(params.per_block);
    let left = params.rows - first_row;
    let rows = match left < u64::from(params.per_block) {
        true => left as u32,
        false => params.per_block,
    };
    let len = rows * params.n;
    // Row by row: the element's offset by a stride between rows.
    let offset = |slot: u32, stride: i64| {
        let (row, at) = params.row.div_rem(slot);
        let row = (first_row as i64).wrapping_add(i64::from(row));
        row.wrapping_mul(stride).wrapping_add(i64::from(at)) as isize
    };
    let (mut words, mut origins) = ([T::ZERO; ITEMS], [0; ITEMS]);
    for j in 0..ITEMS {
        let slot = slot(j);
        if slot < len {
            // SAFETY: an element of x.
            words[j] = unsafe {
                x.cast::<T>()
                    .wrapping_offset(offset(slot, params.from_stride))
                    .read()
            };
            let (row, at) = params.row.div_rem(slot);
            origins[j] = row << ROW_BIT | at;
        }
    }
    let (has_values, has_indices) = (!values.is_null(), !indices.is_null());
    let moves_origins = has_indices || params.per_block > 1;
    // SAFETY: all threads are here, and starts have no other use.
    let differing = unsafe { differing(&words, len, &order, shared) };
    let mut shift = 0;
    while shift < params.bits {
        // Nothing has to be moved for a digit that all have.
        if shift < T::BITS && (differing >> shift) as u32 & (DIGITS - 1) == 0 {
            shift += DIGIT_BITS;
            continue;
        }
        let digit = |j: usize| {
            // Places without an element stay behind all others.
            if slot(j) >= len {
                DIGITS - 1
            } else if shift < T::BITS {
                words[j].digit(shift, &order)
            } else {
                origins[j] >> (ROW_BIT + shift - T::BITS) & (DIGITS - 1)
            }
        };
        // SAFETY: all threads are here, and barriers are between the uses of the room.
        unsafe {
            let places = places(Digits::of(digit), |_, _| (), shared);
            words = exchanged(words, &places, shared);
            thread::sync_threads();
            if moves_origins {
                origins = exchanged(origins, &places, shared);
                thread::sync_threads();
            }
        }
        shift += DIGIT_BITS;
    }
    for j in 0..ITEMS {
        // Found anew: all rows and indices would take too many registers until here.
        let slot = opaque(slot(j));
        if slot < len {
            // SAFETY: elements of the results, which are this thread's.
            unsafe {
                if has_values {
                    let at = offset(slot, params.to_stride);
                    values.cast::<T>().wrapping_offset(at).write(words[j]);
                }
                if has_indices {
                    let at = offset(slot, params.indices_stride);
                    let index = origins[j] & ((1 << ROW_BIT) - 1);
                    indices.wrapping_offset(at).write(i64::from(index));
                }
            }
        }
    }
}
