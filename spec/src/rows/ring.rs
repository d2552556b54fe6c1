//! Blocks to which rows come through a ring: how many there are, and their shared memory.

use super::{
    LANES, LINE_BYTES, MAX_CLUSTER, RowDevice, RowPlan, RowShape, Strategy, VECTOR_BYTES, power,
};

/// Most warps of a row in one block.
pub const RING_WARPS: u32 = 16;

/// Most rows that are in a block at a time.
pub const RING_STAGES: u32 = 8;

/// Rows of all warps of a multiprocessor that are of use at a time, each counted for itself.
const WARP_STAGES: u32 = 48;

/// Multiprocessors of an H200.
pub(super) const MULTIPROCESSORS: u32 = 132;

/// Shared memory that a multiprocessor has beyond what one block of it can have, and that it keeps for
/// each block.
const RESERVED_BYTES: u32 = 1 << 10;

/// Into how many slices rows go that come through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ringing {
    /// Vectors that a thread has of a row.
    pub vectors: u32,
    /// Most warps of a block that has rows alone.
    pub alone_warps: u32,
    /// Warps of a block of a cluster of at most `cluster` blocks.
    pub warps: u32,
    /// See `warps`.
    pub cluster: u32,
    /// Warps of a block of a larger cluster, as far as [`MAX_CLUSTER`] allows.
    pub most_warps: u32,
    /// Least blocks of rows that are read together with others, where there are slices for those.
    pub joined_cluster: u32,
    /// Warps that a multiprocessor has registers for.
    pub resident_warps: u32,
}

/// What a block has of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stages {
    /// Vectors that a thread has of a row.
    pub vectors: u32,
    /// Rows at a time.
    pub stages: u32,
    /// Blocks that a multiprocessor has room for.
    pub blocks: u32,
}

impl RowPlan {
    /// In a ring, where blocks have room for two rows at least.
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
        // As many blocks share a multiprocessor as have its warps, or as have room for two rows.
        let of_stage = warps * of_warp * shape.inputs;
        let mut blocks = ringing.resident_warps / warps;
        let before = RingLayout::new(0, shape.inputs, 0, warps, cluster).bytes();
        let mut stages = stages(device, blocks, before, of_stage);
        while blocks > 1 && stages < 2 {
            blocks -= 1;
            stages = self::stages(device, blocks, before, of_stage);
        }
        let of_use = WARP_STAGES / (warps * blocks);
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
            }),
            threads: warps * LANES,
            cluster,
        })
    }
}

/// Stages of so many bytes, after so many, in each of the blocks of a multiprocessor, as far as they
/// are of use.
const fn stages(device: &RowDevice, blocks: u32, before_bytes: u32, stage_bytes: u32) -> u32 {
    let room = (device.shared_bytes + RESERVED_BYTES) / blocks;
    let stages = room.saturating_sub(RESERVED_BYTES + before_bytes) / stage_bytes;
    if stages > RING_STAGES {
        RING_STAGES
    } else {
        stages
    }
}

/// Blocks that run at a time on an H200, so many on a multiprocessor: larger clusters leave some
/// alone.
pub(super) const fn resident_blocks(of_one: u32, cluster: u32) -> u32 {
    let clusters = match cluster {
        1 | 2 => MULTIPROCESSORS / cluster * of_one,
        // 30, 62, 92, 124: some lie across two multiprocessors' remains.
        4 => 31 * of_one / 2 * 2,
        8 => 15 * of_one,
        _ => 7 * of_one,
    };
    clusters * cluster
}

/// Columns of a block that adds up so many partial sums of each of `n` columns, and its threads.
pub const fn column_block(parts: u64, n: u64) -> (u32, u32) {
    match parts {
        0..=16 => (256, 256),
        17..=66 => (128, 256),
        67..=264 => (32, 256),
        _ if n >= 1024 => (32, 1024),
        _ => (8, 1024),
    }
}

/// Where things are in shared memory: barriers, places of exchanges, stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// Of the row in the block.
    warps: u32,
    /// Rows of which what was posted has places of its own: a power of two.
    turns: u32,
    /// Places that a row's sums are posted to.
    places: u32,
    /// Bytes of a warp's stages.
    warp_bytes: u32,
}

impl RingLayout {
    /// Rows of which what was gathered in a block has places of its own: two are on their way.
    pub const GATHER_TURNS: u32 = 16;

    /// Of `inputs` rows at a time in `stages` stages, `vectors` a thread, by so many warps of each of
    /// the `blocks` of a cluster.
    pub const fn new(vectors: u32, inputs: u32, stages: u32, warps: u32, blocks: u32) -> Self {
        Self {
            warps,
            turns: match (blocks, inputs) {
                (1, _) => 16,
                // Clusters meet the less often the more there are.
                (_, 1) => 64,
                _ => 32,
            },
            places: if blocks > 1 { blocks } else { warps },
            warp_bytes: vectors * LANES * VECTOR_BYTES * inputs * stages,
        }
    }

    /// Rows of which what was posted has places of its own.
    pub const fn turns(&self) -> u32 {
        self.turns
    }

    /// Places that a row's sums are posted to: one a block of a cluster, or one a warp.
    pub const fn places(&self) -> u32 {
        self.places
    }

    /// Row `i` of those that have places.
    const fn turn(&self, i: u32) -> u32 {
        i & (self.turns - 1)
    }

    /// The barrier of what was posted of row `i`.
    pub const fn posted(&self, i: u32) -> u32 {
        (Self::GATHER_TURNS + self.turn(i)) * 8
    }

    /// Its parity.
    pub const fn posted_parity(&self, i: u32) -> u32 {
        (i & self.turns != 0) as u32
    }

    /// The barrier of what was gathered of row `i`.
    pub const fn gathered(i: u32) -> u32 {
        i % Self::GATHER_TURNS * 8
    }

    /// Its parity.
    pub const fn gathered_parity(i: u32) -> u32 {
        i / Self::GATHER_TURNS % 2
    }

    /// The barrier of a warp's stage.
    pub const fn landed(&self, warp: u32, stage: u32) -> u32 {
        (Self::GATHER_TURNS + self.turns + warp * RING_STAGES + stage) * 8
    }

    /// Where a warp puts what it has of row `i`, for the warp that sends.
    pub const fn gather(&self, i: u32, warp: u32) -> u32 {
        let place = i % Self::GATHER_TURNS * self.warps + warp;
        self.landed(self.warps, 0) + place * VECTOR_BYTES
    }

    /// Where a block, or a warp, posts what it has of row `i`.
    pub const fn post(&self, i: u32, place: u32) -> u32 {
        let place = Self::GATHER_TURNS * self.warps + self.turn(i) * self.places + place;
        self.landed(self.warps, 0) + place * VECTOR_BYTES
    }

    /// A warp's stages.
    pub const fn parts(&self, warp: u32) -> u32 {
        let before = self.post(0, self.turns * self.places);
        before.next_multiple_of(LINE_BYTES) + warp * self.warp_bytes
    }

    /// All of it.
    pub const fn bytes(&self) -> u32 {
        self.parts(self.warps)
    }
}
