//! Moves q, k and v from global to shared memory: as [`crate::simt::operand`], for elements whose
//! type is known only at run time.

use abi::attention::BshStrides;
use cuda_std::thread;

use super::elements::{Chunk, ElementType};
use crate::attention::pages::Pages;
use crate::simt::element::{CHUNK, F32x4};
use crate::simt::operand::pitch;
use crate::simt::staged::StagedOperand;

/// Rows of a tensor: positions of one head, `ld` elements apart.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    /// Its first element.
    pub(crate) base: *const u8,
    pub(crate) ld: i64,
    pub(crate) element: ElementType,
}

impl Matrix {
    /// The matrix from `elements` further on.
    #[inline(always)]
    pub(crate) fn offset(self, elements: i64) -> Self {
        let bytes = elements as isize * self.element.size_bytes() as isize;
        Self {
            base: self.base.wrapping_offset(bytes),
            ..self
        }
    }
}

/// Positions of a sequence in pools of pages.
#[derive(Clone, Copy)]
pub(crate) struct PagedRows {
    pub(crate) pages: Pages,
    /// The pool's strides.
    pub(crate) strides: BshStrides,
    /// The first position.
    pub(crate) first: u32,
}

impl PagedRows {
    /// There are no pages.
    const NONE: Self = Self {
        pages: Pages::NONE,
        strides: BshStrides {
            batch: 0,
            seq: 0,
            head: 0,
        },
        first: 0,
    };

    /// Offset in the pool of the `row`-th position.
    ///
    /// # Safety
    /// The sequence has it, and the table is what the launch says.
    #[inline(always)]
    unsafe fn offset(&self, row: u32) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { self.pages.find(self.first + row).offset(&self.strides) }
    }
}

/// Where one thread's chunks of consecutive tiles are in global memory. A tile is `WIDTH` by
/// `TILE_K` of the dimension that is summed over; each thread moves `CHUNKS` chunks of it. If
/// `K_CONTIGUOUS` (q and k), positions are the width; otherwise (v) they are what is summed over.
pub(crate) struct Operand<
    const K_CONTIGUOUS: bool,
    const WIDTH: usize,
    const TILE_K: usize,
    const CHUNKS: usize,
> {
    /// From this thread's first chunk of the next tile on; of values in pages, from its column of
    /// position 0 of page 0 on.
    matrix: Matrix,
    /// The rows from the next tile on, if they are values in pages.
    rows: PagedRows,
    /// Width of the operand, counted from the tile's first.
    width_left: u32,
    /// k of the operand, counted from the next tile's first.
    k_left: u32,
    /// Whether all chunks of tiles inside the operand are aligned.
    aligned: bool,
}

