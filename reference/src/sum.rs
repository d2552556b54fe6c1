//! Compensated sums, whose own error is of second order, for bounds that leave no room for it.

/// A running sum with Neumaier's compensation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    /// Adds a term.
    pub(crate) fn add(&mut self, x: f64) {
        let next = self.sum + x;
        self.lost += match self.sum.abs() >= x.abs() {
            true => (self.sum - next) + x,
            false => (x - next) + self.sum,
        };
        self.sum = next;
    }

    /// The sum, with an error of second order. If it is not finite, the result of plain additions.
    pub(crate) fn value(self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.lost
        } else {
            self.sum
        }
    }
}

/// The [`Compensated`] sum of all terms.
pub(crate) fn total(xs: impl Iterator<Item = f64>) -> f64 {
    let mut sum = Compensated::default();
    xs.for_each(|x| sum.add(x));
    sum.value()
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn equal_terms_that_all_round_the_same_way_add_up() {
        // One at a time, these are off by 200 units in the last place.
        let term = (-0.0645_f64).exp();
        let plain = std::iter::repeat_n(term, 5920).sum::<f64>();
        let exact = 5920.0 * term;
        assert!((plain - exact).abs() > 50.0 * exact * f64::EPSILON);
        assert!((total(std::iter::repeat_n(term, 5920)) - exact).abs() <= exact * f64::EPSILON);
    }

    #[test]
    fn infinities_and_nan_are_those_of_plain_sums() {
        assert_eq!(total([1.0, f64::INFINITY].into_iter()), f64::INFINITY);
        assert!(total([f64::NEG_INFINITY, f64::INFINITY].into_iter()).is_nan());
        assert_eq!(total(std::iter::empty()), 0.0);
    }
}
