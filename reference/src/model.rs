//! What a bound has to know of the implementation it judges.

use crate::precision::{U32, gamma};

/// How an implementation computes, as far as its errors depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Additions in the longest chain of a sum of many terms. `n - 1` holds for any order of `n`
    /// terms; a tree has fewer.
    pub additions: usize,
    /// How often at most a partial sum of exponentials is multiplied by
    /// `exp(old maximum - new maximum)` before it is complete.
    pub rescales: usize,
    /// Largest error of `exp`, in units in the last place of f32.
    pub exp_ulps: f64,
    /// Largest error of `ln`, in units in the last place of f32.
    pub log_ulps: f64,
    /// Unit roundoff of the dtype that probabilities are rounded to before they multiply `v`; 0
    /// where they stay in f32.
    pub p_roundoff: f64,
}

impl Model {
    /// Sums of `n` terms in any order, each partial sum rescaled up to `rescales` times,
    /// elementary functions within `ulps`, probabilities in f32.
    pub fn any_order(n: usize, rescales: usize, ulps: f64) -> Self {
        Self {
            additions: n.saturating_sub(1),
            rescales,
            exp_ulps: ulps,
            log_ulps: ulps,
            p_roundoff: 0.0,
        }
    }

    /// Relative error of one term `exp(z - max)` inside a finished sum, apart from the error of
    /// its exponent: one exponential, `rescales` corrections (an exponential and a product
    /// each), the additions, one more product (by `v`).
    pub(crate) fn term_error(&self) -> f64 {
        let exps = (1 + self.rescales) as f64 * (self.exp_ulps * 2.0 * U32).ln_1p();
        let sums = gamma(self.additions + self.rescales + 1);
        (exps.exp() * (1.0 + sums) * (1.0 + self.p_roundoff)) - 1.0
    }
}
