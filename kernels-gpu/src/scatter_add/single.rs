//! Single elements, of the dtype that the launch says, and their sums as bits.

use abi::scatter_add::{AddParams, codes};
use cuda_std::convert;

/// Whether sums are f32.
#[inline(always)]
fn is_single(code: u32) -> bool {
    code <= codes::BF16
}

/// The sum of two numbers.
#[inline(always)]
pub(super) fn plus(a: u64, b: u64, code: u32) -> u64 {
    if is_single(code) {
        let sum = f32::from_bits(a as u32) + f32::from_bits(b as u32);
        return sum.to_bits().into();
    }
    match code {
        codes::F64 => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        _ => a.wrapping_add(b),
    }
}

/// An element as a number.
///
/// # Safety
/// There is one of this dtype.
#[inline(always)]
pub(super) unsafe fn load(at: *const u8, params: &AddParams) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe {
        match params.size_log2 {
            1 => {
                let bits = at.cast::<u16>().read();
                let number = match params.code {
                    codes::F16 => convert::f16_to_f32(bits),
                    _ => convert::bf16_to_f32(bits),
                };
                number.to_bits().into()
            }
            // The high half of an i32 is not part of the result.
            2 => at.cast::<u32>().read().into(),
            _ => at.cast::<u64>().read(),
        }
    }
}

/// Stores a number as an element.
///
/// # Safety
/// There is one of this dtype, which this thread may write.
#[inline(always)]
pub(super) unsafe fn store(at: *mut u8, number: u64, params: &AddParams) {
    // SAFETY: passed on to the caller.
    unsafe {
        match params.size_log2 {
            1 => {
                let number = f32::from_bits(number as u32);
                at.cast::<u16>().write(match params.code {
                    codes::F16 => convert::f32_to_f16(number),
                    _ => convert::f32_to_bf16(number),
                });
            }
            2 => at.cast::<u32>().write(number as u32),
            _ => at.cast::<u64>().write(number),
        }
    }
}

/// Bytes of a number, in log2.
#[inline(always)]
pub(super) fn number_log2(code: u32) -> u32 {
    if is_single(code) { 2 } else { 3 }
}

/// The number that is there.
///
/// # Safety
/// There is one of the sums of this dtype.
#[inline(always)]
pub(super) unsafe fn number(at: *const u8, code: u32) -> u64 {
    // SAFETY: passed on to the caller.
    unsafe {
        match is_single(code) {
            true => at.cast::<u32>().read().into(),
            false => at.cast::<u64>().read(),
        }
    }
}

/// Writes number `slot` of an array.
///
/// # Safety
/// It is there, and this thread may write it.
#[inline(always)]
pub(super) unsafe fn put(numbers: *mut u8, slot: u64, number: u64, code: u32) {
    // SAFETY: passed on to the caller.
    unsafe {
        match is_single(code) {
            true => numbers
                .cast::<u32>()
                .add(slot as usize)
                .write(number as u32),
            false => numbers.cast::<u64>().add(slot as usize).write(number),
        }
    }
}
