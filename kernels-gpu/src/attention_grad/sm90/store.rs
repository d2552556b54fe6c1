//! Stores accumulators of 64 rows, rounded to 16 bits, to rows of a tensor.
//!
//! Each warp's rows go through its own piece of shared memory, so that stores to global memory
//! cover whole 128-byte lines.

use abi::gemm::sm90::{MMA_M, WARPGROUP};
use abi::swizzle::Swizzle;
use abi::tensor_core::ldmatrix::tile_16x16;
use cuda_std::hint::opaque;
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::mem::{ld_shared_v4_u32, st_global_v4_u32_if};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::SPAN_BYTES;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

/// Lanes that store a row of a panel, and the bytes that each of them stores.
const CHUNKS: u32 = SPAN_BYTES / CHUNK_BYTES;
const CHUNK_BYTES: u32 = 16;
/// Rows of a warp's accumulators.
const ROWS_OF_WARP: u32 = 16;
/// Results that a thread holds in a panel.
const PANEL: usize = SPAN_BYTES as usize / 2 / 2;
/// Bytes of shared memory through which a warpgroup stores.
pub(super) const VIA_BYTES: u32 = MMA_M * SPAN_BYTES;

/// Where a warpgroup's rows go.
#[derive(Clone, Copy)]
pub(super) struct OutputRows {
    /// The first row's first element, aligned to 16 bytes.
    pub(super) to: *mut u16,
    /// Elements between rows, a multiple of 8.
    pub(super) stride: i64,
    /// Rows that there are.
    pub(super) rows: u32,
    /// Elements of a row that there are, a multiple of 8.
    pub(super) columns: u32,
}

impl OutputRows {
    /// Stores a warpgroup's accumulators.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the place can be written; `via` are
    /// [`VIA_BYTES`] of shared memory of this warpgroup alone.
    #[inline(always)]
    pub(super) unsafe fn store(
        &self,
        via: SharedAddr,
        sums: &[f32],
        factor: f32,
        pair: impl Fn(f32, f32) -> u32,
    ) {
        let thread = opaque(thread::thread_idx_x()) % WARPGROUP;
        let (warp, lane) = (thread / thread::WARP_THREADS, thread % thread::WARP_THREADS);
        let (row, chunk) = (lane / CHUNKS, lane % CHUNKS);
        let written = tile_16x16(lane);
        let via = via.add_bytes(warp * (VIA_BYTES / 4));
        let mut panel = 0;
        while panel < sums.len() / PANEL {
            let mut i = 0;
            while i < PANEL / 8 {
                let at = PANEL * panel + 8 * i;
                let x = |further: usize| {
                    pair(sums[at + further] * factor, sums[at + further + 1] * factor)
                };
                let byte = 2 * (16 * i as u32 + written.column);
                let to = via.add_bytes(Swizzle::B128.offset_bytes(written.row, byte));
                // SAFETY: the warp's own memory; its readers have passed the barrier below.
                unsafe { stmatrix_x4(to, [x(0), x(2), x(4), x(6)]) };
                i += 1;
            }
            let column = (panel as u32 * SPAN_BYTES + chunk * CHUNK_BYTES) / 2;
            // SAFETY: all lanes pass a barrier before and after they read what others wrote; only
            // elements of rows that exist are written.
            unsafe {
                bar_warp_sync(FULL_MASK);
                let mut i = 0;
                while i < ROWS_OF_WARP / (thread::WARP_THREADS / CHUNKS) {
                    let row = row + thread::WARP_THREADS / CHUNKS * i;
                    let from = Swizzle::B128.offset_bytes(row, chunk * CHUNK_BYTES);
                    let words = ld_shared_v4_u32(via.add_bytes(from));
                    let row = ROWS_OF_WARP * warp + row;
                    let is_there = row < self.rows && column < self.columns;
                    let at = i64::from(row) * self.stride + i64::from(column);
                    let to = self.to.wrapping_offset(at as isize);
                    st_global_v4_u32_if(to.cast(), words, is_there);
                    i = opaque(i + 1); // not unrolled: this is done once
                }
                bar_warp_sync(FULL_MASK);
            }
            panel += 1;
        }
    }
}
