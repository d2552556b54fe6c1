//! Online softmax over tiles of scores in base 2.
//!
//! A row's scores are spread over [`ROW_LANES`] lanes of a warp. Each lane keeps the row max and
//! its own part of the row sum; the parts are added at the end.

use cuda_std::math::{exp2, log2, rcp};
use cuda_std::warp::{FULL_MASK, shfl_bfly};

/// Lanes that share a row.
pub(crate) const ROW_LANES: u32 = 16;

/// State of a thread's rows.
pub(super) struct OnlineSoftmax<const ROWS: usize> {
    /// Row max so far, times log2 e.
    row_max: [f32; ROWS],
    /// This lane's part of `Σ exp2(s - row_max)`.
    row_sum: [f32; ROWS],
}

/// Results of the softmax of a thread's rows.
pub(super) struct Normalizer<const ROWS: usize> {
    /// Factor of the accumulated values: 1 / sum, or 0 for a row that sees no key.
    pub(super) inverse_sum: [f32; ROWS],
    /// Natural logarithm of `Σ exp(score)`; -inf for a row that sees no key.
    pub(super) lse: [f32; ROWS],
}

impl<const ROWS: usize> OnlineSoftmax<ROWS> {
    /// The state before any key. `sink` is the sink's logit times log2 e, or -inf if there is none;
    /// the row's first lane (`lane_in_row` 0) counts it.
    #[inline(always)]
    pub(super) fn new(sink: f32, lane_in_row: u32) -> Self {
        let is_counted = lane_in_row == 0 && sink != f32::NEG_INFINITY;
        Self {
            row_max: [sink; ROWS],
            row_sum: [if is_counted { 1.0 } else { 0.0 }; ROWS],
        }
    }

    /// Replaces a tile of scores by probabilities, and returns the factors by which accumulated
    /// values must be rescaled.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn update<const COLUMNS: usize>(
        &mut self,
        s: &mut [[f32; COLUMNS]; ROWS],
    ) -> [f32; ROWS] {
        let mut rescale = [0.0; ROWS];
        for row in 0..ROWS {
            let mut tile_max = s[row][0];
            for column in 1..COLUMNS {
                tile_max = tile_max.max(s[row][column]);
            }
            // SAFETY: the caller's promise.
            let tile_max = unsafe { across_row(tile_max, f32::max) };
            let row_max = self.row_max[row].max(tile_max);
            // If all keys so far are masked, -inf - -inf would be NaN.
            let base = if row_max == f32::NEG_INFINITY {
                0.0
            } else {
                row_max
            };
            rescale[row] = exp2(self.row_max[row] - base);
            let mut tile_sum = 0.0;
            for column in 0..COLUMNS {
                let p = exp2(s[row][column] - base);
                s[row][column] = p;
                tile_sum += p;
            }
            self.row_sum[row] = self.row_sum[row] * rescale[row] + tile_sum;
            self.row_max[row] = row_max;
        }
        rescale
    }

    /// The results, after the last key.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(super) unsafe fn finalize(&self) -> Normalizer<ROWS> {
        const LN_2: f32 = core::f32::consts::LN_2;
        let mut inverse_sum = [0.0; ROWS];
        let mut lse = [f32::NEG_INFINITY; ROWS];
        for row in 0..ROWS {
            // SAFETY: the caller's promise.
            let sum = unsafe { across_row(self.row_sum[row], |a, b| a + b) };
            if sum != 0.0 {
                inverse_sum[row] = rcp(sum);
                lse[row] = (self.row_max[row] + log2(sum)) * LN_2;
            }
        }
        Normalizer { inverse_sum, lse }
    }
}

/// `tanh(s * softcap_scale) * scale` for a score s.
///
/// The tanh is `1 - 2 / (exp(2 |x|) + 1)`: branch-free, with an absolute error of at most
/// [`SOFTCAP_TANH_ERROR`](abi::attention::SOFTCAP_TANH_ERROR).
#[inline(always)]
pub(crate) fn softcap(s: f32, softcap_scale: f32, scale: f32) -> f32 {
    const TWO_LOG2_E: f32 = 2.0 * core::f32::consts::LOG2_E;
    let x = s * softcap_scale;
    let tanh = 1.0 - 2.0 / (exp2(x.abs() * TWO_LOG2_E) + 1.0);
    tanh.copysign(x) * scale
}

/// A butterfly reduction over the lanes that share a row.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
unsafe fn across_row(mut value: f32, op: impl Fn(f32, f32) -> f32) -> f32 {
    let mut distance = ROW_LANES / 2;
    while distance > 0 {
        // SAFETY: the caller's promise: all lanes take part.
        let other = unsafe { shfl_bfly(FULL_MASK, value, distance) };
        value = op(value, other);
        distance /= 2;
    }
    value
}
