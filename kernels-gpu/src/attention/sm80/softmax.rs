//! Online softmax of scores in registers, and their mask.
//!
//! A thread holds two rows of each 16, `lane / 4` and `lane / 4 + 8`; four lanes share a row. Each
//! lane keeps the row max and its own part of the row sum; the parts are added at the end.

use abi::attention::Mask;
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx_ftz, rcp_approx_ftz, tanh_approx};
use cuda_std::math::fma;
use cuda_std::warp::{FULL_MASK, shfl_bfly};

use super::element::Block;

/// A thread's scores or o: `M` × 16 rows, `N` × 8 columns.
pub(crate) type Accumulator<const M: usize, const N: usize> = [[Block; N]; M];

/// A number for each of a thread's rows.
pub(super) type Rows<const M: usize> = [[f32; 2]; M];

/// State of a thread's rows.
pub(super) struct OnlineSoftmax<const M: usize> {
    /// Row max so far, times softmax_scale and log2 e.
    row_max: Rows<M>,
    /// This lane's part of `Σ exp2(s - row_max)`.
    row_sum: Rows<M>,
}

/// Results of the softmax of a thread's rows.
pub(super) struct Normalizer<const M: usize> {
    /// Factor of the accumulated values: 1 / sum to 1 ulp, or 0 for a row that sees no key.
    pub(super) inverse_sum: Rows<M>,
    /// Natural logarithm of `Σ exp(score)`, that of the sum to 2^-22; -inf for a row that sees no key.
    pub(super) lse: Rows<M>,
}

impl<const M: usize> OnlineSoftmax<M> {
    /// The state before any key. `sink` is the sink's logit times log2 e, or -inf if there is none;
    /// the row's first lane counts it.
    #[inline(always)]
    pub(super) fn new(sink: f32, lane: u32) -> Self {
        let is_counted = lane.is_multiple_of(4) && sink != f32::NEG_INFINITY;
        Self {
            row_max: [[sink; 2]; M],
            row_sum: [[if is_counted { 1.0 } else { 0.0 }; 2]; M],
        }
    }

    /// Replaces a block of scores by probabilities, and returns the factors by which accumulated
    /// values must be rescaled. `scale` is above 0.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn update<const N: usize>(
        &mut self,
        s: &mut Accumulator<M, N>,
        scale: f32,
    ) -> Rows<M> {
        let mut rescale = [[0.0; 2]; M];
        for i in 0..M {
            for half in 0..2 {
                let mut largest = s[i][0][2 * half].max(s[i][0][2 * half + 1]);
                for j in 1..N {
                    largest = largest.max(s[i][j][2 * half].max(s[i][j][2 * half + 1]));
                }
                // SAFETY: the caller's promise.
                let largest = unsafe { across_row(largest, f32::max) };
                let row_max = self.row_max[i][half].max(largest * scale);
                // If all keys so far are masked, -inf - -inf would be NaN.
                let base = if row_max == f32::NEG_INFINITY {
                    0.0
                } else {
                    row_max
                };
                let factor = ex2_approx_ftz(self.row_max[i][half] - base);
                let mut sum = self.row_sum[i][half] * factor;
                for j in 0..N {
                    for column in 0..2 {
                        let p = ex2_approx_ftz(fma(s[i][j][2 * half + column], scale, -base));
                        s[i][j][2 * half + column] = p;
                        sum += p;
                    }
                }
                self.row_sum[i][half] = sum;
                self.row_max[i][half] = row_max;
                rescale[i][half] = factor;
            }
        }
        rescale
    }

    /// Row max, times softmax_scale and log2 e, and row sum so far, of which each lane of a row has
    /// the same.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn moments(&self) -> (Rows<M>, Rows<M>) {
        let mut sum = self.row_sum;
        for i in 0..M {
            for half in 0..2 {
                // SAFETY: the caller's promise.
                sum[i][half] = unsafe { across_row(sum[i][half], |a, b| a + b) };
            }
        }
        (self.row_max, sum)
    }

    /// The results, after the last key.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn finalize(&self) -> Normalizer<M> {
        const LN_2: f32 = core::f32::consts::LN_2;
        let mut inverse_sum = [[0.0; 2]; M];
        let mut lse = [[f32::NEG_INFINITY; 2]; M];
        for i in 0..M {
            for half in 0..2 {
                // SAFETY: the caller's promise.
                let sum = unsafe { across_row(self.row_sum[i][half], |a, b| a + b) };
                // Not subnormal: the power of the row's largest score is in it.
                if sum != 0.0 {
                    inverse_sum[i][half] = rcp_approx_ftz(sum);
                    lse[i][half] = (self.row_max[i][half] + lg2_approx_ftz(sum)) * LN_2;
                }
            }
        }
        Normalizer { inverse_sum, lse }
    }
}

/// Each score s becomes `tanh(s * softcap_scale)`.
#[inline(always)]
pub(super) fn softcap<const M: usize, const N: usize>(
    s: &mut Accumulator<M, N>,
    softcap_scale: f32,
) {
    for i in 0..M {
        for j in 0..N {
            for element in 0..4 {
                s[i][j][element] = tanh_approx(s[i][j][element] * softcap_scale);
            }
        }
    }
}

/// Sets masked scores to -inf. `first_row` is the thread's first query, `first_key` its first key
/// of the block.
#[inline(always)]
pub(crate) fn apply_mask<const M: usize, const N: usize>(
    s: &mut Accumulator<M, N>,
    mask: &Mask,
    first_row: u32,
    first_key: u32,
) {
    // More than any distance within a block.
    const FAR: i32 = 1 << 16;
    let near = |distance: i32| {
        let distance = if distance < -FAR { -FAR } else { distance };
        if distance > FAR { FAR } else { distance }
    };
    let diagonal = first_key.wrapping_sub(first_row) as i32;
    let (low, high) = (
        near(mask.first.saturating_sub(diagonal)),
        near(mask.end.saturating_sub(diagonal)),
    );
    let keys = mask.seqlen_k.wrapping_sub(first_key) as i32;
    for i in 0..M {
        for half in 0..2 {
            let rows_down = (16 * i + 8 * half) as i32;
            let first = low + rows_down;
            let end = if high + rows_down < keys {
                high + rows_down
            } else {
                keys
            };
            for j in 0..N {
                for column in 0..2 {
                    let key = (8 * j + column) as i32;
                    if key < first || key >= end {
                        s[i][j][2 * half + column] = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}

/// A butterfly reduction over the four lanes that share a row.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
unsafe fn across_row(value: f32, op: impl Fn(f32, f32) -> f32) -> f32 {
    // SAFETY: the caller's promise: all lanes take part.
    unsafe {
        let value = op(value, shfl_bfly(FULL_MASK, value, 2));
        op(value, shfl_bfly(FULL_MASK, value, 1))
    }
}
