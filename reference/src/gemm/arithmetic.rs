//! Error models of the dot products of a GEMM.

use crate::precision::{ETA32, gamma};

/// How an implementation multiplies and adds, as far as its error depends on it.
///
/// Each variant bounds every kernel of its kind, for all tiles and numbers of parts of k. The
/// bounds are in terms of `S = sum_l |a_il| |b_lj|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// f32, in any order, fused or not: `gamma(k) S + k eta`, see [`super`].
    #[default]
    F32,
    /// Tensor cores with 16-bit operands. An instruction adds `K` exact products and the
    /// accumulator in one step. It truncates each of them 25 bits below the largest exponent, which
    /// loses less than `2^-25 S` each. It truncates the result to f32, which loses less than `2^-23
    /// S` (docs/numerics.md, observed on an H200). `k / K` steps lose at most `k (2^-25 (1 + 1/K) +
    /// 2^-23 / K) S`, which is less than `gamma(k) S` for `K >= 8`. The bound is `gamma(2 k) S`,
    /// because other devices add in shorter steps.
    TensorCore,
    /// Tensor cores with f32 operands, whose low 13 bits are ignored or rounded away. Each product
    /// has a relative error below `2 * 2^-10 + 2^-20`, and an error of `2^-136` of one factor if
    /// the other is subnormal.
    Tf32,
    /// Tensor cores with 8-bit operands, which keep 13 bits below the largest exponent: an
    /// instruction of 32 products loses less than `33 * 2^-13 S`, and its result `2^-13 S`. Sums of
    /// 128 products (4 instructions) are promoted to f32.
    Fp8Promoted,
    /// The same without promotion: `k / 32` instructions in a row, whose accumulator holds half of
    /// `S` on average.
    Fp8Fast,
    /// Integers of 8 bits, added up in i32: exact, and wrapped, then rounded once to f32.
    Integer,
}

/// Largest loss of one fp8 instruction, relative to the largest term: for 32 products, the
/// accumulator and the result.
const FP8_STEP: f64 = 34.0 / 8192.0;

/// Instructions between promotions.
const FP8_PROMOTED_STEPS: f64 = 4.0;

/// k of one fp8 instruction.
const FP8_K: usize = 32;

impl Arithmetic {
    /// The largest error of a sum of `k` products after `more` further roundings. `sum` is the sum
    /// of the products' magnitudes, and `largest` the largest magnitude of a factor.
    pub(crate) fn error(self, k: usize, sum: f64, largest: f64, more: usize) -> f64 {
        if k == 0 {
            return 0.0;
        }
        let eta = k as f64 * ETA32;
        // Tensor cores align by the exponents of the factors. A subnormal counts as the smallest
        // normal exponent of its format, of which f16's 2^-14 is the largest for 16 bits, and
        // e4m3's 2^-6 for 8 bits. A product with a subnormal factor may lose this much, for any
        // sum.
        let subnormal = |kept_bits: i32, exponent: i32| {
            2.0 * k as f64 * 2f64.powi(exponent + 1 - kept_bits) * largest
        };
        let tensor_core = gamma(2 * k + more) * sum + subnormal(25, -14) + eta;
        let fp8 = gamma(k + more) * sum + subnormal(13, -6) + eta;
        match self {
            Self::F32 => gamma(k + more) * sum + eta,
            Self::TensorCore => tensor_core,
            Self::Tf32 => {
                const CUT: f64 = 2.0 / 1024.0 + 1.0 / 1_048_576.0;
                let subnormal = 2f64.powi(-136) * largest * k as f64;
                tensor_core + CUT * sum + 2.0 * subnormal
            }
            Self::Fp8Promoted => fp8 + FP8_PROMOTED_STEPS * FP8_STEP * sum,
            Self::Fp8Fast => {
                let steps = k.div_ceil(FP8_K) as f64;
                fp8 + (steps + 1.0) / 2.0 * FP8_STEP * sum
            }
            Self::Integer => gamma(1) * sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looser_arithmetic_has_larger_bounds() {
        let error = |arithmetic: Arithmetic| arithmetic.error(4096, 1.0, 1.0, 3);
        let order = [
            Arithmetic::Integer,
            Arithmetic::F32,
            Arithmetic::TensorCore,
            Arithmetic::Tf32,
            Arithmetic::Fp8Promoted,
            Arithmetic::Fp8Fast,
        ];
        assert!(order.windows(2).all(|pair| error(pair[0]) < error(pair[1])));
        assert_eq!(Arithmetic::Fp8Fast.error(0, 0.0, 0.0, 3), 0.0);
    }

    /// Sums that cut off as the tables of docs/numerics.md say, one instruction after another.
    fn cut_off_sum(terms: &[f64], per_step: usize, kept: i32, result_bits: i32) -> f64 {
        let cut = |x: f64, unit: f64| (x / unit).trunc() * unit;
        terms.chunks(per_step).fold(0.0, |acc: f64, step| {
            let largest = step.iter().fold(acc.abs(), |max, x| max.max(x.abs()));
            if largest == 0.0 {
                return acc;
            }
            let unit = 2f64.powi(largest.log2().floor() as i32 - kept);
            let sum: f64 = step.iter().map(|&x| cut(x, unit)).sum::<f64>() + cut(acc, unit);
            if sum == 0.0 {
                return 0.0;
            }
            cut(
                sum,
                2f64.powi(sum.abs().log2().floor() as i32 - result_bits),
            )
        })
    }

    #[test]
    fn sums_that_cut_off_are_within_their_bounds() {
        for k in [1, 32, 100, 1024, 4096] {
            let terms: Vec<f64> = (0..k)
                .map(|l| {
                    let x = ((l * 7919 + 13) % 1009) as f64 / 1009.0;
                    if l % 3 == 0 { -x } else { x }
                })
                .collect();
            let exact: f64 = terms.iter().sum();
            let sum: f64 = terms.iter().map(|x| x.abs()).sum();
            let holds = |got: f64, arithmetic: Arithmetic| {
                let error = (got - exact).abs();
                let bound = arithmetic.error(k, sum, 1.0, 0);
                assert!(
                    error <= bound,
                    "{arithmetic:?} at {k}: {error:e} of {bound:e}"
                );
            };
            holds(cut_off_sum(&terms, 16, 25, 23), Arithmetic::TensorCore);
            holds(cut_off_sum(&terms, 8, 25, 23), Arithmetic::TensorCore);
            holds(cut_off_sum(&terms, 32, 13, 13), Arithmetic::Fp8Fast);
            let promoted = terms.chunks(128).map(|part| cut_off_sum(part, 32, 13, 13));
            holds(promoted.sum(), Arithmetic::Fp8Promoted);
        }
    }
}
