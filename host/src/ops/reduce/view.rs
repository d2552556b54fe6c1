//! The view of a tensor that the kernels of reductions take: kept extents `[outer, inner]` and
//! reduced extents `[segments, n]`.

use crate::ops::axes::Axes;
use crate::tensor::Layout;
use crate::{Element, MAX_RANK, Result, Tensor};
use abi::reduce::ReduceView;

/// A dimension: extent, and stride in elements.
type Dimension = (usize, i64);

/// Up to [`MAX_RANK`] dimensions.
#[derive(Clone, Copy)]
struct Dimensions {
    all: [Dimension; MAX_RANK],
    len: usize,
}

impl Dimensions {
    fn of(dimensions: impl Iterator<Item = Dimension>) -> Self {
        let mut all = [(1, 0); MAX_RANK];
        let mut len = 0;
        for dimension in dimensions.filter(|&(extent, _)| extent != 1) {
            all[len] = dimension;
            len += 1;
        }
        Self { all, len }
    }

    /// Sorts by stride, largest first.
    fn sort(&mut self) {
        self.all[..self.len].sort_by_key(|&(_, stride)| std::cmp::Reverse(stride.unsigned_abs()));
    }

    /// Merges adjacent dimensions whose elements are equally spaced.
    fn merged(&self) -> Self {
        let mut merged = Self {
            all: [(1, 0); MAX_RANK],
            len: 0,
        };
        for &(extent, stride) in &self.all[..self.len] {
            match merged.len.checked_sub(1).map(|last| &mut merged.all[last]) {
                Some(last) if i128::from(last.1) == i128::from(stride) * extent as i128 => {
                    *last = (last.0 * extent, stride);
                }
                _ => {
                    merged.all[merged.len] = (extent, stride);
                    merged.len += 1;
                }
            }
        }
        merged
    }
}

/// Where reduced axes do not merge, the shortest inner axis, in bytes, that is reduced in segments
/// rather than copied.
const SEGMENT_BYTES: usize = 1024;

/// The view of a tensor of elements of so many bytes, and the axes to reverse first. Unless the order of the elements matters
/// (`is_ordered`: the result is an index), the reduced axes are visited in memory order. `None` if
/// the dimensions do not fit a view, and the tensor has to be copied.
pub(super) fn view(
    x: &Layout,
    size_bytes: usize,
    axes: Axes,
    is_ordered: bool,
) -> Option<(ReduceView, Axes)> {
    let dimensions = || x.shape.iter().copied().zip(x.strides.iter().copied());
    let kept = dimensions()
        .enumerate()
        .filter(|(axis, _)| !axes.has(*axis));
    let kept = Dimensions::of(kept.map(|(_, dimension)| dimension)).merged();
    let mut turned = Axes::NONE;
    for (axis, (extent, stride)) in dimensions().enumerate() {
        if axes.has(axis) && stride < 0 && extent > 1 && !is_ordered {
            turned = turned.with(axis);
        }
    }
    let reduced = dimensions().enumerate().filter(|(axis, _)| axes.has(*axis));
    let reduced = reduced.map(|(axis, (extent, stride))| match turned.has(axis) {
        true => (extent, stride.wrapping_neg()), // of a tensor without elements any stride
        false => (extent, stride),
    });
    let mut reduced = Dimensions::of(reduced);
    if reduced.all[..reduced.len]
        .iter()
        .any(|&(extent, _)| extent == 0)
    {
        let outer = kept.all[..kept.len]
            .iter()
            .map(|&(extent, _)| extent)
            .product::<usize>();
        return Some((ReduceView::contiguous(outer as u64, 0, 1), Axes::NONE));
    }
    if !is_ordered {
        reduced.sort();
    }
    let reduced = reduced.merged();
    let (segments, n) = match reduced.all[..reduced.len] {
        [] => ((1, 0), (1, 0)),
        [n] => ((1, 0), n),
        [segments, n] if n.0 >= SEGMENT_BYTES / size_bytes => (segments, n),
        _ => return None,
    };
    let is_beside = |stride: i64| stride.unsigned_abs() < n.1.unsigned_abs();
    let (outer, inner) = match kept.all[..kept.len] {
        [] => ((1, 0), (1, 0)),
        [inner] if is_beside(inner.1) => ((1, 0), inner),
        [outer] => (outer, (1, 0)),
        [outer, inner] => (outer, inner),
        _ => return None,
    };
    let view = ReduceView {
        outer: outer.0 as u64,
        inner: inner.0 as u64,
        segments: segments.0 as u64,
        n: n.0 as u64,
        outer_stride: outer.1,
        inner_stride: inner.1,
        segment_stride: segments.1,
        axis_stride: n.1,
    };
    Some((view, turned))
}

/// Where a tensor at `address` begins with the axes in `turned` reversed.
pub(super) fn turned_address(x: &Layout, size_bytes: usize, turned: Axes, address: u64) -> u64 {
    let dimensions = x.shape.iter().zip(&*x.strides).enumerate();
    let turned = dimensions.filter(|&(axis, _)| turned.has(axis));
    turned.fold(address, |address, (_, (&extent, &stride))| {
        let reach = (extent as i64 - 1).wrapping_mul(stride);
        address.wrapping_add_signed(reach.wrapping_mul(size_bytes as i64))
    })
}

/// `x` with the axes in `turned` reversed.
pub(super) fn turn<T: Element>(x: &Tensor<T>, turned: Axes) -> Result<Tensor<T>> {
    let mut x = x.clone();
    for axis in 0..x.rank() {
        if turned.has(axis) {
            x = x.slice_step(axis as isize, .., -1)?;
        }
    }
    Ok(x)
}
