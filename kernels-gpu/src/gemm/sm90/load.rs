//! Tensor copies of an operand's tile.

use cuda_std::pipeline::Slot;
use cuda_std::shared::SharedAddr;
use cuda_std::tile::{OperandMajor, SPAN_BYTES};
use cuda_std::tma::{self, TensorMap};
use spec::tensor_core::descriptor::Major;

/// Elements of the contiguous extent in a box of an operand that has m or n contiguous: 16-bit types
/// alone lie so.
const MN_BOX: u32 = SPAN_BYTES / 2;
/// Depth of its boxes.
const MN_BOX_K: u32 = SPAN_BYTES / 2;

/// Issues the copies of a tile of `MN` × [`SPAN_BYTES`] of k at `[mn, k, batch]`. Where 2 or 4 blocks
/// `share` the tile, those of the part that is this block's by its `rank`, to all of them.
///
/// # Safety
/// One thread calls it; the slot is to be filled, at `destination`, and its bytes are announced; the
/// map is of boxes of `MN / share` rows where k is contiguous, else of [`MN_BOX`] × [`MN_BOX_K`].
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

/// Brings a tile that [`load_tile`] will load, of one block, into L2.
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

/// The part of number `part` out of `PARTS`.
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

/// One box, to one block or to the first `BLOCKS` of the cluster.
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
