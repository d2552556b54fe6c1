//! Epilogues that read memory.

use super::{Coord, Epilogue};
use crate::element::Element;
use crate::hint::opaque;
use crate::{mem, thread};

/// Adds `factor` times the element of a (batched) matrix at the result's coordinates: beta times C.
#[derive(Clone, Copy, Debug)]
pub struct AddMatrix<T> {
    matrix: *const T,
    ld: i64,
    batch_stride: i64,
    factor: f32,
}

impl<T: Element> AddMatrix<T> {
    /// `ld` is the number of elements from one row to the next (the leading dimension), and
    /// `batch_stride` that from one matrix of the batch to the next.
    ///
    /// # Safety
    /// The matrix is readable wherever D has an element, while the kernel runs; the epilogue is
    /// applied at coordinates in D alone.
    #[inline(always)]
    pub const unsafe fn new(matrix: *const T, ld: i64, batch_stride: i64, factor: f32) -> Self {
        Self {
            matrix,
            ld,
            batch_stride,
            factor,
        }
    }
}

impl<T: Element> Epilogue for AddMatrix<T> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let offset = coord.batch as i64 * self.batch_stride
            + i64::from(coord.row) * self.ld
            + i64::from(coord.column);
        // SAFETY: `new`'s caller says that `coord` is in D, and the matrix readable there.
        let element = unsafe { T::load_alike(self.matrix.offset(offset as isize)) };
        crate::math::fma(self.factor, element, x)
    }
}

/// Adds an element of a (batched) vector, chosen by the result's row or column: a bias.
#[derive(Clone, Copy, Debug)]
pub struct AddVector<T> {
    vector: *const T,
    batch_stride: i64,
    /// The vector has one element for each row of D; else one for each column.
    of_row: bool,
}

impl<T: Element> AddVector<T> {
    /// The vector has one element for each row of D if `of_row`, else one for each column.
    /// `batch_stride` is the number of elements from one vector of the batch to the next.
    ///
    /// # Safety
    /// Those elements are readable wherever D has one, while the kernel runs; the epilogue is
    /// applied at coordinates in D alone.
    #[inline(always)]
    pub const unsafe fn new(vector: *const T, of_row: bool, batch_stride: i64) -> Self {
        Self {
            vector,
            batch_stride,
            of_row,
        }
    }

    #[inline(always)]
    fn element(&self, batch: u64, index: u32) -> f32 {
        let vector = self.of(batch);
        // SAFETY: `new`'s caller says that `index` is that of a row or a column of D, and the
        // element readable there.
        unsafe { T::load_alike(vector.add(index as usize)) }
    }
}

impl<T: Element> AddVector<T> {
    /// Whether [`pairs`](Self::pairs) may be called where D has `n` columns. The vector has to run
    /// along the columns, and the elements of an even column and the next one have to be an aligned
    /// pair.
    #[inline(always)]
    pub fn has_pairs(&self, n: u32) -> bool {
        let is_even = n.is_multiple_of(2) && self.batch_stride % 2 == 0;
        !self.of_row && is_even && self.vector.addr().is_multiple_of(2 * size_of::<T>())
    }

    /// Loads the vector's elements for the columns of a thread's results, in the order of
    /// [`Epilogue::apply_pairs`]: pair `i` is that of the results `2 i` and `2 i + 1`.
    ///
    /// # Safety
    /// [`has_pairs`](Self::has_pairs) is true for the number of columns of D.
    #[inline(always)]
    pub unsafe fn pairs<const PAIRS: usize>(
        &self,
        coord: impl Fn(usize) -> Coord,
    ) -> [T::Pair; PAIRS] {
        let mut pairs = [T::Pair::default(); PAIRS];
        let mut i = 0;
        while i < PAIRS {
            let Coord { batch, column, .. } = coord(2 * i);
            let vector = self.of(batch);
            // SAFETY: `column` is in D and D has an even number of columns, so the other column of
            // the pair is in D too. The caller of `new` guarantees that the elements of both are
            // readable.
            pairs[i] = unsafe { T::load_pair(vector.add((column & !1) as usize)) };
            i += 1;
        }
        pairs
    }

    #[inline(always)]
    fn of(&self, batch: u64) -> *const T {
        let offset = batch as i64 * self.batch_stride;
        self.vector.wrapping_offset(offset as isize)
    }
}

impl<T: Element> Epilogue for AddVector<T> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let index = if self.of_row { coord.row } else { coord.column };
        x + self.element(coord.batch, index)
    }

    /// Brings the columns' elements into L1. One for a row is read by one warp alone, and is left.
    #[inline(always)]
    fn bring_near(&self, coord: Coord, columns: u32) {
        let of_lane = 16 / size_of::<T>() as u32; // of 16 bytes, so that no line is left out
        let mut column = if self.of_row {
            columns
        } else {
            thread::lane_idx() * of_lane
        };
        while column < columns {
            let element = self
                .of(coord.batch)
                .wrapping_add((coord.column + column) as usize);
            // SAFETY: `new`'s caller says that D's columns have elements.
            unsafe { mem::prefetch_global_l1(element.cast()) };
            column += thread::WARP_THREADS * of_lane;
        }
    }

    /// Branches on `of_row` once for all results. With one element per column, as most biases have
    /// it, results of the same column then share a load.
    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        if self.of_row {
            for (i, x) in x.iter_mut().enumerate() {
                let element = self.element(coord(i).batch, coord(i).row);
                // Without this, LLVM merges the loads of both branches and then issues one load for
                // each result.
                *x += f32::from_bits(opaque(element.to_bits()));
            }
        } else {
            for (i, x) in x.iter_mut().enumerate() {
                *x += self.element(coord(i).batch, coord(i).column);
            }
        }
    }
}

/// Multiplies each row, or each column, by its own factor from a vector.
#[derive(Clone, Copy, Debug)]
pub struct ScaleByVector {
    factors: *const f32,
    row_stride: u32,
    column_stride: u32,
}

impl ScaleByVector {
    /// The factor of a result is element `row * row_stride + column * column_stride` of `factors`.
    ///
    /// # Safety
    /// Those factors are readable wherever D has an element, while the kernel runs; the epilogue is
    /// applied at coordinates in D alone.
    #[inline(always)]
    pub const unsafe fn new(factors: *const f32, row_stride: u32, column_stride: u32) -> Self {
        Self {
            factors,
            row_stride,
            column_stride,
        }
    }
}

impl Epilogue for ScaleByVector {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        let index = u64::from(coord.row) * u64::from(self.row_stride)
            + u64::from(coord.column) * u64::from(self.column_stride);
        // SAFETY: `new`'s caller says that `coord` is in D, and the factor readable there.
        x * unsafe { self.factors.add(index as usize).read() }
    }
}
