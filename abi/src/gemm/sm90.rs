//! Hopper's GEMM kernels: TMA, `wgmma`, warp specialisation, a persistent grid.
//!
//! [`Sm90Entry::ALL`] has all entries, and [`Sm90Entry::read`] says how they are named. Each takes
//! tensor maps of A, B and D by value (below), and then
//! - plain and promoted: `(scale_a: *const f32, scale_b: *const f32, alpha: *const f32, workspace:
//!   *mut u32, params: GemmParams, launch: Sm90Launch)`; scales are one f32 each, or null;
//! - fused and promoted_fused: `workspace: *mut u32`, the arguments of [`super::epilogue`], and
//!   `launch: Sm90Launch`.
//!
//! Plain ones of i8 write i32 and have no scales; their `alpha` is as [`super::integer`] says.
//!
//! `workspace` may be null if no tile is cut; otherwise it is one of [`super::stream_k`].
//!
//! | map | dimensions, innermost first | box |
//! |---|---|---|
//! | A or B, K-major | k, m or n, batch | [`SPAN_BYTES`], the rows that a block loads, 1 |
//! | A or B, MN-major | m or n, k, batch | [`SPAN_BYTES`], as many k, 1; a tile takes several |
//! | D | n, m, batch | [`Sm90Tile::store_span_bytes`], [`STORE_ROWS`], 1 |
//!
//! Each map has the swizzle of its box's rows: 128 bytes, for D also fewer. An operand that is
//! broadcast has a batch of one.
//!
//! TMA requires that A and B are aligned to 16 bytes, that their leading dimensions and batch
//! strides are multiples of 16 bytes, and that k > 0. The same holds for D, whose rows must also be
//! multiples of 16 bytes long, as TMA stores nothing smaller. D is free of all that in a launch with
//! [`Sm90Launch::NO_MAP_OF_D`].

pub use super::order::{TileIndex, TileOrder};
use super::raster::Raster;
use super::{EpilogueParams, GemmParams, Transpose};
use crate::DType;
use crate::entry::{Parts, entries};
use crate::kernel_param;

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

    /// True if boxes do not divide a row of the tile: the last one, which ends with the row, then
    /// overlaps the one before it, and both store the same values there. An epilogue that reads
    /// what D replaces must not use such a tile.
    pub const fn boxes_overlap(&self, size_bytes: u32) -> bool {
        !(self.tile_n * size_bytes).is_multiple_of(self.store_span_bytes(size_bytes))
    }

    /// Whether its entries do stream-K if a launch says so ([`Sm90Launch::shared_tiles`]): only
    /// tiles with so few accumulators that handing them over is worth it.
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
    /// `wgmma`s: rounded to 16 bits, those of 64 × 256 still fit beside the sums of as many. Narrower
    /// cooperative tiles are for one tile a block, which has no next one.
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

kernel_param! {
    /// What the host tells the kernel about a launch.
    #[derive(Debug, PartialEq, Eq)]
    pub struct Sm90Launch {
        /// The tiles.
        pub order: TileOrder,
        /// [`NO_MAP_OF_D`](Self::NO_MAP_OF_D) or 0.
        pub flags: u32,
        /// Stream-K cuts this number of tiles, the last ones: see [`super::stream_k`]. 0 if the tile
        /// does not [take that](Sm90Tile::takes_stream_k); if not 0, there is a workspace.
        pub shared_tiles: u32,
        /// Blocks among which they are cut, the first ones; 0 if there are no such tiles.
        pub sharers: u32,
    }
}

impl Sm90Launch {
    /// There is no valid map of D; D is stored through its pointer. Only fused entries whose tile
    /// [can do that](Sm90Tile::stores_by_thread) take it.
    pub const NO_MAP_OF_D: u32 = 1;

