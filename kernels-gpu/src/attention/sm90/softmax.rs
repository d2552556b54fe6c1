//! Online softmax of a thread's two rows, in base 2: scores become probabilities relative to a row
//! max.
//!
//! The row max in use may be stale. It is replaced only if the true maximum exceeds it by more than
//! [`SLACK_LOG2`]. In a block of keys that all rows see wholly, it is replaced if a thread's
//! probabilities add up to more than [`SUM_LIMIT`]. So o is rarely rescaled, and in whole blocks no
//! maximum is computed at all. The factor between the row max in use and the true one cancels out
//! at the end; f16 and f32 have room for it.
//!
//! The rows of a warp are raised together, so the bits of a row depend on the others. With
//! [`ROWS_ALONE`], only those that are far above are raised, and no block is computed as a whole one.

use core::hint::cold_path;

use abi::attention::sm90::launch_flags::ROWS_ALONE;
use cuda_std::accumulator::{Fragments, PairRegisters};
use cuda_std::math::approx::ex2_approx_ftz;
use cuda_std::tile::OperandElement;
use cuda_std::warp::{FULL_MASK, shfl_bfly, vote_any};

/// How far the true row max may be above the one in use, in powers of two.
const SLACK_LOG2: f32 = 8.0;

/// What every maximum is above the one in use by, which it is at least.
const ANY: f32 = -1.0;

/// Most that a thread's probabilities of a block may add up to: one that large still fits f16.
const SUM_LIMIT: f32 = 16384.0;

/// Rows of an accumulator that a thread has elements of; element i is in row `i / 2 % 2`.
pub(super) const ROWS: usize = 2;
/// Independent chains of operations for each row, so that their latencies overlap.
const CHAINS: usize = 2;

/// The running softmax state of a thread's rows.
#[derive(Clone, Copy)]
pub(super) struct Softmax {
    /// The row max in use, which probabilities are relative to; -inf before any key.
    pub(super) max: [f32; ROWS],
    /// This thread's part of the row sum of probabilities.
    pub(super) sum: [f32; ROWS],
}

/// Factors that o must be multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Rescale {
    /// The same in all lanes of the warp; false if all factors are 1.
    pub(super) is_needed: bool,
    factors: [f32; ROWS],
}

impl Rescale {
    /// All factors are 1.
    pub(super) const NONE: Self = Self {
        is_needed: false,
        factors: [1.0; ROWS],
    };

    /// Multiplies the accumulators of a thread's two rows.
    #[inline(always)]
    pub(super) fn apply(&self, o: &mut [f32]) {
        let mut i = 0;
        while i < o.len() {
            o[i] *= self.factors[i / 2 % ROWS];
            i += 1;
        }
    }
}

/// Sums of a thread's probabilities of one block of keys, by row and chain.
pub(super) struct Sums([[f32; CHAINS]; ROWS]);

