//! An operand's tiles on their way from global to shared memory.

use core::marker::PhantomData;

use cuda_std::cp_async::{
    cp_async_ca_4_src_size, cp_async_ca_8_src_size, cp_async_cg_l2_128b_16_src_size,
    cp_async_cg_l2_128b_16_src_size_if,
};
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::{mem, thread};
use spec::gemm::OperandMap;

/// Bytes of a chunk, what one fast copy takes.
const CHUNK: u32 = 16;

/// What a block's threads share of an operand: which map, how many threads, how copies are made.
pub(super) trait Staging {
    /// How a tile lies in shared memory.
    const MAP: OperandMap;
    /// Threads of the block.
    const THREADS: u32;
    /// Whether copies run in the background.
    const ASYNC: bool;
    /// Rows of a tile that all threads copy at once.
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
/// The thread has one column of chunks and every `ROWS_AT_ONCE`th row. Nothing beyond the operand
/// is read: what lies there is 0 in shared memory.
pub(super) struct Operand<S> {
    /// The operand's first byte, of this batch and this tile of D.
    base: *const u8,
    /// Bytes between rows as stored.
    ld_bytes: i64,
    /// Rows of A or columns of B, from the tile's first on.
    mn_left: u32,
    k: u32,
    row: u32,
    chunk: u32,
    /// Bytes of the widest access that all chunks are aligned to, at most a chunk.
    width: u32,
    staging: PhantomData<S>,
}

/// The chunks of one tile that a thread has on their way through registers.
pub(super) type InFlight = [[u32; 4]; COPIES_MAX];

/// Most chunks that a thread copies of a tile through registers.
pub(super) const COPIES_MAX: usize = 4;

/// The state of fast copies: they come in the order of k, those of a tile by rows.
pub(super) struct Walk {
    next: *const u8,
    row_step: isize,
    tile_step: isize,
    /// Rows of a tile, from the thread's first on, in which its chunks are there.
    rows: u32,
    /// Where the thread's first chunk lies in the stage that is written.
    to: SharedAddr,
    /// The same where copies go through registers.
    smem: *mut u8,
}

impl Walk {
    /// The rows of a tile, or none unless it `is_there`.
    ///
    /// Opaque, so that each copy is compared with them: one instruction. It would be two if the
    /// compiler compared beforehand.
    #[inline(always)]
    pub(super) fn rows(&self, is_there: bool) -> u32 {
        opaque(if is_there { self.rows } else { 0 })
    }

    /// Starts the tile's next copy, which is its `i`th, if it is one of `rows`; else, of zeros.
    /// Nothing of it if not `wanted`; without a branch, so that it lies among the products.
    ///
    /// # Safety
    /// If wanted: the operand is fast, the tile whole in k, the stage free.
    #[inline(always)]
    pub(super) unsafe fn copy<S: Staging>(&mut self, i: u32, rows: u32, wanted: bool) {
        let row = i * S::ROWS_AT_ONCE;
        let to = self.to.add_bytes(row * S::MAP.row_bytes());
        // All or nothing: the only sizes that are one instruction.
        let bytes = if rows > row { CHUNK } else { 0 };
        // SAFETY: the bytes that are read are the operand's; the caller says the rest.
        unsafe { cp_async_cg_l2_128b_16_src_size_if(wanted, to, self.next, bytes) }
        self.advance::<S>(i);
    }

    /// Goes on from the tile's `i`th copy.
    #[inline(always)]
    fn advance<S: Staging>(&mut self, i: u32) {
        self.next = self.next.wrapping_offset(self.row_step);
        if i + 1 == S::COPIES {
            self.next = self.next.wrapping_offset(self.tile_step);
        }
    }

    /// Goes on to the stage that lies `bytes` further on (or back).
    #[inline(always)]
    pub(super) fn advance_stage(&mut self, bytes: i32) {
        self.to = self.to.add_bytes(bytes as u32);
        self.smem = self.smem.wrapping_offset(bytes as isize);
    }

    /// Loads the tile's chunks into registers; zeros unless it `is_there`.
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
    /// The operand at `base` (of this batch) with `extent` rows of A or columns of B, for the tile
    /// that begins with the `first` of them.
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

    /// Whether all tiles that are whole in k consist of whole chunks, and so can be copied fast.
    #[inline(always)]
    pub(super) fn is_fast(&self) -> bool {
        let whole = S::MAP.k_major
            || self.mn_left >= S::MAP.tile_mn
            || self.mn_left.is_multiple_of(CHUNK / S::MAP.size_bytes);
        self.width == CHUNK && whole
    }

    /// Bytes of a row of a tile that there are from this thread's chunk on, at most a chunk, where
    /// `left` elements are left in the row's direction.
    #[inline(always)]
    fn bytes_of(&self, left: u32) -> u32 {
        let first = self.chunk * (CHUNK / S::MAP.size_bytes);
        let elements = left.saturating_sub(first);
        let most = CHUNK / S::MAP.size_bytes;
        (if elements < most { elements } else { most }) * S::MAP.size_bytes
    }

    /// Fast copies of the tiles of k from the first on, all of which are whole in k, to the stage at
    /// `smem`.
    #[inline(always)]
    pub(super) fn walk(&self, smem: *mut u8) -> Walk {
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
        Walk {
            next: self.base.wrapping_offset(at as isize),
            row_step: row_step as isize,
            tile_step: (tile_step - i64::from(S::COPIES) * row_step) as isize,
            rows,
            // SAFETY: shared memory.
            to: unsafe { SharedAddr::of(smem) },
            smem,
        }
    }

    /// Copies any tile of k, of any alignment, to the stage at `smem`: zeros of those behind the last.
    /// With alignment to less than 4 bytes, it waits for memory.
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
        // As the block's size is not a constant to the compiler, the loop stays one.
        let rows_at_once = thread::block_dim_x() / S::MAP.row_chunks();
        let mut row = self.row;
        while row < S::MAP.rows() {
            let at = i64::from(row) * self.ld_bytes + i64::from(self.chunk * CHUNK);
            let from = base.wrapping_offset(at as isize);
            let bytes = if row < rows_left { bytes_in_row } else { 0 };
            let smem = smem.wrapping_add(S::MAP.chunk_offset(row, self.chunk) as usize);
            // SAFETY: the bytes that are read are the operand's; the caller says the rest.
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

/// Copies a chunk by pieces of `WIDTH` bytes, of which `bytes` are there.
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
        // SAFETY: the caller's.
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

/// Copies a chunk of elements of `size_bytes` (1 or 2), of which `bytes` are there.
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
            // SAFETY: the element is one of those that are there, aligned to its size.
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
