//! What operations that find rows by indices have in common: their shapes, and walks over them. In the
//! shape of rows, the dimensions of the indices stand in place of the axis.

use crate::element::Element;
use crate::ops::check;
use crate::ops::elementwise::{Steps, Walk, steps_of};
use crate::tensor::Dims;
use crate::{Error, IndexElement, Result, Stream, Tensor};
use abi::elementwise::{MAX_RANK, WalkParams};

/// Rows that a caller wants to put or to add, and how the indices name their places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement<'a, T: Element, I: IndexElement> {
    pub(super) src: &'a Tensor<T>,
    pub(super) indices: &'a Tensor<I>,
    pub(super) axis: isize,
    /// Extent of the axis of a new result.
    pub(super) extent: Option<usize>,
    /// Whether negative indices count from the end.
    pub(super) wraps: bool,
}

impl<'a, T: Element, I: IndexElement> Placement<'a, T, I> {
    pub(super) fn new(indices: &'a Tensor<I>, src: &'a Tensor<T>) -> Self {
        Self {
            src,
            indices,
            axis: 0,
            extent: None,
            wraps: false,
        }
    }

    /// The shape of a new result.
    pub(super) fn new_shape(&self) -> Result<Dims<usize>> {
        let extent = self.extent.ok_or_else(|| {
            Error::value(
                "extent of the axis",
                "missing",
                "a number for a new result, by `extent`",
            )
        })?;
        let (src, of_indices) = (self.src.shape(), self.indices.rank());
        let Some(others) = src.len().checked_sub(of_indices) else {
            let want = format!("at least {of_indices} dimensions, those of the indices");
            return Err(check::shape_mismatch("src", self.src, want));
        };
        let axis = check::axis(others + 1, self.axis)?;
        Dims::new(&[&src[..axis], &[extent], &src[axis + of_indices..]].concat())
    }

    /// The rows, which fit into a result of shape `y`.
    pub(super) fn checked(&self, y: &[usize], stream: &Stream) -> Result<Rows<'a, T, I>> {
        let axis = check::axis(y.len(), self.axis)?;
        check::device("src", self.src, stream)?;
        check::device("indices", self.indices, stream)?;
        let (before, behind) = y.split_at(axis);
        let want = [before, self.indices.shape(), &behind[1..]].concat();
        check::shape("src", self.src.shape(), &want)?;
        Ok(Rows {
            src: self.src,
            indices: self.indices,
            axis,
            wraps: self.wraps,
        })
    }

    /// Checks that `y` can be written.
    pub(super) fn check_output(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        check::output("y", y, y.shape(), stream)?;
        check::no_overlap("y", y, "src", self.src)?;
        check::no_overlap("y", y, "indices", self.indices)
    }
}

/// Rows of a tensor, and the indices of their places along an axis of another.
pub(super) struct Rows<'a, T: Element, I: IndexElement> {
    pub(super) src: &'a Tensor<T>,
    pub(super) indices: &'a Tensor<I>,
    pub(super) axis: usize,
    /// Whether negative indices count from the end.
    pub(super) wraps: bool,
}

impl<T: Element, I: IndexElement> Rows<'_, T, I> {
    /// What is added to a negative index, where the axis has this extent.
    pub(super) fn wrap(&self, extent: u64) -> u64 {
        if self.wraps { extent } else { 0 }
    }

    /// The walk over the indices in their order: of a contiguous tensor of 8 bytes an element, which
    /// keeps the order, of src, and of the indices. Addresses of the first two are relative.
    pub(super) fn positions(&self) -> Walk {
        let shape = self.indices.shape();
        let mut of_src = [0; MAX_RANK];
        let axes = self.axis..self.axis + shape.len();
        of_src[..shape.len()].copy_from_slice(&self.src.strides()[axes]);
        let steps = |strides, size_bytes| Steps {
            strides,
            address: 0,
            size_bytes,
        };
        let of_indices = steps_of(&self.indices.erased(), shape);
        let tensors = [
            steps(dense(shape), 8),
            steps(of_src, size_of::<T>()),
            of_indices,
        ];
        Walk::new(shape, &tensors)
    }

    /// The walk over the elements of y and of src at index 0 of the axis and the first index.
    pub(super) fn columns(&self, y: &Tensor<T>) -> Walk {
        let without = |strides: &[i64], axes: usize| {
            let (mut kept, behind) = ([0; MAX_RANK], &strides[self.axis + axes..]);
            kept[..self.axis].copy_from_slice(&strides[..self.axis]);
            kept[self.axis..self.axis + behind.len()].copy_from_slice(behind);
            kept
        };
        let steps = |tensor: &Tensor<T>, axes| Steps {
            strides: without(tensor.strides(), axes),
            address: tensor.erased().address(),
            size_bytes: size_of::<T>(),
        };
        let shape = [&y.shape()[..self.axis], &y.shape()[self.axis + 1..]].concat();
        let tensors = [steps(y, 1), steps(self.src, self.indices.rank())];
        Walk::new(&shape, &tensors)
    }
}

/// Steps of `x` at index 0 of the axis, over the shape of rows.
pub(super) fn at_first<T: Element>(x: &Tensor<T>, axis: usize, of_indices: usize) -> Steps {
    let (mut strides, behind) = ([0; MAX_RANK], &x.strides()[axis + 1..]);
    strides[..axis].copy_from_slice(&x.strides()[..axis]);
    strides[axis + of_indices..][..behind.len()].copy_from_slice(behind);
    Steps {
        strides,
        address: x.erased().address(),
        size_bytes: size_of::<T>(),
    }
}

/// Steps of the indices, over the shape of rows.
pub(super) fn along<I: IndexElement>(indices: &Tensor<I>, axis: usize) -> Steps {
    let mut strides = [0; MAX_RANK];
    strides[axis..axis + indices.rank()].copy_from_slice(indices.strides());
    Steps {
        strides,
        address: indices.erased().address(),
        size_bytes: size_of::<I>(),
    }
}

/// Steps of a contiguous tensor in new memory.
pub(super) fn dense_steps<T: Element>(shape: &[usize]) -> Steps {
    Steps {
        strides: dense(shape),
        address: 0,
        size_bytes: size_of::<T>(),
    }
}

/// Strides of a contiguous tensor: those of positions in order.
pub(super) fn dense(shape: &[usize]) -> [i64; MAX_RANK] {
    let (mut strides, mut stride) = ([0; MAX_RANK], 1_i64);
    for (to, &extent) in strides[..shape.len()].iter_mut().zip(shape).rev() {
        *to = stride;
        stride = stride.wrapping_mul(extent as i64);
    }
    strides
}

/// The stride of the axis in elements; one index needs none, which may be one that vectors cannot
/// have.
pub(super) fn axis_stride<T: Element>(tensor: &Tensor<T>, axis: usize) -> i64 {
    match tensor.shape()[axis] {
        0 | 1 => 0,
        _ => tensor.strides()[axis],
    }
}

/// The walk with strides in bytes, of tensors with elements of these sizes.
pub(super) fn in_bytes<const N: usize>(mut walk: WalkParams, sizes: [usize; N]) -> WalkParams {
    for (strides, size) in walk.strides.iter_mut().zip(sizes) {
        for stride in strides {
            *stride = stride.wrapping_mul(size as i64);
        }
    }
    walk
}
