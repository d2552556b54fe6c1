//! Rows in slices: how many, by how many threads, and how many of them an SM has at a time.

use super::limits::Slicing;
use super::rule::{LANES, RESERVED_BYTES, Rule, power};
use abi::rows::{
    AHEAD, AHEAD_THREADS, LINE_BYTES, MAX_CLUSTER, PAIRS, RowPlan, SLICE_THREADS, Strategy,
    VECTOR_BYTES, Variant,
};

/// Fewest threads of a row in a block of a cluster.
const CLUSTER_THREADS: u32 = 128;

impl Rule<'_> {
    /// Slices, if they fit.
    pub(super) fn slices(&self) -> Option<RowPlan> {
        let variant = self.shape.slices();
        self.entry(variant)?;
        let (slicing, shape) = (self.limits().slices.as_ref()?, &self.shape);
        let bytes = self.row_bytes().checked_mul(u64::from(shape.inputs))?;
        if bytes > u64::from(MAX_CLUSTER) * u64::from(self.shared_bytes) {
            return None;
        }
        let cluster = slice_cluster(slicing, bytes);
        let vectors = u64::from(shape.slice_vectors(cluster));
        if vectors == 0 {
            return None;
        }
        let (each, least) = match cluster {
            1 => (slicing.vectors, slicing.least_threads),
            MAX_CLUSTER if shape.element_bytes <= 2 => (slicing.most_vectors, CLUSTER_THREADS),
            _ => (slicing.shared_vectors, CLUSTER_THREADS),
        };
        // Rows that begin anywhere have whole warps.
        let least = if variant.takes_any() {
            least.max(LANES)
        } else {
            least
        };
        let threads = power(vectors.div_ceil(u64::from(each)), least);
        self.fitting(RowPlan {
            strategy: Strategy::Slices,
            threads: threads.min(SLICE_THREADS),
            cluster,
        })
    }

    /// Slices with weights loaded ahead, for rows with one input that fit the threads of
    /// [`MAX_CLUSTER`] blocks.
    pub(super) fn ahead(&self) -> Option<RowPlan> {
        let (ahead, variant) = match self.shape.has_bias {
            true => (PAIRS, Variant::ClusterPairs),
            false => (AHEAD, Variant::ClusterAhead),
        };
        self.entry(variant)?;
        let (bytes, shape) = (self.row_bytes(), &self.shape);
        let of_block = ahead.vectors * AHEAD_THREADS * VECTOR_BYTES;
        if shape.inputs > 1 || bytes > u64::from(MAX_CLUSTER * of_block) {
            return None;
        }
        let cluster = power(bytes.div_ceil(u64::from(of_block)), 1);
        let warps = shape.slice_vectors(cluster).div_ceil(ahead.vectors * LANES);
        self.fitting(RowPlan {
            strategy: Strategy::Ahead(ahead),
            threads: warps * LANES,
            cluster,
        })
    }

    /// The plan, if a block has the shared memory for it.
    fn fitting(&self, plan: RowPlan) -> Option<RowPlan> {
        (plan.shared_bytes(&self.shape) <= self.shared_bytes).then_some(plan)
    }

    /// Bytes of dynamic shared memory of a launch. With slices, so many that no more blocks run on
    /// an SM than have [`Slicing::in_flight_bytes`] together; else as many as a block uses.
    pub(super) fn paced_bytes(&self, plan: &RowPlan) -> u32 {
        let used = plan.shared_bytes(&self.shape);
        let enough = self
            .limits()
            .slices
            .and_then(|slices| slices.in_flight_bytes);
        let is_paced =
            plan.strategy == Strategy::Slices && plan.cluster <= self.costs.paced_cluster;
        let Some(enough) = enough.filter(|_| is_paced) else {
            return used;
        };
        let slices = plan.rows_per_block() * self.shape.inputs;
        let in_flight = slices * self.shape.slice_vectors(plan.cluster) * VECTOR_BYTES;
        let blocks = enough.div_ceil(in_flight).max(self.costs.paced_blocks);
        let room = (self.shared_bytes + RESERVED_BYTES) / blocks;
        let paced = room.saturating_sub(RESERVED_BYTES) / LINE_BYTES * LINE_BYTES;
        paced.max(used)
    }

    /// Parts in which a slice lands, one after the other.
    pub(super) fn slice_parts(&self, plan: &RowPlan) -> u32 {
        match (plan.strategy, plan.cluster) {
            (Strategy::Slices, MAX_CLUSTER) => self.costs.slice_parts,
            _ => 1,
        }
    }
}

/// Blocks of a row of so many bytes, all inputs together.
fn slice_cluster(slicing: &Slicing, bytes: u64) -> u32 {
    if bytes <= slicing.alone_bytes {
        return 1;
    }
    let blocks = power(bytes.div_ceil(slicing.shared_bytes), 2);
    if blocks <= slicing.cluster {
        blocks
    } else if bytes <= u64::from(slicing.cluster) * slicing.alone_bytes {
        slicing.cluster
    } else {
        MAX_CLUSTER
    }
}
