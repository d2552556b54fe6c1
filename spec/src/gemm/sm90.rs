//! Hopper's kernels: tensor copies, wgmma, warps with roles, a persistent grid.
//!
//! Entries are named `gemm_sm90_<a>[_<b>][_<out>]_<layout>_<tile>_<epilogue>`, for example
//! `gemm_sm90_bf16_nt_128x256_s4_plain`; [`Sm90Entry`] prints the name, and [`tiles`] says which
//! there are. Each takes tensor maps of A, B and D by value (below), and then
//! - plain: `(scale_a: *const f32, scale_b: *const f32, alpha: *const f32, params: GemmParams,
//!   launch: Sm90Launch, workspace: *mut u32)`; scales are one f32 each, or null;
//! - fused: `launch: Sm90Launch, workspace: *mut u32` and the tail of [`super::epilogue`].
//!
//! `workspace` may be null where no tile is cut; else it is one of [`super::stream_k`].
//!
//! | map | dimensions, innermost first | box |
//! |---|---|---|
//! | A or B whose k is contiguous | k, m or n, batch | [`SPAN_BYTES`], the tile's rows (of B, a block's part), 1 |
//! | A or B whose other extent is | m or n, k, batch | [`SPAN_BYTES`], as many k, 1; a tile takes several |
//! | D | n, m, batch | [`Sm90Tile::store_span_bytes`], [`STORE_ROWS`], 1 |
//!
//! All have the swizzle of their box's rows, 128 bytes but for D; an operand that is repeated is a batch of one.
//!
//! The tensor copies want A and B aligned to 16 bytes, their leading dimensions and batch strides
//! multiples of 16 bytes, and k > 0. So does D, but for [`Sm90Launch::NO_MAP_OF_D`], and its rows
//! have whole units of 16 bytes: tensor copies write no less.

use core::fmt;

use super::Transpose;
use super::raster::{Raster, back_and_forth, divided, hilbert};
use crate::DType;

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Warpgroups that multiply.
pub const CONSUMERS: u32 = 2;
/// Threads of a block: a warpgroup that loads, and those that multiply.
pub const THREADS: u32 = (1 + CONSUMERS) * WARPGROUP;
/// Bytes of k that a stage holds: the span of the widest swizzle.
pub const SPAN_BYTES: u32 = 128;
/// Rows of D that one wgmma computes.
pub const MMA_M: u32 = 64;
/// Rows of the boxes in which a warp stores D.
pub const STORE_ROWS: u32 = 16;
/// Boxes that a warp may have on their way to D.
pub const STORE_BUFFERS: u32 = 2;
/// Bytes of such a box.
pub const STORE_BYTES: u32 = STORE_ROWS * SPAN_BYTES;
/// Alignment of tiles.
pub const TILE_ALIGN: u32 = 1024;
/// Most dynamic shared memory that a block gets on sm_90.
pub const SMEM_MAX_BYTES: u32 = 227 * 1024;

/// How the consumers share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Each has half of the rows of every tile.
    Cooperative,
    /// Each has every other tile: one stores while the other multiplies.
    Pingpong,
}

