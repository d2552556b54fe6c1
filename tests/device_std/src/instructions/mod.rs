//! Each wrapper once, in the order of its module, so that a test can hold the PTX to be exactly
//! the instruction and ptxas can say whether it is one. These kernels are not for running.

pub mod ampere;
pub mod copies;
pub mod hopper;
pub mod numbers;
pub mod products;
pub mod tensors;
pub mod wgmma;

/// Stores what an instruction gave, so that it is used.
///
/// # Safety
/// Not for running.
#[inline(always)]
unsafe fn keep<T, U>(out: *mut T, value: U) {
    // SAFETY: not for running.
    unsafe { out.cast::<U>().write(value) }
}
