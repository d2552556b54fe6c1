//! Short rows of persistent blocks: a warp has one, two or four at a time.

use super::{
    LANES, LINE_BYTES, RESERVED_BYTES, RING_STAGES, RowDevice, RowPlan, RowShape, Stages, Strategy,
    VECTOR_BYTES, power,
};

/// Vectors that a thread has of a row.
pub const SHORT_VECTORS: usize = 4;

/// Most threads of a block.
pub const SHORT_THREADS: u32 = 256;

/// Blocks of them that run on an SM: 128 registers a thread.
pub const SHORT_BLOCKS: u32 = 2;

/// Fewest lanes of a row: shared memory is read in phases of eight lanes, which then have
/// neighbouring vectors.
const LEAST_LANES: u32 = 8;

/// Most stages that are of use.
const STAGES: u32 = 3;

impl RowPlan {
    /// Short rows, if the lanes of a warp hold one.
    pub(super) const fn of_short(shape: &RowShape, device: &RowDevice) -> Option<Self> {
        let vectors = (shape.n * shape.element_bytes as u64).div_ceil(VECTOR_BYTES as u64);
        if vectors > (LANES * SHORT_VECTORS as u32) as u64 {
            return None;
        }
        let lanes = power(vectors.div_ceil(SHORT_VECTORS as u64), LEAST_LANES);
        let room = (device.shared_bytes + RESERVED_BYTES) / SHORT_BLOCKS - RESERVED_BYTES;
        let mut stages = STAGES;
        while ShortLayout::new(shape.inputs, stages, SHORT_THREADS / LANES).bytes() > room {
            stages -= 1;
        }
        if stages < 2 {
            return None;
        }
        Some(Self {
            strategy: Strategy::Short(Stages {
                vectors: SHORT_VECTORS as u32,
                stages,
                blocks: SHORT_BLOCKS,
                rows: SHORT_THREADS / lanes,
            }),
            threads: lanes,
            cluster: 1,
        })
    }
}

/// Offsets in shared memory: the stages of each warp, then its barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortLayout {
    warps: u32,
    /// Bytes of a warp's stages.
    warp_bytes: u32,
}

impl ShortLayout {
    /// Bytes of an input's rows in a stage of a warp.
    pub const PART_BYTES: u32 = LANES * SHORT_VECTORS as u32 * VECTOR_BYTES;

    /// The layout for `inputs` tensors in `stages` stages of `warps` warps.
    pub const fn new(inputs: u32, stages: u32, warps: u32) -> Self {
        Self {
            warps,
            warp_bytes: Self::PART_BYTES * inputs * stages,
        }
    }

    /// A warp's stages.
    pub const fn parts(&self, warp: u32) -> u32 {
        warp * self.warp_bytes
    }

    /// A warp's barriers, one for each stage.
    pub const fn landed(&self, warp: u32) -> u32 {
        self.parts(self.warps) + warp * RING_STAGES * 8
    }

    /// Bytes in all.
    pub const fn bytes(&self) -> u32 {
        self.landed(self.warps).next_multiple_of(LINE_BYTES)
    }
}