/// The tile of a block, and how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Tile {
    /// Rows of D.
    pub tile_m: u32,
    /// Columns of D.
    pub tile_n: u32,
    /// Depth of the ring of operand tiles.
    pub stages: u32,
    /// Blocks of a cluster along m, which load B for each other.
    pub cluster_m: u32,
    /// Blocks of a cluster along n, which load A for each other. One of the two is 1.
    pub cluster_n: u32,
    /// How the consumers share the work.
    pub schedule: Schedule,
    /// In which order a launch's tiles are taken.
    pub raster: Raster,
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

    /// Blocks of a cluster.
    pub const fn cluster(&self) -> u32 {
        self.cluster_m * self.cluster_n
    }

    /// Wgmmas of [`MMA_M`] rows that a consumer has of a tile.
    pub const fn subtiles(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => self.tile_m / CONSUMERS / MMA_M,
            Schedule::Pingpong => self.tile_m / MMA_M,
        }
    }

    /// Consumers that wait for, and release, a stage.
    pub const fn readers(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => CONSUMERS,
            Schedule::Pingpong => 1,
        }
    }

    /// Where everything is, from the first multiple of [`TILE_ALIGN`] on.
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

    /// Dynamic shared memory to ask for, wherever it begins.
    pub const fn smem_bytes(&self) -> u32 {
        let bytes = self.smem().end + TILE_ALIGN - 16;
        assert!(bytes <= SMEM_MAX_BYTES, "the stages do not fit");
        bytes
    }

    /// Bytes of a row of the boxes in which D, of elements of `size_bytes`, is stored: the widest span
    /// of a swizzle that a row of the tile has.
    pub const fn store_span_bytes(&self, size_bytes: u32) -> u32 {
        let row_bytes = self.tile_n * size_bytes;
        let mut span_bytes = SPAN_BYTES;
        while row_bytes < span_bytes {
            span_bytes /= 2;
        }
        span_bytes
    }

    /// True where boxes do not divide a row of the tile: the one that ends with it begins in the one
    /// before, and both bring the same there. Not for an epilogue that reads what D replaces.
    pub const fn boxes_overlap(&self, size_bytes: u32) -> bool {
        !(self.tile_n * size_bytes).is_multiple_of(self.store_span_bytes(size_bytes))
    }

    /// Whether its entries cut tiles where a launch says so ([`Sm90Launch::shared_tiles`]): those of
    /// tiles whose sums are few enough for that to be worth it.
    pub const fn takes_stream_k(&self) -> bool {
        let is_pingpong = matches!(self.schedule, Schedule::Pingpong);
        is_pingpong && self.tile_m <= 128 && self.tile_n <= 128 && self.cluster() == 1
    }

    /// Whether its fused entries write a D that no map describes: those of larger tiles have no
    /// registers left for that.
    pub const fn stores_by_thread(&self) -> bool {
        self.subtiles() * self.tile_n <= 256
    }

    /// Clusters that run at a time on so many multiprocessors. Of those that form a group in hardware,
    /// 16 or 18 on an H200, some are left over by clusters of four: 30 run there, not 33.
    pub const fn clusters(&self, multiprocessors: u32) -> u32 {
        let clusters = multiprocessors / self.cluster();
        let clusters = if self.cluster() > 2 {
            clusters - clusters / 11
        } else {
            clusters
        };
        if clusters == 0 { 1 } else { clusters }
    }

    /// Clusters of tiles of `m` × `n`, as (rows, columns).
    pub const fn grid_tiles(&self, m: u32, n: u32) -> (u32, u32) {
        (
            m.div_ceil(self.tile_m * self.cluster_m),
            n.div_ceil(self.tile_n * self.cluster_n),
        )
    }

    /// Blocks of a launch over `batch` products: as many as fit at once, each takes tile after tile.
    /// `None` where there is nothing to compute, or more tiles than 2^32.
    pub const fn grid(&self, m: u32, n: u32, batch: u32, multiprocessors: u32) -> Option<u32> {
        let (rows, columns) = self.grid_tiles(m, n);
        let tiles = (rows as u64 * columns as u64).saturating_mul(batch as u64);
        if tiles == 0 || tiles * self.cluster() as u64 > u32::MAX as u64 {
            return None;
        }
        let clusters = self.clusters(multiprocessors);
        let used = if tiles < clusters as u64 {
            tiles as u32
        } else {
            clusters
        };
        Some(used * self.cluster())
    }
}

impl fmt::Display for Sm90Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}_s{}", self.tile_m, self.tile_n, self.stages)?;
        if self.cluster() > 1 {
            write!(f, "_c{}x{}", self.cluster_m, self.cluster_n)?;
        }
        if self.schedule == Schedule::Pingpong {
            f.write_str("_pp")?;
        }
        if self.raster == Raster::Hilbert {
            f.write_str("_hilbert")?;
        }
        Ok(())
    }
}

/// Offsets in shared memory. A is at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmemMap {
    /// B.
    pub b: u32,
    /// Boxes on their way to D: [`STORE_BUFFERS`] for each warp that multiplies.
    pub store: u32,
    /// The mbarriers.
    pub barriers: u32,
    /// The first byte behind all.
    pub end: u32,
}

