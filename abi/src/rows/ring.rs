//! Rings: how many persistent blocks there are, and their shared memory.

use super::{
    GRAD_BLOCKS, LANES, LINE_BYTES, MAX_CLUSTER, RESERVED_BYTES, RowDevice, RowPlan, RowShape,
    Strategy, VECTOR_BYTES, power,
};

/// Most warps of a row in one block.
pub const RING_WARPS: u32 = 16;

/// Most stages of a block's ring: rows that are in it at a time.
pub const RING_STAGES: u32 = 8;

/// Most stages of all warps of an SM together that are of use.
const WARP_STAGES: u32 = 48;

/// SMs of an H200.
pub(super) const MULTIPROCESSORS: u32 = 132;

/// How many slices a row is cut into if it comes through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ringing {
    /// Vectors that a thread has of a row.
    pub vectors: u32,
    /// Most warps of a single block.
    pub alone_warps: u32,
    /// Warps of a block in a cluster of at most `cluster` blocks.
    pub warps: u32,
    /// See `warps`.
    pub cluster: u32,
    /// Warps of a block in a larger cluster, as far as [`MAX_CLUSTER`] allows.
    pub most_warps: u32,
    /// Rows with several inputs come through a ring only in clusters of at least this size.
    pub joined_cluster: u32,
    /// Warps that an SM has registers for.
    pub resident_warps: u32,
    /// Warps of a single block that has several rows at a time, if those of a row divide it.
    pub group_warps: u32,
}

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

impl Stages {
    /// The same for `rows` rows, with `least` or more at a time.
    const fn for_rows(self, rows: u64, least: u32) -> Self {
        let mut ring = self;
        while ring.rows > least && rows < (2 * MULTIPROCESSORS * ring.rows) as u64 {
            ring.rows /= 2;
        }
        ring
    }
}

impl RowPlan {
    /// A ring, if blocks have room for at least two rows.
    pub(super) const fn of_ring(
        ringing: &Ringing,
        shape: &RowShape,
        device: &RowDevice,
    ) -> Option<Self> {
        let bytes = shape.n * shape.element_bytes as u64;
        let of_warp = LANES * ringing.vectors * VECTOR_BYTES;
        if bytes > (MAX_CLUSTER * RING_WARPS * of_warp) as u64 {
            return None;
        }
        let least = power(bytes.div_ceil((ringing.warps * of_warp) as u64), 1);
        let larger = power(bytes.div_ceil((ringing.most_warps * of_warp) as u64), 1);
        let cluster = if bytes <= (ringing.alone_warps * of_warp) as u64 {
            1
        } else if least <= ringing.cluster {
            least
        } else if larger <= MAX_CLUSTER {
            larger
        } else {
            MAX_CLUSTER
        };
        if shape.inputs > 1 && cluster < ringing.joined_cluster {
            return None;
        }
        let warps = shape
            .slice_vectors(cluster)
            .div_ceil(LANES * ringing.vectors);
        // As many blocks on an SM as it has registers for, but with room for two rows in each.
        let is_group = cluster == 1 && ringing.group_warps.is_multiple_of(warps);
        let rows = if is_group {
            ringing.group_warps / warps
        } else {
            1
        };
        let of_block = warps * rows;
        let of_stage = of_block * of_warp * shape.inputs;
        let mut blocks = ringing.resident_warps / of_block;
        let before = RingLayout::new(0, shape.inputs, 0, of_block, cluster).bytes();
        let mut stages = stages(device, blocks, before, of_stage);
        while blocks > 1 && stages < 2 {
            blocks -= 1;
            stages = self::stages(device, blocks, before, of_stage);
        }
        let of_use = WARP_STAGES / (of_block * blocks);
        if stages > of_use {
            stages = of_use;
        }
        if stages < 2 {
            return None;
        }
        Some(Self {
            strategy: Strategy::Ring(Stages {
                vectors: ringing.vectors,
                stages,
                blocks,
                rows,
            }),
            threads: warps * LANES,
            cluster,
        })
    }

    /// The plan for `rows` rows: blocks have several rows at a time only where there are enough
    /// rows for all SMs.
    #[must_use]
    pub const fn for_rows(self, rows: u64) -> Self {
        match self.strategy {
            Strategy::Ring(ring) => Self {
                strategy: Strategy::Ring(ring.for_rows(rows, 1)),
                ..self
            },
            Strategy::Short(ring) => Self {
                strategy: Strategy::Short(ring.for_rows(rows, LANES / self.threads)),
                ..self
            },
            _ => self,
        }
    }

    /// Blocks of a launch with persistent blocks. It does not depend on the device.
    pub const fn persistent_blocks(&self, rows: u64) -> u32 {
        let most = match self.strategy {
            Strategy::Ring(ring) | Strategy::Short(ring) => {
                resident_blocks(ring.blocks, self.cluster)
            }
            _ => MULTIPROCESSORS * GRAD_BLOCKS,
        };
        match self.blocks(rows) {
            Some(blocks) if blocks < most => blocks,
            _ => most,
        }
    }
}

/// Stages of `stage_bytes`, after `before_bytes`, that fit each of `blocks` blocks on an SM, up to
/// [`RING_STAGES`].
const fn stages(device: &RowDevice, blocks: u32, before_bytes: u32, stage_bytes: u32) -> u32 {
    let room = (device.shared_bytes + RESERVED_BYTES) / blocks;
    let stages = room.saturating_sub(RESERVED_BYTES + before_bytes) / stage_bytes;
    if stages > RING_STAGES {
        RING_STAGES
    } else {
        stages
    }
}

/// Blocks that run at the same time on an H200, with `of_one` on an SM. Larger clusters leave some
/// SMs without a block.
const fn resident_blocks(of_one: u32, cluster: u32) -> u32 {
    let clusters = match cluster {
        1 | 2 => MULTIPROCESSORS / cluster * of_one,
        // 30, 62, 92, 124 clusters: some are made up of what two SMs have left.
        4 => 31 * of_one / 2 * 2,
        8 => 15 * of_one,
        _ => 7 * of_one,
    };
    clusters * cluster
}

/// Columns of a thread that adds up partial sums.
pub const FINISH_COLUMNS: u32 = 4;

/// Columns of a block that adds up `parts` partial sums of each column, and its threads: a thread
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

    /// The layout for `inputs` tensors in `stages` stages, with `vectors` a thread and `warps`
    /// warps in each of the `blocks` blocks of a cluster.
    pub const fn new(vectors: u32, inputs: u32, stages: u32, warps: u32, blocks: u32) -> Self {
        Self {
            warps,
            rounds: match (blocks, inputs) {
                (1, _) => 16,
                // The more places there are, the less often clusters have to synchronise.
                (_, 1) => 64,
                _ => 32,
            },
            places: if blocks > 1 { blocks } else { warps },
            warp_bytes: vectors * LANES * VECTOR_BYTES * inputs * stages,
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
