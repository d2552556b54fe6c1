//! Zeros values behind the last that some query of the sequence sees.
//!
//! Their probabilities are 0, but they may be anything, and 0 × NaN is NaN. TMA fills with zeros
//! only outside the tensor.

use abi::gemm::sm90::WARPGROUP;
use cuda_std::barrier::bar_sync;
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::hint::opaque;
use cuda_std::mem::st_shared_v4_u32;
use cuda_std::panels::{PanelRing, PanelShape};
use cuda_std::pipeline::Stage;
use cuda_std::thread;
use cuda_std::tile::{OperandElement, SPAN_BYTES};

/// The named barrier of the warpgroup that clears; lower numbers are
/// [`OrderBarrier`](super::order_barrier::OrderBarrier)'.
const BARRIER: u32 = 8;
/// Bytes that a thread writes at a time, and threads that cover a row of a panel.
const CHUNK_BYTES: u32 = 16;
const CHUNKS: u32 = SPAN_BYTES / CHUNK_BYTES;

/// Zeros the rows from `row` on, before this warpgroup, or others to which it passes the turn,
/// issue `wgmma`s that read them.
///
/// # Safety
/// A warpgroup calls it, converged; nobody reads the stage meanwhile.
#[inline(always)]
pub(super) unsafe fn clear_rows<E: OperandElement, S: PanelShape>(
    ring: &PanelRing<E, S>,
    stage: &Stage,
    row: u32,
) {
    let thread = opaque(thread::thread_idx_x()) % WARPGROUP;
    let mut panel = 0;
    while panel < S::PANELS {
        let to = ring
            .address(stage, panel)
            .add_bytes(thread % CHUNKS * CHUNK_BYTES);
        let mut row = row + thread / CHUNKS;
        while row < S::ROWS {
            // SAFETY: inside the panel; the swizzle permutes bytes within rows only.
            unsafe { st_shared_v4_u32(to.add_bytes(row * SPAN_BYTES), [0; 4]) };
            row = opaque(row + WARPGROUP / CHUNKS);
        }
        panel = opaque(panel + 1);
    }
    fence_proxy_async_shared_cta();
    // SAFETY: the whole warpgroup is here.
    unsafe { bar_sync(BARRIER, WARPGROUP) };
}
