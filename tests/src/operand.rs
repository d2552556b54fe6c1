//! Operands: values rounded to an element type, laid out in memory in every way a view can be.

use ndarray::{ArrayD, Axis, Dimension};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::{Device, DeviceBuffer, Tensor};

use crate::element::TestElement;
use crate::values::Values;
use crate::{Checked, say};

/// How a tensor lies in its storage. What lies between its elements is poison, so a kernel that
/// reads it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Row-major without gaps.
    #[default]
    Contiguous,
    /// Column-major without gaps.
    Transposed,
    /// Row-major with a gap after each row, and an offset.
    Padded,
    /// Column-major with a gap after each column.
    PaddedColumns,
    /// Row-major, each row on a multiple of 16 elements with a gap after it: what wide loads want.
    Aligned,
    /// Column-major in the same way.
    AlignedColumns,
    /// Every second element along each axis.
    Sliced,
    /// Every axis runs backwards.
    Reversed,
    /// The first axis repeats one element (stride 0).
    Repeated,
}

impl View {
    /// All of them, evenly.
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![6 => Self::writable(), 1 => Just(Self::Repeated)]
    }

    /// Those that can be written to.
    pub fn writable() -> impl Strategy<Value = Self> {
        prop_oneof![
            Just(Self::Contiguous),
            Just(Self::Transposed),
            Just(Self::Padded),
            Just(Self::PaddedColumns),
            Just(Self::Aligned),
            Just(Self::AlignedColumns),
            Just(Self::Sliced),
            Just(Self::Reversed),
        ]
    }

    /// This one, or row-major where it repeats elements.
    pub fn writable_or_contiguous(self) -> Self {
        match self {
            Self::Repeated => Self::Contiguous,
            writable => writable,
        }
    }

    /// Where the elements of `shape` stand.
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
        let mut offset = if self == Self::Padded { PADDING } else { 0 };
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

/// Strides, first element and length of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// In elements.
    pub strides: Vec<i64>,
    /// Of the element at index (0, 0, ..).
    pub offset: usize,
    /// Elements of the storage.
    pub len: usize,
}

impl Place {
    /// Position of the element at `index`.
    pub fn position(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(&self.strides);
        let distance: i64 = steps.map(|(&i, &stride)| i as i64 * stride).sum();
        (self.offset as i64 + distance) as usize
    }
}

/// A tensor, and what it holds in f64.
pub struct Operand<T: TestElement> {
    /// On the device.
    pub tensor: Tensor<T>,
    /// Exactly the tensor's values.
    pub values: ArrayD<f64>,
    /// All around the tensor, too.
    storage: Tensor<T>,
    /// What the storage holds.
    initial: Vec<T>,
}

/// Elements of poison before and after the storage of an operand: whole units of wide loads.
const GUARD: usize = 64;

impl<T: TestElement> Operand<T> {
    /// Draws values and lays them out.
    ///
    /// # Errors
    /// What the device says.
    pub fn draw(
        device: &Device,
        shape: &[usize],
        values: Values,
        view: View,
        seed: u64,
    ) -> Result<Self, String> {
        let mut drawn = values.draw(shape, seed).mapv(|x| T::nearest(x).wide());
        if view == View::Repeated && !shape.is_empty() && shape[0] > 0 {
            let first = drawn.index_axis(Axis(0), 0).to_owned();
            for mut row in drawn.axis_iter_mut(Axis(0)) {
                row.assign(&first);
            }
        }
        Self::lay_out(device, drawn, view)
    }

    /// Lays out values that `T` holds exactly.
    ///
    /// # Errors
    /// What the device says.
    pub fn lay_out(device: &Device, values: ArrayD<f64>, view: View) -> Result<Self, String> {
        let mut place = view.place(values.shape());
        place.offset += GUARD;
        place.len += 2 * GUARD;
        let mut initial = vec![T::POISON; place.len];
        for (index, &x) in values.indexed_iter() {
            initial[place.position(index.slice())] = T::nearest(x);
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

    /// Fails where anything of the operand, or around it, was written.
    ///
    /// # Errors
    /// The first element that changed, or what the device says.
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
            for (index, ()) in ArrayD::from_elem(shape.to_vec(), ()).indexed_iter() {
                let position = place.position(index.slice());
                assert!(!seen[position], "{view:?}");
                seen[position] = true;
            }
        }
        let repeated = View::Repeated.place(&shape);
        assert_eq!((repeated.strides, repeated.len), (vec![0, 4, 1], 12));
        assert_eq!(View::Padded.place(&shape).strides, [21, 7, 1]);
        assert_eq!(View::Reversed.place(&shape).strides, [-12, -4, -1]);
    }
}
