//! Short rows of persistent blocks: a warp has one, two or four at a time.

use super::{LINE_BYTES, RING_STAGES, RingLayout};

/// Vectors that a thread has of a row.
pub const SHORT_VECTORS: usize = 4;

/// Most threads of a block.
pub const SHORT_THREADS: u32 = 256;

/// Blocks of them that run on an SM: 128 registers a thread.
pub const SHORT_BLOCKS: u32 = 2;

/// Offsets in shared memory: the stages of each warp, then its barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortLayout {
    warps: u32,
    /// Bytes of an input's rows in a stage of a warp.
    part_bytes: u32,
    /// Bytes of a warp's stages.
    warp_bytes: u32,
}

impl ShortLayout {
    /// The layout for `inputs` tensors in `stages` stages of `warps` warps. Rows that begin anywhere lie
    /// to vectors as they do in global memory.
    pub const fn new(inputs: u32, stages: u32, warps: u32, begins_anywhere: bool) -> Self {
        let part_bytes = RingLayout::part_bytes(SHORT_VECTORS as u32, begins_anywhere);
        Self {
            warps,
            part_bytes,
            warp_bytes: part_bytes * inputs * stages,
        }
    }

    /// Bytes of an input's rows in a stage of a warp.
    pub const fn part_bytes(&self) -> u32 {
        self.part_bytes
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
