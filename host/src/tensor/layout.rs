//! Shape, strides and offset: which elements of a storage a tensor refers to, and how views change
//! them.

use super::dims::Dims;
use crate::error::{Error, Result, ShapeError};

/// The axis of a tensor of this rank; a negative one counts from the end.
pub(crate) fn axis_of(rank: usize, axis: isize) -> Result<usize> {
    let from_start = match axis {
        ..0 => axis.checked_add_unsigned(rank),
        _ => Some(axis),
    };
    let found = from_start.and_then(|axis| usize::try_from(axis).ok());
    let found = found.filter(|&axis| axis < rank);
    found.ok_or(Error::Shape(ShapeError::Axis { axis, rank }))
}

/// Element `(i0, i1, ..)` is at index `offset + i0 * strides[0] + i1 * strides[1] + ..` of the
/// storage. All elements lie inside of the storage that the layout was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) shape: Dims<usize>,
    /// In elements.
    pub(crate) strides: Dims<i64>,
    /// In elements.
    pub(crate) offset: usize,
}

impl Layout {
    /// Row-major without gaps, at offset 0.
    pub(crate) fn contiguous(shape: &[usize]) -> Result<Self> {
        let overflow = || {
            Error::Shape(ShapeError::Overflow {
                shape: shape.into(),
            })
        };
        let shape_dims = Dims::new(shape)?;
        let mut strides = Dims::new(&[0; super::MAX_RANK][..shape.len()])?;
        let mut stride = 1_i64;
        for (axis, &extent) in shape.iter().enumerate().rev() {
            strides[axis] = stride;
            // An extent of 0 counts as 1 here, so that strides do not collapse to 0.
            let extent = i64::try_from(extent.max(1)).map_err(|_| overflow())?;
            stride = stride.checked_mul(extent).ok_or_else(overflow)?;
        }
        Ok(Self {
            shape: shape_dims,
            strides,
            offset: 0,
        })
    }

