//! Rings: their stages, and their shared memory.

use super::{
    LANES, LINE_BYTES, RING_VECTORS, RING_VECTORS_F32, RowEntry, RowOp, SHORT_VECTORS,
    VECTOR_BYTES, Variant, WIDE_VECTORS,
};

/// Most warps of a row in one block.
pub const RING_WARPS: u32 = 16;

/// Most stages of a block's ring: rows that are in it at a time.
pub const RING_STAGES: u32 = 8;

/// Elements that a thread has of a row that begins anywhere.
pub const ANY_ELEMENTS: usize = 16;

/// The ring of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stages {
    /// Vectors that a thread has of a row.
    pub vectors: u32,
    /// Stages: rows at a time.
    pub stages: u32,
    /// Blocks that run on an SM.
    pub blocks: u32,
    /// Rows that a block has at a time. Its warps begin each of them together, so that what they
    /// read lies close together in memory.
    pub rows: u32,
}

impl RowEntry {
    /// Of an entry whose rows come through a ring: the vectors of each tensor that a thread has.
    pub const fn ring_vectors(&self) -> u32 {
        let vectors = match (self.variant, self.op) {
            (Variant::SmemRing, RowOp::NormF32 | RowOp::NormGradF32) => RING_VECTORS_F32,
            (Variant::SmemRing, _) => RING_VECTORS,
            (Variant::SmemRingAny | Variant::SmemRingShortAny, _) => {
                ANY_ELEMENTS * self.dtype.size_bytes() / VECTOR_BYTES as usize
            }
            (Variant::SmemRingWide, _) => WIDE_VECTORS,
            (Variant::SmemRingShort, _) => SHORT_VECTORS,
            _ => panic!("an entry without a ring"),
        };
        vectors as u32
    }
}

/// Columns of a thread that adds up partial sums.
pub const FINISH_COLUMNS: u32 = 4;

/// Columns of a block that adds up `parts` partial sums of each column, and its threads. A thread
/// has at most nine rows of the up to 1,056 parts that are left of short rows.
pub const fn column_block(parts: u64) -> (u32, u32) {
    match parts {
        0..=16 => (512, 128),
        17..=66 => (128, 256),
        67..=264 => (32, 256),
        _ => (32, 1024),
    }
}

/// Offsets in shared memory: barriers, places of exchanges, stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// Warps of the row in the block.
    warps: u32,
    /// Rows whose posted sums have places of their own: a power of two.
    rounds: u32,
    /// Places for the posted sums of a row, or of the rows that a block has at a time: one a block
    /// of a cluster, or one a warp.
    places: u32,
    /// Bytes of a warp's stages.
    warp_bytes: u32,
}

impl RingLayout {
    /// Rows whose gathered sums, within a block, have places of their own; two are in flight.
    pub const GATHER_ROUNDS: u32 = 16;

    /// Bytes of a warp's part of a row, with `vectors` a thread. A part of a row that begins anywhere
    /// lies to vectors as it does in global memory.
    pub const fn part_bytes(vectors: u32, begins_anywhere: bool) -> u32 {
        (vectors * LANES + begins_anywhere as u32) * VECTOR_BYTES
    }

    /// The layout for `inputs` tensors in `stages` stages, with parts of `part_bytes` and `warps`
    /// warps in each of the `blocks` blocks of a cluster.
    pub const fn new(part_bytes: u32, inputs: u32, stages: u32, warps: u32, blocks: u32) -> Self {
        Self {
            warps,
            rounds: match (blocks, inputs) {
                (1, _) => 16,
                // The more places there are, the less often clusters have to synchronise.
                (_, 1) => 64,
                _ => 32,
            },
            places: if blocks > 1 { blocks } else { warps },
            warp_bytes: part_bytes * inputs * stages,
        }
    }

    /// Rows whose posted sums have places of their own.
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Index of row `i` among the rows that have places.
    const fn round(&self, i: u32) -> u32 {
        i & (self.rounds - 1)
    }

    /// The barrier of the sums posted for row `i`.
    pub const fn posted(&self, i: u32) -> u32 {
        (Self::GATHER_ROUNDS + self.round(i)) * 8
    }

    /// The parity of that barrier's phase.
    pub const fn posted_parity(&self, i: u32) -> u32 {
        (i & self.rounds != 0) as u32
    }

    /// The barrier of the sums gathered for row `i`.
    pub const fn gathered(i: u32) -> u32 {
        i % Self::GATHER_ROUNDS * 8
    }

    /// The parity of that barrier's phase.
    pub const fn gathered_parity(i: u32) -> u32 {
        i / Self::GATHER_ROUNDS % 2
    }

    /// The barrier of a warp's stage.
    pub const fn landed(&self, warp: u32, stage: u32) -> u32 {
        (Self::GATHER_ROUNDS + self.rounds + warp * RING_STAGES + stage) * 8
    }

    /// Where a warp puts its sums of row `i` for the warp that sends.
    pub const fn gather(&self, i: u32, warp: u32) -> u32 {
        let place = i % Self::GATHER_ROUNDS * self.warps + warp;
        self.landed(self.warps, 0) + place * VECTOR_BYTES
    }

    /// Where a block, or a warp, posts its sums of row `i`.
    pub const fn post(&self, i: u32, place: u32) -> u32 {
        let place = Self::GATHER_ROUNDS * self.warps + self.round(i) * self.places + place;
        self.landed(self.warps, 0) + place * VECTOR_BYTES
    }

    /// From the places of row 0 to those of row `i`.
    pub const fn round_bytes(&self, i: u32) -> u32 {
        self.round(i) * self.places * VECTOR_BYTES
    }

    /// A warp's stages.
    pub const fn parts(&self, warp: u32) -> u32 {
        let before = self.post(0, self.rounds * self.places);
        before.next_multiple_of(LINE_BYTES) + warp * self.warp_bytes
    }

    /// Bytes in all.
    pub const fn bytes(&self) -> u32 {
        self.parts(self.warps)
    }
}
