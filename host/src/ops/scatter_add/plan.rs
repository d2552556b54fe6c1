//! The kernels that add rows, and the choice between them. All of them give the same bits.

use crate::ops::plan::{Desc, Machine, MachineModel, Ruled, costs};
use crate::{DType, DeviceInfo, LaunchConfig};
use abi::scatter_add::{
    self, ADD_THREADS, CHUNK, SCATTER_ADD_FEW, ScatterAddEntry, ScatterOp, TILE,
};
use std::fmt;

costs! {
    /// Additions of rows: numbers of blocks, and where sorting indices pays.
    ScatterAddCosts {
        /// Most indices times warps of a row that are added without sorting the indices: each block
        /// reads all of them.
        few: u64 = 1 << 16,
        /// Warps that a multiprocessor has at least, of those that add sorted rows: two full sets.
        warps: u64 = 2 * 64,
        /// Most blocks that sort together. Each reads the counts of all.
        sort_blocks: u32 = 128,
        /// Most blocks of a multiprocessor that add parts. They go on to what is left.
        finish_blocks: u64 = 4,
    }
}

/// Rows with elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScatterAddDesc {
    pub(super) op: ScatterOp,
    pub(super) dtype: DType,
    /// Number of indices.
    pub(super) indices: u32,
    /// Columns of a row.
    pub(super) columns: u64,
    /// Elements of a column: those of a vector, or 1.
    pub(super) lanes: usize,
}

impl fmt::Display for ScatterAddDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            op,
            dtype,
            indices,
            columns,
            lanes,
        } = self;
        if *op != ScatterOp::Sum {
            write!(f, "{} ", op.name())?;
        }
        write!(f, "{dtype} indices{indices} columns{columns}x{lanes}")
    }
}

/// The launch that adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The only one, where there are few indices.
    Few,
    /// The one after sorting.
    Add,
}

/// How a launch shares out the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The launch that adds.
    pub(super) step: Step,
    /// Pairs of a warp of [`Step::Add`].
    pub(super) chunk: u32,
    /// Pairs of a block that sorts, and blocks.
    pub(super) sort: [u32; 2],
    /// Most blocks that add parts.
    pub(super) finish_blocks: u64,
}

/// One way to add rows.
pub(super) type Candidate = Ruled<&'static str, Decision>;

impl ScatterAddDesc {
    /// Warps of a row.
    fn warps(&self) -> u64 {
        self.columns.div_ceil(32)
    }

    /// Bytes that are read, and as many at most that are changed.
    pub(super) fn bytes(&self) -> u64 {
        let row = self.columns * self.lanes as u64 * self.dtype.size_bytes() as u64;
        row.saturating_mul(3 * u64::from(self.indices))
    }

    /// Whether rows can be added by indices that are not sorted: by vectors.
    fn can_be_few(&self) -> bool {
        self.op == ScatterOp::Sum && self.lanes > 1 && self.indices <= scatter_add::FEW
    }

    /// Pairs of a warp: fewer where there are few, so that every multiprocessor has enough warps.
    fn chunk(&self, costs: &ScatterAddCosts, multiprocessors: u32) -> u32 {
        let enough = costs.warps * u64::from(multiprocessors);
        let mut chunk = CHUNK;
        while chunk > 1 && u64::from(self.indices.div_ceil(chunk)) * self.warps() < enough {
            chunk /= 2;
        }
        chunk
    }
}

/// Pairs of a block, and blocks, that sort `len` pairs.
fn sort(len: u32, most: u32) -> [u32; 2] {
    let per_block = len.div_ceil(TILE).div_ceil(most) * TILE;
    [per_block, len.div_ceil(per_block)]
}

/// Blocks of the launch that adds `columns` columns for so many indices.
pub(super) fn config(decision: &Decision, indices: u32, columns: u64) -> LaunchConfig {
    let warps = columns.div_ceil(32) as u32;
    match decision.step {
        Step::Few => {
            let per_block = scatter_add::few_warps(indices);
            LaunchConfig::linear(indices.div_ceil(per_block) * warps, 32 * per_block)
        }
        Step::Add => {
            let warps = indices.div_ceil(decision.chunk) * warps;
            LaunchConfig::linear(warps.div_ceil(ADD_THREADS / 32), ADD_THREADS)
        }
    }
}

