//! Rows in registers: by which kernel, by how many threads, and where another way is faster.

use super::rule::{LANES, Rule, power};
use abi::rows::{Alignment, HELD_BLOCKS, RowPlan, Strategy, VECTOR_BYTES, Variant};

/// Rows in registers: a plan for each kernel, and how good it is.
struct Held {
    plan: RowPlan,
    /// Blocks that run on an SM.
    blocks: u32,
    /// Bytes of rows that an SM has in flight.
    in_flight: u64,
}

impl Rule<'_> {
    /// The plans for rows in registers. The first one is `Some` if that is the fastest way: by the
    /// first kernel with which an SM has enough bytes of rows in flight, else by the one with which it
    /// has the most.
    pub(super) fn held(&self) -> (Option<RowPlan>, impl Iterator<Item = RowPlan>) {
        let most = self.limits().held_threads;
        let (less, more) = match self.shape.alignment {
            Alignment::Vectors => (
                self.held_by(Variant::Registers, most[0]),
                self.held_by(Variant::RegistersMore, most[1]),
            ),
            Alignment::Alike | Alignment::Apart => {
                (self.held_by(Variant::RegistersAny, most[0]), None)
            }
        };
        let (best, other) = match (less, more) {
            (Some(less), Some(more)) => {
                let is_better = less.in_flight < self.enough() && more.in_flight > less.in_flight;
                match is_better {
                    true => (Some(more), Some(less)),
                    false => (Some(less), Some(more)),
                }
            }
            (less, more) => (less.or(more), None),
        };
        let is_fast = best.as_ref().is_some_and(|best| self.is_fast(best));
        let mut plans = [best, other].map(|held| held.map(|held| held.plan));
        let fast = plans[0].take_if(|_| is_fast);
        (fast, plans.into_iter().flatten())
    }

    /// Rows in registers by the kernel of this variant, if `most` threads hold one.
    fn held_by(&self, variant: Variant, most: u32) -> Option<Held> {
        let holding = self.entry(variant)?.holding();
        let vectors = self.row_bytes().div_ceil(u64::from(VECTOR_BYTES));
        let threads = vectors.div_ceil(u64::from(holding.vectors));
        if threads > u64::from(most.min(holding.bound)) {
            return None;
        }
        // A thread for each element of the ends.
        let of_ends = match variant.takes_any() {
            true => 2 * VECTOR_BYTES / self.shape.element_bytes,
            false => 1,
        };
        // A power of two in a warp, else whole warps, so that most of them have all of their vectors.
        let threads = match threads <= u64::from(LANES) {
            true => power(threads, self.limits().least_threads.max(of_ends)),
            false => (threads as u32).next_multiple_of(LANES),
        };
        let plan = RowPlan {
            strategy: Strategy::Registers(variant),
            threads,
            cluster: 1,
        };
        let blocks = HELD_BLOCKS * holding.bound / plan.block_threads();
        let rows = u64::from(blocks * plan.rows_per_block());
        Some(Held {
            plan,
            blocks,
            in_flight: rows * self.row_bytes() * u64::from(self.shape.inputs),
        })
    }

    /// Bytes of rows that an SM should have in flight.
    fn enough(&self) -> u64 {
        let enough = self.limits().enough_bytes * u64::from(self.shape.inputs);
        match self.shape.is_centered {
            true => enough * self.costs.centered_percent / 100,
            false => enough,
        }
    }

    /// Whether no other way is faster.
    fn is_fast(&self, held: &Held) -> bool {
        let limits = self.limits();
        let is_short = held.plan.threads <= LANES || self.row_bytes() <= limits.short_bytes;
        let is_any = limits.holds_any && self.shape.alignment == Alignment::Alike;
        let has_enough =
            is_any || held.in_flight >= self.enough() * self.costs.enough_percent / 100;
        let is_sole = limits.holds_all || (limits.holds_joined && self.shape.inputs > 1);
        is_short || is_sole || (has_enough && held.blocks >= self.costs.held_blocks)
    }
}
