//! Where a thread's pairs of a tile are, and what is in shared memory where.

use abi::attention::SIMT_WIDE_TILE;
use cuda_std::thread;

use super::{accumulate, products};
use crate::attention::simt::softmax::ROW_LANES;
use crate::simt::element::{CHUNK, F32x4};
use crate::simt::product::Accumulator;

/// Rows that a block owns, and columns of a tile.
pub(super) const TILE: usize = SIMT_WIDE_TILE.tile_m as usize;

/// Threads of a block.
pub(super) const THREADS: u32 = SIMT_WIDE_TILE.threads;

/// f32 elements of P or dS: for each chunk of 4 rows, `[TILE]` chunks of 4.
///
/// The columns are permuted so that the 16 lanes of a row write neighbouring chunks: column
/// `CHUNK * lane + j` is at `ROW_LANES * j + lane`.
const PAIRS: usize = TILE * TILE;

/// f32 elements of lse and delta of a tile's queries, which follow.
const QUERIES: usize = 2 * TILE;

const _: () = assert!(
    TILE == ROW_LANES as usize * CHUNK && THREADS as usize * CHUNK * CHUNK == TILE * TILE,
    "a thread has one chunk of rows and one of columns"
);

/// f32 elements of static shared memory: pairs, lse and delta, and the stages of the scores or
/// those of the vectors, whichever are larger.
pub(super) const fn smem_elements(cap: usize) -> usize {
    let vectors = accumulate::elements(cap);
    let stages = if vectors > products::ELEMENTS {
        vectors
    } else {
        products::ELEMENTS
    };
    PAIRS + QUERIES + stages
}

/// A thread's part of a tile, and the block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct ThreadTile {
    smem: *mut f32,
    /// This thread's first of four rows in a tile.
    pub(super) first_row: u32,
    /// This thread's first of four columns in a tile; its columns of a result are those, and again
    /// every 64.
    pub(super) first_column: u32,
}

impl ThreadTile {
    /// This thread's. `smem` is static shared memory of [`smem_elements`].
    #[inline(always)]
    pub(super) fn new(smem: *mut f32) -> Self {
        Self {
            smem,
            first_row: thread::thread_idx_x() / ROW_LANES * CHUNK as u32,
            first_column: thread::thread_idx_x() % ROW_LANES * CHUNK as u32,
        }
    }

    /// The stages of either kind.
    #[inline(always)]
    pub(super) fn stages(&self) -> *mut f32 {
        self.smem.wrapping_add(PAIRS + QUERIES)
    }

    /// lse of the tile's `idx`-th query times log2 e, +inf of one that sees no key; delta follows
    /// [`TILE`] further on.
    #[inline(always)]
    pub(super) fn query(&self, idx: u32) -> *mut f32 {
        self.smem.wrapping_add(PAIRS + idx as usize)
    }

    #[inline(always)]
    fn pairs(&self, column: u32) -> *mut F32x4 {
        let slot = ROW_LANES * (column % CHUNK as u32) + column / CHUNK as u32;
        let chunk = self.first_row * (TILE / CHUNK) as u32 + slot;
        self.smem.wrapping_add(CHUNK * chunk as usize).cast()
    }
}

/// Writes this thread's P or dS.
///
/// # Safety
/// No thread reads them before the next barrier.
#[inline(always)]
pub(super) unsafe fn write_pairs(thread_tile: &ThreadTile, pairs: &Accumulator<CHUNK, CHUNK>) {
    for column in 0..CHUNK {
        let mut values = [0.0; CHUNK];
        for row in 0..CHUNK {
            values[row] = pairs[row][column];
        }
        // SAFETY: within the shared memory; no other thread has these rows and this column.
        unsafe {
            thread_tile
                .pairs(thread_tile.first_column + column as u32)
                .write(F32x4(values));
        }
    }
}

/// Those of this thread's rows and any column of the tile.
///
/// # Safety
/// They have been written.
#[inline(always)]
pub(super) unsafe fn read_pairs(thread_tile: &ThreadTile, column: u32) -> [f32; CHUNK] {
    // SAFETY: the caller's promise.
    unsafe { thread_tile.pairs(column).read() }.0
}
