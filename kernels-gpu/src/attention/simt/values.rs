//! `o += p @ v` of one tile: probabilities go from registers through shared memory, values come
//! from global memory through two stages.

use cuda_std::math::fma;
use cuda_std::{hint, thread};

use super::mask::Mask;
use super::operand::Operand;
use super::softmax::ROW_LANES;
use crate::simt::element::{CHUNK, F32x4};
use crate::simt::operand::tile_elements;
use crate::simt::product::{Accumulator, outer_product, read_fragment};
use crate::simt::staged::StagedOperand;

/// Keys of a tile of probabilities: each lane of a row has [`CHUNK`].
const KEYS: usize = ROW_LANES as usize * CHUNK;

/// The block's probabilities in shared memory: for each chunk of 4 rows, `[KEYS]` chunks of 4.
///
/// The keys are permuted so that the 16 lanes of a row write neighbouring chunks: key
/// `CHUNK * lane + j` is at `ROW_LANES * j + lane`.
#[derive(Clone, Copy)]
pub(crate) struct Probabilities {
    /// Shared memory of [`elements`](Self::elements), aligned to 16 bytes.
    pub(crate) smem: *mut f32,
}

impl Probabilities {
    /// f32 elements of shared memory for `rows` rows.
    pub(crate) const fn elements(rows: usize) -> usize {
        rows * KEYS
    }

    /// Address of the chunk of key `key_idx`, for the `chunk_idx`-th chunk of a thread's rows.
    #[inline(always)]
    fn chunk<const ROWS: usize>(self, chunk_idx: usize, key_idx: usize) -> *mut F32x4 {
        let row_group = thread::thread_idx_x() / ROW_LANES;
        let row_chunk = row_group as usize * (ROWS / CHUNK) + chunk_idx;
        let slot = ROW_LANES as usize * (key_idx % CHUNK) + key_idx / CHUNK;
        self.smem
            .wrapping_add(CHUNK * (row_chunk * KEYS + slot))
            .cast()
    }

    /// Writes this lane's probabilities.
    ///
    /// # Safety
    /// No thread reads them before the next barrier.
    #[inline(always)]
    pub(crate) unsafe fn write<const ROWS: usize>(self, p: &[[f32; CHUNK]; ROWS]) {
        let lane_in_row = (thread::thread_idx_x() % ROW_LANES) as usize;
        for chunk_idx in 0..ROWS / CHUNK {
            for column in 0..CHUNK {
                let mut values = [0.0; CHUNK];
                for idx in 0..CHUNK {
                    values[idx] = p[CHUNK * chunk_idx + idx][column];
                }
                let chunk = self.chunk::<ROWS>(chunk_idx, CHUNK * lane_in_row + column);
                // SAFETY: within the shared memory; no other lane has these rows and this key.
                unsafe { chunk.write(F32x4(values)) }
            }
        }
    }

    /// The probabilities of all of this thread's rows for one key.
    ///
    /// # Safety
    /// They have been written.
    #[inline(always)]
    unsafe fn read<const ROWS: usize>(self, key_idx: usize) -> [f32; ROWS] {
        let mut p = [0.0; ROWS];
        for chunk_idx in 0..ROWS / CHUNK {
            // SAFETY: the caller's promise.
            let values = unsafe { self.chunk::<ROWS>(chunk_idx, key_idx).read() }.0;
            for idx in 0..CHUNK {
                p[CHUNK * chunk_idx + idx] = values[idx];
            }
        }
        p
    }
}

/// The values of one tile's keys, which pass through two stages of shared memory.
pub(crate) struct Values<const WIDTH: usize, const TILE_K: usize, const CHUNKS: usize> {
    pub(crate) operand: Operand<false, WIDTH, TILE_K, CHUNKS>,
    /// Shared memory for two stages, aligned to 16 bytes.
    pub(crate) smem: *mut f32,
    /// This thread's first column.
    pub(crate) first_column: u32,
    /// Keys of the tile.
    pub(crate) keys: u32,
}

impl<const WIDTH: usize, const TILE_K: usize, const CHUNKS: usize> Values<WIDTH, TILE_K, CHUNKS> {
    #[inline(always)]
    fn smem_stage(&self, stage_idx: usize) -> *mut f32 {
        self.smem
            .wrapping_add(stage_idx * tile_elements(WIDTH, TILE_K))
    }

    /// `o[i][j] += Σ_key p[i][key] * v[key][j]`, keys ascending. If `masked`, keys that a row does
    /// not see are left out, so that even a NaN or an infinity there does not matter.
    ///
    /// # Safety
    /// All elements of the values can be read. All threads of the block call it together, and the
    /// probabilities have been written. No thread touches `smem` between the last barrier before
    /// the call and the first one after it.
    #[inline(always)]
    pub(crate) unsafe fn accumulate<const ROWS: usize, const COLUMNS: usize>(
        mut self,
        o: &mut Accumulator<ROWS, COLUMNS>,
        probabilities: Probabilities,
        mask: &Mask<'_>,
        masked: bool,
    ) {
        let mut stage_idx = 0;
        // SAFETY: the caller's promise.
        unsafe {
            let first = self.operand.fetch();
            self.operand.stage(first, self.smem_stage(stage_idx));
        }
        thread::sync_threads(); // probabilities and the first values are in shared memory
        let mut key_start = 0;
        while key_start < self.keys {
            // SAFETY: the caller's promise.
            let next = unsafe { self.operand.fetch() };
            let smem = self
                .smem_stage(stage_idx)
                .wrapping_add(self.first_column as usize);
            let fragments = |key_in_stage: usize| {
                let key_idx = key_start as usize + key_in_stage;
                // SAFETY: both were written before the last barrier.
                unsafe {
                    (
                        probabilities.read::<ROWS>(key_idx),
                        read_fragment::<WIDTH, COLUMNS>(smem, key_in_stage),
                    )
                }
            };
            if masked {
                // Not unrolled: such tiles are few, and unrolling would double the kernel's code.
                let mut key_in_stage = 0;
                while key_in_stage < hint::opaque(TILE_K as u32) {
                    let (p, v) = fragments(key_in_stage as usize);
                    masked_outer_product(o, &p, &v, mask, key_start + key_in_stage);
                    key_in_stage += 1;
                }
            } else {
                for key_in_stage in 0..TILE_K {
                    let (p, v) = fragments(key_in_stage);
                    outer_product(o, &p, &v);
                }
            }
            stage_idx = 1 - stage_idx;
            // SAFETY: that stage was last read before the last barrier.
            unsafe {
                self.operand.stage(next, self.smem_stage(stage_idx));
            }
            thread::sync_threads(); // the next values are staged
            key_start += TILE_K as u32;
        }
    }
}

/// [`outer_product`] for the rows that see the key.
#[inline(always)]
fn masked_outer_product<const ROWS: usize, const COLUMNS: usize>(
    o: &mut Accumulator<ROWS, COLUMNS>,
    p: &[f32; ROWS],
    v: &[f32; COLUMNS],
    mask: &Mask<'_>,
    key_idx: u32,
) {
    for row in 0..ROWS {
        let seen = mask.sees(row, key_idx);
        for column in 0..COLUMNS {
            let sum = fma(p[row], v[column], o[row][column]);
            o[row][column] = if seen { sum } else { o[row][column] };
        }
    }
}
