//! TMA loads of queries, keys and values.

use cuda_std::hint::opaque;
use cuda_std::panels::{PanelRing, PanelShape};
use cuda_std::pipeline::Slot;
use cuda_std::thread;
use cuda_std::tile::OperandElement;
use cuda_std::tma::TensorMap;

use super::rows::RowMap;

/// Whether this is the lane that issues everything. Recomputed at each use: a loader has few
/// registers.
#[inline(always)]
pub(super) fn is_leader() -> bool {
    opaque(thread::thread_idx_x()).is_multiple_of(thread::WARP_THREADS)
}

/// Issues the loads of a matrix, panel by panel, whose first row is `position` of `head` and
/// `batch`; `R` is its row map.
///
/// # Safety
/// A warp calls it; the slot is this warp's to fill and its bytes have been announced; the map's
/// boxes are one panel.
#[inline(always)]
pub(super) unsafe fn load_panels<R: RowMap, E: OperandElement, S: PanelShape>(
    ring: &PanelRing<E, S>,
    map: *const TensorMap,
    [position, head, batch]: [u32; 3],
    slot: &Slot,
) {
    if !is_leader() {
        return;
    }
    let mut panel = 0;
    while panel < S::PANELS {
        let column = panel * PanelRing::<E, S>::PANEL_COLUMNS;
        let to = ring.destination(slot, panel);
        // SAFETY: passed on to the caller.
        unsafe {
            R::copy_panel(to, map, [column, position, head, batch], slot.barrier());
        }
        panel += 1;
    }
}
