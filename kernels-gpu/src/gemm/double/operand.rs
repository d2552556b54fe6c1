//! An operand's way from global to shared memory by `cp.async`, and from there to registers.

use abi::gemm::{DOUBLE_K, double_pitch, double_stage};
use cuda_std::cp_async::{cp_async_ca_8_src_size, cp_async_cg_l2_128b_16_src_size};
use cuda_std::mem::ld_shared_f64;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

const ELEMENT_BYTES: u32 = 8;
/// Elements of a wide copy.
const WIDE: u32 = 2;
/// An operand in global memory: its first element in this matrix of the batch, elements from line
/// to line as stored, and whether lines run along k.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) base: *const f64,
    pub(super) ld: i64,
    pub(super) is_k_major: bool,
}

/// One thread's share of the copies of `TILE` rows or columns by [`DOUBLE_K`], which `THREADS`
/// threads make: the same part of every `line_step`th line.
///
/// Nothing outside of the operand is read; shared memory is filled with zeros there.
pub(super) struct Copies<const TILE: u32, const THREADS: u32> {
    /// The thread's first element in the tile that is copied next.
    from: *const f64,
    /// Elements from copy to copy, and from tile to tile.
    copy_step: i64,
    tile_step: i64,
    is_k_major: bool,
    is_wide: bool,
    /// The thread's first line, lines from copy to copy, and its first element in a line.
    line: u32,
    line_step: u32,
    element: u32,
    /// Rows or columns from the tile's first one on, and k from the tile that is copied next on.
    mn_left: u32,
    k_left: u32,
    /// Place in a stage of the thread's first element, and from copy to copy, in bytes.
    to: u32,
    to_step: u32,
}

impl<const TILE: u32, const THREADS: u32> Copies<TILE, THREADS> {
    /// Bytes of a stage.
    pub(super) const STAGE_BYTES: u32 = ELEMENT_BYTES * double_stage(TILE);
    /// Copies of a thread in a tile, of one element each.
    const COPIES: u32 = TILE * DOUBLE_K / THREADS;

    /// Copies of the lines from `first` on, of `extent` rows or columns and `k`.
    #[inline(always)]
    pub(super) fn new(matrix: Matrix, first: u32, [extent, k]: [u32; 2]) -> Self {
        let Matrix {
            base,
            ld,
            is_k_major,
        } = matrix;
        // Tiles begin at even elements, so this is the alignment of all of them.
        let line_bytes = (ld as u64).wrapping_mul(ELEMENT_BYTES.into());
        let is_wide = (base as u64 | line_bytes).is_multiple_of(16);
        let width = if is_wide { WIDE } else { 1 };
        let in_line = if is_k_major { DOUBLE_K } else { TILE } / width;
        let line = thread::thread_idx_x() / in_line;
        let element = thread::thread_idx_x() % in_line * width;
        let line_step = THREADS / in_line;
        let [mn_step, k_step] = if is_k_major { [ld, 1] } else { [1, ld] };
        let start = i64::from(first).wrapping_mul(mn_step);
        let own = i64::from(line).wrapping_mul(ld) + i64::from(element);
        let pitch = double_pitch(TILE, is_k_major);
        Self {
            from: base.wrapping_offset(start.wrapping_add(own) as isize),
            copy_step: i64::from(line_step).wrapping_mul(ld),
            tile_step: i64::from(DOUBLE_K).wrapping_mul(k_step),
            is_k_major,
            is_wide,
            line,
            line_step,
            element,
            mn_left: extent - first,
            k_left: k,
            to: (line * pitch + element) * ELEMENT_BYTES,
            to_step: line_step * pitch * ELEMENT_BYTES,
        }
    }

    /// Starts the copies of the next tile, into the stage at `stage`; of zeros beyond the last.
    ///
    /// # Safety
    /// The operand can be read, and nobody reads the stage until the copies have been waited for.
    #[inline(always)]
    pub(super) unsafe fn start(&mut self, stage: SharedAddr) {
        let (lines_left, elements_left) = if self.is_k_major {
            (self.mn_left, self.k_left)
        } else {
            (self.k_left, self.mn_left)
        };
        let left = elements_left.saturating_sub(self.element);
        let width = if self.is_wide { WIDE } else { 1 };
        let bytes = left.min(width) * ELEMENT_BYTES;
        let (mut from, mut line) = (self.from, self.line);
        let mut to = stage.add_bytes(self.to);
        let mut copies = |count: u32, copy: unsafe fn(SharedAddr, *const f64, u32)| {
            for _ in 0..count {
                let bytes = if line < lines_left { bytes } else { 0 };
                // SAFETY: the caller's promise; so many bytes are inside the operand.
                unsafe { copy(to, from, bytes) };
                from = from.wrapping_offset(self.copy_step as isize);
                line += self.line_step;
                to = to.add_bytes(self.to_step);
            }
        };
        if self.is_wide {
            copies(Self::COPIES / WIDE, cp_async_cg_l2_128b_16_src_size);
        } else {
            copies(Self::COPIES, cp_async_ca_8_src_size);
        }
        self.from = self.from.wrapping_offset(self.tile_step as isize);
        self.k_left = self.k_left.saturating_sub(DOUBLE_K);
    }
}

/// Where a thread reads its elements of fragments. Of each eight rows or columns it reads one, by
/// the quarter of the lane, and of each four of k one, by the rest.
pub(super) struct Reader {
    /// Place of its first element in a stage, in bytes, and of the next eight rows or columns and
    /// the next four of k.
    first: u32,
    eight: u32,
    four: u32,
}

impl Reader {
    /// Of a warp whose rows or columns of a tile of `tile_mn` begin at `first`.
    #[inline(always)]
    pub(super) fn new(tile_mn: u32, is_k_major: bool, first: u32) -> Self {
        let pitch = double_pitch(tile_mn, is_k_major);
        let [mn_step, k_step] = if is_k_major { [pitch, 1] } else { [1, pitch] };
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        let own = (first + lane / 4) * mn_step + lane % 4 * k_step;
        Self {
            first: own * ELEMENT_BYTES,
            eight: 8 * mn_step * ELEMENT_BYTES,
            four: 4 * k_step * ELEMENT_BYTES,
        }
    }

    /// The elements of `EIGHTS` times eight rows or columns in both halves of k, from the
    /// `first`th eight on.
    ///
    /// # Safety
    /// The stage is there, and holds so many.
    #[inline(always)]
    pub(super) unsafe fn read<const EIGHTS: usize>(
        &self,
        stage: SharedAddr,
        first: u32,
    ) -> [[f64; 2]; EIGHTS] {
        let mut x = [[0.0; 2]; EIGHTS];
        let mut at = stage.add_bytes(self.first + first * self.eight);
        for i in 0..EIGHTS {
            // SAFETY: the caller's promise.
            unsafe {
                x[i] = [ld_shared_f64(at), ld_shared_f64(at.add_bytes(self.four))];
            }
            at = at.add_bytes(self.eight);
        }
        x
    }
}
