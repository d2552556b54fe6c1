//! How results are stored: as they were computed, or rounded to the 16 bits of the elements.

use abi::DType;
use abi::reduce::{ReduceParams, wide_code};
use cuda_std::convert;
use cuda_std::warp::Words;

/// A result.
pub(crate) trait Rounded: Words {
    /// Whether launches may ask for it rounded to 16 bits.
    const IS_ROUNDED: bool = false;

    /// Its bits as f16 or bf16, by [`abi::reduce::wide_code`]. Nobody asks where it is not
    /// [`Rounded::IS_ROUNDED`].
    #[inline(always)]
    fn rounded(self, code: u64) -> u16 {
        let _ = code;
        0
    }
}

impl Rounded for f64 {}
impl Rounded for i64 {}

impl Rounded for f32 {
    const IS_ROUNDED: bool = true;

    #[inline(always)]
    fn rounded(self, code: u64) -> u16 {
        if code == u64::from(wide_code(DType::F16)) {
            convert::f32_to_f16(self)
        } else {
            convert::f32_to_bf16(self)
        }
    }
}

/// Stores a result, rounded to the elements' dtype if the launch says so and they have 16 bits.
///
/// # Safety
/// `out` has that element.
#[inline(always)]
pub(super) unsafe fn store<R: Rounded, const V: usize>(
    result: R,
    params: &ReduceParams,
    out: *mut R,
    at: u64,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        if is_rounded::<R, V>(params) {
            let out = out.cast::<u16>().wrapping_add(at as usize);
            out.write(result.rounded(params.mask));
        } else {
            out.wrapping_add(at as usize).write(result);
        }
    }
}

/// Whether results are stored in the elements' 16 bits.
#[inline(always)]
pub(super) fn is_rounded<R: Rounded, const V: usize>(params: &ReduceParams) -> bool {
    R::IS_ROUNDED && V == 8 && params.is_rounded != 0
}
