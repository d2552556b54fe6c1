//! Moves one operand's tiles from global to shared memory.
//!
//! A tile is `WIDTH` of the operand's own extent (rows of A, columns of B) by `TILE_K` of k. In
//! shared memory it is always `[TILE_K][WIDTH]` f32 with a padded pitch. In global memory either
//! the width or k is contiguous. Threads move chunks of 4 contiguous elements; if k is contiguous,
//! staging a chunk transposes it.
//!
//! A tile that is inside the operand and aligned to chunks is read by vector loads, any other tile
//! by guarded scalar loads, with 0 for what is outside. The choice is the same for all threads of a
//! block.

use abi::gemm::TileConfig;
use cuda_std::thread;

use super::element::{CHUNK, F32x4, SimtElement};
use super::staged::StagedOperand;

/// f32 elements between rows of a staged tile.
pub(crate) const fn pitch(width: usize) -> usize {
    TileConfig::smem_pitch(width as u32) as usize
}

/// f32 elements of a staged tile.
pub(crate) const fn tile_elements(width: usize, tile_k: usize) -> usize {
    tile_k * pitch(width)
}

/// Where one thread's chunks of consecutive tiles are in global memory. Each thread moves `CHUNKS`
/// chunks of a tile.
pub(crate) struct Operand<
    E,
    const K_CONTIGUOUS: bool,
    const WIDTH: usize,
    const TILE_K: usize,
    const CHUNKS: usize,
> {
    /// This thread's first chunk of the next tile.
    chunk: *const E,
    /// Elements between consecutive chunks of this thread.
    chunk_stride: i64,
    /// Elements between consecutive tiles.
    tile_stride: i64,
    /// Width of the operand, counted from the tile's first.
    width_left: u32,
    /// k of the operand, counted from the next tile's first.
    k_left: u32,
    /// Whether all chunks of tiles inside the operand are aligned.
    aligned: bool,
}

impl<
    E: SimtElement,
    const K_CONTIGUOUS: bool,
    const WIDTH: usize,
    const TILE_K: usize,
    const CHUNKS: usize,
> Operand<E, K_CONTIGUOUS, WIDTH, TILE_K, CHUNKS>
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

    /// The operand whose element (width 0, k 0) is `base`, with `ld` elements between rows (of the
    /// contiguous extent), from `width_start` on, which is a multiple of `WIDTH` below `width`.
    #[inline(always)]
    pub(crate) fn new(base: *const E, ld: i64, width_start: u32, width: u32, k: u32) -> Self {
        let (width_idx, k_idx) = Self::first_element();
        let width_idx = i64::from(width_start) + i64::from(width_idx);
        let k_idx = i64::from(k_idx);
        let (row, column, tile_stride) = if K_CONTIGUOUS {
            (width_idx, k_idx, TILE_K as i64)
        } else {
            (k_idx, width_idx, TILE_K as i64 * ld)
        };
        let chunk_bytes = size_of::<E::Chunk>();
        Self {
            chunk: base.wrapping_offset((row * ld + column) as isize),
            chunk_stride: Self::ROWS as i64 * ld,
            tile_stride,
            width_left: width - width_start,
            k_left: k,
            aligned: base.addr().is_multiple_of(chunk_bytes) && ld % CHUNK as i64 == 0,
        }
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

    /// # Safety
    /// As [`fetch`](StagedOperand::fetch); the tile is inside the operand, and its chunks are
    /// aligned.
    #[inline(always)]
    unsafe fn fetch_whole(&self) -> [E::Chunk; CHUNKS] {
        let mut chunks = [E::pack([E::ZERO; CHUNK]); CHUNKS];
        for chunk_idx in 0..CHUNKS {
            // SAFETY: the caller's promise.
            chunks[chunk_idx] = unsafe { E::load_chunk(self.chunk_at(chunk_idx)) };
        }
        chunks
    }

    /// # Safety
    /// All elements of the operand within its width and k can be read, and nothing writes them
    /// while the kernel runs.
    #[inline(always)]
    unsafe fn fetch_guarded(&self) -> [E::Chunk; CHUNKS] {
        let mut chunks = [E::pack([E::ZERO; CHUNK]); CHUNKS];
        let (width_idx, k_idx) = Self::first_element();
        for chunk_idx in 0..CHUNKS {
            let mut elements = [E::ZERO; CHUNK];
            let row = (chunk_idx * Self::ROWS) as u32;
            for column in 0..CHUNK {
                let (width_idx, k_idx) = if K_CONTIGUOUS {
                    (width_idx + row, k_idx + column as u32)
                } else {
                    (width_idx + column as u32, k_idx + row)
                };
                if width_idx < self.width_left && k_idx < self.k_left {
                    let element = self.chunk_at(chunk_idx).wrapping_add(column);
                    // SAFETY: the caller's promise: the element is within width and k.
                    elements[column] = unsafe { element.read() };
                }
            }
            chunks[chunk_idx] = E::pack(elements);
        }
        chunks
    }

    /// This thread's `chunk_idx`-th chunk of the next tile.
    #[inline(always)]
    fn chunk_at(&self, chunk_idx: usize) -> *const E {
        let offset = chunk_idx as i64 * self.chunk_stride;
        self.chunk.wrapping_offset(offset as isize)
    }
}

impl<
    E: SimtElement,
    const K_CONTIGUOUS: bool,
    const WIDTH: usize,
    const TILE_K: usize,
    const CHUNKS: usize,
> StagedOperand for Operand<E, K_CONTIGUOUS, WIDTH, TILE_K, CHUNKS>
{
    type Fetched = [E::Chunk; CHUNKS];

    #[inline(always)]
    unsafe fn fetch(&mut self) -> [E::Chunk; CHUNKS] {
        let inside = self.width_left >= WIDTH as u32 && self.k_left >= TILE_K as u32;
        let chunks = if self.aligned && inside {
            // SAFETY: the whole tile is inside the operand, and its chunks are aligned.
            unsafe { self.fetch_whole() }
        } else {
            // SAFETY: the caller's promise; only elements inside the operand are read.
            unsafe { self.fetch_guarded() }
        };
        self.chunk = self.chunk.wrapping_offset(self.tile_stride as isize);
        self.k_left = self.k_left.saturating_sub(TILE_K as u32);
        chunks
    }

    #[inline(always)]
    unsafe fn stage(&self, chunks: [E::Chunk; CHUNKS], smem: *mut f32) {
        let (width_idx, k_idx) = Self::first_element();
        let first = smem.wrapping_add(k_idx as usize * pitch(WIDTH) + width_idx as usize);
        for chunk_idx in 0..CHUNKS {
            let values = E::widen(chunks[chunk_idx]);
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
