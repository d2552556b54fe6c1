//! How launches of [`TopK`](super::TopK) share out their rows.
//!
//! | rows | first choice |
//! |---|---|
//! | up to [`SHORT_N`](abi::topk::SHORT_N) elements, k up to [`SHORT_K`](abi::topk::SHORT_K) | lanes of a warp have a row in registers |
//! | others | a block has a row |
//! | long ones, fewer than half of the multiprocessors | parts: a block finds the first pairs of each, and a second launch the first among these |
//!
//! All of them give the same bits, so the choice is one of speed alone.

use crate::ops::plan::{Choice, Desc, Machine, MachineModel, Shown, costs};
use crate::ops::rows::operation::Call;
use crate::{DeviceInfo, LaunchConfig, Result};
use abi::DType;
use abi::topk::{
    GROUPS, PART_UNIT, SHORT_HELD, SHORT_K, SHORT_N, SHORT_THREADS, THREADS, TopKEntry, TopKPlan,
    Variant, pair_bytes,
};
use std::fmt;

costs! {
    /// The first elements of rows (docs/topk.md).
    TopKCosts {
        /// Fewest elements of a part of a row.
        part_n: u64 = 4096,
        /// The same, as a multiple of k.
        part_of_k: u64 = 8,
        /// Blocks for each multiprocessor where rows are cut.
        blocks: u64 = 2,
        /// Rows for each multiprocessor with which none is cut: this share of one.
        rows_share: u64 = 2,
        /// Most threads of a block that its vectors are shared out to.
        vector_threads: u64 = 256,
        /// Elements that are wanted for each thread of a block, where that makes more threads.
        k_of_thread: u64 = 4,
        /// Fewest pairs that a block has room for.
        least_capacity: u32 = 512,
    }
}

/// Rows with elements, of which 1 or more are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops::rows) struct TopKDesc {
    pub(super) dtype: DType,
    pub(super) rows: u64,
    /// Elements of a row.
    pub(super) n: u64,
    /// Elements that are wanted of it.
    pub(super) k: u64,
}

impl fmt::Display for TopKDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dtype, rows, n, k } = self;
        write!(f, "{dtype} rows{rows} n{n} k{k}")
    }
}

impl TopKDesc {
    /// Rows that a block has, by the kernel whose blocks have the most.
    pub(super) fn rows_of_block(&self) -> u64 {
        self.short()
            .map_or(1, |plan| u64::from(plan.rows_per_block()))
    }

    /// Some lanes of a warp have a row, if it is short and `k` is small.
    fn short(&self) -> Option<TopKPlan> {
        let has_kernel = TopKEntry::of(Variant::Short, Some(self.dtype)).is_some();
        if self.n > SHORT_N || self.k > SHORT_K || !has_kernel {
            return None;
        }
        let lanes = self.n.div_ceil(SHORT_HELD as u64).next_power_of_two();
        Some(TopKPlan {
            is_short: true,
            lanes: lanes as u32,
            threads: SHORT_THREADS,
            parts: 1,
            part_len: self.n,
            capacity: 0,
            pair_bytes: pair_bytes(self.dtype),
        })
    }

    /// A block has this many elements of a row: all of it, or a multiple of [`PART_UNIT`].
    fn by_blocks(&self, part_len: u64, costs: &TopKCosts) -> TopKPlan {
        let lanes = 16 / self.dtype.size_bytes() as u64;
        let pair_bytes = pair_bytes(self.dtype);
        // Twice as many pairs as are wanted, so that a bound that lets through some more is good
        // enough. Of wide pairs a bound lets through as many as fit.
        let fit = if pair_bytes == 8 { 2 * self.k } else { self.k };
        let capacity = fit.next_power_of_two() as u32;
        TopKPlan {
            is_short: false,
            lanes: 0,
            threads: threads(part_len.div_ceil(lanes), self.k, costs),
            parts: self.n.div_ceil(part_len) as u32,
            part_len,
            capacity: capacity.max(costs.least_capacity),
            pair_bytes,
        }
    }

