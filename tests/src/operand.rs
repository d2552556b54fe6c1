//! Operands: values rounded to an element type, in every memory layout that a view can have.

use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::{Device, DeviceBuffer, Tensor};

use crate::element::TestElement;
use crate::values::Values;
use crate::{Checked, say};

/// Layout of a tensor in its storage. Gaps between the elements are poisoned, so that a kernel that
/// reads them is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Row-major without gaps.
    #[default]
    Contiguous,
    /// Row-major without gaps, one element behind a multiple of 16 bytes.
    Behind1,
    /// The same, two elements behind it.
    Behind2,
    /// The same, four elements behind it: at such a multiple, of f32.
    Behind4,
    /// Column-major without gaps.
    Transposed,
    /// Row-major with a gap after each row, and an offset.
    Padded,
    /// Column-major with a gap after each column.
    PaddedColumns,
    /// Row-major, each row aligned to 16 elements with a gap after it, as wide loads require.
    Aligned,
    /// Column-major, with columns aligned in the same way.
    AlignedColumns,
    /// Every second element along each axis.
    Sliced,
    /// Every axis runs backwards.
    Reversed,
    /// The first axis repeats one element (stride 0).
    Repeated,
}

impl View {
    /// Any layout; `Repeated` less often than the others together.
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![6 => Self::writable(), 1 => Just(Self::Repeated)]
    }

    /// Pairs of layouts, of what is read and of what is written, whose rows begin anywhere.
    pub const ANYWHERE: [(Self, Self); 5] = [
        (Self::Contiguous, Self::Contiguous),
        (Self::Behind1, Self::Contiguous),
        (Self::Contiguous, Self::Behind2),
        (Self::Behind4, Self::Behind1),
        (Self::Padded, Self::Behind2),
    ];

    /// The layouts that can be written to.
    pub fn writable() -> impl Strategy<Value = Self> {
        prop_oneof![
            Just(Self::Contiguous),
            Just(Self::Behind1),
            Just(Self::Behind2),
            Just(Self::Behind4),
            Just(Self::Transposed),
            Just(Self::Padded),
            Just(Self::PaddedColumns),
            Just(Self::Aligned),
            Just(Self::AlignedColumns),
            Just(Self::Sliced),
            Just(Self::Reversed),
        ]
    }

    /// This layout, or row-major if it repeats elements.
    pub fn writable_or_contiguous(self) -> Self {
        match self {
            Self::Repeated => Self::Contiguous,
            writable => writable,
        }
    }

    /// The place of the elements of a tensor with this shape.
    pub fn place(self, shape: &[usize]) -> Place {
        const PADDING: usize = 3;
        const UNIT: usize = 16;
        let rank = shape.len();
        let (extra, step) = match self {
            Self::Sliced => (0, 2),
            _ => (0, 1),
        };
        let is_column_major = matches!(
            self,
            Self::Transposed | Self::PaddedColumns | Self::AlignedColumns
        );
        let order: Vec<usize> = if is_column_major {
            (0..rank).collect()
        } else {
            (0..rank).rev().collect()
        };
        let mut strides = vec![0_i64; rank];
        let mut len = 1_usize;
        for (position, &axis) in order.iter().enumerate() {
            strides[axis] = (len * step) as i64;
            let padding = match self {
                Self::Padded | Self::PaddedColumns if position == 0 => PADDING,
                Self::Aligned | Self::AlignedColumns if position == 0 => {
                    (shape[axis] + 1).next_multiple_of(UNIT) - shape[axis]
                }
                _ => extra,
            };
            let is_repeated = self == Self::Repeated && axis == 0;
            if is_repeated {
                strides[axis] = 0;
            } else {
                len *= shape[axis] * step + padding;
            }
        }
        let mut offset = match self {
            Self::Padded => PADDING,
            Self::Behind1 => 1,
            Self::Behind2 => 2,
            Self::Behind4 => 4,
            _ => 0,
        };
        len += offset;
        if self == Self::Reversed && !shape.contains(&0) {
            for (stride, &extent) in strides.iter_mut().zip(shape) {
                offset += *stride as usize * (extent - 1);
                *stride = -*stride;
            }
        }
        Place {
            strides,
            offset,
            len,
        }
    }
}