impl<const K_CONTIGUOUS: bool, const WIDTH: usize, const TILE_K: usize, const CHUNKS: usize>
    Operand<K_CONTIGUOUS, WIDTH, TILE_K, CHUNKS>
{
    /// Threads that move a tile.
    const THREADS: usize = WIDTH * TILE_K / CHUNK / CHUNKS;
    /// Chunks along the contiguous extent of a tile.
    const CHUNKS_ACROSS: usize = if K_CONTIGUOUS { TILE_K } else { WIDTH } / CHUNK;
    /// Rows (along the other extent) that all threads cover in one pass.
    const ROWS: usize = {
        assert!(
            Self::THREADS * CHUNKS * CHUNK == WIDTH * TILE_K,
            "the threads cover a tile exactly"
        );
        assert!(
            Self::THREADS.is_multiple_of(Self::CHUNKS_ACROSS),
            "the threads cover whole rows"
        );
        Self::THREADS / Self::CHUNKS_ACROSS
    };

    /// The operand that begins with `matrix` and has the extents `width` and `k`.
    #[inline(always)]
    pub(crate) fn new(matrix: Matrix, width: u32, k: u32) -> Self {
        let (width_idx, k_idx) = Self::first_element();
        let (row, column) = if K_CONTIGUOUS {
            (width_idx, k_idx)
        } else {
            (k_idx, width_idx)
        };
        let chunk_bytes = CHUNK * matrix.element.size_bytes();
        Self {
            matrix: matrix.offset(i64::from(row) * matrix.ld + i64::from(column)),
            rows: PagedRows::NONE,
            width_left: width,
            k_left: k,
            aligned: matrix.base.addr() & (chunk_bytes - 1) == 0 && matrix.ld % CHUNK as i64 == 0,
        }
    }

    /// The operand whose rows are `rows` of the pool that begins with `matrix`, or that begins with
    /// `matrix` if there are no pages.
    ///
    /// # Safety
    /// The sequence has the positions from `rows` on up to the extent, and the table is what the
    /// launch says.
    #[inline(always)]
    pub(crate) unsafe fn in_pages(matrix: Matrix, rows: PagedRows, width: u32, k: u32) -> Self {
        let mut operand = Self::new(matrix, width, k);
        if !rows.pages.are_there() {
            return operand;
        }
        let (width_idx, k_idx) = Self::first_element();
        operand.aligned &= rows.strides.batch % CHUNK as i64 == 0;
        if K_CONTIGUOUS {
            // One row is all that a thread has: it is looked up once.
            const { assert!(CHUNKS == 1 || !K_CONTIGUOUS) };
            if width_idx < width {
                // SAFETY: the caller's promise.
                let row = unsafe { rows.offset(width_idx) };
                operand.matrix = matrix.offset(row + i64::from(k_idx));
            }
        } else {
            operand.matrix = matrix.offset(i64::from(width_idx));
            operand.rows = rows;
        }
        operand
    }

    /// Width and k, within a tile, of this thread's first element.
    #[inline(always)]
    fn first_element() -> (u32, u32) {
        let thread_idx = thread::thread_idx_x();
        let across = (thread_idx % Self::CHUNKS_ACROSS as u32) * CHUNK as u32;
        let row = thread_idx / Self::CHUNKS_ACROSS as u32;
        if K_CONTIGUOUS {
            (row, across)
        } else {
            (across, row)
        }
    }

    /// Which elements of the thread's `chunk_idx`-th chunk are inside the operand.
    #[inline(always)]
    fn has(&self, chunk_idx: usize) -> [bool; CHUNK] {
        let (width_idx, k_idx) = Self::first_element();
        let row = (chunk_idx * Self::ROWS) as u32;
        let mut has = [false; CHUNK];
        for column in 0..CHUNK {
            let (width_idx, k_idx) = if K_CONTIGUOUS {
                (width_idx + row, k_idx + column as u32)
            } else {
                (width_idx + column as u32, k_idx + row)
            };
            has[column] = width_idx < self.width_left && k_idx < self.k_left;
        }
        has
    }

    /// This thread's `chunk_idx`-th chunk of the next tile.
    ///
    /// # Safety
    /// As for [`in_pages`](Self::in_pages).
    #[inline(always)]
    unsafe fn chunk_at(&self, chunk_idx: usize) -> *const u8 {
        let row = (chunk_idx * Self::ROWS) as u32;
        let (_, k_idx) = Self::first_element();
        if K_CONTIGUOUS || !self.rows.pages.are_there() {
            return self.matrix.offset(i64::from(row) * self.matrix.ld).base;
        }
        if k_idx + row >= self.k_left {
            return self.matrix.base; // not read
        }
        // SAFETY: the caller's promise: the sequence has this row.
        let offset = unsafe { self.rows.offset(k_idx + row) };
        self.matrix.offset(offset).base
    }
}

impl<const K_CONTIGUOUS: bool, const WIDTH: usize, const TILE_K: usize, const CHUNKS: usize>
    StagedOperand for Operand<K_CONTIGUOUS, WIDTH, TILE_K, CHUNKS>
{
    type Fetched = [Chunk; CHUNKS];

    #[inline(always)]
    unsafe fn fetch(&mut self) -> [Chunk; CHUNKS] {
        let element = self.matrix.element;
        let inside = self.width_left >= WIDTH as u32 && self.k_left >= TILE_K as u32;
        let mut chunks = [Chunk::ZERO; CHUNKS];
        if self.aligned && inside {
            for chunk_idx in 0..CHUNKS {
                // SAFETY: the whole tile is inside the operand, and its chunks are aligned.
                chunks[chunk_idx] = unsafe { element.load_chunk(self.chunk_at(chunk_idx)) };
            }
        } else {
            for chunk_idx in 0..CHUNKS {
                let has = self.has(chunk_idx);
                // SAFETY: the caller's promise; only elements inside the operand are read.
                chunks[chunk_idx] = unsafe { element.load_some(self.chunk_at(chunk_idx), has) };
            }
        }
        if K_CONTIGUOUS {
            self.matrix = self.matrix.offset(TILE_K as i64);
        } else {
            self.rows.first += TILE_K as u32;
            if !self.rows.pages.are_there() {
                self.matrix = self.matrix.offset(TILE_K as i64 * self.matrix.ld);
            }
        }
        self.k_left = self.k_left.saturating_sub(TILE_K as u32);
        chunks
    }

    #[inline(always)]
    unsafe fn stage(&self, chunks: [Chunk; CHUNKS], smem: *mut f32) {
        let (width_idx, k_idx) = Self::first_element();
        let first = smem.wrapping_add(k_idx as usize * pitch(WIDTH) + width_idx as usize);
        for chunk_idx in 0..CHUNKS {
            let values = self.matrix.element.widen(chunks[chunk_idx]);
            let row = chunk_idx * Self::ROWS;
            if K_CONTIGUOUS {
                for column in 0..CHUNK {
                    let to = first.wrapping_add(column * pitch(WIDTH) + row);
                    // SAFETY: within the staged tile, which the threads cover exactly.
                    unsafe { to.write(values[column]) }
                }
            } else {
                let to = first.wrapping_add(row * pitch(WIDTH)).cast::<F32x4>();
                // SAFETY: as above; pitch and width index are multiples of 4.
                unsafe { to.write(F32x4(values)) }
            }
        }
    }
}
