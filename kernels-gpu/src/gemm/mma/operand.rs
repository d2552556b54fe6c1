//! Copies of an operand's tiles from global to shared memory.

use core::marker::PhantomData;

use abi::gemm::OperandMap;
use cuda_std::cp_async::{
    cp_async_ca_4_src_size, cp_async_ca_8_src_size, cp_async_cg_l2_128b_16_src_size,
    cp_async_cg_l2_128b_16_src_size_if,
};
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::{mem, thread};

/// Bytes of a chunk: what one fast copy moves.
const CHUNK: u32 = 16;

/// What is the same for all threads that copy an operand: its layout in shared memory, how many
/// they are, how they copy.
pub(super) trait Staging {
    /// Layout of a tile in shared memory.
    const MAP: OperandMap;
    /// Threads of the block.
    const THREADS: u32;
    /// Whether copies are `cp.async`; otherwise they go through registers.
    const ASYNC: bool;
    /// Rows of a tile that the block's threads copy in one pass.
    const ROWS_AT_ONCE: u32 = {
        let rows = Self::THREADS / Self::MAP.row_chunks();
        assert!(Self::THREADS.is_multiple_of(Self::MAP.row_chunks()));
        assert!(
            rows.is_multiple_of(Self::MAP.swizzle_period()),
            "a thread's rows are permuted alike"
        );
        assert!(Self::MAP.rows().is_multiple_of(rows));
        rows
    };
    /// Chunks of a tile that each thread copies.
    const COPIES: u32 = Self::MAP.rows() / Self::ROWS_AT_ONCE;
}

/// One thread's share of an operand's copies.
///
/// The thread copies one column of chunks, in every `ROWS_AT_ONCE`th row. Nothing outside the
/// operand is read; shared memory is filled with zeros there.
pub(super) struct Operand<S> {
    /// First byte of the operand, in this matrix of the batch and this tile of D.
    base: *const u8,
    /// Bytes between rows as stored.
    ld_bytes: i64,
    /// Rows of A or columns of B, counted from the tile's first.
    mn_left: u32,
    k: u32,
    row: u32,
    chunk: u32,
    /// The widest access in bytes, up to a chunk, for which all chunks are aligned.
    width: u32,
    staging: PhantomData<S>,
}

/// The chunks of one tile that a thread holds in registers between load and store.
pub(super) type InFlight = [[u32; 4]; COPIES_MAX];

/// Most chunks of a tile that a thread copies through registers.
pub(super) const COPIES_MAX: usize = 4;

/// The state of the fast copies, which go through the k tiles in order, and through each by rows.
pub(super) struct CopyState {
    next: *const u8,
    row_step: isize,
    tile_step: isize,
    /// Rows of a tile, counted from the thread's first, for which its chunk is inside the operand.
    rows: u32,
    /// Address of the thread's first chunk in the stage that is written.
    to: SharedAddr,
    /// The same, for copies through registers.
    smem: *mut u8,
}

impl CopyState {
    /// Rows of a tile to copy; 0 unless the tile `is_there`.
    ///
    /// Opaque, so that each copy compares with it, which is one instruction. Had the compiler made
    /// the comparisons beforehand, it would be two.
    #[inline(always)]
    pub(super) fn rows(&self, is_there: bool) -> u32 {
        opaque(if is_there { self.rows } else { 0 })
    }

    /// Starts this thread's `i`th copy of the tile, the next in order. Rows from `rows` on are
    /// filled with zeros. Does nothing if not `wanted`, by a predicate and not a branch, so that
    /// the copy can be scheduled among the `mma`s.
    ///
    /// # Safety
    /// If wanted: the operand is fast, the tile whole in k, the stage free.
    #[inline(always)]
    pub(super) unsafe fn copy<S: Staging>(&mut self, i: u32, rows: u32, wanted: bool) {
        let row = i * S::ROWS_AT_ONCE;
        let to = self.to.add_bytes(row * S::MAP.row_bytes());
        // All or nothing: the only two sizes that take a single instruction to select.
        let bytes = if rows > row { CHUNK } else { 0 };
        // SAFETY: the bytes that are read are inside the operand; the rest is the caller's promise.
        unsafe { cp_async_cg_l2_128b_16_src_size_if(wanted, to, self.next, bytes) }
        self.advance::<S>(i);
    }

    /// Advances from the tile's `i`th copy to the next.
    #[inline(always)]
    fn advance<S: Staging>(&mut self, i: u32) {
        self.next = self.next.wrapping_offset(self.row_step);
        if i + 1 == S::COPIES {
            self.next = self.next.wrapping_offset(self.tile_step);
        }
    }

