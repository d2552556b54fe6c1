//! The set `random`: products whose extents a seeded generator draws.

use super::cases::{Case, Layout, Precision, Set};
use crate::draw::Extents;

/// What `--set random` draws.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Draw {
    /// Seed of the set random.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Number of products in the set random.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub products: usize,
    /// n and k of the set random are multiples of this.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub multiple_of: usize,
}

impl Draw {
    /// Products with m from 1 to 10,000, and n and k from 256 to 16,384. The logarithms of all
    /// extents are distributed uniformly.
    pub(super) fn cases(&self, precision: Precision, layout: Layout) -> Vec<Case> {
        let mut extents = Extents::of_seed(self.seed);
        let product = |_| {
            let m = extents.extent(1.0, 10_000.0, 1);
            let [n, k] = [0; 2].map(|_| extents.extent(256.0, 16_384.0, self.multiple_of));
            Case {
                layout,
                ..Case::new(Set::Random.name(), precision, [m, n, k])
            }
        };
        (0..self.products).map(product).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same_products() {
        let draw = |seed| Draw {
            seed,
            products: 50,
            multiple_of: 8,
        };
        let of = |seed| draw(seed).cases(Precision::Bf16, Layout::Nn);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        for Case { m, n, k, .. } in of(1) {
            assert!((1..=10_000).contains(&m), "{m}");
            for extent in [n, k] {
                assert!((256..=16_384).contains(&extent), "{extent}");
                assert_eq!(extent % 8, 0, "{extent}");
            }
        }
    }
}
