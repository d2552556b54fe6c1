//! Single elements, of the dtype that the launch says, and their sums as bits.

use abi::reduce::{KIND_LARGEST, KIND_PRODUCT, KIND_SMALLEST};
use abi::scatter_add::{AddParams, codes};
use cuda_std::convert;

use crate::reduce::number::Number;

/// Whether sums are f32.
#[inline(always)]
fn is_single(code: u32) -> bool {
    code <= codes::BF16
}

/// Two numbers as one: their sum if `IS_SUM`, else what `kind` says.
#[inline(always)]
fn merged<N: Number, const IS_SUM: bool>(a: N, b: N, kind: u32) -> N {
    match kind {
        _ if IS_SUM => a.plus(b),
        KIND_PRODUCT => a.times(b),
        _ if Number::is_nan(a) | Number::is_nan(b) => N::not_a_number(a),
        KIND_LARGEST => a.larger(b),
        _ => a.smaller(b),
    }
}

/// Numbers of two vectors, each two as one, by what `kind` says but sums.
#[inline(always)]
pub(super) fn merged_each<const V: usize>(a: [f32; V], b: [f32; V], kind: u32) -> [f32; V] {
    let mut out = a;
    // A branch for each operation, outside of the loops.
    macro_rules! by {
        ($kind:expr) => {
            for v in 0..V {
                out[v] = merged::<f32, false>(a[v], b[v], $kind);
            }
        };
    }
    match kind {
        KIND_PRODUCT => by!(KIND_PRODUCT),
        KIND_LARGEST => by!(KIND_LARGEST),
        _ => by!(KIND_SMALLEST),
    }
    out
}

/// Two numbers of the launch's dtype as one.
#[inline(always)]
pub(super) fn combined<const IS_SUM: bool>(a: u64, b: u64, params: &AddParams) -> u64 {
    let kind = params.kind;
    if is_single(params.code) {
        let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        return merged::<f32, IS_SUM>(a, b, kind).to_bits().into();
    }
    match params.code {
        codes::F64 => {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            merged::<f64, IS_SUM>(a, b, kind).to_bits()
        }
        _ => merged::<i64, IS_SUM>(a as i64, b as i64, kind) as u64,
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
            2 if params.code == codes::I32 => i64::from(at.cast::<i32>().read()) as u64,
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
