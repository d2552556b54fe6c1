//! Where a thread's elements are in a launch.

use abi::scan::{ScanParams, THREADS, TILE_BYTES, VECTORS};
use cuda_std::hint::opaque;
use cuda_std::{mem, thread};

use super::back::Tile;
use super::tile::{Span, Stored};

/// A thread's place in its block's rows.
#[derive(Clone, Copy)]
pub(super) struct Role {
    /// Index of its row among the block's.
    pub(super) row: u32,
    /// Index of its warp among the row's, and their number.
    pub(super) warp: u32,
    pub(super) warps: u32,
    /// Index of its lane among the row's lanes in this warp, and their number.
    pub(super) lane: u32,
    pub(super) lanes: u32,
}

impl Role {
    /// That of a launch. Recomputed at each use, so that it takes no registers meanwhile.
    #[inline(always)]
    pub(super) fn of(params: &ScanParams) -> Self {
        let (thread, along_log2) = (thread::thread_idx_x(), opaque(params.along_log2));
        let lanes = 1 << along_log2.min(5);
        let slot = thread & ((1 << along_log2) - 1);
        Self {
            row: thread >> along_log2,
            warp: slot / thread::WARP_THREADS,
            warps: 1 << along_log2.saturating_sub(5),
            lane: slot & (lanes - 1),
            lanes,
        }
    }

    /// The thread's vectors in a tile, of whose elements `begin..end` exist.
    #[inline(always)]
    fn span(&self, lanes_of_vector: usize, begin: i32, end: i32) -> Span {
        let vector = self.warp * VECTORS as u32 * self.lanes + self.lane;
        Span {
            first: (vector * lanes_of_vector as u32) as i32,
            step: (self.lanes * lanes_of_vector as u32) as i32,
            begin,
            end,
        }
    }
}

/// A launch.
pub(super) struct Launch<'a> {
    pub(super) x: *const u8,
    pub(super) y: *mut u8,
    pub(super) params: &'a ScanParams,
}

impl Launch<'_> {
    /// Where a tile begins in x and in y, which of its vectors this thread has, and which of its
    /// elements exist.
    #[inline(always)]
    pub(super) fn address<T: Stored<V>, const V: usize>(&self, tile: &Tile) -> TileAddress {
        let params = self.params;
        let bytes = T::bytes(0);
        let at = |stride: i64| (tile.row as i64).wrapping_mul(stride.wrapping_mul(bytes)) as isize;
        let from = self.x.wrapping_offset(at(params.x_row_stride));
        let to = self.y.wrapping_offset(at(params.y_row_stride));
        // Vectors are at multiples of 16 bytes; the row's first one begins up to a vector before
        // the row.
        let head = (from.addr() % 16) as i64 / bytes;
        let tile_len = (u64::from(THREADS) * (VECTORS * V) as u64) as i64;
        let first = tile.i as i64 * tile_len - head;
        let begin = if tile.i == 0 { head } else { 0 };
        let end = match tile.row < params.rows {
            true => (params.n as i64 - first).min(tile_len),
            false => begin,
        };
        let tile_at = first.wrapping_mul(bytes) as isize;
        TileAddress {
            span: Role::of(params).span(V, begin as i32, end as i32),
            from: from.wrapping_offset(tile_at),
            to: to.wrapping_offset(tile_at),
        }
    }

    /// Prefetches into L2 the tile that is as far behind `tile` as `params` say, so that it is
    /// there when a block takes it.
    #[inline(always)]
    pub(super) fn ask_ahead<T: Stored<V>, const V: usize>(&self, tile: &Tile) {
        let params = self.params;
        let mut ahead = Tile {
            row: tile.row + params.ahead_rows,
            i: tile.i + params.ahead_tiles,
        };
        if ahead.i >= params.tiles {
            (ahead.row, ahead.i) = (ahead.row + 1, ahead.i - params.tiles);
        }
        // A thread prefetches a cache line of the tile.
        let line = thread::thread_idx_x() * (TILE_BYTES / THREADS);
        let address = self.address::<T, V>(&ahead);
        if ahead.row < params.rows && i64::from(line) < i64::from(address.span.end) * T::bytes(0) {
            // SAFETY: a cache line of the tile.
            unsafe { mem::prefetch_global_l2(address.from.wrapping_add(line as usize)) };
        }
    }
}

/// Where a tile is.
pub(super) struct TileAddress {
    pub(super) span: Span,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}
