//! The tile of a block of Hopper's GEMM kernels: its shared memory, its cluster, the grid of a launch.

use super::TileOrder;
use crate::gemm::raster::Raster;

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Consumer warpgroups.
pub const CONSUMERS: u32 = 2;
/// Threads of a block: the loader's warpgroup and the consumers'.
pub const THREADS: u32 = (1 + CONSUMERS) * WARPGROUP;
/// Bytes of k in a stage: what the widest swizzle spans.
pub const SPAN_BYTES: u32 = 128;
/// Rows of D that one `wgmma` computes.
pub const MMA_M: u32 = 64;
/// Rows of the boxes in which a warp stores D.
pub const STORE_ROWS: u32 = 16;
/// Boxes of a warp: one is filled while the other is stored.
pub const STORE_BUFFERS: u32 = 2;
/// Bytes of such a box.
pub const STORE_BYTES: u32 = STORE_ROWS * SPAN_BYTES;
/// Alignment of the shared memory, and so of the stages of A and B.
pub const TILE_ALIGN: u32 = 1024;
/// Most dynamic shared memory that a block gets on sm_90.
pub const SMEM_MAX_BYTES: u32 = 227 * 1024;

/// How the consumer warpgroups share the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Each has half of the rows of every tile.
    Cooperative,
    /// Each has every other tile: one stores while the other multiplies.
    Pingpong,
}

/// The tile of a block and its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Tile {
    /// Rows of D.
    pub tile_m: u32,
    /// Columns of D.
    pub tile_n: u32,
    /// Number of stages, each a tile of A and one of B.
    pub stages: u32,
    /// How the consumers share the work.
    pub schedule: Schedule,
    /// The blocks of a cluster.
    pub cluster: Cluster,
    /// The order of a launch's tiles.
    pub raster: Raster,
}

/// Blocks that compute neighbouring tiles at the same time. Each loads a part of the operands that
/// they share, and multicasts it to the others, so that L2 sends less.
///
/// Ranks run down the columns: the block of rank r has row r % m and column r / m of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// Rows of tiles; the blocks of a column share B.
    pub m: u32,
    /// Columns of tiles; the blocks of a row share A.
    pub n: u32,
}

impl Cluster {
    /// A block alone.
    pub const ONE: Self = Self { m: 1, n: 1 };

    /// Number of blocks.
    pub const fn blocks(self) -> u32 {
        self.m * self.n
    }
}

impl Sm90Tile {
    /// Bytes of A in a stage.
    pub const fn a_bytes(&self) -> u32 {
        self.tile_m * SPAN_BYTES
    }

    /// Bytes of B in a stage.
    pub const fn b_bytes(&self) -> u32 {
        self.tile_n * SPAN_BYTES
    }

    /// Rows of A, and columns of B, that a block loads of each k tile: its part of what its cluster
    /// shares.
    pub const fn loaded(&self) -> [u32; 2] {
        [self.tile_m / self.cluster.n, self.tile_n / self.cluster.m]
    }