/// The place of a tensor in its storage: strides, offset, and length of the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// Position of the element at index (0, 0, ..).
    pub offset: usize,
    /// Length of the storage in elements.
    pub len: usize,
}

impl Place {
    /// Positions of all elements of a tensor with this shape, in row-major order. (One index after the
    /// other would take longer than a kernel: this crate is not optimised.)
    pub fn positions(&self, shape: &[usize]) -> Vec<usize> {
        let mut positions = vec![self.offset];
        for (&extent, &stride) in shape.iter().zip(&self.strides) {
            let mut next = Vec::with_capacity(positions.len() * extent);
            for first in positions {
                for i in 0..extent as i64 {
                    next.push((first as i64 + i * stride) as usize);
                }
            }
            positions = next;
        }
        positions
    }
}

/// A tensor on the device, and its values in f64.
pub struct Operand<T: TestElement> {
    /// The tensor on the device.
    pub tensor: Tensor<T>,
    /// The exact values of the tensor.
    pub values: ArrayD<f64>,
    /// The whole storage, including what surrounds the tensor.
    storage: Tensor<T>,
    /// Initial contents of the storage.
    initial: Vec<T>,
}

/// Poisoned elements before and after an operand: a whole number of units of wide loads.
const GUARD: usize = 64;

impl<T: TestElement> Operand<T> {
    /// Draws values and lays them out on the device.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn draw(
        device: &Device,
        shape: &[usize],
        values: Values,
        view: View,
        seed: u64,
    ) -> Result<Self, String> {
        Self::nearest(device, values.draw(shape, seed), view)
    }

    /// Lays out the elements that are nearest to `values`; of those that the view repeats, the first.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn nearest(device: &Device, values: ArrayD<f64>, view: View) -> Result<Self, String> {
        let mut values = values.mapv_into(|x| T::nearest(x).wide());
        if view == View::Repeated && values.shape().first().is_some_and(|&len| len > 0) {
            let first = values.index_axis(Axis(0), 0).to_owned();
            for mut row in values.axis_iter_mut(Axis(0)) {
                row.assign(&first);
            }
        }
        Self::lay_out(device, values, view)
    }

    /// Lays out values that `T` represents exactly.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn lay_out(device: &Device, values: ArrayD<f64>, view: View) -> Result<Self, String> {
        let mut place = view.place(values.shape());
        place.offset += GUARD;
        place.len += 2 * GUARD;
        let mut initial = vec![T::POISON; place.len];
        for (position, &x) in place.positions(values.shape()).into_iter().zip(&values) {
            initial[position] = T::nearest(x);
        }
        let buffer = DeviceBuffer::from_slice(device, &initial).map_err(say)?;
        let storage = Tensor::from_buffer(buffer, &[place.len]).map_err(say)?;
        let tensor = storage.as_strided(values.shape(), &place.strides, place.offset);
        Ok(Self {
            tensor: tensor.map_err(say)?,
            values,
            storage,
            initial,
        })
    }

    /// Fails if the operand, or anything around it, was written.
    ///
    /// # Errors
    /// The first element that changed, or an error of the device.
    pub fn expect_unchanged(&self) -> Checked {
        let now = self.storage.to_vec().map_err(say)?;
        let changed = |(now, then): (&T, &T)| now.bits() != then.bits();
        match now.iter().zip(&self.initial).position(changed) {
            None => Ok(()),
            Some(position) => Err(format!(
                "position {position} of an operand's storage was written"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_places_each_element_inside_and_apart() {
        let shape = [2, 3, 4];
        for view in [
            View::Contiguous,
            View::Transposed,
            View::Padded,
            View::PaddedColumns,
            View::Aligned,
            View::AlignedColumns,
            View::Sliced,
            View::Reversed,
        ] {
            let place = view.place(&shape);
            let mut seen = vec![false; place.len];
            for position in place.positions(&shape) {
                assert!(!seen[position], "{view:?}");
                seen[position] = true;
            }
        }
        let repeated = View::Repeated.place(&shape);
        assert_eq!((repeated.strides, repeated.len), (vec![0, 4, 1], 12));
        assert_eq!(View::Padded.place(&shape).strides, [21, 7, 1]);
        let positions = View::Transposed.place(&[2, 2, 2]).positions(&[2, 2, 2]);
        assert_eq!(positions, [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(View::Reversed.place(&shape).strides, [-12, -4, -1]);
    }
}
