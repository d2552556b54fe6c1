//! Operands: values rounded to an element type, laid out in memory in every way a view can be.

use ndarray::{ArrayD, Axis, Dimension};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::{Device, DeviceBuffer, Float, Tensor};

use crate::element::TestElement;
use crate::say;
use crate::values::Values;

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
            Just(Self::Sliced),
            Just(Self::Reversed),
        ]
    }

    /// Where the elements of `shape` stand.
    pub fn place(self, shape: &[usize]) -> Place {
        const PADDING: usize = 3;
        let rank = shape.len();
        let (extra, step) = match self {
            Self::Sliced => (0, 2),
            _ => (0, 1),
        };
        let is_column_major = matches!(self, Self::Transposed | Self::PaddedColumns);
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
pub struct Operand<T: Float> {
    /// On the device.
    pub tensor: Tensor<T>,
    /// Exactly the tensor's values.
    pub values: ArrayD<f64>,
}

impl<T: Float + TestElement> Operand<T> {
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
        let mut drawn = values.draw(shape, seed).mapv(|x| T::from_f64(x).wide());
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
        let place = view.place(values.shape());
        let mut storage = vec![T::POISON; place.len];
        for (index, &x) in values.indexed_iter() {
            storage[place.position(index.slice())] = T::from_f64(x);
        }
        let buffer = DeviceBuffer::from_slice(device, &storage).map_err(say)?;
        let tensor =
            Tensor::from_buffer_strided(buffer, values.shape(), &place.strides, place.offset);
        Ok(Self {
            tensor: tensor.map_err(say)?,
            values,
        })
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
