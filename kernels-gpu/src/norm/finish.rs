//! The end of the gradients of weights and biases: adds up the partial sums of columns that blocks
//! have left in memory.
//!
//! There are up to 1,056 of each column. Most of the bytes are in L2, so the time is that of
//! waiting for them. So a thread has four columns, in one access where it can, and few rows.

use crate::row::loose::CHUNK;
use abi::rows::RowParams;
use cuda_std::hint::opaque;
use cuda_std::{mem, thread};

/// Columns of a thread.
const COLUMNS: u32 = abi::rows::FINISH_COLUMNS;

/// A thread's sums.
type Sums = [f32; COLUMNS as usize];

#[inline(always)]
fn add(a: Sums, b: Sums) -> Sums {
    core::array::from_fn(|i| a[i] + b[i])
}

/// The columns of a thread.
struct Columns {
    /// The first.
    first: u64,
    /// How many there are, up to [`COLUMNS`].
    count: u32,
    /// Whether they are one aligned vector in every row.
    is_vector: bool,
}

impl Columns {
    /// Loads a row of them; zeros where there is none.
    ///
    /// # Safety
    /// `parts` are rows of `n` elements, aligned to 16 bytes, with such a row if `is_there`.
    #[inline(always)]
    unsafe fn load(&self, parts: *const f32, row: u64, n: u64, is_there: bool) -> Sums {
        let at = parts.wrapping_add((row * n + self.first) as usize);
        // SAFETY: passed on to the caller.
        unsafe {
            if self.is_vector {
                let words = mem::ld_global_v4_u32_if(at.cast(), is_there && self.count > 0);
                return words.map(f32::from_bits);
            }
            let mut sums = [0.0; COLUMNS as usize];
            let mut i = 0;
            while i < COLUMNS {
                if is_there && i < self.count {
                    sums[i as usize] = at.wrapping_add(i as usize).read();
                }
                i += 1;
            }
            sums
        }
    }
}

/// Adds up `params.rows` partial sums of each column. A block has `params.threads` columns, a power
/// of two. Its threads of the same columns add up interleaved rows, and their sums are added in a
/// tree. `block_idx_y` selects one of the two tensors.
///
/// # Safety
/// `parts` are `[params.rows, params.n]`, aligned to 16 bytes, `outs` have `n` elements, or both
/// are null; `scratch` is shared memory with [`COLUMNS`] numbers for each thread.
#[inline(always)]
pub(super) unsafe fn finish(
    parts: [*const f32; 2],
    outs: [*mut f32; 2],
    params: &RowParams,
    scratch: *mut f32,
) {
    let is_second = thread::block_idx_y() == 1;
    let parts = if is_second { parts[1] } else { parts[0] };
    let out = if is_second { outs[1] } else { outs[0] };
    if parts.is_null() {
        return;
    }
    // Of one row in the block.
    let threads = params.threads / COLUMNS;
    let thread = thread::thread_idx_x();
    let mut slots = thread::block_dim_x() / threads;
    let (slot, step) = (thread / threads, u64::from(slots));
    let of_block = u64::from(thread::block_idx_x()) * u64::from(params.threads);
    let first = of_block + u64::from((thread & (threads - 1)) * COLUMNS);
    let columns = Columns {
        first,
        count: params.n.saturating_sub(first).min(u64::from(COLUMNS)) as u32,
        is_vector: params.n.is_multiple_of(u64::from(COLUMNS)),
    };
    let mut sums = [0.0; COLUMNS as usize];
    let mut row = u64::from(slot);
    while row < params.rows {
        // SAFETY: rows of the partial sums, or nothing.
        let [a, b, c, d]: [Sums; CHUNK] = core::array::from_fn(|i| unsafe {
            let at = row + i as u64 * step;
            columns.load(parts, at, params.n, at < params.rows)
        });
        sums = add(sums, add(add(a, b), add(c, d)));
        row += step * u64::from(opaque(CHUNK as u32));
    }
    // Column by column, so that neighbouring threads have neighbouring places.
    let at = |thread: u32, i: usize| {
        scratch.wrapping_add(i * thread::block_dim_x() as usize + thread as usize)
    };
    // SAFETY: each thread has its places, which are read after a barrier; elements of the result.
    unsafe {
        while slots > 1 {
            for (i, sum) in sums.iter().enumerate() {
                at(thread, i).write(*sum);
            }
            thread::sync_threads();
            slots = opaque(slots / 2);
            if slot < slots {
                let other = thread + slots * threads;
                sums = add(sums, core::array::from_fn(|i| at(other, i).read()));
            }
            thread::sync_threads();
        }
        let mut i = 0;
        while i < columns.count && slot == 0 {
            out.wrapping_add((first + u64::from(i)) as usize)
                .write(sums[i as usize]);
            i += 1;
        }
    }
}
