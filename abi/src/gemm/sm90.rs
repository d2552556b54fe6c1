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

mod tile;

pub use super::order::{TileIndex, TileOrder};
use super::{EpilogueParams, GemmParams, Transpose};
use crate::DType;
use crate::entry::{Parts, entries};
use crate::kernel_param;
pub use tile::{
    CONSUMERS, Cluster, MMA_M, SMEM_MAX_BYTES, SPAN_BYTES, STORE_BUFFERS, STORE_BYTES, STORE_ROWS,
    Schedule, Sm90Tile, SmemMap, THREADS, TILE_128X128, TILE_ALIGN, WARPGROUP,
};

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
                ..tile::tile(tile_m, tile_n, stages, schedule)
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
