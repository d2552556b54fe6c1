//! Online softmax of scores in registers, and their mask.
//!
//! A thread holds two rows of each 16, `lane / 4` and `lane / 4 + 8`; four lanes share a row.

use abi::attention::Mask;
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx_ftz, rcp_approx_ftz, tanh_approx};
use cuda_std::math::fma;

use super::element::Block;
use crate::attention::softmax::{self, Exponential};

/// A thread's scores or o: `M` × 16 rows, `N` × 8 columns.
pub(crate) type Accumulator<const M: usize, const N: usize> = [[Block; N]; M];

/// A number for each of a thread's rows.
pub(crate) type Rows<const M: usize> = softmax::Rows<M, 2>;

/// Powers by one instruction each, of rows over four lanes.
pub(crate) struct Approximate;

impl Exponential for Approximate {
    const ROW_LANES: u32 = 4;

    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        ex2_approx_ftz(x)
    }

    /// To 2^-22.
    #[inline(always)]
    fn log2(x: f32) -> f32 {
        lg2_approx_ftz(x)
    }

    /// To 1 ulp.
    #[inline(always)]
    fn rcp(x: f32) -> f32 {
        rcp_approx_ftz(x)
    }
}

/// State of a thread's rows.
pub(crate) type OnlineSoftmax<const M: usize> = softmax::OnlineSoftmax<Approximate, M, 2>;

impl<const M: usize> OnlineSoftmax<M> {
    /// Replaces a block of scores by probabilities, and returns the factors by which accumulated
    /// values must be rescaled. `scale` is above 0.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(crate) unsafe fn update<const N: usize>(
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
                let (base, factor) = unsafe { self.raise((i, half), largest, scale) };
                let mut sum = self.row_sum[i][half] * factor;
                for j in 0..N {
                    for column in 0..2 {
                        let p = ex2_approx_ftz(fma(s[i][j][2 * half + column], scale, -base));
                        s[i][j][2 * half + column] = p;
                        sum += p;
                    }
                }
                self.row_sum[i][half] = sum;
                rescale[i][half] = factor;
            }
        }
        rescale
    }
}

/// Each score s becomes `tanh(s * softcap_scale)`.
#[inline(always)]
pub(crate) fn softcap<const M: usize, const N: usize>(
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
