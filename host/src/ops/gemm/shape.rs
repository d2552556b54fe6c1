//! Derives the extents of a GEMM from the shapes of tensors, and matrix layouts from strides.

use crate::ops::check;
use crate::tensor::Layout;
use crate::{Element, Result, Tensor};
use abi::gemm::Transpose;
use std::ops::Deref;

/// Extents of a validated GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extents {
    pub(super) batch: Option<usize>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Extents {
    /// The extents of `a @ b`.
    pub(super) fn new<A: Element, B: Element>(a: &Tensor<A>, b: &Tensor<B>) -> Result<Self> {
        let (batch_a, m, k) = split("a", a)?;
        let (batch_b, k_of_b, n) = split("b", b)?;
        if k != k_of_b {
            let want = format!("[.., {k}, n], as a is {:?}", a.shape());
            return Err(check::shape_mismatch("b", b, want));
        }
        let batch = match (batch_a, batch_b) {
            (None, batch) | (batch, None) => batch,
            (Some(of_a), Some(of_b)) if of_a == of_b || of_b == 1 => Some(of_a),
            (Some(1), of_b) => of_b,
            (Some(of_a), Some(_)) => {
                let want = format!("a batch of {of_a} or 1, as a is {:?}", a.shape());
                return Err(check::shape_mismatch("b", b, want));
            }
        };
        for (what, extent) in [("m", m), ("n", n), ("k", k), ("batch", batch.unwrap_or(1))] {
            check::extent(what, extent)?; // before anything is copied or allocated
        }
        Ok(Self { batch, m, n, k })
    }

    /// The shape of `d`.
    pub(super) fn shape(&self) -> ProductShape {
        ProductShape {
            extents: [self.batch.unwrap_or(1), self.m, self.n],
            has_batch: self.batch.is_some(),
        }
    }

    /// The extents of the transposed GEMM, `d.t() = b.t() @ a.t()`.
    pub(super) fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            ..self
        }
    }
}

/// The shape `[m, n]` or `[batch, m, n]`, without heap allocation.
pub(super) struct ProductShape {
    extents: [usize; 3],
    has_batch: bool,
}

impl Deref for ProductShape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.extents[usize::from(!self.has_batch)..]
    }
}

fn split<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
) -> Result<(Option<usize>, usize, usize)> {
    match *tensor.shape() {
        [rows, columns] => Ok((None, rows, columns)),
        [batch, rows, columns] => Ok((Some(batch), rows, columns)),
        _ => Err(check::shape_mismatch(
            operand,
            tensor,
            "2 dimensions, or 3 with a batch",
        )),
    }
}

/// Layout of one operand, `[rows, columns]` per batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct MatrixLayout {
    pub(in crate::ops) transpose: Transpose,
    /// Leading dimension: elements between the rows as stored.
    pub(in crate::ops) ld: i64,
    /// Elements between the matrices of the batch; 0 broadcasts one matrix.
    pub(in crate::ops) batch_stride: i64,
}

impl MatrixLayout {
    /// The layout with these strides; `None` if neither rows nor columns are contiguous.
    pub(in crate::ops) fn of(shape: &[usize], strides: &[i64]) -> Option<Self> {
        let (&[rows, columns], &[row, column]) = (shape.last_chunk()?, strides.last_chunk()?);
        let batch_stride = match (shape, strides) {
            (&[batch, _, _], &[stride, _, _]) if batch > 1 => stride,
            _ => 0,
        };
        let (transpose, ld) = match () {
            () if column == 1 || columns <= 1 => (Transpose::N, ld_of(rows, columns, row)),
            () if row == 1 || rows <= 1 => (Transpose::T, ld_of(columns, rows, column)),
            () => return None,
        };
        Some(Self {
            transpose,
            ld,
            batch_stride,
        })
    }

    /// The layout of a contiguous row-major copy.
    pub(in crate::ops) fn contiguous(shape: &[usize]) -> Self {
        let (rows, columns) = match *shape {
            [.., rows, columns] => (rows, columns),
            _ => (1, 1),
        };
        let is_repeated = shape.len() < 3 || shape[0] <= 1;
        Self {
            transpose: Transpose::N,
            ld: ld_of(rows, columns, columns as i64),
            batch_stride: if is_repeated {
                0
            } else {
                (rows * columns) as i64
            },
        }
    }
}

