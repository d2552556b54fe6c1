//! Copies q, k and v from global to shared memory, by `cp.async` from sm_80 on.

use abi::attention::{KeyRange, decode, sm80};
use cuda_std::cp_async::{
    cp_async_cg_l2_128b_16_src_size, cp_async_commit_group, cp_async_wait_group,
};
use cuda_std::hint::opaque;
use cuda_std::mem::{ld_global_nc_v4_u32, st_shared_v4_u32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

use super::element::Half;

/// Threads of a block.
const BLOCK: u32 = 128;
const _: () = assert!(BLOCK == sm80::THREADS && BLOCK == decode::THREADS);
/// Bytes of a chunk: what a thread copies at once.
const CHUNK: u32 = 16;
/// Bytes of an element.
const ELEMENT: i64 = 2;

/// The swizzle: chunk `c` of row `row` is at `c ^ turn`. Eight rows of the same chunk are in different
/// banks. Rows of four chunks are half as long as all banks together.
macro_rules! turn {
    ($row:expr, $row_chunks:expr) => {
        if $row_chunks == 4 {
            $row / 2 % 4
        } else {
            $row % 8
        }
    };
}

/// Commits the copies so far as a group.
#[inline(always)]
pub(super) fn commit<E: Half>() {
    if E::BACKGROUND {
        cp_async_commit_group();
    }
}

/// Waits for the copies of all groups; other threads see them after the next barrier.
#[inline(always)]
pub(super) fn wait<E: Half>() {
    if E::BACKGROUND {
        cp_async_wait_group::<0>();
    }
}

/// One thread's share of the copies of a tensor whose tiles have `ROWS` rows of `CAP` elements, by
/// a thread group of `THREADS` threads. It is one column of chunks, in every
/// [`ROWS_AT_ONCE`](Self::ROWS_AT_ONCE)th row. Values that depend only on the thread's index are
/// recomputed for each tile, as the `mma`s need the registers.
pub(crate) struct Copies<const CAP: usize, const ROWS: usize, const THREADS: u32> {
    /// The thread's chunk in its first row of the tensor's first tile.
    first: *const u8,
    /// Bytes between rows.
    ld_bytes: i64,
    /// Elements of a row.
    head_dim: u32,
}

/// Row and column, in a tile, of a thread's first chunk.
struct Chunk {
    row: u32,
    column: u32,
}

impl<const CAP: usize, const ROWS: usize, const THREADS: u32> Copies<CAP, ROWS, THREADS> {
    const ROW_BYTES: u32 = CAP as u32 * ELEMENT as u32;
    const ROW_CHUNKS: u32 = Self::ROW_BYTES / CHUNK;
    /// Rows that the thread group copies in one pass.
    const ROWS_AT_ONCE: u32 = THREADS / Self::ROW_CHUNKS;
    /// Chunks of a tile that each thread copies.
    const COPIES: u32 = {
        assert!(
            (ROWS as u32).is_multiple_of(Self::ROWS_AT_ONCE),
            "threads cover a tile exactly"
        );
        assert!(Self::ROW_CHUNKS == 4 || Self::ROW_CHUNKS >= 8);
        ROWS as u32 / Self::ROWS_AT_ONCE
    };

    /// The copies of the tensor at `base`, with `ld` elements between its rows of `head_dim`.
    #[inline(always)]
    pub(crate) fn new(base: *const u8, ld: i64, head_dim: u32) -> Self {
        let Chunk { row, column } = Self::chunk();
        let ld_bytes = ld * ELEMENT;
        let offset = i64::from(row) * ld_bytes + i64::from(column * CHUNK);
        Self {
            first: base.wrapping_offset(offset as isize),
            ld_bytes,
            head_dim,
        }
    }

    #[inline(always)]
    fn chunk() -> Chunk {
        let mut thread_idx = opaque(thread::thread_idx_x());
        if THREADS < BLOCK {
            thread_idx %= THREADS;
        }
        Chunk {
            row: thread_idx / Self::ROW_CHUNKS,
            column: thread_idx % Self::ROW_CHUNKS,
        }
    }

    /// Starts the copies of the tile that begins at `tile_row`, of which `rows` rows exist.
    ///
    /// # Safety
    /// Those rows can be read, and nothing writes them; nobody uses the tile at `smem` before the
    /// copies have been waited for.
    #[inline(always)]
    pub(crate) unsafe fn start<E: Half>(&self, tile_row: u32, rows: u32, smem: SharedAddr) {
        // Not unrolled where o leaves few registers for addresses.
        let end = || match (CAP, THREADS) {
            (..=64, _) | (_, ..BLOCK) => Self::COPIES,
            _ => opaque(Self::COPIES),
        };
        let offset = i64::from(tile_row) * self.ld_bytes;
        // SAFETY: the caller's promise.
        unsafe { self.start_up_to::<E>(end, offset, KeyRange::up_to(rows), smem) }
    }

    /// [`start`](Self::start), for a tile that begins `offset` elements behind the tensor's first, of
    /// its rows `rows`; the others become 0.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn start_at<E: Half>(&self, offset: i64, rows: KeyRange, smem: SharedAddr) {
        // SAFETY: the caller's promise.
        unsafe { self.start_up_to::<E>(|| Self::COPIES, offset * ELEMENT, rows, smem) }
    }

    /// [`start`](Self::start) in a loop, for the size of the code.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn start_by_loop<E: Half>(&self, tile_row: u32, rows: u32, smem: SharedAddr) {
        let offset = i64::from(tile_row) * self.ld_bytes;
        // SAFETY: the caller's promise.
        unsafe {
            let rows = KeyRange::up_to(rows);
            self.start_up_to::<E>(|| opaque(Self::COPIES), offset, rows, smem)
        }
    }

    /// [`start`](Self::start), if `end` is the number of a thread's copies, and the tile begins
    /// `offset` bytes behind the tensor's first.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn start_up_to<E: Half>(
        &self,
        end: impl Fn() -> u32,
        offset: i64,
        rows: KeyRange,
        smem: SharedAddr,
    ) {
        let Chunk { row, column } = Self::chunk();
        let is_inside = column * CHUNK < self.head_dim * ELEMENT as u32;
        let to =
            smem.add_bytes(row * Self::ROW_BYTES + (column ^ turn!(row, Self::ROW_CHUNKS)) * CHUNK);
        let mut from = self.first.wrapping_offset(offset as isize);
        let step = self.ld_bytes * i64::from(Self::ROWS_AT_ONCE);
        let (row, rows) = (
            row.wrapping_sub(rows.first),
            rows.end.wrapping_sub(rows.first),
        );
        let mut copy = 0;
        while copy < end() {
            let rows_down = copy * Self::ROWS_AT_ONCE;
            let is_there = is_inside && row.wrapping_add(rows_down) < rows;
            let size = if is_there { CHUNK } else { 0 };
            // The swizzle of a later row is one more xor: `rows_down` and the thread's first row
            // have no bits of `% 8` in common.
            let turned =
                SharedAddr::from_bits(to.bits() ^ (turn!(rows_down, Self::ROW_CHUNKS) * CHUNK));
            // SAFETY: the caller's promise; nothing is read of a chunk that does not exist.
            unsafe {
                let to = turned.add_bytes(rows_down * Self::ROW_BYTES);
                if E::BACKGROUND {
                    cp_async_cg_l2_128b_16_src_size(to, from, size);
                } else if is_there {
                    st_shared_v4_u32(to, ld_global_nc_v4_u32(from.cast()));
                } else {
                    st_shared_v4_u32(to, [0; 4]);
                }
            }
            from = from.wrapping_offset(step as isize);
            copy += 1;
        }
    }
}