    /// Moves to the stage `bytes` further on, or back if negative.
    #[inline(always)]
    pub(super) fn advance_stage(&mut self, bytes: i32) {
        self.to = self.to.add_bytes(bytes as u32);
        self.smem = self.smem.wrapping_offset(bytes as isize);
    }

    /// Loads the tile's chunks into registers, or zeros unless the tile `is_there`.
    ///
    /// # Safety
    /// The operand is fast, the tile whole in k.
    #[inline(always)]
    pub(super) unsafe fn fetch<S: Staging>(&mut self, is_there: bool) -> InFlight {
        const { assert!(S::ASYNC || S::COPIES as usize <= COPIES_MAX) };
        let mut chunks = [[0; 4]; COPIES_MAX];
        for i in 0..S::COPIES {
            if is_there && self.rows > i * S::ROWS_AT_ONCE {
                // SAFETY: the chunk is the operand's, aligned.
                chunks[i as usize] = unsafe { mem::ld_global_nc_v4_u32(self.next.cast()) };
            }
            self.advance::<S>(i);
        }
        chunks
    }

    /// Writes what [`fetch`](Self::fetch) loaded into the stage.
    ///
    /// # Safety
    /// The stage is free.
    #[inline(always)]
    pub(super) unsafe fn put<S: Staging>(&self, chunks: &InFlight) {
        for i in 0..S::COPIES {
            let at = i * S::ROWS_AT_ONCE * S::MAP.row_bytes();
            // SAFETY: a chunk of the caller's stage.
            unsafe { mem::st_v4_u32(self.smem.add(at as usize).cast(), chunks[i as usize]) }
        }
    }
}

impl<S: Staging> Operand<S> {
    /// The operand at `base` (in this matrix of the batch), which has `extent` rows of A or columns
    /// of B, for the tile that begins at the `first` of them.
    ///
    /// # Safety
    /// `base`, `ld`, `extent` and `k` describe readable memory; the block has `S::THREADS` threads.
    #[inline(always)]
    pub(super) unsafe fn new<T>(base: *const T, ld: i64, extent: u32, first: u32, k: u32) -> Self {
        let size = size_of::<T>() as i64;
        let ld_bytes = ld.wrapping_mul(size);
        let step = if S::MAP.k_major { ld_bytes } else { size };
        let base = base
            .cast::<u8>()
            .wrapping_offset((i64::from(first) * step) as isize);
        let alignment = base.addr() as u32 | ld_bytes as u32 | CHUNK;
        let thread = thread::thread_idx_x();
        Self {
            base,
            ld_bytes,
            mn_left: extent - first,
            k,
            row: thread / S::MAP.row_chunks(),
            chunk: thread % S::MAP.row_chunks(),
            width: alignment & alignment.wrapping_neg(),
            staging: PhantomData,
        }
    }

    /// Whether all tiles that are whole in k consist of whole, aligned chunks, and so can be copied
    /// fast.
    #[inline(always)]
    pub(super) fn is_fast(&self) -> bool {
        let whole = S::MAP.k_major
            || self.mn_left >= S::MAP.tile_mn
            || self.mn_left.is_multiple_of(CHUNK / S::MAP.size_bytes);
        self.width == CHUNK && whole
    }

    /// Bytes inside the operand, at most a chunk, of this thread's chunk of a row, if `left`
    /// elements of the row are.
    #[inline(always)]
    fn bytes_of(&self, left: u32) -> u32 {
        let first = self.chunk * (CHUNK / S::MAP.size_bytes);
        let elements = left.saturating_sub(first);
        let most = CHUNK / S::MAP.size_bytes;
        (if elements < most { elements } else { most }) * S::MAP.size_bytes
    }

    /// The fast copies of all k tiles from the first on, which are whole in k, beginning with the
    /// stage at `smem`.
    #[inline(always)]
    pub(super) fn copy_state(&self, smem: *mut u8) -> CopyState {
        let at = i64::from(self.row) * self.ld_bytes + i64::from(self.chunk * CHUNK);
        let rows = match () {
            () if S::MAP.k_major => self.mn_left.saturating_sub(self.row),
            () if self.bytes_of(self.mn_left) > 0 => S::MAP.rows(),
            () => 0,
        };
        let row_step = i64::from(S::ROWS_AT_ONCE) * self.ld_bytes;
        let tile_step = if S::MAP.k_major {
            i64::from(S::MAP.tile_k_bytes)
        } else {
            i64::from(S::MAP.tile_k()) * self.ld_bytes
        };
        let smem = smem.wrapping_add(S::MAP.chunk_offset(self.row, self.chunk) as usize);
        CopyState {
            next: self.base.wrapping_offset(at as isize),
            row_step: row_step as isize,
            tile_step: (tile_step - i64::from(S::COPIES) * row_step) as isize,
            rows,
            // SAFETY: shared memory.
            to: unsafe { SharedAddr::of(smem) },
            smem,
        }
    }

