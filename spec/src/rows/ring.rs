//! Blocks to which rows come through a ring: how many there are, and their shared memory.

use super::{LINE_BYTES, MAX_CLUSTER, RowDevice, RowPlan, RowShape, Strategy, VECTOR_BYTES, power};

/// Lanes of a warp.
const LANES: u32 = 32;

/// Most warps of a row in one block.
pub const RING_WARPS: u32 = 16;

/// Most rows that are in a block at a time.
pub const RING_STAGES: u32 = 8;

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
    /// Warps of a block of a cluster, as far as `cluster` allows.
    pub warps: u32,
    /// Most blocks of a row, where none of them has more than half of [`RING_WARPS`] then.
    pub cluster: u32,
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
        let cluster = if bytes <= (ringing.alone_warps * of_warp) as u64 {
            1
        } else if least <= ringing.cluster {
            least
        } else if bytes <= (ringing.cluster * RING_WARPS / 2 * of_warp) as u64 {
            ringing.cluster
        } else {
            MAX_CLUSTER
        };
        let warps = shape
            .slice_vectors(cluster)
            .div_ceil(LANES * ringing.vectors);
        // As many blocks share a multiprocessor as have its warps, or as have room for two rows.
        let of_stage = warps * of_warp * shape.inputs;
        let mut blocks = RING_WARPS / warps;
        let before = RingLayout::new(0, 0, 0, warps, cluster).bytes();
        let mut stages = stages(device, blocks, before, of_stage);
        while blocks > 1 && stages < 2 {
            blocks -= 1;
            stages = self::stages(device, blocks, before, of_stage);
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
    let multiprocessors = match cluster {
        1 | 2 => MULTIPROCESSORS,
        4 => 124,
        8 => 120,
        _ => 112,
    };
    multiprocessors * of_one / cluster * cluster
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
    /// Places that a row's sums are posted to, or gathered at.
    places: u32,
    /// Bytes of a warp's stages.
    warp_bytes: u32,
}

impl RingLayout {
    /// Rows whose sums have places of their own.
    pub const TURNS: u32 = 16;

    /// Rows from one time that a cluster meets to the next: half of [`RingLayout::TURNS`].
    pub const MEET: u32 = Self::TURNS / 2;

    const GATHERED: u32 = Self::TURNS * 8;
    const LANDED: u32 = 2 * Self::GATHERED;

    /// Of `inputs` rows at a time in `stages` stages, `vectors` a thread, by so many warps of each of
    /// the `blocks` of a cluster.
    pub const fn new(vectors: u32, inputs: u32, stages: u32, warps: u32, blocks: u32) -> Self {
        Self {
            warps,
            places: if warps > blocks { warps } else { blocks },
            warp_bytes: vectors * LANES * VECTOR_BYTES * inputs * stages,
        }
    }

    /// The barrier of what was posted of row `i`.
    pub const fn posted(i: u32) -> u32 {
        i % Self::TURNS * 8
    }

    /// The barrier of what was gathered of row `i`.
    pub const fn gathered(i: u32) -> u32 {
        Self::GATHERED + i % Self::TURNS * 8
    }

    /// The barrier of a warp's stage.
    pub const fn landed(warp: u32, stage: u32) -> u32 {
        Self::LANDED + (warp * RING_STAGES + stage) * 8
    }

    /// Where a block, or a warp, posts what it has of row `i`.
    pub const fn post(&self, i: u32, place: u32) -> u32 {
        Self::landed(self.warps, 0) + (i % Self::TURNS * self.places + place) * VECTOR_BYTES
    }

    /// Where a warp puts what it has of row `i`, for the warp that sends.
    pub const fn gather(&self, i: u32, warp: u32) -> u32 {
        self.post(0, (Self::TURNS + i % Self::TURNS) * self.places + warp)
    }

    /// A warp's stages.
    pub const fn parts(&self, warp: u32) -> u32 {
        let before = self.post(0, 2 * Self::TURNS * self.places);
        before.next_multiple_of(LINE_BYTES) + warp * self.warp_bytes
    }

    /// All of it.
    pub const fn bytes(&self) -> u32 {
        self.parts(self.warps)
    }
}
