//! The layout of an operand, and the memory that has it.

use super::call::Memory;
use super::desc::OperandDesc;
use crate::ops::copy::contiguous;
use crate::{Element, Result, Stream, Tensor};
use abi::attention::BshStrides;

/// Whether rows are contiguous, as kernels read and write them.
pub(in crate::ops) fn last_dimension_is_dense<T: Element>(tensor: &Tensor<T>) -> bool {
    tensor.strides().last() == Some(&1) || tensor.shape().last().is_some_and(|&d| d <= 1)
}

/// Layout of a tensor in the order batch, position, head, or of its copy if its last dimension has
/// gaps.
pub(in crate::ops) fn operand<T: Element>(tensor: &Tensor<T>, is_packed: bool) -> OperandDesc {
    let is_dense = last_dimension_is_dense(tensor);
    let (strides, align_bytes) = match (is_dense, tensor.strides(), tensor.shape()) {
        (true, &[batch, seq, head, _], &[batches, positions, heads, _]) => {
            let most = u64::from(OperandDesc::MOST_ALIGN_BYTES);
            let align_bytes = tensor.alignment_bytes().min(most) as u32;
            // The stride of an extent of 1 is never used.
            let stepped = |extent: usize, stride: i64| if extent > 1 { stride } else { 0 };
            let strides = BshStrides {
                batch: stepped(batches, batch),
                seq: stepped(positions, seq),
                head: stepped(heads, head),
            };
            (strides, align_bytes)
        }
        (_, _, shape) => {
            // The layout of a contiguous copy, see `memory`.
            let extent = |axis: usize| shape.get(axis).copied().unwrap_or(1) as i64;
            let strides = BshStrides {
                batch: extent(1) * extent(2) * extent(3),
                seq: extent(2) * extent(3),
                head: extent(3),
            };
            (strides, OperandDesc::MOST_ALIGN_BYTES)
        }
    };
    OperandDesc {
        strides: BshStrides {
            batch: if is_packed { 0 } else { strides.batch },
            ..strides
        },
        align_bytes,
    }
}

/// The memory that [`operand`] describes.
pub(in crate::ops) fn memory<T: Element>(tensor: &Tensor<T>, stream: &Stream) -> Result<Memory> {
    if last_dimension_is_dense(tensor) {
        return Ok(Memory::of(tensor));
    }
    contiguous(tensor, stream).map(|copy| Memory::of(&copy))
}
