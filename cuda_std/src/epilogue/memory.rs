//! Epilogues that read memory.

use super::{Epilogue, Place};
use crate::element::Element;
use crate::hint::opaque;

/// Adds `factor *` an element of a matrix, batched.
#[derive(Clone, Copy, Debug)]
pub struct AddMatrix<T> {
    matrix: *const T,
    ld: i64,
    batch_stride: i64,
    factor: f32,
}

impl<T: Element> AddMatrix<T> {
    /// Of a matrix with `ld` elements between rows, and `batch_stride` between matrices.
    ///
    /// # Safety
    /// The matrix is readable wherever D has an element, while the kernel runs; and the value is
    /// applied at places of D alone, as kernels do.
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
    fn apply(&self, place: Place, x: f32) -> f32 {
        let offset = place.batch as i64 * self.batch_stride
            + i64::from(place.row) * self.ld
            + i64::from(place.column);
        // SAFETY: `new`'s caller says that `place` is in D, and the matrix readable there.
        let element = unsafe { T::load(self.matrix.offset(offset as isize)) };
        crate::math::fma(self.factor, element, x)
    }
}

/// Adds an element of a vector along rows or columns, batched.
#[derive(Clone, Copy, Debug)]
pub struct AddVector<T> {
    vector: *const T,
    batch_stride: i64,
    /// One for each row, else for each column.
    of_row: bool,
}

impl<T: Element> AddVector<T> {
    /// One element for each row of D if `of_row`, else for each column; `batch_stride` between
    /// vectors.
    ///
    /// # Safety
    /// Those elements are readable wherever D has one, while the kernel runs; and the value is applied
    /// at places of D alone, as kernels do.
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
        // SAFETY: `new`'s caller says that `index` is that of a row or a column of D, and the element
        // readable there.
        unsafe { T::load(vector.add(index as usize)) }
    }
}

impl<T: Element> AddVector<T> {
    /// Whether [`pairs`](Self::pairs) can be read where D has `n` columns.
    #[inline(always)]
    pub fn has_pairs(&self, n: u32) -> bool {
        let is_even = n.is_multiple_of(2) && self.batch_stride % 2 == 0;
        !self.of_row && is_even && self.vector.addr().is_multiple_of(2 * size_of::<T>())
    }

    /// The elements of the columns of results as [`Epilogue::apply_pairs`] has them: the `i`th pair is
    /// that of the results `2 i` and `2 i + 1`.
    ///
    /// # Safety
    /// It [has pairs](Self::has_pairs).
    #[inline(always)]
    pub unsafe fn pairs<const PAIRS: usize>(
        &self,
        place: impl Fn(usize) -> Place,
    ) -> [T::Pair; PAIRS] {
        let mut pairs = [T::Pair::default(); PAIRS];
        let mut i = 0;
        while i < PAIRS {
            let Place { batch, column, .. } = place(2 * i);
            let vector = self.of(batch);
            // SAFETY: an even number of columns of D, of which this is one, so that the other one of
            // its pair is in D too; `new`'s caller says that their elements are readable.
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
    fn apply(&self, place: Place, x: f32) -> f32 {
        let index = if self.of_row { place.row } else { place.column };
        x + self.element(place.batch, index)
    }

    /// Asks once which it is: results of one column, as most biases are, then share a load.
    #[inline(always)]
    fn apply_all<const N: usize>(&self, place: impl Fn(usize) -> Place, x: &mut [f32; N]) {
        if self.of_row {
            for (i, x) in x.iter_mut().enumerate() {
                let element = self.element(place(i).batch, place(i).row);
                // Or LLVM has one load for both cases, and then one for each result.
                *x += f32::from_bits(opaque(element.to_bits()));
            }
        } else {
            for (i, x) in x.iter_mut().enumerate() {
                *x += self.element(place(i).batch, place(i).column);
            }
        }
    }
}

/// Multiplies each row, or each column, by a factor of its own.
#[derive(Clone, Copy, Debug)]
pub struct ScaleByVector {
    factors: *const f32,
    row_stride: u32,
    column_stride: u32,
}

impl ScaleByVector {
    /// Factor `row * row_stride + column * column_stride`.
    ///
    /// # Safety
    /// Those factors are readable wherever D has an element, while the kernel runs; and the value is
    /// applied at places of D alone, as kernels do.
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
    fn apply(&self, place: Place, x: f32) -> f32 {
        let index = u64::from(place.row) * u64::from(self.row_stride)
            + u64::from(place.column) * u64::from(self.column_stride);
        // SAFETY: `new`'s caller says that `place` is in D, and the factor readable there.
        x * unsafe { self.factors.add(index as usize).read() }
    }
}