    /// Any layout whose elements lie inside of a storage of `len` elements.
    pub(crate) fn new(shape: &[usize], strides: &[i64], offset: usize, len: usize) -> Result<Self> {
        if shape.len() != strides.len() {
            return Err(Error::length(
                "strides of a tensor",
                strides.len(),
                shape.len(),
            ));
        }
        Self::contiguous(shape)?; // refuses too many dimensions or elements
        let layout = Self {
            shape: Dims::new(shape)?,
            strides: Dims::new(strides)?,
            offset,
        };
        match layout.bounds() {
            Some((first, last)) if first < 0 || last >= len as i128 => {
                Err(Error::Shape(ShapeError::ViewOutOfBounds {
                    first,
                    last,
                    len,
                }))
            }
            None if offset > len => {
                let offset = offset as i128;
                Err(Error::Shape(ShapeError::ViewOutOfBounds {
                    first: offset,
                    last: offset,
                    len,
                }))
            }
            _ => Ok(layout),
        }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Lowest and highest index into the storage that an element has; `None` for an empty layout.
    pub(crate) fn bounds(&self) -> Option<(i128, i128)> {
        if self.is_empty() {
            return None;
        }
        let start = self.offset as i128;
        let mut bounds = (start, start);
        for (&extent, &stride) in self.shape.iter().zip(&*self.strides) {
            let reach = (extent as i128 - 1) * i128::from(stride);
            if reach < 0 {
                bounds.0 += reach;
            } else {
                bounds.1 += reach;
            }
        }
        Some(bounds)
    }

    /// Row-major without gaps. The stride of a dimension of extent 1 does not matter, and a layout
    /// without elements is contiguous.
    pub(crate) fn is_contiguous(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut want = 1_i128;
        self.shape
            .iter()
            .zip(&*self.strides)
            .rev()
            .all(|(&extent, &stride)| {
                let is_dense = extent == 1 || i128::from(stride) == want;
                want *= extent as i128;
                is_dense
            })
    }

    /// No two indices refer to one element. Conservative: true only where each stride exceeds the
    /// reach of all shorter ones together.
    pub(crate) fn is_injective(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut dims = [(0_u64, 0_usize); super::MAX_RANK];
        let mut count = 0;
        for (&extent, &stride) in self.shape.iter().zip(&*self.strides) {
            if extent > 1 {
                dims[count] = (stride.unsigned_abs(), extent);
                count += 1;
            }
        }
        let dims = &mut dims[..count];
        dims.sort_unstable();
        let mut reach = 0_u128;
        dims.iter().all(|&(stride, extent)| {
            let is_longer = u128::from(stride) > reach;
            reach += u128::from(stride) * (extent as u128 - 1);
            is_longer
        })
    }

    /// Every `step`th index of `start..end` of an axis; a negative step starts at `end - 1`.
    pub(crate) fn slice(&self, axis: usize, start: usize, end: usize, step: i64) -> Result<Self> {
        let extent = self.shape[axis];
        if end > extent || start > end {
            let got = if end > extent { end } else { start };
            let limit = if end > extent {
                extent as u64 + 1
            } else {
                end as u64 + 1
            };
            return Err(Error::out_of_bounds("bound of a slice", got as u64, limit));
        }
        if step == 0 {
            return Err(Error::value(
                "step of a slice",
                "0",
                "a positive or negative number",
            ));
        }
        let mut layout = *self;
        let len = end - start;
        let every = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        layout.shape[axis] = len.div_ceil(every);
        if len > 0 {
            let first = if step > 0 { start } else { end - 1 };
            layout.offset = self.offset_at(axis, first);
        }
        if layout.shape[axis] > 1 {
            // Two elements are this far apart, and both lie in the storage: no overflow.
            layout.strides[axis] = self.strides[axis].wrapping_mul(step);
        }
        Ok(layout)
    }

    /// The layout at `index` of an axis, with one dimension less.
    pub(crate) fn index_axis(&self, axis: usize, index: usize) -> Result<Self> {
        if index >= self.shape[axis] {
            let limit = self.shape[axis] as u64;
            return Err(Error::out_of_bounds("index", index as u64, limit));
        }
        Ok(Self {
            shape: self.shape.without(axis),
            strides: self.strides.without(axis),
            offset: self.offset_at(axis, index),
        })
    }

    /// A new dimension of extent 1 before `axis`.
    pub(crate) fn insert_axis(&self, axis: usize) -> Result<Self> {
        let mut shape = self.shape.to_vec();
        let mut strides = self.strides.to_vec();
        shape.insert(axis, 1);
        strides.insert(axis, 0);
        let (shape, strides) = (Dims::new(&shape)?, Dims::new(&strides)?);
        Ok(Self {
            shape,
            strides,
            offset: self.offset,
        })
    }

    /// Dimension `axes[i]` becomes dimension `i`.
    pub(crate) fn permute(&self, axes: &[usize]) -> Result<Self> {
        let rank = self.shape.len();
        let mut seen = [false; super::MAX_RANK];
        let is_permutation = axes.len() == rank
            && axes
                .iter()
                .all(|&axis| axis < rank && !std::mem::replace(&mut seen[axis], true));
        if !is_permutation {
            return Err(Error::value(
                "axes of a permutation",
                format!("{axes:?}"),
                format!("each of 0..{rank} once"),
            ));
        }
        let mut layout = *self;
        for (to, &from) in axes.iter().enumerate() {
            layout.shape[to] = self.shape[from];
            layout.strides[to] = self.strides[from];
        }
        Ok(layout)
    }

    /// The last two dimensions exchanged; unchanged below rank 2.
    pub(crate) fn transposed(&self) -> Self {
        let mut layout = *self;
        if let [.., _, _] = *layout.shape {
            let last = layout.shape.len() - 1;
            layout.shape.swap(last - 1, last);
            layout.strides.swap(last - 1, last);
        }
        layout
    }

    /// The same elements in the same row-major order with another shape.
    pub(crate) fn reshape(&self, want: &[usize]) -> Result<Self> {
        let len = want
            .iter()
            .try_fold(1_usize, |len, &extent| len.checked_mul(extent));
        if len != Some(self.len()) {
            return Err(Error::shape(
                "reshape",
                want,
                format!("{} elements, as {:?} has", self.len(), self.shape),
            ));
        }
        let mut layout = Self::contiguous(want)?;
        layout.offset = self.offset;
        if self.is_contiguous() {
            return Ok(layout);
        }
        // Split old and new dimensions into groups with equal products. Within a group, the old
        // dimensions must be mergeable into one with a single stride.
        let old: Vec<(usize, i64)> = self
            .shape
            .iter()
            .copied()
            .zip(self.strides.iter().copied())
            .filter(|d| d.0 != 1)
            .collect();
        let needs_copy = || {
            Error::Shape(ShapeError::ReshapeNeedsCopy {
                shape: (*self.shape).into(),
                strides: (*self.strides).into(),
                want: want.into(),
            })
        };
        let (mut from, mut to) = (0, 0);
        while from < old.len() {
            let (first_from, first_to) = (from, to);
            let (mut old_len, mut new_len) = (old[from].0, 1);
            from += 1;
            while old_len != new_len {
                if new_len < old_len {
                    new_len *= *want.get(to).ok_or_else(needs_copy)?;
                    to += 1;
                } else {
                    old_len *= old.get(from).ok_or_else(needs_copy)?.0;
                    from += 1;
                }
            }
            for pair in old[first_from..from].windows(2) {
                if pair[0].1 as i128 != pair[1].1 as i128 * pair[1].0 as i128 {
                    return Err(needs_copy());
                }
            }
            let mut stride = old[from - 1].1;
            for axis in (first_to..to).rev() {
                layout.strides[axis] = stride;
                stride = stride.wrapping_mul(want[axis] as i64);
            }
        }
        Ok(layout)
    }

    /// Repeats dimensions of extent 1, and missing leading ones, to `want`, with stride 0.
    pub(crate) fn broadcast_to(&self, want: &[usize]) -> Result<Self> {
        let mismatch = || {
            Error::shape(
                "broadcast",
                &*self.shape,
                format!("1 or the same extents as the last of {want:?}"),
            )
        };
        let added = want
            .len()
            .checked_sub(self.shape.len())
            .ok_or_else(mismatch)?;
        Self::contiguous(want)?; // refuses too many dimensions or elements
        let mut strides = Dims::new(&[0; super::MAX_RANK][..want.len()])?;
        for (axis, (&extent, &stride)) in self.shape.iter().zip(&*self.strides).enumerate() {
            strides[added + axis] = match extent {
                _ if extent == want[added + axis] => stride,
                1 => 0,
                _ => return Err(mismatch()),
            };
        }
        Ok(Self {
            shape: Dims::new(want)?,
            strides,
            offset: self.offset,
        })
    }

    /// Offset of the element at `index` of `axis` and 0 of all others. An empty layout keeps its
    /// offset, since no such element exists.
    fn offset_at(&self, axis: usize, index: usize) -> usize {
        if self.is_empty() {
            return self.offset;
        }
        (self.offset as i128 + index as i128 * i128::from(self.strides[axis])) as usize
    }
}
