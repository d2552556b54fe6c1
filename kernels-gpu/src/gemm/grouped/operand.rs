//! Moves one operand's tiles from global to shared memory, of a layout that the launch says: as
//! [`crate::simt::operand`], but that one entry has all layouts. Each thread moves one chunk of 4
//! elements of a tile, which are neighbours along the contiguous extent. It uses a vector load if
//! all of them are inside the operand and aligned, also in a tile of fewer rows than there is room
//! for.

use abi::gemm::GROUPED_TILE;
use cuda_std::mem::st_shared_v4_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use crate::simt::element::{CHUNK, F32x4, SimtElement};
use crate::simt::operand::pitch;
use crate::simt::staged::StagedOperand;

/// How an operand lies in memory.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Whether k is contiguous, and not the width (m of A, n of B).
    pub(super) by_k: bool,
    /// Elements between the contiguous lines.
    pub(super) ld: i64,
}

/// Where this thread's chunks of consecutive tiles are. A tile is `WIDTH` by `TILE_K`.
pub(super) struct Operand<const WIDTH: usize, const TILE_K: usize> {
    chunk: *const f32,
    /// Elements between consecutive tiles.
    tile_stride: i64,
    /// Width and k, within a tile, of the chunk's first element.
    width_idx: u32,
    k_idx: u32,
    /// Width of the operand, counted from the tile's first.
    width_left: u32,
    /// k of the operand, counted from the next tile's first.
    k_left: u32,
    by_k: bool,
    /// Whether all chunks are aligned.
    aligned: bool,
}

impl<const WIDTH: usize, const TILE_K: usize> Operand<WIDTH, TILE_K> {
    /// The tiles from `width_start` on of the operand whose element (width 0, k 0) is `base`;
    /// `width_left` lines of them are the operand's.
    #[inline(always)]
    pub(super) fn new(
        base: *const f32,
        layout: Layout,
        width_start: u32,
        width_left: u32,
        k: u32,
    ) -> Self {
        const { assert!(WIDTH * TILE_K == GROUPED_TILE.threads as usize * CHUNK) };
        let Layout { by_k, ld } = layout;
        let across = if by_k { TILE_K } else { WIDTH } as u32 / CHUNK as u32;
        let line = thread::thread_idx_x() / across;
        let within = thread::thread_idx_x() % across * CHUNK as u32;
        let (width_idx, k_idx) = if by_k { (line, within) } else { (within, line) };
        let start = i64::from(width_start);
        let first = if by_k { start * ld } else { start };
        let base = base.wrapping_offset(first as isize);
        let own = i64::from(line) * ld + i64::from(within);
        Self {
            chunk: base.wrapping_offset(own as isize),
            tile_stride: if by_k {
                TILE_K as i64
            } else {
                TILE_K as i64 * ld
            },
            width_idx,
            k_idx,
            width_left,
            k_left: k,
            by_k,
            aligned: base.addr().is_multiple_of(size_of::<F32x4>()) && ld % CHUNK as i64 == 0,
        }
    }

    /// How many of the chunk's elements are inside the operand, or more.
    #[inline(always)]
    fn inside(&self) -> u32 {
        let width = self.width_left.saturating_sub(self.width_idx);
        let k = self.k_left.saturating_sub(self.k_idx);
        let (lines, along) = if self.by_k { (width, k) } else { (k, width) };
        if lines > 0 { along } else { 0 }
    }
}

impl<const WIDTH: usize, const TILE_K: usize> StagedOperand for Operand<WIDTH, TILE_K> {
    type Fetched = F32x4;

    #[inline(always)]
    unsafe fn fetch(&mut self) -> F32x4 {
        let inside = self.inside();
        let chunk = if self.aligned && inside >= CHUNK as u32 {
            // SAFETY: the whole chunk is inside the operand, and aligned.
            unsafe { f32::load_chunk(self.chunk) }
        } else {
            let mut elements = [0.0; CHUNK];
            for idx in 0..CHUNK {
                if (idx as u32) < inside {
                    // SAFETY: the caller's promise: the element is within width and k.
                    elements[idx] = unsafe { self.chunk.wrapping_add(idx).read() };
                }
            }
            F32x4(elements)
        };
        self.chunk = self.chunk.wrapping_offset(self.tile_stride as isize);
        self.k_left = self.k_left.saturating_sub(TILE_K as u32);
        chunk
    }

    #[inline(always)]
    unsafe fn stage(&self, chunk: F32x4, smem: *mut f32) {
        let first = smem.wrapping_add(self.k_idx as usize * pitch(WIDTH) + self.width_idx as usize);
        if self.by_k {
            for idx in 0..CHUNK {
                // SAFETY: within the staged tile, which the threads cover exactly.
                unsafe { first.wrapping_add(idx * pitch(WIDTH)).write(chunk.0[idx]) }
            }
        } else {
            // SAFETY: as above, in shared memory; pitch and width index are multiples of 4. As an
            // instruction of its own, because LLVM would split a plain store to share its end with the
            // stores of the other branch.
            unsafe { st_shared_v4_u32(SharedAddr::of(first), chunk.0.map(f32::to_bits)) }
        }
    }
}
