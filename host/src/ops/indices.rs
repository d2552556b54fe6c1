//! Indices, positions and lengths in device memory, of either type of indices.

use super::check;
use crate::tensor::Erased;
use crate::{Element, Error, Result, Stream, Tensor};

/// Indices, positions or lengths in device memory. References to tensors of i32 and i64 convert to
/// it. Where a kernel reads the other type, a small launch converts them first; what is out of the
/// range of i32 becomes its nearest number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Indices<'a> {
    /// Of 32 bits.
    I32(&'a Tensor<i32>),
    /// Of 64 bits.
    I64(&'a Tensor<i64>),
}

impl<'a> From<&'a Tensor<i32>> for Indices<'a> {
    fn from(indices: &'a Tensor<i32>) -> Self {
        Self::I32(indices)
    }
}

impl<'a> From<&'a Tensor<i64>> for Indices<'a> {
    fn from(indices: &'a Tensor<i64>) -> Self {
        Self::I64(indices)
    }
}

impl<'a> Indices<'a> {
    pub(super) fn shape(self) -> &'a [usize] {
        match self {
            Self::I32(indices) => indices.shape(),
            Self::I64(indices) => indices.shape(),
        }
    }

    pub(super) fn erased(self) -> Erased<'a> {
        match self {
            Self::I32(indices) => indices.erased(),
            Self::I64(indices) => indices.erased(),
        }
    }

    /// Checks that they are on the stream's device.
    pub(super) fn check_device(self, operand: &'static str, stream: &Stream) -> Result<()> {
        match self {
            Self::I32(indices) => check::device(operand, indices, stream),
            Self::I64(indices) => check::device(operand, indices, stream),
        }
    }

    /// Checks that they are on the stream's device and have this shape.
    pub(super) fn check(
        self,
        operand: &'static str,
        shape: &[usize],
        stream: &Stream,
    ) -> Result<()> {
        self.check_device(operand, stream)?;
        check::shape(operand, self.shape(), shape)
    }

    /// Checks that the written tensor shares no element with them.
    pub(super) fn check_apart<T: Element>(
        self,
        operand: &'static str,
        output: &'static str,
        written: &Tensor<T>,
    ) -> Result<()> {
        match written.erased().overlaps(&self.erased()) {
            true => Err(Error::overlap(output, operand)),
            false => Ok(()),
        }
    }

    /// In 32 bits, with any strides.
    pub(super) fn to_i32(self, stream: &Stream) -> Result<Tensor<i32>> {
        match self {
            Self::I32(indices) => Ok(indices.clone()),
            Self::I64(indices) => indices.cast(stream),
        }
    }

    /// In 64 bits, with any strides.
    pub(super) fn to_i64(self, stream: &Stream) -> Result<Tensor<i64>> {
        match self {
            Self::I32(indices) => indices.cast(stream),
            Self::I64(indices) => Ok(indices.clone()),
        }
    }
}