/// How the host and the kernel share one launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sm90Launch {
    /// Rows of tiles (of clusters of them) taken together where the raster is [`Raster::Grouped`].
    pub raster_group: u32,
    /// [`NO_MAP_OF_D`](Self::NO_MAP_OF_D) or 0.
    pub flags: u32,
    /// The first so many tiles are cut: see [`super::stream_k`]. 0 where the tile does not
    /// [take that](Sm90Tile::takes_stream_k); else there is a workspace.
    pub shared_tiles: u32,
}

impl Sm90Launch {
    /// The map of D means nothing: D is written by its pointer. With the fused epilogue alone, where
    /// the tile [has that](Sm90Tile::stores_by_thread).
    pub const NO_MAP_OF_D: u32 = 1;
}

/// The tile that is computed at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileIndex {
    /// Product of the batch.
    pub batch: u32,
    /// Row, in clusters of tiles.
    pub m: u32,
    /// Column, in tiles.
    pub n: u32,
}

/// The tiles of a launch, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOrder {
    m_tiles: u32,
    n_tiles: u32,
    raster: Raster,
    group: u32,
    /// All of them.
    pub count: u32,
}

impl TileOrder {
    /// Those of `batch` products of `m` × `n`.
    #[inline(always)]
    pub const fn new(tile: Sm90Tile, m: u32, n: u32, batch: u32, raster_group: u32) -> Self {
        let (m_tiles, n_tiles) = tile.grid_tiles(m, n);
        Self {
            m_tiles,
            n_tiles,
            raster: tile.raster,
            group: raster_group,
            count: m_tiles * n_tiles * batch,
        }
    }

    /// The tile at `index`, less than `count`.
    #[inline(always)]
    pub const fn at(&self, index: u32) -> TileIndex {
        let (batch, of_product) = divided(index, self.m_tiles * self.n_tiles);
        let (m, n) = match self.raster {
            Raster::Grouped => back_and_forth(of_product, self.m_tiles, self.n_tiles, self.group),
            Raster::Hilbert => hilbert(of_product, self.m_tiles, self.n_tiles),
        };
        TileIndex { batch, m, n }
    }
}

/// What follows the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueKind {
    /// `alpha`, and a scale for each operand; nothing else.
    Plain,
    /// The same; each tile of k is added to a sum in f32, of which tensor cores keep less for 8-bit
    /// types.
    Promoted,
    /// Everything: see [`super::epilogue`].
    Fused,
}

impl EpilogueKind {
    /// As it stands in entry names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Promoted => "promoted",
            Self::Fused => "fused",
        }
    }
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90Entry {
    /// Element type of A.
    pub a: DType,
    /// Element type of B.
    pub b: DType,
    /// Element type of D.
    pub output: DType,
    /// How A lies.
    pub trans_a: Transpose,
    /// How B lies.
    pub trans_b: Transpose,
    /// The tile.
    pub tile: Sm90Tile,
    /// The epilogue.
    pub epilogue: EpilogueKind,
}

impl fmt::Display for Sm90Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gemm_sm90_{}", self.a)?;
        if self.b != self.a {
            write!(f, "_{}", self.b)?;
        }
        if self.output != self.a {
            write!(f, "_{}", self.output)?;
        }
        let (a, b) = (self.trans_a.letter(), self.trans_b.letter());
        write!(f, "_{a}{b}_{}_{}", self.tile, self.epilogue.name())
    }
}

const fn tile(tile_m: u32, tile_n: u32, stages: u32, schedule: Schedule) -> Sm90Tile {
    Sm90Tile {
        tile_m,
        tile_n,
        stages,
        cluster_m: 1,
        cluster_n: 1,
        schedule,
        raster: Raster::Grouped,
    }
}

