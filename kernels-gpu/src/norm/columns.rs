//! The part of a block's rows in the gradients of weights and biases. Its threads have sums, which
//! it adds up over the rows that it has at a time and stores as one row of partial sums. So there
//! are few of them for the launch that adds them up (`finish`).

use crate::row::packed::Raw;
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::{mem, thread};

/// Bytes of four numbers.
const QUAD_BYTES: u32 = 16;

/// What a thread keeps of its columns in registers, while rows come through shared memory.
pub(super) struct Columns<const V: usize, const R: usize> {
    pub(super) weight: [[Raw; 2]; R],
    pub(super) dweight: [[f32; V]; R],
    pub(super) dbias: [[f32; V]; R],
}

/// A thread's place among the threads that have a row together, any number of them (`row::group`
/// has powers of two).
pub(super) struct ThreadGroup {
    /// Threads that have one row.
    pub(super) threads: u32,
    /// The thread's index among them.
    pub(super) own: u32,
    /// The row's index among those that the block has at a time.
    pub(super) index: u32,
    /// Rows that the block has at a time.
    pub(super) rows: u32,
}

impl ThreadGroup {
    /// The thread's, where a row has `threads` threads.
    #[inline(always)]
    pub(super) fn new(threads: u32) -> Self {
        let thread = thread::thread_idx_x();
        let index = thread / threads;
        Self {
            threads,
            own: thread - index * threads,
            index,
            rows: thread::block_dim_x() / threads,
        }
    }

    /// Adds up the sums of the block's rows, in their order. Stores them to the row of `parts` that
    /// begins at element `first`, of two tensors; null if they are not wanted. `store` gets that row,
    /// and four sums of the thread's vector `j` with the index of the first one in the vector.
    ///
    /// # Safety
    /// All threads of the block call it. Each has room for its sums at `scratch`, shared memory
    /// that nothing else uses.
    #[inline(always)]
    pub(super) unsafe fn keep<const V: usize, const R: usize>(
        &self,
        scratch: SharedAddr,
        sums: [&[[f32; V]; R]; 2],
        parts: [*mut f32; 2],
        first: u64,
        store: impl Fn(*mut f32, usize, usize, [f32; 4]),
    ) {
        let all = self.threads * self.rows;
        let quad =
            |number: u32, thread: u32| scratch.add_bytes((number * all + thread) * QUAD_BYTES);
        let (of_vector, of_tensor) = (V as u32 / 4, (R * V) as u32 / 4);
        let thread = thread::thread_idx_x();
        // SAFETY: the thread's own places, which are read after the barrier; passed on to the
        // caller.
        unsafe {
            let mut number = 0;
            while number < 2 * of_tensor {
                let vector = &sums[(number / of_tensor) as usize];
                let vector = &vector[(number % of_tensor / of_vector) as usize];
                let at = (number % of_vector * 4) as usize;
                let words = [0, 1, 2, 3].map(|k| vector[at + k].to_bits());
                mem::st_shared_v4_u32(quad(number, thread), words);
                number += 1;
            }
            thread::sync_threads();
            let mut number = self.index;
            while number < 2 * of_tensor {
                let mut total = [0.0; 4];
                let mut row = 0;
                while row < self.rows {
                    let words = mem::ld_shared_v4_u32(quad(number, row * self.threads + self.own));
                    total = core::array::from_fn(|k| total[k] + f32::from_bits(words[k]));
                    row += opaque(1);
                }
                let part = if number < of_tensor {
                    parts[0]
                } else {
                    parts[1]
                };
                if !part.is_null() {
                    let vector = (number % of_tensor / of_vector) as usize;
                    let lane = (number % of_vector * 4) as usize;
                    store(part.wrapping_add(first as usize), vector, lane, total);
                }
                number += opaque(self.rows);
            }
        }
    }
}

/// Stores four sums of a vector of columns: it begins at `column`, if the row `has` it.
///
/// # Safety
/// The row of partial sums has the elements, and is aligned to 16 bytes.
#[inline(always)]
pub(super) unsafe fn store_quad(
    row: *mut f32,
    (column, has): (usize, bool),
    lane: usize,
    sums: [f32; 4],
) {
    let at = row.wrapping_add(column + lane);
    // SAFETY: passed on to the caller.
    unsafe { mem::st_global_v4_u32_if(at.cast(), sums.map(f32::to_bits), has) };
}
