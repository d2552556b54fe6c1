//! TMA loads of an operand's tile, by multicast where blocks of a cluster share it.

use cuda_std::pipeline::Slot;
use cuda_std::shared::SharedAddr;
use cuda_std::tile::{OperandMajor, SPAN_BYTES};
use cuda_std::tma::{self, TensorMap};
use spec::tensor_core::descriptor::Major;

/// Elements along m or n in a box of an MN-major operand. Only 16-bit types can be MN-major.
const MN_BOX: u32 = SPAN_BYTES / 2;
/// Elements along k in such a box.
const MN_BOX_K: u32 = SPAN_BYTES / 2;

/// Issues the TMA loads of a tile of `MN` rows × [`SPAN_BYTES`] of k at `[mn, k, batch]`. If 2 or 4
/// blocks `share` the tile, this block loads the part of number `rank` and multicasts it to all of
/// them.
///
/// # Safety
/// One thread calls it. The slot is this thread's to fill, at `destination`, and its bytes have
/// been announced. The map's boxes are `MN / share` rows if k is contiguous, else [`MN_BOX`] ×
/// [`MN_BOX_K`].
#[inline(always)]
pub(super) unsafe fn load_tile<L: OperandMajor, const MN: u32>(
    destination: SharedAddr,
    map: *const TensorMap,
    at: [u32; 3],
    slot: &Slot,
    share: u32,
    rank: u32,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        match share {
            1 => load_part::<L, MN, 1>(destination, map, at, slot, 0),
            2 => load_part::<L, MN, 2>(destination, map, at, slot, rank),
            _ => load_part::<L, MN, 4>(destination, map, at, slot, rank),
        }
    }
}

/// Prefetches into L2 a tile that [`load_tile`] will load for one block.
///
/// # Safety
/// The map is as for [`load_tile`].
#[inline(always)]
pub(super) unsafe fn prefetch_tile<L: OperandMajor, const MN: u32>(
    map: *const TensorMap,
    [mn, k, batch]: [u32; 3],
) {
    let (boxes, rows) = match L::MAJOR {
        Major::K => (1, MN),
        Major::Mn => (MN / MN_BOX, MN_BOX),
    };
    let mut i = 0;
    while i < boxes {
        let mn = mn + i * rows;
        let at = match L::MAJOR {
            Major::K => [k, mn, batch],
            Major::Mn => [mn, k, batch],
        };
        // SAFETY: passed on to the caller.
        unsafe { tma::cp_async_bulk_prefetch_tensor_3d_l2_global(map, at.map(|at| at as i32)) };
        i += 1;
    }
}

/// Loads part `part` of `PARTS`.
#[inline(always)]
unsafe fn load_part<L: OperandMajor, const MN: u32, const PARTS: u32>(
    destination: SharedAddr,
    map: *const TensorMap,
    [mn, k, batch]: [u32; 3],
    slot: &Slot,
    part: u32,
) {
    let rows = MN / PARTS;
    let first = part * rows;
    match L::MAJOR {
        Major::K => {
            let at = [k, mn + first, batch].map(|coordinate| coordinate as i32);
            let to = destination.add_bytes(first * SPAN_BYTES);
            // SAFETY: passed on to the caller.
            unsafe { copy::<PARTS>(to, map, at, slot) }
        }
        Major::Mn => {
            let mut row = first;
            while row < first + rows {
                let at = [mn + row, k, batch].map(|coordinate| coordinate as i32);
                let to = destination.add_bytes(row / MN_BOX * MN_BOX_K * SPAN_BYTES);
                // SAFETY: passed on to the caller.
                unsafe { copy::<PARTS>(to, map, at, slot) }
                row += MN_BOX;
            }
        }
    }
}

/// Loads one box, to this block alone or to the first `BLOCKS` blocks of the cluster.
#[inline(always)]
unsafe fn copy<const BLOCKS: u32>(
    to: SharedAddr,
    map: *const TensorMap,
    at: [i32; 3],
    slot: &Slot,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        if BLOCKS == 1 {
            tma::cp_async_bulk_tensor_3d_shared_cluster_global(to, map, at, slot.barrier());
        } else {
            let all = (1 << BLOCKS) - 1;
            tma::cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster(
                to,
                map,
                at,
                slot.barrier(),
                all,
            );
        }
    }
}
