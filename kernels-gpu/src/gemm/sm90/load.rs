//! TMA loads of an operand's tile.

use abi::tensor_core::descriptor::Major;
use cuda_std::pipeline::Slot;
use cuda_std::shared::SharedAddr;
use cuda_std::tile::{OperandMajor, SPAN_BYTES};
use cuda_std::tma::{
    TensorMap, cp_async_bulk_prefetch_tensor_3d_l2_global,
    cp_async_bulk_tensor_3d_shared_cluster_global,
    cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster,
};

const _: () = assert!(SPAN_BYTES == abi::gemm::sm90::SPAN_BYTES);

/// Elements along m or n in a box of an MN-major operand. Only 16-bit types can be MN-major.
const MN_BOX: u32 = SPAN_BYTES / 2;
/// Elements along k in such a box.
const MN_BOX_K: u32 = SPAN_BYTES / 2;

/// Whether boxes of this layout make up so many rows or columns, without a rest.
pub(super) const fn is_whole_boxes<L: OperandMajor>(rows: u32) -> bool {
    matches!(L::MAJOR, Major::K) || rows.is_multiple_of(MN_BOX)
}

/// What a block loads of an operand's tile: `rows` rows or columns from `first` on, which the blocks of
/// its cluster in `mask` get, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) first: u32,
    pub(super) rows: u32,
    pub(super) mask: Option<u16>,
}

/// Issues the TMA loads of a block's share of a tile of [`SPAN_BYTES`] of k, which begins at `[mn, k,
/// batch]`.
///
/// # Safety
/// One thread calls it. The slot is this thread's to fill, at `destination`, and its bytes have
/// been announced in every block that gets them. The map's boxes are the share's rows if k is
/// contiguous, else [`MN_BOX`] × [`MN_BOX_K`].
#[inline(always)]
pub(super) unsafe fn load_share<L: OperandMajor>(
    destination: SharedAddr,
    map: *const TensorMap,
    [mn, k, batch]: [u32; 3],
    share: Share,
    slot: &Slot,
) {
    let (rows_of_box, bytes_of_row) = match L::MAJOR {
        Major::K => (share.rows, SPAN_BYTES),
        Major::Mn => (MN_BOX, MN_BOX_K * SPAN_BYTES / MN_BOX),
    };
    let mut row = share.first;
    while row < share.first + share.rows {
        let at = match L::MAJOR {
            Major::K => [k, mn + row, batch],
            Major::Mn => [mn + row, k, batch],
        };
        let at = at.map(|coordinate| coordinate as i32);
        let to = destination.add_bytes(row * bytes_of_row);
        // SAFETY: passed on to the caller.
        unsafe {
            match share.mask {
                None => cp_async_bulk_tensor_3d_shared_cluster_global(to, map, at, slot.barrier()),
                Some(blocks) => cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster(
                    to,
                    map,
                    at,
                    slot.barrier(),
                    blocks,
                ),
            }
        }
        row += rows_of_box;
    }
}

/// Boxes of rows that are loaded of a tile of A.
#[derive(Clone, Copy, Debug)]
pub struct Boxes {
    /// How many.
    pub count: u32,
    /// Rows of one.
    pub rows: u32,
}

impl Boxes {
    /// Bytes of all, whose rows have `row_bytes`.
    #[inline(always)]
    pub(super) fn bytes(self, row_bytes: u32) -> u32 {
        self.count * self.rows * row_bytes
    }
}

/// As [`load_share`], of a K-major operand, only as many rows as `boxes` have.
///
/// # Safety
/// As for [`load_share`]; the map's boxes have the rows of `boxes`.
#[inline(always)]
pub(super) unsafe fn load_rows(
    destination: SharedAddr,
    map: *const TensorMap,
    [mn, k, batch]: [u32; 3],
    boxes: Boxes,
    slot: &Slot,
) {
    let mut i = 0;
    while i < boxes.count {
        let row = i * boxes.rows;
        let at = [k, mn + row, batch].map(|coordinate| coordinate as i32);
        let to = destination.add_bytes(row * SPAN_BYTES);
        // SAFETY: passed on to the caller.
        unsafe { cp_async_bulk_tensor_3d_shared_cluster_global(to, map, at, slot.barrier()) };
        i += 1;
    }
}

/// Prefetches into L2 a tile that [`load_share`] will load for one block.
///
/// # Safety
/// The map is as for [`load_share`].
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
        unsafe { cp_async_bulk_prefetch_tensor_3d_l2_global(map, at.map(|at| at as i32)) };
        i += 1;
    }
}
