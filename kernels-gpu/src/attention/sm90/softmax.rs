//! Online softmax of a thread's two rows, in base 2: scores become probabilities relative to the
//! greatest score so far.
//!
//! Relative to a greatest score that is a little stale, more exactly: it is only replaced where the
//! true one exceeds it by [`SLACK_LOG2`], or, in a block that all rows see wholly, where probabilities
//! add up to more than [`SUM_LIMIT`]: so o is rarely rescaled, and there scores are not compared at all.
//! What probabilities are relative to cancels out at the end; such factors leave f16 and f32 room enough.

use core::hint::cold_path;

use cuda_std::accumulator::Fragments;
use cuda_std::math::approx::ex2_approx_ftz;
use cuda_std::tile::OperandElement;
use cuda_std::warp::{FULL_MASK, shfl_bfly, vote_any};
use cuda_std::wgmma::Registers;

/// How far the greatest score of a row may be above the one in use, in powers of two.
const SLACK_LOG2: f32 = 8.0;

/// Most that a thread's probabilities of a block may add up to: f16 has room for one as large.
const SUM_LIMIT: f32 = 16384.0;

/// Rows of an accumulator that a thread has a part of; element i is of row `i / 2 % 2`.
pub(super) const ROWS: usize = 2;
/// Chains of dependent operations a row, so that none waits for the one before.
const CHAINS: usize = 2;

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

/// A thread's probabilities of one block of keys, summed up by row.
pub(super) struct Sums([[f32; CHAINS]; ROWS]);

impl Sums {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self([[0.0; CHAINS]; ROWS])
    }

    /// True, in all lanes, where some sum is above [`SUM_LIMIT`], or NaN.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    unsafe fn are_high(&self) -> bool {
        let [[a, b], [c, d]] = self.0;
        let fits = (a + b) + (c + d) <= SUM_LIMIT;
        // SAFETY: passed on to the caller.
        unsafe { vote_any(FULL_MASK, !fits) }
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
        let mut rescale = Rescale::NONE;
        // SAFETY: passed on to the caller.
        unsafe {
            if vote_any(FULL_MASK, is_above) {
                // Lanes ask each other here alone: where none is far above, none has to know.
                cold_path();
                rescale = self.raise_to(greatest, scale_log2);
            }
        }
        let mut sums = Sums::new();
        self.powers(s, scale_log2, &mut sums);
        self.add(&sums);
        rescale
    }

    /// Makes the greatest scores what probabilities are relative to.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn raise(&mut self, s: &[f32], scale_log2: f32) -> Rescale {
        let greatest = greatest(s, self.max);
        // SAFETY: passed on to the caller.
        unsafe { self.raise_to(greatest, scale_log2) }
    }

    /// The same of each lane's greatest scores.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    unsafe fn raise_to(&mut self, greatest: [f32; ROWS], scale_log2: f32) -> Rescale {
        let mut factors = [1.0; ROWS];
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
        Rescale {
            is_needed: true,
            factors,
        }
    }

    /// Probabilities in place of scores: the first ones of a block, or those after them.
    #[inline(always)]
    pub(super) fn powers(&self, s: &mut [f32], scale_log2: f32, sums: &mut Sums) {
        let offset = self.offsets(scale_log2, 0.0);
        let mut i = 0;
        while i < s.len() {
            let row = i / 2 % ROWS;
            s[i] = ex2_approx_ftz(s[i] * scale_log2 + offset[row]);
            s[i + 1] = ex2_approx_ftz(s[i + 1] * scale_log2 + offset[row]);
            sums.0[row][i / 4 % CHAINS] += s[i] + s[i + 1];
            i += 2;
        }
    }

    /// Turns the scores of a block that all rows see wholly into `p`, and rescales `o` if need be.
    ///
    /// Probabilities are relative to the score in use, whatever the scores are; where their sums say that
    /// it is too low, they are computed again, as the scores are still there. So no score is looked at.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn update_whole<E: OperandElement, const REGISTERS: usize>(
        &mut self,
        s: &[f32],
        scale_log2: f32,
        p: &mut Fragments<E, REGISTERS>,
        o: &mut [f32],
        pair: impl Fn(f32, f32) -> u32 + Copy,
    ) where
        [u32; REGISTERS]: Registers,
    {
        let mut sums = Sums::new();
        // Where no key has been seen any score is too high.
        let offsets = self.offsets(scale_log2, f32::INFINITY);
        *p = pairs_of_powers(s, (scale_log2, offsets), &mut sums, pair);
        p.tie(); // the pairs, not what they are of, are kept over the branch
        // SAFETY: passed on to the caller.
        unsafe {
            if sums.are_high() {
                cold_path();
                self.raise(s, scale_log2).apply(o);
                sums = Sums::new();
                let offsets = self.offsets(scale_log2, 0.0);
                *p = pairs_of_powers(s, (scale_log2, offsets), &mut sums, pair);
            }
        }
        self.add(&sums);
    }

    /// What is to be added to scaled scores; `unseen` where no key has been seen: -inf - -inf would be NaN.
    #[inline(always)]
    fn offsets(&self, scale_log2: f32, unseen: f32) -> [f32; ROWS] {
        let mut offsets = [unseen; ROWS];
        let mut row = 0;
        while row < ROWS {
            if self.max[row] > f32::NEG_INFINITY {
                offsets[row] = -self.max[row] * scale_log2;
            }
            row += 1;
        }
        offsets
    }

    /// Adds a block's probabilities to those before.
    #[inline(always)]
    pub(super) fn add(&mut self, sums: &Sums) {
        let mut row = 0;
        while row < ROWS {
            let [a, b] = sums.0[row];
            self.sum[row] += a + b;
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

/// Probabilities, two a register by `pair`, of scores that are scaled and offset by row.
#[inline(always)]
fn pairs_of_powers<E: OperandElement, const REGISTERS: usize>(
    s: &[f32],
    (scale_log2, offsets): (f32, [f32; ROWS]),
    sums: &mut Sums,
    pair: impl Fn(f32, f32) -> u32,
) -> Fragments<E, REGISTERS>
where
    [u32; REGISTERS]: Registers,
{
    let mut pairs = [0; REGISTERS];
    let mut i = 0;
    while i < s.len() {
        let row = i / 2 % ROWS;
        let power = |s: f32| ex2_approx_ftz(s * scale_log2 + offsets[row]);
        let (low, high) = (power(s[i]), power(s[i + 1]));
        let sum = &mut sums.0[row][i / 4 % CHAINS];
        // The first is not added to 0, which would take an instruction.
        *sum = if i < 4 * CHAINS {
            low + high
        } else {
            *sum + (low + high)
        };
        pairs[i / 2] = pair(low, high);
        i += 2;
    }
    Fragments::of_pairs(pairs)
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