    /// A launch that computes whole tiles, those of `order`, and stores by a map of D.
    pub const fn whole(order: TileOrder) -> Self {
        Self {
            order,
            flags: 0,
            shared_tiles: 0,
            sharers: 0,
        }
    }
}

/// The epilogues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueKind {
    /// `alpha`, and a scale for each operand; nothing else.
    Plain,
    /// As plain, but each k tile's accumulators are added to an f32 sum in registers: for 8-bit
    /// types, tensor cores keep fewer bits of a running sum.
    Promoted,
    /// All of [`super::epilogue`].
    Fused,
    /// The same, with sums as in promoted ones.
    PromotedFused,
}

impl EpilogueKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::Promoted,
        Self::Fused,
        Self::PromotedFused,
    ];

    const fn of_name(parts: &mut Parts) -> Self {
        match (parts.take("promoted"), parts.take("fused")) {
            (true, true) => Self::PromotedFused,
            (true, false) => Self::Promoted,
            (false, true) => Self::Fused,
            (false, false) => {
                parts.expect("plain");
                Self::Plain
            }
        }
    }

    /// Whether entries take the arguments of [`super::epilogue`].
    pub const fn is_fused(self) -> bool {
        matches!(self, Self::Fused | Self::PromotedFused)
    }

    /// Whether sums are added up in registers.
    pub const fn is_promoted(self) -> bool {
        matches!(self, Self::Promoted | Self::PromotedFused)
    }

    /// The same with all of [`super::epilogue`].
    pub const fn fused(self) -> Self {
        if self.is_promoted() {
            Self::PromotedFused
        } else {
            Self::Fused
        }
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Entry {
    name: &'static str,
    /// Element type of A.
    pub a: DType,
    /// Element type of B.
    pub b: DType,
    /// Element type of D.
    pub output: DType,
    /// How A is stored.
    pub trans_a: Transpose,
    /// How B is stored.
    pub trans_b: Transpose,
    /// The tile.
    pub tile: Sm90Tile,
    /// The epilogue.
    pub epilogue: EpilogueKind,
}

impl Sm90Entry {
    /// The entry of a name `gemm_sm90_<a>[_<b>][_<out>]_<layout>_<m>x<n>_s<stages>[_pp][_<cluster>]_<epilogue>`.
    /// One dtype stands for all, two for the operands and D. `pp` is the ping-pong schedule, and `c2x1`
    /// a cluster of two rows of tiles and one column.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_sm90");
        let (a, b, output) = match (parts.dtype(), parts.dtype(), parts.dtype()) {
            (Some(a), None, _) => (a, a, a),
            (Some(a), Some(output), None) => (a, a, output),
            (Some(a), Some(b), Some(output)) => (a, b, output),
            (None, ..) => panic!("an entry's name lacks a dtype"),
        };
        let [trans_a, trans_b] = Transpose::of_layout(&mut parts);
        let [tile_m, tile_n] = parts.numbers("");
        let stages = parts.number("s");
        let schedule = if parts.take("pp") {
            Schedule::Pingpong
        } else {
            Schedule::Cooperative
        };
        let cluster = match (parts.take("c2x1"), parts.take("c2x2")) {
            (true, _) => Cluster { m: 2, n: 1 },
            (_, true) => Cluster { m: 2, n: 2 },
            _ => Cluster::ONE,
        };
        let entry = Self {
            name,
            a,
            b,
            output,
            trans_a,
            trans_b,
            tile: Sm90Tile {
                cluster,
                ..tile(tile_m, tile_n, stages, schedule)
            },
            epilogue: EpilogueKind::of_name(&mut parts),
        };
        parts.end();
        entry
    }

    /// The entries of these types (A, B, D), layouts (A, B) and epilogue.
    pub fn of(
        dtypes: (DType, DType, DType),
        layout: (Transpose, Transpose),
        epilogue: EpilogueKind,
    ) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |entry| {
            (entry.a, entry.b, entry.output) == dtypes
                && (entry.trans_a, entry.trans_b) == layout
                && entry.epilogue == epilogue
        })
    }
}

