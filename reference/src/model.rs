//! The error model of an implementation.

use crate::precision::{U32, gamma};

/// Properties of an implementation on which its errors depend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Number of additions in the longest chain of a sum of many terms. `n - 1` covers every order
    /// of `n` terms; a tree has fewer.
    pub additions: usize,
    /// Largest number of times that a partial sum of exponentials is multiplied by
    /// `exp(old maximum - new maximum)` before it is complete (softmax rescaling).
    pub rescales: usize,
    /// Largest error of `exp`, in units in the last place of f32.
    pub exp_ulps: f64,
    /// Largest error of `ln`, in units in the last place of f32.
    pub log_ulps: f64,
    /// Unit roundoff of the dtype to which probabilities are rounded before they multiply `v`; 0
    /// if they stay in f32.
    pub p_roundoff: f64,
}

impl Model {
    /// The model of sums of `n` terms in any order, whose partial sums are rescaled up to
    /// `rescales` times. `exp` and `ln` have an error up to `ulps`, and probabilities are in f32.
    pub fn any_order(n: usize, rescales: usize, ulps: f64) -> Self {
        Self {
            additions: n.saturating_sub(1),
            rescales,
            exp_ulps: ulps,
            log_ulps: ulps,
            p_roundoff: 0.0,
        }
    }

    /// Relative error of one term `exp(z - max)` in a finished sum, without the error of its
    /// exponent. It counts one exponential, `rescales` corrections (an exponential and a product
    /// each), the additions, and one more product (with `v`).
    pub(crate) fn term_error(&self) -> f64 {
        let exps = (1 + self.rescales) as f64 * (self.exp_ulps * 2.0 * U32).ln_1p();
        let sums = gamma(self.additions + self.rescales + 1);
        (exps.exp() * (1.0 + sums) * (1.0 + self.p_roundoff)) - 1.0
    }
}
