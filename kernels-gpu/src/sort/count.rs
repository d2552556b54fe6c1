//! How many elements of a row have each digit.

use abi::sort::{DIGIT_BITS, DIGITS, SortParams, THREADS};
use cuda_std::atomic::{Order as Memory, Scope, atom_add, red_shared_add_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::{mem, thread};

use super::word::Word;

/// The kernel: a part of a row for each block, of `params.per_block` elements.
///
/// # Safety
/// Launched as `abi::sort` says; `room` is shared memory for the counts of all digits.
#[inline(always)]
pub(super) unsafe fn count<T: Word>(
    x: *const u8,
    counts: *mut u32,
    params: &SortParams,
    room: *mut u32,
) {
    let order = T::order(params);
    let (row, part) = params.row.div_rem(thread::block_idx_x());
    let thread = thread::thread_idx_x();
    let (begin, left) = (part * params.per_block, params.n - part * params.per_block);
    let len = if left < params.per_block {
        left
    } else {
        params.per_block
    };
    let offset = i64::from(row).wrapping_mul(params.from_stride) as isize;
    let first = x
        .cast::<T>()
        .wrapping_offset(offset)
        .wrapping_add(begin as usize);
    let head = (first.addr() as u32).wrapping_neg() % 16 / T::SIZE;
    let head = if head < len { head } else { len };
    let vectors = (len - head) / T::LANES as u32;
    let words = T::SIZE * DIGITS;
    // SAFETY: elements of the row. Counts in shared memory are one thread's before the first barrier
    // and behind the last, and atomic between them. Those of the row are atomic.
    unsafe {
        let bins = SharedAddr::of(room);
        let mut word = thread;
        while word < words {
            room.add(word as usize).write(0);
            word += THREADS;
        }
        thread::sync_threads();
        let add = |element: T| {
            for digit in 0..T::SIZE {
                let bin = digit * DIGITS + element.digit(digit * DIGIT_BITS, &order);
                red_shared_add_u32(bins.add_bytes(4 * bin), 1);
            }
        };
        let mut vector = thread;
        while vector < vectors {
            let at = first.wrapping_add(head as usize + vector as usize * T::LANES);
            let raw = mem::ld_global_nc_v4_u32_or(at.cast(), true, 0);
            for v in 0..T::LANES {
                add(T::of(raw, v));
            }
            vector += THREADS;
        }
        let in_vectors = vectors * T::LANES as u32;
        let behind = if thread < head { 0 } else { in_vectors };
        if thread < len - in_vectors {
            add(first.wrapping_add((thread + behind) as usize).read());
        }
        thread::sync_threads();
        let of_row = counts.wrapping_add((u64::from(row) * u64::from(words)) as usize);
        let mut word = thread;
        while word < words {
            let count = room.add(word as usize).read();
            if count > 0 {
                atom_add(
                    of_row.add(word as usize),
                    count,
                    Memory::Relaxed,
                    Scope::Gpu,
                );
            }
            word += THREADS;
        }
    }
}
