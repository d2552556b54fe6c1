//! Copies of A and B from global memory into a stage of shared memory.

use abi::gemm::decode::DECODE_THREADS;
use cuda_std::cp_async::{cp_async_cg_16, cp_async_cg_16_src_size};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

const THREADS: u32 = DECODE_THREADS;
/// Elements (of 2 bytes) of one copy.
const CHUNK: u32 = 8;
const CHUNK_BYTES: u32 = 16;

/// The part of an operand that a block copies, stage by stage. If its rows begin `ANYWHERE`, a stage
/// has the aligned chunks that hold its part of a row, one more than of an aligned row.
pub(super) struct Source<T, const ANYWHERE: bool> {
    /// This thread's first chunk of the next stage.
    next: *const T,
    /// Bytes of its first chunk that lie before its row.
    shift: u32,
    /// The same of the last chunk of one row; the thread's index is that of the row.
    last: *const T,
    last_shift: u32,
    /// Row and column of that chunk in the stage.
    row: u32,
    column: u32,
    /// Rows and columns inside the operand, counted from the next stage's first element.
    rows_left: u32,
    columns_left: u32,
    /// Elements between rows.
    ld: i64,
    shape: Shape,
}

/// Extents and layout of one operand in a stage.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) pitch_bytes: u32,
    /// Whether the next stage lies further along the columns, or else along the rows.
    pub(super) along_columns: bool,
}

impl Shape {
    /// Chunks of a row.
    #[inline(always)]
    const fn chunks(&self) -> u32 {
        self.columns / CHUNK
    }

    /// Rows that the block's threads copy in one pass.
    #[inline(always)]
    const fn rows_at_once(&self) -> u32 {
        THREADS / self.chunks()
    }
}

impl<T, const ANYWHERE: bool> Source<T, ANYWHERE> {
    /// The first of the chunks that hold the row at `row`, and the bytes before it there.
    #[inline(always)]
    fn aligned(row: *const T) -> (*const T, u32) {
        let shift = if ANYWHERE { shift(row) } else { 0 };
        (row.wrapping_byte_sub(shift as usize), shift)
    }

    /// Bytes of a chunk inside the operand's columns.
    #[inline(always)]
    fn bytes_inside(&self, column: u32, shift: u32) -> u32 {
        let columns = self.columns_left.min(self.shape.columns + CHUNK);
        let left = (2 * columns + shift).saturating_sub(2 * column);
        left.min(CHUNK_BYTES)
    }

    /// The part of an operand that begins at `first`; `rows_left` rows and `columns_left` columns
    /// from there on are inside the operand.
    #[inline(always)]
    pub(super) fn new(
        first: *const T,
        ld: i64,
        (rows_left, columns_left): (u32, u32),
        shape: Shape,
    ) -> Self {
        let thread_idx = thread::thread_idx_x();
        let row = thread_idx / shape.chunks();
        let column = thread_idx % shape.chunks() * CHUNK;
        let row_at = |row: u32| first.wrapping_offset((i64::from(row) * ld) as isize);
        let (next, shift) = Self::aligned(row_at(row));
        let (last, last_shift) = Self::aligned(row_at(thread_idx));
        Self {
            next: next.wrapping_add(column as usize),
            shift,
            last: last.wrapping_add(shape.columns as usize),
            last_shift,
            row,
            column,
            rows_left,
            columns_left,
            ld,
            shape,
        }
    }

    /// Starts the copies of the next stage to `stage`, with zeros outside the operand.
    ///
    /// # Safety
    /// The rows start at multiples of 16 bytes, or `ANYWHERE` in aligned chunks that are readable. No
    /// thread reads or writes the stage meanwhile.
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, stage: SharedAddr) {
        let Shape {
            rows,
            columns,
            pitch_bytes,
            ..
        } = self.shape;
        let at_once = self.shape.rows_at_once();
        let own = stage.add_bytes(position::<ANYWHERE>(self.row) * pitch_bytes + self.column * 2);
        let pass_elements = i64::from(at_once) * self.ld;
        let columns_read = columns + if ANYWHERE { CHUNK } else { 0 };
        let is_whole = self.rows_left >= rows && self.columns_left >= columns_read;
        if is_whole && rows % at_once == 0 {
            let mut pass = 0;
            while pass < rows / at_once {
                let dst = own.add_bytes(pass * at_once * pitch_bytes);
                let src = self
                    .next
                    .wrapping_offset((i64::from(pass) * pass_elements) as isize);
                // SAFETY: the whole stage is inside the operand; the rest is the caller's promise.
                unsafe { cp_async_cg_16(dst, src) };
                pass += 1;
            }
        } else {
            let in_row = self.bytes_inside(self.column, self.shift);
            let mut pass = 0;
            while pass < rows.div_ceil(at_once) {
                let row = pass * at_once + self.row;
                let dst = own.add_bytes(pass * at_once * pitch_bytes);
                let src = self
                    .next
                    .wrapping_offset((i64::from(pass) * pass_elements) as isize);
                let bytes = if row < self.rows_left { in_row } else { 0 };
                if rows % at_once == 0 || row < rows {
                    // SAFETY: `bytes` bytes are inside the operand; the rest is the caller's
                    // promise.
                    unsafe { cp_async_cg_16_src_size(dst, src, bytes) };
                }
                pass += 1;
            }
        }
        if ANYWHERE {
            // SAFETY: passed on to the caller.
            unsafe { self.copy_last(stage) };
        }
        self.advance();
    }

    /// Starts the copy of the last chunk of one row.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    #[inline(always)]
    unsafe fn copy_last(&self, stage: SharedAddr) {
        let Shape {
            rows,
            columns,
            pitch_bytes,
            ..
        } = self.shape;
        let row = thread::thread_idx_x();
        if row < rows {
            let inside = self.bytes_inside(columns, self.last_shift);
            let bytes = if row < self.rows_left { inside } else { 0 };
            let at = position::<ANYWHERE>(row) * pitch_bytes + columns * 2;
            let dst = stage.add_bytes(at);
            // SAFETY: `bytes` bytes are inside the operand; the rest is the caller's promise.
            unsafe { cp_async_cg_16_src_size(dst, self.last, bytes) };
        }
    }

    /// Advances to the next stage.
    #[inline(always)]
    fn advance(&mut self) {
        let Shape {
            rows,
            columns,
            along_columns,
            ..
        } = self.shape;
        if along_columns {
            self.next = self.next.wrapping_add(columns as usize);
            self.last = self.last.wrapping_add(columns as usize);
            self.columns_left = self.columns_left.saturating_sub(columns);
        } else {
            self.next = self
                .next
                .wrapping_offset((i64::from(rows) * self.ld) as isize);
            self.rows_left = self.rows_left.saturating_sub(rows);
        }
    }
}

/// Where a row is in a stage. Lanes read chunks of rows that begin anywhere: eight lanes, at once, four
/// chunks of two neighbours. These are four rows apart, and so are in different banks.
#[inline(always)]
pub(super) fn position<const ANYWHERE: bool>(row: u32) -> u32 {
    match ANYWHERE {
        true => row / 8 * 8 + row % 2 * 4 + row / 2 % 4,
        false => row,
    }
}

/// Bytes from the aligned chunk that holds the first byte of a row to that byte.
#[inline(always)]
pub(super) fn shift<T>(row: *const T) -> u32 {
    row.addr() as u32 % CHUNK_BYTES
}

const _: () = assert!(CHUNK * 2 == CHUNK_BYTES);
