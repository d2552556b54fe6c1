//! Outputs, poisoned in every element and all around: elements that are not written and writes
//! outside the tensor are detected.

use ndarray::{ArrayD, Dimension};
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
        for (index, &x) in values.indexed_iter() {
            storage[output.place.position(index.slice())] = x;
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
        let mut storage = self.storage.to_vec().map_err(say)?;
        let poison = T::POISON.bits();
        let mut result = ArrayD::from_elem(self.tensor.shape(), T::POISON);
        for (index, element) in result.indexed_iter_mut() {
            let position = self.place.position(index.slice());
            if !is_written(index.slice()) {
                *element = instead;
                continue;
            }
            *element = std::mem::replace(&mut storage[position], T::POISON);
            if element.bits() == poison {
                return Err(format!("element {:?} was not written", index.slice()));
            }
        }
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
    for ((index, x), y) in first.indexed_iter().zip(second) {
        let (x, y) = (x.bits(), y.bits());
        if x != y {
            return Err(format!(
                "element {:?} is {x:#x} once and {y:#x} again",
                index.slice()
            ));
        }
    }
    Ok(())
}

/// A result in f64.
pub fn wide<T: TestElement>(result: &ArrayD<T>) -> ArrayD<f64> {
    result.mapv(T::wide)
}