    /// The plan of the second launch, over rows of the pairs that the parts of this one have given.
    fn of_pairs(&self, plan: &TopKPlan, costs: &TopKCosts) -> TopKPlan {
        let n = u64::from(plan.parts) * self.k;
        TopKPlan {
            parts: 1,
            part_len: n,
            threads: threads(n, self.k, costs),
            ..*plan
        }
    }

    /// Elements of a part: so few that the parts of the rows occupy all multiprocessors twice; `None`
    /// if that is more than half of a row.
    fn part_len(&self, multiprocessors: u64, costs: &TopKCosts) -> Option<u64> {
        let least = costs.part_n.max(costs.part_of_k * self.k);
        let parts = (costs.blocks * multiprocessors / self.rows.max(1)).max(1);
        let len = self
            .n
            .div_ceil(parts)
            .next_multiple_of(PART_UNIT)
            .max(least);
        (len.saturating_mul(2) <= self.n).then_some(len)
    }

    /// All plans, the first choice first.
    fn plans(&self, multiprocessors: u32, costs: &TopKCosts) -> impl Iterator<Item = TopKPlan> {
        let multiprocessors = u64::from(multiprocessors);
        let whole = Some(self.by_blocks(self.n, costs));
        let cut = self.part_len(multiprocessors, costs);
        let cut = cut.map(|part_len| self.by_blocks(part_len, costs));
        let are_few = self.rows.saturating_mul(costs.rows_share) < multiprocessors;
        let by_blocks = if are_few { [cut, whole] } else { [whole, cut] };
        self.short()
            .into_iter()
            .chain(by_blocks.into_iter().flatten())
    }
}

/// Threads for a row of so many vectors: one for each [`GROUPS`] of them, up to a limit; more where
/// many pairs have to be sorted.
fn threads(vectors: u64, k: u64, costs: &TopKCosts) -> u32 {
    let [few, many] = THREADS.map(u64::from);
    let of_vectors = vectors.div_ceil(GROUPS as u64).min(costs.vector_threads);
    let of_k = (k / costs.k_of_thread).min(many);
    of_vectors.max(of_k).max(few).next_power_of_two() as u32
}

/// One way to go through the rows. Its `Display` is the entry name and the number of parts.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::rows) struct Candidate {
    pub(super) desc: TopKDesc,
    pub(super) entry: TopKEntry,
    pub(super) plan: TopKPlan,
    pub(super) config: LaunchConfig,
    /// The second launch, over the pairs that parts of rows have given.
    pub(super) of_pairs: Option<(TopKPlan, LaunchConfig)>,
    is_preferred: bool,
    estimated_ns: f64,
}

impl Candidate {
    /// `None` if a grid cannot have its blocks.
    fn new(desc: &TopKDesc, plan: TopKPlan, machine: &Machine) -> Option<Self> {
        let variant = match plan.is_short {
            true => Variant::Short,
            false => Variant::Rows,
        };
        let of_pairs = match plan.parts {
            1 => None,
            _ => {
                let pairs = desc.of_pairs(&plan, &machine.model.topk);
                Some((pairs, config(&pairs, desc.rows)?))
            }
        };
        Some(Self {
            desc: *desc,
            entry: TopKEntry::of(variant, Some(desc.dtype))?,
            plan,
            config: config(&plan, desc.rows)?,
            of_pairs,
            is_preferred: false,
            estimated_ns: estimate_ns(desc, &plan, machine),
        })
    }
}

/// Blocks of rows, and of their parts.
fn config(plan: &TopKPlan, rows: u64) -> Option<LaunchConfig> {
    let blocks = plan.blocks(rows)?;
    Some(LaunchConfig {
        grid: [blocks / plan.parts, plan.parts, 1],
        ..LaunchConfig::linear(1, plan.threads).shared_bytes(plan.shared_bytes())
    })
}

