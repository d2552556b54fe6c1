//! Online softmax of a thread's two rows, in base 2: scores become probabilities relative to the
//! greatest score so far.
//!
//! Relative to a greatest score that is a little stale, more exactly: it is only replaced where the
//! true one exceeds it by [`SLACK_LOG2`], so that o is rarely rescaled. What probabilities are
//! relative to cancels out at the end; a factor of 2^8 leaves f16 and f32 room enough.

use core::hint::cold_path;

use cuda_std::math::approx::ex2_approx_ftz;
use cuda_std::warp::{FULL_MASK, shfl_bfly, vote_any};

/// How far the greatest score of a row may be above the one in use, in powers of two.
const SLACK_LOG2: f32 = 8.0;

/// Rows of an accumulator that a thread has a part of; element i is of row `i / 2 % 2`.
pub(super) const ROWS: usize = 2;
/// Chains of dependent operations a row, so that none waits for the one before.
const CHAINS: usize = 2;
/// Exponentials at a time.
const GROUP: usize = 8;

/// What is known of a thread's rows.
#[derive(Clone, Copy)]
pub(super) struct Softmax {
    /// Score that probabilities are relative to; -inf before any.
    pub(super) max: [f32; ROWS],
    /// This thread's part of the sum of probabilities.
    pub(super) sum: [f32; ROWS],
}

/// What o is to be multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Rescale {
    /// The same in all lanes of the warp; false where all factors are 1.
    pub(super) is_needed: bool,
    factors: [f32; ROWS],
}

impl Rescale {
    /// By 1.
    pub(super) const NONE: Self = Self {
        is_needed: false,
        factors: [1.0; ROWS],
    };

    /// Multiplies a row pair's accumulators.
    #[inline(always)]
    pub(super) fn apply(&self, o: &mut [f32]) {
        let mut i = 0;
        while i < o.len() {
            o[i] *= self.factors[i / 2 % ROWS];
            i += 1;
        }
    }
}

impl Softmax {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self {
            max: [f32::NEG_INFINITY; ROWS],
            sum: [0.0; ROWS],
        }
    }

    /// Turns the scores of a block of keys into probabilities. `scale_log2` is more than 0; what the
    /// row is not to see is -inf.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn update(&mut self, s: &mut [f32], scale_log2: f32) -> Rescale {
        let greatest = greatest(s, self.max);
        let mut is_above = false;
        let mut row = 0;
        while row < ROWS {
            // False for NaN: where nothing has been seen yet.
            is_above |= (greatest[row] - self.max[row]) * scale_log2 > SLACK_LOG2;
            row += 1;
        }
        // SAFETY: passed on to the caller.
        let is_needed = unsafe { vote_any(FULL_MASK, is_above) };
        let mut factors = [1.0; ROWS];
        if is_needed {
            // Lanes ask each other here alone: where none is far above, none has to know.
            cold_path();
            let mut row = 0;
            while row < ROWS {
                let x = greatest[row];
                // SAFETY: passed on to the caller. A row is in the four lanes of a quad.
                let max = unsafe {
                    let x = x.max(shfl_bfly(FULL_MASK, x, 1));
                    x.max(shfl_bfly(FULL_MASK, x, 2))
                };
                if max > self.max[row] {
                    factors[row] = ex2_approx_ftz((self.max[row] - max) * scale_log2);
                    self.max[row] = max;
                    self.sum[row] *= factors[row];
                }
                row += 1;
            }
        }
        self.exponentiate(s, scale_log2);
        Rescale { is_needed, factors }
    }

    #[inline(always)]
    fn exponentiate(&mut self, s: &mut [f32], scale_log2: f32) {
        let mut offset = [0.0; ROWS];
        let mut row = 0;
        while row < ROWS {
            // -inf - -inf would be NaN where no key has been seen.
            offset[row] = if self.max[row] == f32::NEG_INFINITY {
                0.0
            } else {
                -self.max[row] * scale_log2
            };
            row += 1;
        }
        let mut sums = [[0.0; 2]; ROWS];
        let mut i = 0;
        while i < s.len() {
            // A group at a time, so that sums do not wait for exponentials one by one.
            let mut j = i;
            while j < i + GROUP {
                s[j] = ex2_approx_ftz(s[j] * scale_log2 + offset[j / 2 % ROWS]);
                j += 1;
            }
            let mut row = 0;
            while row < ROWS {
                let at = i + 2 * row;
                sums[row][0] += s[at] + s[at + 1];
                sums[row][1] += s[at + 4] + s[at + 5];
                row += 1;
            }
            i += GROUP;
        }
        let mut row = 0;
        while row < ROWS {
            self.sum[row] += sums[row][0] + sums[row][1];
            row += 1;
        }
    }

    /// The whole sum of each row.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn sums(&self) -> [f32; ROWS] {
        let mut sums = self.sum;
        let mut row = 0;
        while row < ROWS {
            // SAFETY: passed on to the caller.
            unsafe {
                sums[row] += shfl_bfly(FULL_MASK, sums[row], 1);
                sums[row] += shfl_bfly(FULL_MASK, sums[row], 2);
            }
            row += 1;
        }
        sums
    }
}

/// The greatest of a thread's scores by row, and of `max`.
#[inline(always)]
fn greatest(s: &[f32], max: [f32; ROWS]) -> [f32; ROWS] {
    let mut chains = [[f32::NEG_INFINITY; CHAINS]; ROWS];
    let mut i = 0;
    while i < s.len() {
        let chain = &mut chains[i / 2 % ROWS][i % CHAINS];
        *chain = if i < CHAINS * ROWS {
            s[i]
        } else {
            chain.max(s[i])
        };
        i += 1;
    }
    let mut greatest = max;
    let mut row = 0;
    while row < ROWS {
        let [a, b] = chains[row];
        greatest[row] = greatest[row].max(a.max(b));
        row += 1;
    }
    greatest
}