/// The leading dimension of `lines` lines of `len` elements. That of a single line is never used,
/// but limits what a tensor map can describe and how a row counts as aligned: it becomes one that
/// suits every dtype.
fn ld_of(lines: usize, len: usize, stride: i64) -> i64 {
    const ALIGNED: usize = 16;
    if lines <= 1 {
        len.next_multiple_of(ALIGNED) as i64
    } else {
        stride
    }
}

/// How a D of this layout is written: by the GEMM itself (`N`), or by the transposed one (`T`).
/// `None` if neither can, as no dimension is contiguous.
///
/// A single column without gaps is also the only row of the transposed D. That is how it is
/// written, because there are kernels for few rows, and none for few columns.
pub(super) fn orientation(layout: &Layout) -> Option<Transpose> {
    let (shape, strides) = (&*layout.shape, &*layout.strides);
    let own = MatrixLayout::of(shape, strides)?.transpose;
    let (&[rows, columns], &[row, _]) = (shape.last_chunk()?, strides.last_chunk()?);
    let is_a_row_too = columns == 1 && rows > 1 && row == 1;
    Some(if is_a_row_too { Transpose::T } else { own })
}

/// Whether the GEMM itself can write a D of this layout.
pub(super) fn by_rows(layout: &Layout) -> bool {
    MatrixLayout::of(&layout.shape, &layout.strides).is_some_and(|of| of.transpose == Transpose::N)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize], strides: &[i64]) -> Option<(Transpose, i64, i64)> {
        MatrixLayout::of(shape, strides).map(|l| (l.transpose, l.ld, l.batch_stride))
    }

    #[test]
    fn the_dimension_without_gaps_names_the_layout() {
        assert_eq!(layout(&[3, 4], &[4, 1]), Some((Transpose::N, 4, 0)));
        assert_eq!(layout(&[3, 4], &[1, 3]), Some((Transpose::T, 3, 0)));
        assert_eq!(layout(&[2, 3, 4], &[12, 4, 1]), Some((Transpose::N, 4, 12)));
        assert_eq!(layout(&[1, 3, 4], &[99, 4, 1]), Some((Transpose::N, 4, 0)));
        assert_eq!(layout(&[3, 4], &[-4, 1]), Some((Transpose::N, -4, 0)));
        assert_eq!(layout(&[3, 4], &[0, 1]), Some((Transpose::N, 0, 0)));
        assert_eq!(layout(&[3, 4], &[8, 2]), None);
        assert_eq!(layout(&[3, 4], &[4, -1]), None);
    }

    #[test]
    fn strides_of_single_rows_and_columns_do_not_matter() {
        assert_eq!(layout(&[3, 1], &[7, 9]), Some((Transpose::N, 7, 0)));
        assert_eq!(layout(&[1, 4], &[7, 9]), Some((Transpose::T, 9, 0)));
        assert_eq!(layout(&[3, 0], &[7, 9]), Some((Transpose::N, 7, 0)));
        for stride in [-1, 1, 20, 1 << 40, i64::MIN, i64::MAX] {
            assert_eq!(layout(&[1, 20], &[stride, 1]), Some((Transpose::N, 32, 0)));
        }
    }

    #[test]
    fn a_column_without_gaps_is_written_as_a_row() {
        let orientation = |shape: &[usize], strides: &[i64]| {
            orientation(&Layout::new(shape, strides, 0, 1000).expect("inside"))
        };
        assert_eq!(orientation(&[5, 1], &[1, 1]), Some(Transpose::T));
        assert_eq!(orientation(&[3, 5, 1], &[5, 1, 7]), Some(Transpose::T));
        assert_eq!(orientation(&[5, 1], &[4, 1]), Some(Transpose::N));
        assert_eq!(orientation(&[1, 1], &[1, 1]), Some(Transpose::N));
        assert_eq!(orientation(&[1, 5], &[5, 1]), Some(Transpose::N));
        assert_eq!(orientation(&[5, 2], &[2, 1]), Some(Transpose::N));
        assert_eq!(orientation(&[5, 2], &[1, 5]), Some(Transpose::T));
        assert_eq!(orientation(&[5, 2], &[4, 2]), None);
    }

    #[test]
    fn a_copy_lies_as_contiguous_strides_say() {
        for (shape, strides) in [
            (vec![3, 4], vec![4, 1]),
            (vec![2, 3, 4], vec![12, 4, 1]),
            (vec![1, 3, 4], vec![12, 4, 1]),
            (vec![1, 4], vec![4, 1]),
        ] {
            let of_strides = MatrixLayout::of(&shape, &strides);
            assert_eq!(of_strides, Some(MatrixLayout::contiguous(&shape)));
        }
    }
}
