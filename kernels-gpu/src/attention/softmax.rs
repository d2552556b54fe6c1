//! The state of an online softmax: row maxima and row sums over blocks of scores, in base 2.
//!
//! A row is spread over lanes of a warp that follow each other. Each lane keeps the row max and its
//! own share of the row sum; the shares are added at the end.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays are not always inlined, and cost local memory then"
)]

use core::marker::PhantomData;

use cuda_std::warp::{FULL_MASK, shfl_bfly};

/// How a kernel computes powers, and how many lanes share a row.
pub(crate) trait Exponential {
    /// Lanes that share a row, a power of two.
    const ROW_LANES: u32;

    /// `2^x`; 0 for -inf.
    fn exp2(x: f32) -> f32;

    /// The logarithm in base 2 of a sum, which is 1 or more.
    fn log2(x: f32) -> f32;

    /// `1 / x` of a sum.
    fn rcp(x: f32) -> f32;
}

/// A number for each of a thread's rows: `M` groups of `H` rows.
pub(crate) type Rows<const M: usize, const H: usize> = [[f32; H]; M];

/// State of a thread's rows.
pub(crate) struct OnlineSoftmax<X, const M: usize, const H: usize> {
    /// Row max so far, times softmax_scale and log2 e.
    row_max: Rows<M, H>,
    /// This lane's share of `Σ exp2(s - row_max)`.
    pub(crate) row_sum: Rows<M, H>,
    exponential: PhantomData<X>,
}

/// Results of the softmax of a thread's rows.
pub(crate) struct Normalizer<const M: usize, const H: usize> {
    /// Factor of the accumulated values: 1 / sum, or 0 for a row that sees no key.
    pub(crate) inverse_sum: Rows<M, H>,
    /// Natural logarithm of `Σ exp(score)`; -inf for a row that sees no key.
    pub(crate) lse: Rows<M, H>,
}

impl<X: Exponential, const M: usize, const H: usize> OnlineSoftmax<X, M, H> {
    /// The state before any key. `sink` is the sink's logit times log2 e, or -inf if there is none;
    /// the first of the lanes that share a row counts it.
    #[inline(always)]
    pub(crate) fn new(sink: f32, lane: u32) -> Self {
        let is_counted = lane.is_multiple_of(X::ROW_LANES) && sink != f32::NEG_INFINITY;
        Self {
            row_max: [[sink; H]; M],
            row_sum: [[if is_counted { 1.0 } else { 0.0 }; H]; M],
            exponential: PhantomData,
        }
    }

    /// Raises a row's max to the largest score that this lane has of a block, times `scale`. Returns
    /// what to subtract from scores, and the factor for what was accumulated before.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(crate) unsafe fn raise(
        &mut self,
        (i, half): (usize, usize),
        largest: f32,
        scale: f32,
    ) -> (f32, f32) {
        // SAFETY: the caller's promise.
        let largest = unsafe { across_row::<X>(largest, f32::max) };
        let row_max = self.row_max[i][half].max(largest * scale);
        // If all keys so far are masked, -inf - -inf would be NaN.
        let base = if row_max == f32::NEG_INFINITY {
            0.0
        } else {
            row_max
        };
        let factor = X::exp2(self.row_max[i][half] - base);
        self.row_max[i][half] = row_max;
        (base, factor)
    }

    /// Row max, times softmax_scale and log2 e, and row sum so far, of which each lane of a row has
    /// the same.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(crate) unsafe fn moments(&self) -> (Rows<M, H>, Rows<M, H>) {
        let mut sum = self.row_sum;
        for i in 0..M {
            for half in 0..H {
                // SAFETY: the caller's promise.
                sum[i][half] = unsafe { across_row::<X>(sum[i][half], |a, b| a + b) };
            }
        }
        (self.row_max, sum)
    }

    /// The results, after the last key.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    #[inline(always)]
    pub(crate) unsafe fn finalize(&self) -> Normalizer<M, H> {
        const LN_2: f32 = core::f32::consts::LN_2;
        let mut inverse_sum = [[0.0; H]; M];
        let mut lse = [[f32::NEG_INFINITY; H]; M];
        // SAFETY: the caller's promise.
        let (row_max, row_sum) = unsafe { self.moments() };
        for i in 0..M {
            for half in 0..H {
                let sum = row_sum[i][half];
                // Not subnormal: the power of the row's largest score is in it.
                if sum != 0.0 {
                    inverse_sum[i][half] = X::rcp(sum);
                    lse[i][half] = (row_max[i][half] + X::log2(sum)) * LN_2;
                }
            }
        }
        Normalizer { inverse_sum, lse }
    }
}

/// A butterfly reduction over the lanes that share a row.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
unsafe fn across_row<X: Exponential>(mut value: f32, op: impl Fn(f32, f32) -> f32) -> f32 {
    let mut distance = X::ROW_LANES / 2;
    while distance > 0 {
        // SAFETY: the caller's promise: all lanes take part.
        let other = unsafe { shfl_bfly(FULL_MASK, value, distance) };
        value = op(value, other);
        distance /= 2;
    }
    value
}

/// The sink's logit of a head times log2 e; -inf if there are no sinks.
///
/// # Safety
/// `sinks` is null or has one for each head.
#[inline(always)]
pub(crate) unsafe fn sink_log2(sinks: *const f32, head_idx: u32) -> f32 {
    if sinks.is_null() {
        return f32::NEG_INFINITY;
    }
    // SAFETY: the caller's promise.
    let logit = unsafe { sinks.wrapping_add(head_idx as usize).read() };
    logit * core::f32::consts::LOG2_E
}