/// The time of reading rows once, by as many multiprocessors as have blocks; of parts, with a second
/// launch over their pairs.
fn estimate_ns(desc: &TopKDesc, plan: &TopKPlan, machine: &Machine) -> f64 {
    let bytes = desc.rows as f64 * desc.n as f64 * desc.dtype.size_bytes() as f64;
    let blocks = plan.blocks(desc.rows).map_or(f64::INFINITY, f64::from);
    let multiprocessors = f64::from(machine.multiprocessors);
    let share = blocks.clamp(1.0, multiprocessors) / multiprocessors;
    let launches = if plan.parts > 1 { 2.0 } else { 1.0 };
    launches * machine.model.launch_ns + bytes / (machine.bytes_per_ns * share)
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)?;
        match self.plan.parts {
            1 => Ok(()),
            parts => write!(f, "+split{parts}"),
        }
    }
}

impl Choice for Candidate {
    type Call<'a> = Call<'a, Self>;

    fn estimated_ns(&self) -> f64 {
        self.estimated_ns
    }

    fn is_preferred(&self) -> bool {
        self.is_preferred
    }

    fn shown(&self) -> Shown {
        Shown {
            entry: self.entry.to_string(),
            tile: [self.plan.rows_per_block(), self.plan.part_len as u32, 0],
            split: self.plan.parts,
            config: self.config,
        }
    }

    fn launch(&self, call: &Self::Call<'_>) -> Result<()> {
        call(self)
    }
}

impl Desc for TopKDesc {
    const OPERATION: &'static str = "topk";

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let plans = self.plans(machine.multiprocessors, &model.topk);
        let candidates = plans.filter_map(|plan| Candidate::new(self, plan, &machine));
        for (idx, candidate) in candidates.enumerate() {
            offer(Candidate {
                is_preferred: idx == 0,
                ..candidate
            });
        }
    }

    fn supported(&self) -> String {
        "as many rows as a grid has blocks".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::topk::{N_MAX, THREADS};

    const COSTS: TopKCosts = TopKCosts::H200;

    fn plans(dtype: DType, rows: u64, n: u64, k: u64) -> Vec<TopKPlan> {
        let desc = TopKDesc { dtype, rows, n, k };
        desc.plans(132, &COSTS).collect()
    }

    #[test]
    fn parts_cover_rows_and_have_k_elements() {
        for n in [1, 512, 513, 4096, 8192, 100_003, 1 << 20, N_MAX] {
            for k in [1, 7, 64, 2048].into_iter().filter(|&k| k <= n) {
                for (rows, dtype) in [1, 3, 65, 66, 1 << 20]
                    .into_iter()
                    .flat_map(|rows| [(rows, DType::Bf16), (rows, DType::F64)])
                {
                    let plans = plans(dtype, rows, n, k);
                    assert!(plans[0].parts == 1 || rows < 66, "{plans:?}");
                    for plan in plans {
                        let last = n - (u64::from(plan.parts) - 1) * plan.part_len;
                        assert!(last >= 1 && last <= plan.part_len, "{plan:?}");
                        assert!(plan.parts == 1 || plan.part_len >= k, "{plan:?}");
                        let room = u64::from(plan.capacity);
                        assert!(
                            plan.is_short || room >= if dtype == DType::F64 { k } else { 2 * k }
                        );
                        assert!(plan.is_short || plan.threads <= THREADS[1]);
                        assert!(plan.shared_bytes() <= 48 << 10);
                    }
                }
            }
        }
    }

    #[test]
    fn few_long_rows_are_cut() {
        let parts = |rows, n| plans(DType::F32, rows, n, 50)[0].parts;
        assert_eq!((parts(1, 131_072), parts(1, 4096)), (32, 1));
        assert_eq!((parts(65, 131_072), parts(66, 131_072)), (4, 1));
    }
}
