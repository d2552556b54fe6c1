//! From accumulators to D: `alpha * acc + beta * C`, rounded once to the output's type.

use spec::gemm::GemmParams;

use crate::simt::element::{CHUNK, SimtElement, fma};
use crate::simt::product::Accumulator;

/// One thread's rows or columns of the block's tile: chunks of 4 from `first` on, `spacing` apart,
/// that end with the tile.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    /// First of the tile, in D.
    pub(crate) tile_start: u32,
    /// First of the thread, in the tile.
    pub(crate) first: u32,
    /// Between chunks.
    pub(crate) spacing: u32,
}

impl Lines {
    /// Row or column, in D, of the thread's `idx`-th.
    #[inline(always)]
    fn at(&self, idx: usize) -> u32 {
        let (chunk_idx, idx_in_chunk) = ((idx / CHUNK) as u32, (idx % CHUNK) as u32);
        self.tile_start + self.first + chunk_idx * self.spacing + idx_in_chunk
    }

    /// True where the tile's `count` chunks of each thread are all within `extent`.
    #[inline(always)]
    fn tile_is_inside(&self, count: usize, extent: u32) -> bool {
        extent - self.tile_start >= self.spacing * (count / CHUNK) as u32
    }
}

/// Where and how a block's results are written.
pub(crate) struct Epilogue<'a, E> {
    pub(crate) c: *const E,
    pub(crate) d: *mut E,
    pub(crate) params: &'a GemmParams,
    pub(crate) rows: Lines,
    pub(crate) columns: Lines,
}

impl<E: SimtElement> Epilogue<'_, E> {
    /// Writes this thread's results: by vector accesses where the tile is inside D and rows are
    /// aligned, else one by one.
    ///
    /// # Safety
    /// Elements of D inside m and n can be written, and of C read unless beta is 0; no other
    /// thread has the same rows and columns.
    #[inline(always)]
    pub(crate) unsafe fn write<const ROWS: usize, const COLUMNS: usize>(
        &self,
        acc: &Accumulator<ROWS, COLUMNS>,
    ) {
        let params = self.params;
        let inside = self.rows.tile_is_inside(ROWS, params.m)
            && self.columns.tile_is_inside(COLUMNS, params.n);
        let aligned = is_aligned(self.d, params.ldd)
            && (params.beta == 0.0 || is_aligned(self.c, params.ldc));
        if inside && aligned {
            // SAFETY: the caller's; chunks are inside and aligned.
            unsafe { self.write_as::<true, ROWS, COLUMNS>(acc) }
        } else {
            // SAFETY: the caller's.
            unsafe { self.write_as::<false, ROWS, COLUMNS>(acc) }
        }
    }

    /// # Safety
    /// As [`write`](Self::write); where `WHOLE`, all chunks are inside and aligned.
    #[inline(always)]
    unsafe fn write_as<const WHOLE: bool, const ROWS: usize, const COLUMNS: usize>(
        &self,
        acc: &Accumulator<ROWS, COLUMNS>,
    ) {
        let params = self.params;
        for i in 0..ROWS {
            let row = self.rows.at(i);
            let c_row = self
                .c
                .wrapping_offset((i64::from(row) * params.ldc) as isize);
            let d_row = self
                .d
                .wrapping_offset((i64::from(row) * params.ldd) as isize);
            for chunk_idx in 0..COLUMNS / CHUNK {
                let column = self.columns.at(chunk_idx * CHUNK);
                let mut values = [0.0; CHUNK];
                for j in 0..CHUNK {
                    values[j] = params.alpha * acc[i][chunk_idx * CHUNK + j];
                }
                let c = c_row.wrapping_add(column as usize);
                let d = d_row.wrapping_add(column as usize);
                if WHOLE {
                    // SAFETY: the caller's: four elements inside m and n, aligned.
                    unsafe { write_chunk(values, params.beta, c, d) }
                } else if row < params.m {
                    let inside = params.n.saturating_sub(column);
                    // SAFETY: the caller's: only elements inside m and n.
                    unsafe { write_guarded(values, params.beta, c, d, inside) }
                }
            }
        }
    }
}

/// True where chunks of all rows from `base` on, `ld` elements apart, are aligned.
#[inline(always)]
fn is_aligned<E: SimtElement>(base: *const E, ld: i64) -> bool {
    base.addr().is_multiple_of(size_of::<E::Chunk>()) && ld % CHUNK as i64 == 0
}

/// # Safety
/// Four elements at `d` can be written, and at `c` read unless `beta` is 0; both are aligned to
/// chunks.
#[inline(always)]
unsafe fn write_chunk<E: SimtElement>(mut values: [f32; CHUNK], beta: f32, c: *const E, d: *mut E) {
    if beta != 0.0 {
        // SAFETY: the caller's.
        let c = E::widen(unsafe { c.cast::<E::Chunk>().read() });
        for j in 0..CHUNK {
            values[j] = fma(beta, c[j], values[j]);
        }
    }
    // SAFETY: the caller's.
    unsafe { d.cast::<E::Chunk>().write(E::narrow(values)) }
}

/// # Safety
/// The first `inside` of four elements at `d` can be written, and at `c` read unless `beta` is 0.
#[inline(always)]
unsafe fn write_guarded<E: SimtElement>(
    values: [f32; CHUNK],
    beta: f32,
    c: *const E,
    d: *mut E,
    inside: u32,
) {
    for j in 0..CHUNK {
        if (j as u32) < inside {
            let mut value = values[j];
            if beta != 0.0 {
                // SAFETY: the caller's.
                let c = unsafe { c.wrapping_add(j).read() };
                value = fma(beta, c.to_f32(), value);
            }
            // SAFETY: the caller's.
            unsafe { d.wrapping_add(j).write(E::from_f32(value)) }
        }
    }
}
