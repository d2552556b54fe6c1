//! What the kernels that own queries and those that own keys share: tiles of scores and dP, and
//! products with them.

use cuda_std::thread;
use half::{bf16, f16};
use spec::attention::backward::FlashBwdParams;
use spec::attention::{BshStrides, OutputDType, SIMT_TILE};

use crate::attention::simt::elements::ElementType;
use crate::attention::simt::operand::{Matrix, Operand};
use crate::attention::simt::softmax::ROW_LANES;
use crate::attention::simt::values::{Probabilities, Values};
use crate::simt::element::CHUNK;
use crate::simt::operand::tile_elements;
use crate::simt::product::{Accumulator, chunk_spacing, outer_product};
use crate::simt::results::{Lines, Results};
use crate::simt::staged::{self, StagedProduct};

/// Rows that a block owns, and columns of a tile.
pub(super) const TILE: usize = SIMT_TILE.tile_m as usize;

/// f32 elements of P or dS, which come first in shared memory; the stages follow.
const PAIRS: usize = Probabilities::elements(TILE);

const _: () = assert!(
    SIMT_TILE.tile_m == SIMT_TILE.tile_n && TILE == ROW_LANES as usize * CHUNK,
    "queries and keys stage alike, and a lane has one chunk of columns"
);

/// Columns of the tile whose vectors make up one stage of a product with P or dS.
pub(super) const fn tile_v(cap: usize) -> usize {
    if cap <= 128 { 16 } else { 8 }
}

/// Chunks of such a stage that each thread moves.
pub(super) const fn chunks_v(cap: usize, threads: usize) -> usize {
    cap * tile_v(cap) / CHUNK / threads
}

/// f32 elements of static shared memory.
pub(super) const fn smem_elements(cap: usize, tile_d: usize) -> usize {
    let pairs = staged::smem_elements(TILE, TILE, tile_d);
    let vectors = 2 * tile_elements(cap, tile_v(cap));
    PAIRS + if pairs > vectors { pairs } else { vectors }
}

/// A launch's inputs, as every kernel here takes them.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) q: *const u8,
    pub(super) k: *const u8,
    pub(super) v: *const u8,
    pub(super) d_o: *const u8,
    pub(super) lse: *const f32,
    pub(super) delta: *const f32,
    pub(super) params: &'a FlashBwdParams,
}

impl Inputs<'_> {
    /// Element type of all tensors.
    #[inline(always)]
    pub(super) fn element(&self) -> ElementType {
        ElementType(self.params.fwd.o_dtype)
    }
}

/// Positions of one head, from some position on: `count` vectors.
#[derive(Clone, Copy)]
pub(super) struct Vectors {
    matrix: Matrix,
    count: u32,
}

impl Vectors {
    /// The `count` vectors of a head whose first is `offset` elements behind `base`.
    #[inline(always)]
    pub(super) fn new(
        (base, element): (*const u8, ElementType),
        strides: &BshStrides,
        offset: i64,
        count: u32,
    ) -> Self {
        let matrix = Matrix {
            base,
            ld: strides.seq,
            element,
        };
        Self {
            matrix: matrix.offset(offset),
            count,
        }
    }

    /// Those from the `first`-th on, which there is.
    #[inline(always)]
    pub(super) fn from(self, first: u32) -> Self {
        Self {
            matrix: self.matrix.offset(i64::from(first) * self.matrix.ld),
            count: self.count - first,
        }
    }
}

/// Where a thread's part of a tile is, and the block's shared memory.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Static shared memory of [`smem_elements`].
    pub(super) smem: *mut f32,
    /// This thread's rows.
    pub(super) rows: Lines,
    /// This thread's first column of a tile and of a result.
    pub(super) first_column: u32,
}

