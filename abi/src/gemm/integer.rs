//! Products of i8, with sums in i32.
//!
//! | entry | multiplies by | from |
//! |---|---|---|
//! | [`INTEGER_ENTRY`] | `dp4a`, in any layout | sm_75 |
//! | [`MmaEntry`](super::MmaEntry) of i8 | `mma.sync`, both operands K-major | sm_80 |
//! | [`Sm90Entry`](super::sm90::Sm90Entry) of i8 | `wgmma`, both operands K-major | sm_90a |
//! | [`FinishEntry`](super::FinishEntry) of i32 | nothing: it adds up parts of k, and applies the epilogue | sm_75 |
//!
//! [`INTEGER_ENTRY`] takes `a: *const i8, b: *const i8`, the arguments of [a fused
//! epilogue](super::epilogue), and `k_major: u32`, which is [`a_and_b_are_k_major`].
//!
//! Sums are exact as long as `k <=` [`EXACT_K`], and wrap to 32 bits beyond that. So every order of
//! additions gives the same bits, and so do all kernels, tiles and parts of k.
//!
//! [`EpilogueParams::d_dtype`](super::EpilogueParams::d_dtype) says what the epilogue is computed in:
//! - f32, f16, bf16: the sum is rounded to f32, to nearest, and all else is as in other products.
//! - [`I32_RESULTS`]: all is in i32 and wraps. C, D, bias and residual are i32; alpha and beta are too,
//!   in the bits that [`GemmParams`](super::GemmParams) and the pointers have for f32
//!   ([`integer_factor`]). There are no scales, and of activations the identity and relu.

use super::{TileConfig, Transpose};
pub use crate::single::INTEGER_ENTRY;

/// The longest k whose sums cannot leave i32, whatever the elements are: one more product of -128 by
/// -128 makes 2^31.
pub const EXACT_K: u32 = (1 << 17) - 1;

/// What [`EpilogueParams::d_dtype`](super::EpilogueParams::d_dtype) is of results in i32: a number
/// that no [`OutputDType`](crate::OutputDType) has.
pub const I32_RESULTS: u32 = 3;

/// The tile of [`INTEGER_ENTRY`]: 4×4 results a thread.
pub const INTEGER_TILE: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 64,
    tile_k: 32,
    threads: 256,
};

/// The argument `k_major` for operands stored so: bit 0 is set if k is contiguous in A, bit 1 if it
/// is in B.
pub const fn a_and_b_are_k_major(trans_a: Transpose, trans_b: Transpose) -> u32 {
    let of_a = matches!(trans_a, Transpose::N) as u32;
    let of_b = matches!(trans_b, Transpose::T) as u32;
    of_a | of_b << 1
}

/// A factor of results in i32 as it is passed in the place of one in f32: the same bits.
pub const fn integer_factor(factor: i32) -> f32 {
    f32::from_bits(factor as u32)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::OutputDType;

    #[test]
    fn the_name_says_the_tile() {
        let name = std::format!("gemm_simt_i8_{INTEGER_TILE}");
        assert_eq!(INTEGER_ENTRY.name(), name);
    }

    #[test]
    fn the_longest_exact_k_is_the_longest() {
        let largest = |k: u32| i64::from(k) * 128 * 128;
        assert!(i32::try_from(largest(EXACT_K)).is_ok());
        assert!(i32::try_from(largest(EXACT_K + 1)).is_err());
    }

    #[test]
    fn results_in_i32_have_a_number_of_their_own() {
        for dtype in [OutputDType::F32, OutputDType::F16, OutputDType::Bf16] {
            assert_ne!(dtype.code(), I32_RESULTS);
        }
    }

    #[test]
    fn factors_keep_their_bits() {
        for factor in [0, 1, -1, i32::MIN, i32::MAX, 0x7f80_0001] {
            assert_eq!(integer_factor(factor).to_bits() as i32, factor);
        }
    }
}