    /// Copies a k tile of any extent and alignment to the stage at `smem`, or zeros if it lies
    /// beyond the last. With less than 4 bytes of alignment the copies are loads and stores, which
    /// wait for memory.
    ///
    /// # Safety
    /// The stage is free.
    #[inline(always)]
    pub(super) unsafe fn copy_any(&self, k_tile_idx: u32, smem: *mut u8) {
        let k_first = k_tile_idx.saturating_mul(S::MAP.tile_k());
        let k_left = self.k.saturating_sub(k_first);
        let (rows_left, left) = if S::MAP.k_major {
            (self.mn_left, k_left)
        } else {
            (k_left, self.mn_left)
        };
        let step = if S::MAP.k_major {
            i64::from(S::MAP.size_bytes)
        } else {
            self.ld_bytes
        };
        let base = self
            .base
            .wrapping_offset((i64::from(k_first) * step) as isize);
        let bytes_in_row = self.bytes_of(left);
        // The compiler does not know the block's size, so it does not unroll this.
        let rows_at_once = thread::block_dim_x() / S::MAP.row_chunks();
        let mut row = self.row;
        while row < S::MAP.rows() {
            let at = i64::from(row) * self.ld_bytes + i64::from(self.chunk * CHUNK);
            let from = base.wrapping_offset(at as isize);
            let bytes = if row < rows_left { bytes_in_row } else { 0 };
            let smem = smem.wrapping_add(S::MAP.chunk_offset(row, self.chunk) as usize);
            // SAFETY: the bytes that are read are inside the operand; the rest is the caller's
            // promise.
            unsafe {
                let to = SharedAddr::of(smem);
                match self.width {
                    16 if S::ASYNC => cp_async_cg_l2_128b_16_src_size(to, from, bytes),
                    16 if bytes == CHUNK => {
                        mem::st_v4_u32(smem.cast(), mem::ld_global_nc_v4_u32(from.cast()));
                    }
                    8 if S::ASYNC => pieces::<8>(to, from, bytes),
                    width if S::ASYNC && (width == 4 || S::MAP.size_bytes == 4) => {
                        pieces::<4>(to, from, bytes);
                    }
                    _ => by_elements(smem, from, bytes, S::MAP.size_bytes),
                }
            }
            row += rows_at_once;
        }
    }
}

/// Copies a chunk by pieces of `WIDTH` bytes; `bytes` of the chunk are inside the operand.
///
/// # Safety
/// As for [`Operand::copy_any`].
#[inline(always)]
unsafe fn pieces<const WIDTH: u32>(to: SharedAddr, from: *const u8, bytes: u32) {
    let mut at = 0;
    while at < CHUNK {
        let left = bytes.saturating_sub(at);
        let size = if left < WIDTH { left } else { WIDTH };
        let (to, from) = (to.add_bytes(at), from.wrapping_add(at as usize));
        // SAFETY: the caller's promise.
        unsafe {
            if WIDTH == 8 {
                cp_async_ca_8_src_size(to, from, size);
            } else {
                cp_async_ca_4_src_size(to, from, size);
            }
        }
        at += WIDTH;
    }
}

/// Copies a chunk by elements of `size_bytes` (1 or 2); `bytes` of it are inside the operand.
///
/// # Safety
/// As for [`Operand::copy_any`].
#[inline(always)]
unsafe fn by_elements(to: *mut u8, from: *const u8, bytes: u32, size_bytes: u32) {
    let mut words = [0_u32; 4];
    let mut at = 0;
    while at < CHUNK {
        if at < bytes {
            let from = from.wrapping_add(at as usize);
            // SAFETY: the element is inside the operand, and aligned to its size.
            let element = unsafe {
                if size_bytes == 1 {
                    u32::from(from.read())
                } else {
                    u32::from(from.cast::<u16>().read())
                }
            };
            words[at as usize / 4] |= element << (at % 4 * 8);
        }
        at += size_bytes;
    }
    // SAFETY: the caller's place, a chunk.
    unsafe { mem::st_v4_u32(to.cast(), words) }
}