impl Place {
    /// That of a block whose rows begin with `start`, which is below `extent`.
    #[inline(always)]
    pub(super) fn new<const ROWS: usize>(smem: *mut f32, start: u32, extent: u32) -> Self {
        Self {
            smem,
            rows: Lines {
                tile_start: start,
                first: (thread::thread_idx_x() / ROW_LANES) * CHUNK as u32,
                spacing: chunk_spacing(TILE, ROWS) as u32,
                extent,
            },
            first_column: (thread::thread_idx_x() % ROW_LANES) * CHUNK as u32,
        }
    }

    #[inline(always)]
    fn stages(&self) -> *mut f32 {
        self.smem.wrapping_add(PAIRS)
    }

    /// This thread's part of `rows @ columns^T`, products of vectors of `extent` elements.
    ///
    /// # Safety
    /// The vectors can be read. All threads of the block call it together, and none touches the
    /// stages between the last barrier before the call and the first one after it.
    #[inline(always)]
    pub(super) unsafe fn products<const ROWS: usize, const TILE_D: usize>(
        &self,
        rows: Vectors,
        columns: Vectors,
        extent: u32,
    ) -> Accumulator<ROWS, CHUNK> {
        let operand = |vectors: Vectors| {
            Operand::<true, TILE, TILE_D, 1>::new(vectors.matrix, vectors.count, extent)
        };
        let product = StagedProduct::<_, _, TILE, TILE, TILE_D> {
            a: operand(rows),
            b: operand(columns),
            smem: self.stages(),
            first: (self.rows.first, self.first_column),
        };
        // SAFETY: the caller's promise.
        unsafe { product.accumulate::<ROWS, CHUNK, 0>(extent, |_, _| (), outer_product) }
    }

    /// Where P or dS lies in shared memory.
    #[inline(always)]
    pub(super) fn pairs(&self) -> Probabilities {
        Probabilities { smem: self.smem }
    }

    /// The vectors of a tile, of `extent` elements each, that P or dS is multiplied with.
    #[inline(always)]
    pub(super) fn vectors<const CAP: usize, const TILE_V: usize, const CHUNKS: usize>(
        &self,
        vectors: Vectors,
        extent: u32,
    ) -> Values<CAP, TILE_V, CHUNKS> {
        let keys = vectors.count.min(TILE as u32);
        Values {
            operand: Operand::new(vectors.matrix, extent, keys),
            smem: self.stages(),
            first_column: self.first_column,
            keys,
        }
    }

    /// Writes this thread's part of a result, whose vectors have `extent` elements. `base` is that of
    /// the head's first position.
    ///
    /// # Safety
    /// The block's rows can be written, and no other block has them.
    #[inline(always)]
    pub(super) unsafe fn write<const CAP: usize, const ROWS: usize, const COLUMNS: usize>(
        &self,
        result: &Accumulator<ROWS, COLUMNS>,
        (base, element): (*mut u8, ElementType),
        (offset, ld): (i64, i64),
        extent: u32,
    ) {
        let results = Results {
            rows: self.rows,
            columns: Lines {
                tile_start: 0,
                first: self.first_column,
                spacing: chunk_spacing(CAP, COLUMNS) as u32,
                extent,
            },
        };
        let offset = offset as isize;
        // SAFETY: the caller's promise; threads own different rows and columns.
        unsafe {
            if element.0 == OutputDType::F32.code() {
                results.write(result, base.cast::<f32>().wrapping_offset(offset), ld);
            } else if element.0 == OutputDType::F16.code() {
                results.write(result, base.cast::<f16>().wrapping_offset(offset), ld);
            } else {
                results.write(result, base.cast::<bf16>().wrapping_offset(offset), ld);
            }
        }
    }
}

/// Multiplies a result by a factor.
#[inline(always)]
pub(super) fn scale<const ROWS: usize, const COLUMNS: usize>(
    result: &mut Accumulator<ROWS, COLUMNS>,
    factor: f32,
) {
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            result[row][column] *= factor;
        }
    }
}
