//! Conversions from and to `ndarray` arrays and vectors.

use super::Tensor;
use super::layout::Layout;
use crate::buffer::{DeviceBuffer, host_vec};
use crate::device::Device;
use crate::element::{Element, as_bytes_mut};
use crate::error::{Error, Result};
use ndarray::{ArrayBase, ArrayD, ArrayView, ArrayViewD, Data, Dimension, IxDyn, ShapeBuilder};

impl<T: Element> Tensor<T> {
    /// A copy of an array on the device. Blocks until the copy is done.
    ///
    /// An array without gaps keeps its strides: Fortran order stays Fortran order, and a reversed
    /// axis keeps its negative stride. Any other array becomes row-major.
    ///
    /// # Errors
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for more than
    /// [`MAX_RANK`](super::MAX_RANK) dimensions, [`Error::Device`].
    pub fn from_ndarray<S, D>(device: &Device, array: &ArrayBase<S, D>) -> Result<Self>
    where
        S: Data<Elem = T>,
        D: Dimension,
    {
        let shape = array.shape();
        let Some(values) = array.as_slice_memory_order() else {
            let mut values = host_vec(array.len())?; // a broadcast array may exceed host memory
            values.extend(array.iter().copied());
            return Self::from_slice(device, shape, &values);
        };
        let strides: Vec<i64> = array
            .strides()
            .iter()
            .map(|&stride| stride as i64)
            .collect();
        let offset = lowest_to_first(shape, &strides);
        // An array without elements may have any strides.
        let layout = if values.is_empty() {
            Layout::contiguous(shape)?
        } else {
            Layout::new(shape, &strides, offset, values.len())?
        };
        let buffer = DeviceBuffer::from_slice(device, values)?;
        Ok(Self::from_parts(buffer.into_storage(), layout))
    }

    /// A copy of all elements as an array in row-major order. Waits for all work on all streams
    /// that uses this tensor's storage.
    ///
    /// A view with gaps is read with its gaps, and its elements are gathered on the host.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn to_ndarray(&self) -> Result<ArrayD<T>> {
        let shape = IxDyn(self.shape());
        let bug = |_| Error::Bug("a tensor's layout was refused by ndarray");
        let Some((first, last)) = self.layout.bounds() else {
            return ArrayD::from_shape_vec(shape, Vec::new()).map_err(bug);
        };
        let len = (last - first + 1) as usize;
        // A broadcast view may have more elements than its storage, or than host memory can hold.
        let mut values: Vec<T> = host_vec(len)?;
        host_vec::<T>(self.len())?;
        values.resize(len, T::default());
        let size = size_of::<T>() as u64;
        self.storage
            .read(first as u64 * size, as_bytes_mut(&mut values))?;
        if self.is_contiguous() {
            return ArrayD::from_shape_vec(shape, values).map_err(bug);
        }
        // ndarray takes no negative strides here, so reversed axes are turned and turned back.
        // Nothing steps over a single one, whose stride may be any.
        let strides: Vec<i64> = self
            .shape()
            .iter()
            .zip(self.strides())
            .map(|(&extent, &stride)| if extent > 1 { stride } else { 0 })
            .collect();
        let steps: Vec<usize> = strides
            .iter()
            .map(|&stride| stride.unsigned_abs() as usize)
            .collect();
        let mut view: ArrayViewD<'_, T> =
            ArrayView::from_shape(shape.strides(IxDyn(&steps)), &values).map_err(bug)?;
        for (axis, &stride) in strides.iter().enumerate() {
            if stride < 0 {
                view.invert_axis(ndarray::Axis(axis));
            }
        }
        Ok(view.as_standard_layout().into_owned())
    }

    /// A copy of all elements in row-major order, read as by [`Tensor::to_ndarray`].
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let (values, _) = self.to_ndarray()?.into_raw_vec_and_offset();
        Ok(values)
    }

    /// The value of a tensor of one element. Waits as [`Tensor::to_ndarray`].
    ///
    /// # Errors
    /// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch) unless there is exactly one,
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn item(&self) -> Result<T> {
        match *self.to_vec_if_single()? {
            [value] => Ok(value),
            _ => Err(Error::shape("item", self.shape(), "one element")),
        }
    }

    /// The element, or an empty vector without a copy where there is not exactly one.
    fn to_vec_if_single(&self) -> Result<Vec<T>> {
        if self.len() == 1 {
            self.to_vec()
        } else {
            Ok(Vec::new())
        }
    }
}

/// Distance in elements from the lowest address to the element at index (0, 0, ..).
fn lowest_to_first(shape: &[usize], strides: &[i64]) -> usize {
    let reach = |(&extent, &stride): (&usize, &i64)| {
        if stride < 0 {
            extent.saturating_sub(1) * stride.unsigned_abs() as usize
        } else {
            0
        }
    };
    shape.iter().zip(strides).map(reach).sum()
}