const fn tile(tile_m: u32, tile_n: u32, stages: u32, schedule: Schedule) -> Sm90Tile {
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

entries! { $ Sm90Entry((GemmParams, Option<EpilogueParams>, Sm90Launch)) {
    /// Plain and promoted epilogues.
    gemm_sm90_plain {
        gemm_sm90_bf16_nt_128x128_s6_pp_plain;
        gemm_sm90_bf16_nt_128x160_s5_pp_plain;
        gemm_sm90_bf16_nt_128x168_s5_pp_plain;
        gemm_sm90_bf16_nt_128x176_s5_pp_plain;
        gemm_sm90_bf16_nt_128x192_s4_pp_plain;
        gemm_sm90_bf16_nt_128x256_s4_plain;
        gemm_sm90_bf16_nt_128x128_s6_pp_c2x2_plain;
        gemm_sm90_bf16_nt_128x192_s4_pp_c2x1_plain;
        gemm_sm90_bf16_nt_64x128_s8_pp_plain;
        gemm_sm90_bf16_nt_128x224_s4_plain;
        gemm_sm90_bf16_nt_128x96_s6_plain;
        gemm_sm90_bf16_nt_128x80_s7_plain;
        gemm_sm90_bf16_nt_128x48_s8_plain;
        gemm_sm90_bf16_f32_nt_128x128_s6_pp_plain;
        gemm_sm90_bf16_nn_128x128_s6_pp_plain;
        gemm_sm90_bf16_nn_128x192_s4_pp_plain;
        gemm_sm90_bf16_nn_128x256_s4_plain;
        gemm_sm90_bf16_nn_128x128_s6_pp_c2x2_plain;
        gemm_sm90_bf16_nn_128x256_s4_c2x1_plain;
        gemm_sm90_bf16_nn_128x64_s8_pp_plain;
        gemm_sm90_bf16_f32_nn_128x128_s6_pp_plain;
        gemm_sm90_bf16_tn_128x128_s6_pp_plain;
        gemm_sm90_bf16_tn_128x192_s4_pp_plain;
        gemm_sm90_bf16_tn_128x256_s4_plain;
        gemm_sm90_bf16_tn_128x128_s6_pp_c2x2_plain;
        gemm_sm90_bf16_tn_128x256_s4_c2x1_plain;
        gemm_sm90_bf16_tn_128x64_s8_pp_plain;
        gemm_sm90_bf16_f32_tn_128x128_s6_pp_plain;
        gemm_sm90_bf16_tt_128x128_s6_pp_plain;
        gemm_sm90_bf16_tt_128x256_s4_plain;
        gemm_sm90_bf16_tt_128x128_s6_pp_c2x2_plain;
        gemm_sm90_bf16_tt_128x256_s4_c2x1_plain;
        gemm_sm90_bf16_tt_128x64_s8_pp_plain;
        gemm_sm90_bf16_f32_tt_128x128_s6_pp_plain;
        gemm_sm90_f16_nt_128x128_s6_pp_plain;
        gemm_sm90_f16_nt_128x176_s5_pp_plain;
        gemm_sm90_f16_nt_128x192_s4_pp_plain;
        gemm_sm90_f16_nt_128x256_s4_plain;
        gemm_sm90_f16_nt_128x128_s6_pp_c2x2_plain;
        gemm_sm90_f16_nt_128x192_s4_pp_c2x1_plain;
        gemm_sm90_f16_nt_64x128_s8_pp_plain;
        gemm_sm90_f16_nt_128x80_s7_plain;
        gemm_sm90_f16_nt_128x48_s8_plain;
        gemm_sm90_f16_f32_nt_128x128_s6_pp_plain;
        gemm_sm90_f16_nn_128x128_s6_pp_plain;
        gemm_sm90_f16_nn_128x192_s4_pp_plain;
        gemm_sm90_f16_nn_128x256_s4_plain;
        gemm_sm90_f16_nn_128x128_s6_pp_c2x2_plain;
        gemm_sm90_f16_nn_128x256_s4_c2x1_plain;
        gemm_sm90_f16_nn_128x64_s8_pp_plain;
        gemm_sm90_f16_f32_nn_128x128_s6_pp_plain;
        gemm_sm90_f16_tn_128x128_s6_pp_plain;
        gemm_sm90_f16_tn_128x192_s4_pp_plain;
        gemm_sm90_f16_tn_128x256_s4_plain;
        gemm_sm90_f16_tn_128x128_s6_pp_c2x2_plain;
        gemm_sm90_f16_tn_128x256_s4_c2x1_plain;
        gemm_sm90_f16_tn_128x64_s8_pp_plain;
        gemm_sm90_f16_f32_tn_128x128_s6_pp_plain;
        gemm_sm90_f16_tt_128x128_s6_pp_plain;
        gemm_sm90_f16_tt_128x256_s4_plain;
        gemm_sm90_f16_tt_128x128_s6_pp_c2x2_plain;
        gemm_sm90_f16_tt_128x256_s4_c2x1_plain;
        gemm_sm90_f16_tt_128x64_s8_pp_plain;
        gemm_sm90_f16_f32_tt_128x128_s6_pp_plain;
        gemm_sm90_e4m3_bf16_nt_128x128_s6_pp_plain;
        gemm_sm90_e4m3_bf16_nt_128x192_s4_pp_plain;
        gemm_sm90_e4m3_bf16_nt_128x192_s4_pp_c2x1_plain;
        gemm_sm90_e4m3_f32_nt_128x128_s6_pp_plain;
        gemm_sm90_e4m3_bf16_nt_128x128_s6_promoted;
        gemm_sm90_e4m3_bf16_nt_128x176_s5_promoted;
        gemm_sm90_e4m3_bf16_nt_128x256_s4_promoted;
        gemm_sm90_e4m3_bf16_nt_128x96_s6_promoted;
        gemm_sm90_e4m3_bf16_nt_64x128_s8_pp_promoted;
        gemm_sm90_e4m3_bf16_nt_128x128_s6_c2x2_promoted;
        gemm_sm90_e4m3_bf16_nt_128x256_s4_c2x1_promoted;
        gemm_sm90_e4m3_f32_nt_128x128_s6_promoted;
        gemm_sm90_e4m3_e5m2_bf16_nt_128x128_s6_pp_plain;
        gemm_sm90_e4m3_e5m2_f32_nt_128x128_s6_pp_plain;
        gemm_sm90_e4m3_e5m2_bf16_nt_128x128_s6_promoted;
        gemm_sm90_e4m3_e5m2_f32_nt_128x128_s6_promoted;
        gemm_sm90_e5m2_e4m3_bf16_nt_128x128_s6_pp_plain;
        gemm_sm90_e5m2_e4m3_f32_nt_128x128_s6_pp_plain;
        gemm_sm90_e5m2_e4m3_bf16_nt_128x128_s6_promoted;
        gemm_sm90_e5m2_e4m3_f32_nt_128x128_s6_promoted;
        gemm_sm90_f32_nt_128x128_s6_pp_plain;
        gemm_sm90_f32_nt_128x256_s4_plain;
    }
    /// Epilogues with all of [`super::epilogue`]: the element type of D.
    gemm_sm90_fused {
        gemm_sm90_bf16_nt_128x128_s6_pp_fused(bf16);
        gemm_sm90_bf16_nt_128x192_s4_pp_fused(bf16);
        gemm_sm90_bf16_nt_128x192_s4_pp_c2x1_fused(bf16);
        gemm_sm90_bf16_nn_128x128_s6_pp_fused(bf16);
        gemm_sm90_bf16_nn_128x192_s4_pp_fused(bf16);
        gemm_sm90_bf16_nn_128x128_s6_pp_c2x2_fused(bf16);
        gemm_sm90_f16_nt_128x128_s6_pp_fused(f16);
        gemm_sm90_f16_nt_128x192_s4_pp_fused(f16);
        gemm_sm90_f16_nt_128x192_s4_pp_c2x1_fused(f16);
        gemm_sm90_f16_nn_128x128_s6_pp_fused(f16);
        gemm_sm90_f16_nn_128x192_s4_pp_fused(f16);
        gemm_sm90_f16_nn_128x128_s6_pp_c2x2_fused(f16);
        gemm_sm90_bf16_tn_128x128_s6_pp_fused(bf16);
        gemm_sm90_bf16_tt_128x128_s6_pp_fused(bf16);
        gemm_sm90_f16_tn_128x128_s6_pp_fused(f16);
        gemm_sm90_f16_tt_128x128_s6_pp_fused(f16);
        gemm_sm90_bf16_f32_nt_128x128_s6_pp_fused(f32);
        gemm_sm90_bf16_f32_nn_128x128_s6_pp_fused(f32);
        gemm_sm90_bf16_f32_tn_128x128_s6_pp_fused(f32);
        gemm_sm90_bf16_f32_tt_128x128_s6_pp_fused(f32);
        gemm_sm90_f16_f32_nt_128x128_s6_pp_fused(f32);
        gemm_sm90_f16_f32_nn_128x128_s6_pp_fused(f32);
        gemm_sm90_f16_f32_tn_128x128_s6_pp_fused(f32);
        gemm_sm90_f16_f32_tt_128x128_s6_pp_fused(f32);
        gemm_sm90_f32_nt_128x128_s6_pp_fused(f32);
        gemm_sm90_e4m3_bf16_nt_128x192_s4_pp_fused(bf16);
        gemm_sm90_e4m3_bf16_nt_128x256_s4_promoted_fused(bf16);
        gemm_sm90_e4m3_f32_nt_128x128_s6_pp_fused(f32);
        gemm_sm90_e4m3_f32_nt_128x128_s6_promoted_fused(f32);
        gemm_sm90_e4m3_e5m2_bf16_nt_128x192_s4_pp_fused(bf16);
        gemm_sm90_e4m3_e5m2_bf16_nt_128x256_s4_promoted_fused(bf16);
        gemm_sm90_e4m3_e5m2_f32_nt_128x128_s6_pp_fused(f32);
        gemm_sm90_e4m3_e5m2_f32_nt_128x128_s6_promoted_fused(f32);
        gemm_sm90_e5m2_e4m3_bf16_nt_128x192_s4_pp_fused(bf16);
        gemm_sm90_e5m2_e4m3_bf16_nt_128x256_s4_promoted_fused(bf16);
        gemm_sm90_e5m2_e4m3_f32_nt_128x128_s6_pp_fused(f32);
        gemm_sm90_e5m2_e4m3_f32_nt_128x128_s6_promoted_fused(f32);
    }
    /// Sums in i32, plain.
    gemm_sm90_sums {
        gemm_sm90_i8_i32_nt_128x256_s4_plain;
        gemm_sm90_i8_i32_nt_128x192_s4_pp_plain;
        gemm_sm90_i8_i32_nt_128x128_s6_plain;
        gemm_sm90_i8_i32_nt_64x128_s8_pp_plain;
        gemm_sm90_i8_i32_nt_128x128_s6_c2x2_plain;
    }
    /// Sums in i32, with all of [`super::epilogue`].
    gemm_sm90_sums_fused {
        gemm_sm90_i8_bf16_nt_128x256_s4_fused(bf16);
        gemm_sm90_i8_f16_nt_128x256_s4_fused(f16);
        gemm_sm90_i8_f32_nt_128x256_s4_fused(f32);
    }
} }
