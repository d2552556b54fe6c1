//! Reads a block's sequence from the arrays of lengths in device memory.

use abi::attention::{FlashFwdLengths, FlashFwdParams, Sequence, SequenceLengths};

/// Sequence `batch_idx` of a launch.
///
/// # Safety
/// Arrays that are not null have as many elements as [`FlashFwdLengths`] says; `batch_idx` is below
/// `params.batch`.
#[inline(always)]
pub(crate) unsafe fn sequence(
    lengths: &FlashFwdLengths,
    params: &FlashFwdParams,
    batch_idx: u32,
) -> Sequence {
    // SAFETY: the caller's promise.
    let lengths = unsafe {
        SequenceLengths {
            packed_q: bounds(lengths.cu_seqlens_q, batch_idx),
            packed_k: bounds(lengths.cu_seqlens_k, batch_idx),
            used_q: one(lengths.seqused_q, batch_idx),
            used_k: one(lengths.seqused_k, batch_idx),
            leftpad_k: one(lengths.leftpad_k, batch_idx),
        }
    };
    Sequence::new(params, batch_idx, &lengths)
}

/// An element, or `None` if there is no array.
///
/// # Safety
/// The array is null or has it.
#[inline(always)]
unsafe fn one(array: *const i32, idx: u32) -> Option<i32> {
    if array.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { array.wrapping_add(idx as usize).read() })
}

/// An element and the next, or `None` if there is no array.
///
/// # Safety
/// The array is null or has both.
#[inline(always)]
unsafe fn bounds(array: *const i32, idx: u32) -> Option<(i32, i32)> {
    // SAFETY: the caller's promise.
    unsafe { Some((one(array, idx)?, one(array, idx.wrapping_add(1))?)) }
}
