//! Copies of A and B from global memory into a stage of shared memory.

use abi::gemm::decode::DECODE_THREADS;
use cuda_std::cp_async::{cp_async_cg_16, cp_async_cg_16_src_size};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

const THREADS: u32 = DECODE_THREADS;
/// Elements (of 2 bytes) of one copy.
const CHUNK: u32 = 8;
const CHUNK_BYTES: u32 = 16;

/// The part of an operand that a block copies, stage by stage.
pub(super) struct Source<T> {
    /// This thread's first chunk of the next stage.
    next: *const T,
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

impl<T> Source<T> {
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
        let offset = i64::from(row) * ld + i64::from(column);
        Self {
            next: first.wrapping_offset(offset as isize),
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
    /// The rows start at multiples of 16 bytes; nobody uses the stage meanwhile.
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, stage: SharedAddr) {
        let Shape {
            rows,
            columns,
            pitch_bytes,
            ..
        } = self.shape;
        let at_once = self.shape.rows_at_once();
        let own = stage.add_bytes(self.row * pitch_bytes + self.column * 2);
        let pass_elements = i64::from(at_once) * self.ld;
        let is_whole = self.rows_left >= rows && self.columns_left >= columns;
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
            let in_row = self.columns_left.saturating_sub(self.column).min(CHUNK);
            let mut pass = 0;
            while pass < rows.div_ceil(at_once) {
                let row = pass * at_once + self.row;
                let dst = own.add_bytes(pass * at_once * pitch_bytes);
                let src = self
                    .next
                    .wrapping_offset((i64::from(pass) * pass_elements) as isize);
                let bytes = if row < self.rows_left { in_row * 2 } else { 0 };
                if rows % at_once == 0 || row < rows {
                    // SAFETY: `bytes` bytes are inside the operand; the rest is the caller's
                    // promise.
                    unsafe { cp_async_cg_16_src_size(dst, src, bytes) };
                }
                pass += 1;
            }
        }
        self.advance();
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
            self.columns_left = self.columns_left.saturating_sub(columns);
        } else {
            self.next = self
                .next
                .wrapping_offset((i64::from(rows) * self.ld) as isize);
            self.rows_left = self.rows_left.saturating_sub(rows);
        }
    }
}

const _: () = assert!(CHUNK * 2 == CHUNK_BYTES);
