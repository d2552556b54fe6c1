//! Checks shared by the operations.

pub(super) use crate::tensor::axis_of as axis;
use crate::tensor::{Erased, Layout};
use crate::{Element, Error, Result, Stream, Tensor};

/// Checks that `tensor` is on the stream's device.
pub(super) fn device<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    stream: &Stream,
) -> Result<()> {
    stream.device().check_same(operand, tensor.device())
}

/// Checks that a tensor has this shape.
pub(super) fn shape(operand: &'static str, got: &[usize], want: &[usize]) -> Result<()> {
    match got == want {
        true => Ok(()),
        false => Err(Error::shape(operand, got, format!("{want:?}"))),
    }
}

/// Checks that `tensor` is on the stream's device and has this shape.
pub(super) fn input<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    want: &[usize],
    stream: &Stream,
) -> Result<()> {
    device(operand, tensor, stream)?;
    shape(operand, tensor.shape(), want)
}

/// Checks that a tensor can be written: it has this shape, is on the stream's device, and no two of
/// its indices refer to the same element.
pub(super) fn output<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    shape: &[usize],
    stream: &Stream,
) -> Result<()> {
    device(operand, tensor, stream)?;
    output_of(operand, &tensor.erased(), shape)
}

/// As [`output`], of a tensor with an erased type that is on the stream's device.
pub(super) fn output_of(operand: &'static str, tensor: &Erased<'_>, want: &[usize]) -> Result<()> {
    shape(operand, tensor.shape(), want)?;
    if !tensor.is_injective() {
        return Err(Error::strides(
            operand,
            tensor.strides(),
            "strides that give every element a place of its own",
        ));
    }
    Ok(())
}

/// Checks that a tensor is contiguous.
pub(super) fn contiguous<T: Element>(operand: &'static str, tensor: &Tensor<T>) -> Result<()> {
    match tensor.is_contiguous() {
        true => Ok(()),
        false => Err(Error::strides(
            operand,
            tensor.strides(),
            "those of a contiguous tensor",
        )),
    }
}

/// Checks that `got` is at most `most`.
pub(super) fn up_to(what: &'static str, got: usize, most: u64) -> Result<()> {
    match got as u64 <= most {
        true => Ok(()),
        false => Err(Error::out_of_bounds(what, got as u64, most + 1)),
    }
}

/// Checks that the written tensor shares no element with `other`.
pub(super) fn no_overlap<T: Element, U: Element>(
    output: &'static str,
    written: &Tensor<T>,
    operand: &'static str,
    other: &Tensor<U>,
) -> Result<()> {
    if written.overlaps(other) {
        return Err(Error::overlap(output, operand));
    }
    Ok(())
}

/// Checks results of an operation on `x`: elements, and the indices that they have, where they are
/// wanted.
pub(super) fn values_and_indices<T: Element>(
    values: Option<&Tensor<T>>,
    indices: Option<&Tensor<i64>>,
    shape: &[usize],
    x: &Tensor<T>,
    stream: &Stream,
) -> Result<()> {
    if let Some(values) = values {
        output("values", values, shape, stream)?;
        no_overlap("values", values, "x", x)?;
    }
    if let Some(indices) = indices {
        output("indices", indices, shape, stream)?;
        no_overlap("indices", indices, "x", x)?;
    }
    match (values, indices) {
        (Some(values), Some(indices)) => no_overlap("indices", indices, "values", values),
        _ => Ok(()),
    }
}

/// The [`ShapeError::Mismatch`](crate::ShapeError::Mismatch) of `tensor`.
pub(super) fn shape_mismatch<T: Element>(
    operand: &'static str,
    tensor: &Tensor<T>,
    want: impl Into<Box<str>>,
) -> Error {
    Error::shape(operand, tensor.shape(), want)
}

/// A contiguous tensor of this shape has strides, whether there is memory for it or not.
pub(super) fn addressable(shape: &[usize]) -> Result<()> {
    Layout::contiguous(shape).map(drop)
}

/// An extent as kernels take it.
pub(super) fn extent(what: &'static str, extent: usize) -> Result<u32> {
    // Kernels round extents up to whole tiles in u32, which must not overflow.
    const LIMIT: u32 = u32::MAX - 1024;
    match u32::try_from(extent) {
        Ok(extent) if extent <= LIMIT => Ok(extent),
        _ => Err(Error::out_of_bounds(
            what,
            extent as u64,
            u64::from(LIMIT) + 1,
        )),
    }
}

/// Checks that the written tensor is `other`, element for element (as in an update in place), or
/// shares no element with it.
pub(super) fn no_partial_overlap<T: Element, U: Element>(
    output: &'static str,
    written: &Tensor<T>,
    operand: &'static str,
    other: &Tensor<U>,
) -> Result<()> {
    no_partial_overlap_of(output, &written.erased(), operand, &other.erased())
}

/// As [`no_partial_overlap`], of tensors with erased types.
pub(super) fn no_partial_overlap_of(
    output: &'static str,
    written: &Erased<'_>,
    operand: &'static str,
    other: &Erased<'_>,
) -> Result<()> {
    let is_same = written.address() == other.address()
        && written.dtype().size_bytes() == other.dtype().size_bytes()
        && written.shape() == other.shape()
        && written.strides() == other.strides();
    if is_same || !written.overlaps(other) {
        return Ok(());
    }
    Err(Error::overlap(output, operand))
}

/// The entry that a table of `abi` was searched for.
///
/// # Errors
/// [`Error::Bug`] if the table lacks it: the caller's types allow more than there are kernels for.
pub(super) fn entry<E>(found: Option<E>) -> Result<E> {
    found.ok_or(Error::Bug(
        "a launch was planned for a kernel that is not there",
    ))
}
