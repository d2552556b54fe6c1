//! Outputs, poisoned in every element and all around: elements that are not written and writes
//! outside the tensor are detected.

use ndarray::ArrayD;
use warpsmith::{Device, DeviceBuffer, Tensor};

use crate::element::TestElement;
use crate::operand::{Place, View};
use crate::{Checked, say};

/// Poisoned elements before and after the storage of an output.
const GUARD: usize = 64;

/// A tensor that an operation will write, inside a storage full of poison.
pub struct Output<T: TestElement> {
    /// What the operation writes.
    pub tensor: Tensor<T>,
    storage: Tensor<T>,
    place: Place,
}

impl<T: TestElement> Output<T> {
    /// An output with this shape and layout.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &Device, shape: &[usize], view: View) -> Result<Self, String> {
        let mut place = view.place(shape);
        place.offset += GUARD;
        place.len += 2 * GUARD;
        let buffer = DeviceBuffer::from_slice(device, &vec![T::POISON; place.len]).map_err(say)?;
        let storage = Tensor::from_buffer(buffer, &[place.len]).map_err(say)?;
        let tensor = storage
            .as_strided(shape, &place.strides, place.offset)
            .map_err(say)?;
        Ok(Self {
            tensor,
            storage,
            place,
        })
    }

    /// An output that holds `values`, for operations that also read their output.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn with(device: &Device, values: &ArrayD<T>, view: View) -> Result<Self, String> {
        let mut output = Self::new(device, values.shape(), view)?;
        let mut storage = vec![T::POISON; output.place.len];
        let positions = output.place.positions(values.shape());
        for (position, &x) in positions.into_iter().zip(values) {
            storage[position] = x;
        }
        let buffer = DeviceBuffer::from_slice(device, &storage).map_err(say)?;
        output.storage = Tensor::from_buffer(buffer, &[output.place.len]).map_err(say)?;
        let Place {
            strides, offset, ..
        } = &output.place;
        output.tensor = output
            .storage
            .as_strided(values.shape(), strides, *offset)
            .map_err(say)?;
        Ok(output)
    }

    /// The result. Fails if an element was not written, or if anything outside the tensor was.
    ///
    /// # Errors
    /// The first wrong element, or an error of the device.
    pub fn read(&self) -> Result<ArrayD<T>, String> {
        self.read_written(|_| true, T::POISON)
    }

    /// The result of an operation that must write only the elements for which `is_written` is true;
    /// the others are returned as `instead`.
    ///
    /// # Errors
    /// As [`Output::read`].
    pub fn read_written(
        &self,
        is_written: impl Fn(&[usize]) -> bool,
        instead: T,
    ) -> Result<ArrayD<T>, String> {
        let storage = self.storage.to_vec().map_err(say)?;
        self.examine(storage, is_written, instead)
    }

    /// The same of the bytes that a replay of a capture read where [`read`](Self::read) did.
    ///
    /// # Errors
    /// The first wrong element.
    pub fn replayed(
        &self,
        bytes: &[u8],
        is_written: impl Fn(&[usize]) -> bool,
        instead: T,
    ) -> Result<ArrayD<T>, String> {
        let elements = bytes.chunks_exact(size_of::<T>());
        // SAFETY: as many bytes as an element has, which is a number: any bits are one.
        let elements = elements.map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() });
        self.examine(elements.collect(), is_written, instead)
    }

    fn examine(
        &self,
        mut storage: Vec<T>,
        is_written: impl Fn(&[usize]) -> bool,
        instead: T,
    ) -> Result<ArrayD<T>, String> {
        let poison = T::POISON.bits();
        let shape = self.tensor.shape();
        let mut index = vec![0; shape.len()];
        let mut result = Vec::with_capacity(self.tensor.len());
        for position in self.place.positions(shape) {
            if is_written(&index) {
                let element = std::mem::replace(&mut storage[position], T::POISON);
                if element.bits() == poison {
                    return Err(format!("element {index:?} was not written"));
                }
                result.push(element);
            } else {
                result.push(instead);
            }
            advance(&mut index, shape);
        }
        let result = ArrayD::from_shape_vec(shape, result).map_err(say)?;
        match storage.iter().position(|x| x.bits() != poison) {
            None => Ok(result),
            Some(position) => {
                let first = self.place.offset as i64;
                let distance = position as i64 - first;
                Err(format!(
                    "something was written {distance} elements from the first element"
                ))
            }
        }
    }

    /// Fails if anything was written.
    ///
    /// # Errors
    /// As [`Output::read`].
    pub fn expect_untouched(&self) -> Checked {
        let storage = self.storage.to_vec().map_err(say)?;
        let poison = T::POISON.bits();
        match storage.iter().position(|x| x.bits() != poison) {
            None => Ok(()),
            Some(position) => Err(format!("position {position} of the storage was written")),
        }
    }
}

/// Fails if two results differ in any bit.
///
/// # Errors
/// The first difference.
pub fn same_bits<T: TestElement>(first: &ArrayD<T>, second: &ArrayD<T>) -> Checked {
    let mut index = vec![0; first.ndim()];
    for (x, y) in first.iter().zip(second) {
        let (x, y) = (x.bits(), y.bits());
        if x != y {
            return Err(format!("element {index:?} is {x:#x} once and {y:#x} again"));
        }
        advance(&mut index, first.shape());
    }
    Ok(())
}

/// The next index in row-major order.
fn advance(index: &mut [usize], shape: &[usize]) {
    for axis in (0..shape.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return;
        }
        index[axis] = 0;
    }
}

/// A result in f64.
pub fn wide<T: TestElement>(result: &ArrayD<T>) -> ArrayD<f64> {
    result.mapv(T::wide)
}
