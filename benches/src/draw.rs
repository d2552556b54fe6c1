//! Extents of the sets `random`, which a seeded generator draws.
//!
//! What is fitted to measurements is fitted to some seeds and held to others, so that it does not
//! know the cases that it is judged by.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A generator of extents.
pub(crate) struct Extents(ChaCha8Rng);

impl Extents {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A multiple of `multiple_of` from about `least` to `most`, whose logarithm is distributed
    /// uniformly.
    pub(crate) fn extent(&mut self, least: f64, most: f64, multiple_of: usize) -> usize {
        let drawn = self.0.random_range(least.ln()..=most.ln()).exp();
        let multiples = (drawn / multiple_of as f64).round().max(1.0);
        multiples as usize * multiple_of
    }

    /// One of these, each as often.
    pub(crate) fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.0.random_range(0..these.len())]
    }
}