    /// How many `wgmma`s of [`MMA_M`] rows make up a consumer's part of a tile.
    pub const fn subtiles(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => self.tile_m / CONSUMERS / MMA_M,
            Schedule::Pingpong => self.tile_m / MMA_M,
        }
    }

    /// How many consumers wait for, and release, a stage.
    pub const fn readers(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => CONSUMERS,
            Schedule::Pingpong => 1,
        }
    }

    /// Offsets in shared memory, from the first multiple of [`TILE_ALIGN`] on.
    pub const fn smem(&self) -> SmemMap {
        let b = self.stages * self.a_bytes();
        let store = b + self.stages * self.b_bytes();
        let barriers = store + CONSUMERS * 4 * STORE_BUFFERS * STORE_BYTES;
        SmemMap {
            b,
            store,
            barriers,
            end: barriers + 16 * self.stages,
        }
    }

    /// Dynamic shared memory of a launch, with room to align it.
    pub const fn smem_bytes(&self) -> u32 {
        let bytes = self.smem().end + TILE_ALIGN - 16;
        assert!(bytes <= SMEM_MAX_BYTES, "the stages do not fit");
        bytes
    }

    /// Bytes of a row of the boxes in which D, of elements of `size_bytes`, is stored: the widest
    /// swizzle span that fits into a row of the tile.
    pub const fn store_span_bytes(&self, size_bytes: u32) -> u32 {
        let row_bytes = self.tile_n * size_bytes;
        let mut span_bytes = SPAN_BYTES;
        while row_bytes < span_bytes {
            span_bytes /= 2;
        }
        span_bytes
    }

    /// True if boxes do not divide a row of the tile. The last one, which ends with the row, then
    /// overlaps the one before it, and both store the same values there. An epilogue that reads
    /// what D replaces must not use such a tile.
    pub const fn boxes_overlap(&self, size_bytes: u32) -> bool {
        !(self.tile_n * size_bytes).is_multiple_of(self.store_span_bytes(size_bytes))
    }

    /// Whether its entries do stream-K if a launch says so
    /// ([`shared_tiles`](super::Sm90Launch::shared_tiles)): only tiles with so few accumulators that
    /// handing them over is worth it.
    pub const fn takes_stream_k(&self) -> bool {
        let is_pingpong = matches!(self.schedule, Schedule::Pingpong);
        is_pingpong && self.tile_m == 128 && self.tile_n <= 128 && self.cluster.blocks() == 1
    }

    /// Whether its fused entries can store a D that no map describes: larger tiles have no
    /// registers left for that.
    pub const fn stores_by_thread(&self) -> bool {
        self.subtiles() * self.tile_n <= 256
    }

    /// Whether results of `size_bytes` each are held in registers, and stored under the next tile's
    /// `wgmma`s. Rounded to 16 bits, the results of 64 × 256 still fit beside as many sums.
    /// Narrower cooperative tiles are for one tile a block, which has no next one.
    pub const fn holds_results(&self, size_bytes: u32) -> bool {
        matches!(self.schedule, Schedule::Cooperative)
            && self.subtiles() == 1
            && self.tile_n == 256
            && size_bytes == 2
    }

    /// Rows and columns of D that a cluster computes at a time.
    pub const fn cluster_extents(&self) -> (u32, u32) {
        (self.tile_m * self.cluster.m, self.tile_n * self.cluster.n)
    }

    /// Tiles of `m` × `n`, as (rows, columns): whole clusters of them.
    pub const fn grid_tiles(&self, m: u32, n: u32) -> (u32, u32) {
        let (rows, columns) = self.grid_clusters(m, n);
        (rows * self.cluster.m, columns * self.cluster.n)
    }

    /// Clusters' tiles of `m` × `n`, as (rows, columns).
    const fn grid_clusters(&self, m: u32, n: u32) -> (u32, u32) {
        let (rows, columns) = self.cluster_extents();
        (m.div_ceil(rows), n.div_ceil(columns))
    }

    /// The order of the clusters' tiles of `batch` matrices of `m` × `n`, by bands of `group` rows of
    /// tiles. For extents of which [`grid`](Self::grid) makes a launch: there are fewer than 2^31
    /// tiles.
    pub const fn order(&self, m: u32, n: u32, batch: u32, group: u32) -> TileOrder {
        TileOrder::new(
            self.grid_clusters(m, n),
            batch,
            group.div_ceil(self.cluster.m),
        )
    }

    /// Blocks of a launch over `batch` matrices: as many as run at the same time; each takes tile
    /// after tile. `None` if there is nothing to compute, or if there are 2^31 tiles or more.
    pub const fn grid(&self, m: u32, n: u32, batch: u32, multiprocessors: u32) -> Option<u32> {
        let (rows, columns) = self.grid_clusters(m, n);
        let clusters = (rows as u64 * columns as u64).saturating_mul(batch as u64);
        let blocks = self.cluster.blocks();
        if clusters == 0 || clusters.saturating_mul(blocks as u64) >= 1 << 31 {
            return None;
        }
        let at_once = match multiprocessors / blocks {
            0 => 1,
            some => some,
        };
        let clusters = if clusters < at_once as u64 {
            clusters as u32
        } else {
            at_once
        };
        Some(clusters * blocks)
    }
}

/// Offsets in shared memory, in bytes. A is at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmemMap {
    /// B.
    pub b: u32,
    /// Boxes of D: [`STORE_BUFFERS`] for each consumer warp.
    pub store: u32,
    /// The mbarriers.
    pub barriers: u32,
    /// The end.
    pub end: u32,
}

pub(super) const fn tile(tile_m: u32, tile_n: u32, stages: u32, schedule: Schedule) -> Sm90Tile {
    Sm90Tile {
        tile_m,
        tile_n,
        stages,
        schedule,
        cluster: Cluster::ONE,
        raster: Raster::Grouped,
    }
}

/// The tile of most shapes, and of kernels of users' own.
pub const TILE_128X128: Sm90Tile = tile(128, 128, 6, Schedule::Pingpong);