/// Most columns of a launch: its warps, and what blocks add of segments of several parts, are counted
/// in 31 bits.
pub(super) fn most_columns(indices: u32, chunk: u32) -> u64 {
    let most = (1_u64 << 28) / u64::from(indices.div_ceil(chunk));
    (32 * most).clamp(1, 1 << 27)
}

impl Desc for ScatterAddDesc {
    const OPERATION: &'static str = super::ADD;

    fn operation(&self) -> &'static str {
        match self.op {
            ScatterOp::Sum => Self::OPERATION,
            _ => super::REDUCE,
        }
    }

    type Candidate = Candidate;

    fn candidates(
        &self,
        device: &DeviceInfo,
        model: &MachineModel,
        offer: &mut dyn FnMut(Candidate),
    ) {
        let machine = Machine::of(device, model);
        let costs = &model.scatter_add;
        let are_few = self.can_be_few() && u64::from(self.indices) * self.warps() <= costs.few;
        let few = self
            .can_be_few()
            .then_some((Step::Few, SCATTER_ADD_FEW.name(), are_few));
        let of_dtype = (self.lanes > 1).then_some(self.dtype);
        let sorted = ScatterAddEntry::of(self.op, of_dtype);
        let sorted = sorted.map(|entry| (Step::Add, entry.name(), !are_few));
        for (step, entry, is_first) in few.into_iter().chain(sorted) {
            let chunk = self.chunk(costs, machine.multiprocessors);
            let decision = Decision {
                step,
                chunk,
                sort: sort(self.indices, costs.sort_blocks),
                finish_blocks: costs.finish_blocks * u64::from(machine.multiprocessors),
            };
            let columns = self.columns.min(most_columns(self.indices, chunk));
            let config = config(&decision, self.indices, columns);
            let blocks: u32 = config.grid.iter().product();
            let launches = match step {
                Step::Few => 0.0,
                Step::Add => 2.0,
            };
            offer(Ruled {
                entry,
                option: "",
                split: 1,
                config,
                decision,
                is_first,
                estimated_ns: machine.moving_ns(self.bytes() as f64, blocks.into())
                    + launches * model.launch_ns,
            });
        }
    }

    fn supported(&self) -> String {
        "f32, f16, bf16, f64, i32 and i64".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::scatter_add::MAX_LEN;

    #[test]
    fn blocks_have_all_pairs_and_are_few() {
        let most = ScatterAddCosts::H200.sort_blocks;
        for len in [1, TILE, TILE + 1, 1 << 20, 999_999_999, MAX_LEN as u32] {
            let [per_block, blocks] = sort(len, most);
            assert!(blocks <= most && per_block.is_multiple_of(TILE));
            assert!(u64::from(per_block) * u64::from(blocks) >= u64::from(len));
            assert!(u64::from(per_block) * u64::from(blocks - 1) < u64::from(len));
        }
    }

    #[test]
    fn few_short_rows_of_vectors_are_not_sorted() {
        let first = |op, indices, columns, lanes| {
            let desc = ScatterAddDesc {
                op,
                dtype: DType::F32,
                indices,
                columns,
                lanes,
            };
            let mut first = Vec::new();
            let device = crate::fitting::h200();
            desc.candidates(&device, &MachineModel::H200, &mut |by| {
                first.extend(by.is_first.then_some(by.entry));
            });
            first
        };
        let sum = |indices, columns, lanes| first(ScatterOp::Sum, indices, columns, lanes);
        assert_eq!(sum(1024, 2048, 4), ["scatter_add_few"]);
        assert_eq!(sum(1024, 2049, 4), ["scatter_add_f32"]);
        assert_eq!(sum(1025, 32, 4), ["scatter_add_f32"]);
        assert_eq!(sum(8, 32, 1), ["scatter_add_any"]);
        assert_eq!(
            first(ScatterOp::Max, 8, 32, 4),
            ["scatter_reduce_any_vector"]
        );
        assert_eq!(first(ScatterOp::Prod, 8, 32, 1), ["scatter_reduce_any"]);
    }
}