/// Good everywhere; stores under the other consumer's products.
pub const TILE_128X128: Sm90Tile = tile(128, 128, 6, Schedule::Pingpong);
/// The same by clusters of four along n, for few rows: what all blocks read is read by a quarter of
/// them.
pub const TILE_128X128_CLUSTER_N: Sm90Tile = Sm90Tile {
    cluster_n: 4,
    ..TILE_128X128
};
/// Fewer bytes for each product, and widths of which another number fills the multiprocessors.
pub const TILE_128X176: Sm90Tile = tile(128, 176, 5, Schedule::Pingpong);
/// The same.
pub const TILE_128X192: Sm90Tile = tile(128, 192, 4, Schedule::Pingpong);
/// Fewer still.
pub const TILE_128X256: Sm90Tile = tile(128, 256, 4, Schedule::Cooperative);
/// Whole tiles for nearly all multiprocessors where there are few rows and 28672 columns.
pub const TILE_128X224: Sm90Tile = tile(128, 224, 4, Schedule::Cooperative);
/// The same where there are 10240.
pub const TILE_128X80: Sm90Tile = tile(128, 80, 7, Schedule::Cooperative);
/// The same where there are 6144.
pub const TILE_128X48: Sm90Tile = tile(128, 48, 8, Schedule::Cooperative);
/// For small products, which larger tiles would leave to few multiprocessors.
pub const TILE_128X64: Sm90Tile = tile(128, 64, 8, Schedule::Pingpong);
/// Leaves registers for a second accumulator.
pub const TILE_128X128_PROMOTED: Sm90Tile = tile(128, 128, 6, Schedule::Cooperative);
/// As many as there are of them: longer products between two sums.
pub const TILE_128X176_PROMOTED: Sm90Tile = tile(128, 176, 5, Schedule::Cooperative);

/// The tiles of the entries of these types, layouts and epilogue; empty where there is none.
pub const fn tiles(
    (a, b, output): (DType, DType, DType),
    (trans_a, trans_b): (Transpose, Transpose),
    epilogue: EpilogueKind,
) -> &'static [Sm90Tile] {
    use DType::{Bf16, E4m3, E5m2, F16, F32};
    use EpilogueKind::{Fused, Plain, Promoted};
    let k_major = matches!((trans_a, trans_b), (Transpose::N, Transpose::T));
    match (a, b, output, epilogue) {
        (Bf16, Bf16, Bf16, Plain) if k_major => &[
            TILE_128X128,
            TILE_128X128_CLUSTER_N,
            TILE_128X176,
            TILE_128X192,
            TILE_128X256,
            TILE_128X64,
            TILE_128X224,
            TILE_128X80,
            TILE_128X48,
        ],
        (F16, F16, F16, Plain) if k_major => &[
            TILE_128X128,
            TILE_128X128_CLUSTER_N,
            TILE_128X176,
            TILE_128X192,
            TILE_128X256,
            TILE_128X64,
            TILE_128X80,
            TILE_128X48,
        ],
        (F16, F16, F16, Plain) | (Bf16, Bf16, Bf16, Plain) => {
            &[TILE_128X128, TILE_128X192, TILE_128X256, TILE_128X64]
        }
        (F16, F16, F32, Plain) | (Bf16, Bf16, F32, Plain) => &[TILE_128X128],
        // Long code: a transposed A is left to partial products.
        (F16, F16, F16, Fused) | (Bf16, Bf16, Bf16, Fused) if matches!(trans_a, Transpose::N) => {
            &[TILE_128X128, TILE_128X192]
        }
        _ if !k_major => &[],
        (F32, F32, F32, Plain) => &[TILE_128X128, TILE_128X256],
        // Two e5m2 hold too little to be multiplied by each other much.
        (E5m2, E5m2, ..) => &[],
        (E4m3, E4m3, Bf16, Plain) => &[TILE_128X128, TILE_128X192],
        (E4m3, E4m3, Bf16, Promoted) => &[TILE_128X128_PROMOTED, TILE_128X176_PROMOTED],
        (E4m3 | E5m2, E4m3 | E5m2, Bf16 | F32, Plain) => &[TILE_128X128],
        (E4m3 | E5m2, E4m3 | E5m2, Bf16 | F32, Promoted) => &[TILE_128X128_PROMOTED],
        _ => &[],
    }
}