impl Sums {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self([[0.0; CHAINS]; ROWS])
    }

    /// Whether in some lane of the warp the sum is above [`SUM_LIMIT`] or NaN.
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

    /// Turns the scores of a block of keys into probabilities. `scale_log2` is more than 0; masked
    /// scores are -inf.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn update(&mut self, s: &mut [f32], scale_log2: f32, flags: u32) -> Rescale {
        let greatest = greatest(s, self.max);
        let mut is_above = false;
        let mut row = 0;
        while row < ROWS {
            // False for NaN (-inf - -inf): no key has been seen yet.
            is_above |= (greatest[row] - self.max[row]) * scale_log2 > SLACK_LOG2;
            row += 1;
        }
        let mut rescale = Rescale::NONE;
        // SAFETY: passed on to the caller.
        unsafe {
            if vote_any(FULL_MASK, is_above) {
                // Only here do lanes exchange maxima: if no lane's is far above, none needs the
                // others'.
                cold_path();
                let least = if flags & ROWS_ALONE == 0 {
                    ANY
                } else {
                    SLACK_LOG2
                };
                rescale = self.raise_to(greatest, scale_log2, least);
            }
        }
        let mut sums = Sums::new();
        self.powers(s, scale_log2, &mut sums);
        self.add(&sums);
        rescale
    }

    /// Makes the true row max the one in use.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn raise(&mut self, s: &[f32], scale_log2: f32) -> Rescale {
        let greatest = greatest(s, self.max);
        // SAFETY: passed on to the caller.
        unsafe { self.raise_to(greatest, scale_log2, ANY) }
    }

    /// The same, from each lane's maxima, in the rows whose maximum is above the one in use by more than
    /// `least`, in powers of two.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    unsafe fn raise_to(&mut self, greatest: [f32; ROWS], scale_log2: f32, least: f32) -> Rescale {
        let mut factors = [1.0; ROWS];
        let mut row = 0;
        while row < ROWS {
            let x = greatest[row];
            // SAFETY: passed on to the caller. The four lanes of a quad hold a row.
            let max = unsafe {
                let x = x.max(shfl_bfly(FULL_MASK, x, 1));
                x.max(shfl_bfly(FULL_MASK, x, 2))
            };
            // False for NaN, as above.
            if (max - self.max[row]) * scale_log2 > least {
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

    /// Replaces scores by probabilities and adds these to `sums`.
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

    /// Turns the scores of a block that all rows see wholly into `p`, and rescales `o` if needed.
    ///
    /// Probabilities are computed relative to the row max in use, whatever the scores are. If their
    /// sum says that this max is too low, they are computed again from the scores, which are still
    /// in registers. So the row max of the block is not computed unless it is needed.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn update_whole<E: OperandElement, R: PairRegisters>(
        &mut self,
        s: &[f32],
        scale_log2: f32,
        p: &mut Fragments<E, R>,
        o: &mut [f32],
        pair: impl Fn(f32, f32) -> u32 + Copy,
    ) {
        let mut sums = Sums::new();
        // If no key has been seen, +inf makes every probability, and so the sum, too high.
        let offsets = self.offsets(scale_log2, f32::INFINITY);
        *p = pairs_of_powers(s, (scale_log2, offsets), &mut sums, pair);
        p.tie(); // so that the packed pairs, not the f32 values, live across the branch
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

    /// Offsets to add to scaled scores; `unseen` if no key has been seen, as -inf - -inf would be
    /// NaN.
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

    /// Adds a block's sums to the row sums.
    #[inline(always)]
    pub(super) fn add(&mut self, sums: &Sums) {
        let mut row = 0;
        while row < ROWS {
            let [a, b] = sums.0[row];
            self.sum[row] += a + b;
            row += 1;
        }
    }

    /// The row sums over all lanes.
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

/// Probabilities, packed by `pair` two to a register, of scores scaled and offset by row.
#[inline(always)]
fn pairs_of_powers<E: OperandElement, R: PairRegisters>(
    s: &[f32],
    (scale_log2, offsets): (f32, [f32; ROWS]),
    sums: &mut Sums,
    pair: impl Fn(f32, f32) -> u32,
) -> Fragments<E, R> {
    let mut pairs = R::zero();
    let mut i = 0;
    while i < s.len() {
        let row = i / 2 % ROWS;
        let power = |s: f32| ex2_approx_ftz(s * scale_log2 + offsets[row]);
        let (low, high) = (power(s[i]), power(s[i + 1]));
        let sum = &mut sums.0[row][i / 4 % CHAINS];
        // The first value is assigned: adding it to 0 would take an instruction.
        *sum = if i < 4 * CHAINS {
            low + high
        } else {
            *sum + (low + high)
        };
        pairs.as_mut()[i / 2] = pair(low, high);
        i += 2;
    }
    Fragments::of_pairs(pairs)
}

/// The maximum, by row, of a thread's scores and `max`.
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
