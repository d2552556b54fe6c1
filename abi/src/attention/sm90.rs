//! Hopper's kernels: TMA, `wgmma`, warp specialisation, a persistent grid.
//!
//! Entries are named
//! `flash_fwd_sm90_<dtype>_d<head_dim cap>[_<head_dim_v cap>]_<tile>`; [`FwdEntry::ALL`]
//! has all. Each takes
//! - tensor maps of q, k and v by value. Their dimensions are `[head_dim, position, head, batch]`,
//!   with a batch of one if positions are packed. Boxes have [`FwdTile::box_rows_q`] (q) or
//!   [`FwdTile::tile_n`] (k, v) rows of [`SPAN_BYTES`];
//! - what every forward entry takes after q, k and v;
//! - a [`FwdLaunch`].
//!
//! Entries whose name ends in `_packed` take a [`FwdPacking`] after
//! that. Their map of q has the dimensions `[head_dim, packed head, position, head, batch]`, and
//! boxes with as many heads and positions as [`FwdPacking`] says.
//!
//! q, k, v and o are aligned to 16 bytes, as are their strides; o has the element type of q or f32.
//! head_dim and head_dim_v are multiples of 8, and softmax_scale is more than 0.

use super::{FlashFwdLengths, FlashFwdParams, FwdPacking};
use crate::DType;
use crate::entry::{Parts, entries};
use crate::gemm::sm90::{MMA_M, SMEM_MAX_BYTES, SPAN_BYTES, TILE_ALIGN, WARPGROUP};
use crate::kernel_param;

/// Tickets of the ring, each describing a tile: more than tiles that are in flight at a time.
pub const TICKETS: u32 = 8;
/// Bytes of a ticket.
pub const TICKET_BYTES: u32 = 128;
/// Bytes of shared memory through which a warpgroup stores its results: one panel of columns, a
/// quarter for each warp.
pub const O_BYTES: u32 = MMA_M * SPAN_BYTES;

/// The tile of a block, and the head dimensions it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FwdTile {
    /// Largest head_dim; a multiple of 64.
    pub head_dim: u32,
    /// Largest head_dim_v; a multiple of 64.
    pub head_dim_v: u32,
    /// Rows of queries: 64 for each consumer warpgroup.
    pub tile_m: u32,
    /// Keys of a block of keys, which is one stage.
    pub tile_n: u32,
    /// Stages of each consumer's ring of queries.
    pub q_stages: u32,
    /// Stages of the ring of keys.
    pub stages_k: u32,
    /// Stages of the ring of values, which are needed one block later than the keys.
    pub stages_v: u32,
}

impl FwdTile {
    /// The tile for these head dimensions with these extents.
    const fn of_name(head_dims: [u32; 2], extents: [u32; 2]) -> Self {
        let tile = match (head_dims, extents) {
            ([64, 64], [192, _]) => TILE_D64,
            ([64, 64], _) => TILE_D64_SHORT,
            ([128, 128], _) => TILE_D128,
            ([192, 128], _) => TILE_D192_128,
            ([256, 256], _) => TILE_D256,
            _ => panic!("an entry's name has head dimensions that there are not"),
        };
        assert!(tile.tile_m == extents[0] && tile.tile_n == extents[1]);
        tile
    }

    /// Consumer warpgroups.
    pub const fn consumers(&self) -> u32 {
        self.tile_m / MMA_M
    }

    /// Threads of a block: the warpgroup of loader and scheduler, and the consumers.
    pub const fn threads(&self) -> u32 {
        (1 + self.consumers()) * WARPGROUP
    }

    /// Registers of a thread of the loader's warpgroup, and of a consumer.
    pub const fn registers(&self) -> (u32, u32) {
        match self.consumers() {
            3 => (32, 160),
            _ => (40, 232),
        }
    }

    /// Rows of a box of q; those of k and v have [`tile_n`](Self::tile_n).
    pub const fn box_rows_q(&self) -> u32 {
        MMA_M
    }

    /// Panels (of [`SPAN_BYTES`] of columns) of a query or a key, 2 bytes an element.
    pub const fn panels(&self) -> u32 {
        self.head_dim * 2 / SPAN_BYTES
    }

    /// Panels of a value.
    pub const fn panels_v(&self) -> u32 {
        self.head_dim_v * 2 / SPAN_BYTES
    }

    /// Bytes of one consumer's queries.
    pub const fn q_bytes(&self) -> u32 {
        MMA_M * self.panels() * SPAN_BYTES
    }

    /// Bytes of a stage of keys.
    pub const fn k_bytes(&self) -> u32 {
        self.tile_n * self.panels() * SPAN_BYTES
    }

    /// Bytes of a stage of values.
    pub const fn v_bytes(&self) -> u32 {
        self.tile_n * self.panels_v() * SPAN_BYTES
    }

    /// Offsets in shared memory, from the first multiple of [`TILE_ALIGN`] on.
    pub const fn smem(&self) -> FwdSmem {
        let k = self.consumers() * self.q_stages * self.q_bytes();
        let v = k + self.stages_k * self.k_bytes();
        let o = v + self.stages_v * self.v_bytes();
        let tickets = o + self.consumers() * O_BYTES;
        let barriers_q = tickets + TICKETS * TICKET_BYTES;
        let barriers_k = barriers_q + self.consumers() * self.q_stages * 16;
        let barriers_v = barriers_k + self.stages_k * 16;
        let barriers_tickets = barriers_v + self.stages_v * 16;
        FwdSmem {
            k,
            v,
            o,
            tickets,
            barriers_q,
            barriers_k,
            barriers_v,
            barriers_tickets,
            end: barriers_tickets + 16,
        }
    }

    /// Dynamic shared memory of a launch, with room to align it.
    pub const fn smem_bytes(&self) -> u32 {
        let bytes = self.smem().end + TILE_ALIGN - 16;
        assert!(bytes <= SMEM_MAX_BYTES, "the stages do not fit");
        bytes
    }
}

/// Offsets in shared memory, in bytes. The consumers' rings of queries are at 0, one after the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FwdSmem {
    /// Keys.
    pub k: u32,
    /// Values.
    pub v: u32,
    /// The consumers' results on their way to o, [`O_BYTES`] for each.
    pub o: u32,
    /// Tickets.
    pub tickets: u32,
    /// Barriers of the rings of queries.
    pub barriers_q: u32,
    /// Barriers of the ring of keys.
    pub barriers_k: u32,
    /// Barriers of the ring of values.
    pub barriers_v: u32,
    /// Barriers of the next ticket.
    pub barriers_tickets: u32,
    /// The end.
    pub end: u32,
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FwdEntry {
    name: &'static str,
    /// Element type of q, k and v.
    pub dtype: DType,
    /// The tile.
    pub tile: FwdTile,
    /// Whether it does GQA packing and split-KV, and so takes [`FwdPacking`] as
    /// well.
    pub is_packed: bool,
}

impl FwdEntry {
    /// The entry of a name
    /// `flash_fwd_sm90_<dtype>_d<head_dim cap>[_<head_dim_v cap>]_<m>x<n>[_packed]`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("flash_fwd_sm90");
        let dtype = parts.expect_dtype();
        let head_dim = parts.number("d");
        let head_dim_v = if parts.take("128") { 128 } else { head_dim };
        let extents = parts.numbers("");
        let is_packed = parts.take("packed");
        parts.end();
        Self {
            name,
            dtype,
            tile: FwdTile::of_name([head_dim, head_dim_v], extents),
            is_packed,
        }
    }

    /// The entries for the smallest head dimensions that serve both, packed or not; the one with
    /// the most queries comes first.
    pub fn of(
        dtype: DType,
        [head_dim, head_dim_v]: [u32; 2],
        is_packed: bool,
    ) -> impl Iterator<Item = Self> {
        let is_of = move |entry: &Self| (entry.dtype, entry.is_packed) == (dtype, is_packed);
        let caps = |entry: &Self| (entry.tile.head_dim, entry.tile.head_dim_v);
        let has_room =
            |entry: &Self| head_dim <= entry.tile.head_dim && head_dim_v <= entry.tile.head_dim_v;
        let smallest =
            Self::find(|entry| is_of(entry) && has_room(entry)).map(|first| caps(&first));
        let all = Self::ALL.iter().copied();
        all.filter(move |entry| is_of(entry) && Some(caps(entry)) == smallest)
    }
}

entries! { $ FwdEntry((FlashFwdLengths, FlashFwdParams, FwdLaunch, Option<FwdPacking>)) {
    /// The `wgmma` type of elements. The smallest head dimensions come first, and of each the tile
    /// with the most queries.
    flash_fwd_sm90 {
        flash_fwd_sm90_bf16_d64_192x128(Bf16);
        flash_fwd_sm90_bf16_d64_128x128(Bf16);
        flash_fwd_sm90_bf16_d128_128x128(Bf16);
        flash_fwd_sm90_bf16_d192_128_128x128(Bf16);
        flash_fwd_sm90_bf16_d256_128x64(Bf16);
        flash_fwd_sm90_f16_d64_192x128(F16);
        flash_fwd_sm90_f16_d64_128x128(F16);
        flash_fwd_sm90_f16_d128_128x128(F16);
        flash_fwd_sm90_f16_d192_128_128x128(F16);
        flash_fwd_sm90_f16_d256_128x64(F16);
    }
    /// The same, packed.
    flash_fwd_sm90_packed {
        flash_fwd_sm90_bf16_d128_128x128_packed(Bf16);
        flash_fwd_sm90_bf16_d256_128x64_packed(Bf16);
        flash_fwd_sm90_f16_d128_128x128_packed(F16);
        flash_fwd_sm90_f16_d256_128x64_packed(F16);
    }
} }

kernel_param! {
    /// What the host tells the kernel about a launch.
    #[derive(Debug, PartialEq, Eq)]
    pub struct FwdLaunch {
        /// A counter in device memory from which blocks take their next tile: 0 before the launch,
        /// and again after it; nobody else uses it meanwhile. If null, each block takes every
        /// `grid_dim_x`th tile, which is as good if all tiles take the same time.
        pub counter: *mut u32,
        /// Heads of the batch that are computed together, a section: see [`TileOrder`]. Not 0.
        pub section: u32,
        /// See [`launch_flags`].
        pub flags: u32,
    }
}

/// Bits of [`FwdLaunch::flags`].
pub mod launch_flags {
    /// Blocks of keys may have rows that no query of the sequence sees, which may be anything. Queries
    /// see all keys of the tensor otherwise.
    pub const HAS_UNSEEN: u32 = 1;
    /// What is done to a row does not depend on other rows of the tile: batch invariance.
    pub const ROWS_ALONE: u32 = 2;
}

/// Tiles of a section: enough to keep all SMs busy to its end, however much their times differ.
const SECTION_TILES: u32 = 512;
/// Fewest and most heads of a section: their keys and values should stay in L2.
const SECTION_HEADS: [u32; 2] = [8, 32];

/// Number of heads of a section, if each has `m_tiles` tiles and `group` of them share keys and
/// values. A power of two if `group` is one: sections of different sizes leave SMs idle.
pub const fn section(group: u32, m_tiles: u32, is_masked: bool) -> u32 {
    let group = if group == 0 { 1 } else { group };
    if !is_masked {
        // All tiles take the same time, so their order does not matter: one head after the other.
        return group;
    }
    let heads = match SECTION_TILES.checked_div(m_tiles) {
        Some(heads) => heads.next_power_of_two(),
        None => 1,
    };
    let [fewest, most] = SECTION_HEADS;
    let heads = if heads < fewest {
        fewest
    } else if heads > most {
        most
    } else {
        heads
    };
    heads.div_ceil(group).saturating_mul(group)
}

/// Quotient and remainder; 0 and `x` if `by` is zero, for the reason given at
/// [`raster::divided`](crate::gemm::raster::divided). That one compiles to two divisions, which
/// keeps fewer values alive in kernels that have no register left. Here one division is better, as
/// the scheduler has to be done before the current tile is.
#[inline(always)]
pub const fn divided(x: u32, by: u32) -> (u32, u32) {
    match x.checked_div(by) {
        Some(quotient) => (quotient, x.wrapping_sub(quotient.wrapping_mul(by))),
        None => (0, x),
    }
}

/// Number of tiles for `queries` queries.
#[inline(always)]
pub const fn tiles_of(queries: u32, tile_m: u32) -> u32 {
    match queries.checked_add(tile_m - 1) {
        Some(rows) => divided(rows, tile_m).0,
        None => 0,
    }
}

/// A tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileIndex {
    /// Index of the sequence.
    pub batch: u32,
    /// Query head.
    pub head: u32,
    /// Index among the sequence's tiles.
    pub m: u32,
}

/// The tiles of a launch, in order. Heads are divided into sections, whose keys and values stay in
/// L2. Within a section the last queries come first: with a causal mask they see the most keys, so
/// the tiles computed last are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileOrder {
    m_tiles: u32,
    heads: u32,
    heads_all: u32,
    section: u32,
    /// Number of tiles.
    pub count: u32,
}

impl TileOrder {
    /// The tiles of `batch` × `heads` × `seqlen_q`; there are fewer than 2^32.
    #[inline(always)]
    pub const fn new(tile_m: u32, batch: u32, heads: u32, seqlen_q: u32, section: u32) -> Self {
        let m_tiles = tiles_of(seqlen_q, tile_m);
        let heads_all = batch.wrapping_mul(heads);
        Self {
            m_tiles,
            heads,
            heads_all,
            section,
            count: heads_all.wrapping_mul(m_tiles),
        }
    }

    /// The tile of number `index`, which is less than `count`.
    #[inline(always)]
    pub const fn at(&self, index: u32) -> TileIndex {
        let (section_idx, within) = divided(index, self.section.wrapping_mul(self.m_tiles));
        let first = section_idx.wrapping_mul(self.section);
        let left = self.heads_all.wrapping_sub(first);
        let heads = if left < self.section {
            left
        } else {
            self.section
        };
        let (m, of_section) = divided(within, heads);
        let (batch, head) = divided(first.wrapping_add(of_section), self.heads);
        TileIndex {
            batch,
            head,
            m: self.m_tiles.wrapping_sub(1).wrapping_sub(m),
        }
    }
}

const fn tile(
    [head_dim, head_dim_v]: [u32; 2],
    [tile_m, tile_n]: [u32; 2],
    [q_stages, stages_k, stages_v]: [u32; 3],
) -> FwdTile {
    FwdTile {
        head_dim,
        head_dim_v,
        tile_m,
        tile_n,
        q_stages,
        stages_k,
        stages_v,
    }
}

/// For head dimensions up to 64.
pub const TILE_D64: FwdTile = tile([64, 64], [192, 128], [2, 4, 4]);
/// The same, for few queries.
pub const TILE_D64_SHORT: FwdTile = tile([64, 64], [128, 128], [2, 4, 4]);
/// For head dimensions up to 128.
pub const TILE_D128: FwdTile = tile([128, 128], [128, 128], [1, 3, 2]);
/// For queries and keys up to 192, and values up to 128.
pub const TILE_D192_128: FwdTile = tile([192, 128], [128, 128], [1, 2, 2]);
/// For head dimensions up to 256.
pub const TILE_D256: FwdTile = tile([256, 256], [128, 64], [1, 2, 2]);

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_order_has_every_tile_once_and_the_longest_first() {
        for (batch, heads, seqlen_q) in [(1, 1, 1), (3, 5, 700), (2, 16, 4096), (1, 3, 128)] {
            for section in [1, 2, 4, 100] {
                let order = TileOrder::new(128, batch, heads, seqlen_q, section);
                let tiles: std::vec::Vec<TileIndex> =
                    (0..order.count).map(|index| order.at(index)).collect();
                let seen: HashSet<_> = tiles.iter().map(|t| (t.batch, t.head, t.m)).collect();
                assert_eq!(seen.len() as u32, order.count);
                assert_eq!(order.count, batch * heads * seqlen_q.div_ceil(128));
                for tile in &tiles {
                    assert!(tile.batch < batch && tile.head < heads);
                    assert!(tile.m < seqlen_q.div_ceil(128));
                }
                let of_section = section.min(batch * heads) * seqlen_q.div_ceil(128);
                for of_section in tiles.chunks(of_section as usize) {
                    assert!(of_section.is_sorted_by(|x, y| x.m >= y.m));
                }
            }
        }
    }

    #[test]
    fn sections_have_fewer_heads_the_longer_these_are() {
        assert_eq!(section(1, 4, true), 32);
        assert_eq!(section(1, 22, true), 32);
        assert_eq!(section(1, 32, true), 16);
        assert_eq!(section(1, 1024, true), 8);
        assert_eq!(section(1, 0, true), 8);
        assert_eq!(section(12, 32, true), 24);
        assert_eq!(section(64, 32, true), 64);
        assert_eq!(section(4, 8, false), 4);
    }

    fn names(dtype: DType, head_dims: [u32; 2], is_packed: bool) -> std::vec::Vec<&'static str> {
        let entries = FwdEntry::of(dtype, head_dims, is_packed);
        entries.map(|entry| entry.name()).collect()
    }

    #[test]
    fn the_narrowest_tiles_that_fit_are_chosen() {
        let plain = |head_dims| names(DType::F16, head_dims, false);
        let d64 = [
            "flash_fwd_sm90_f16_d64_192x128",
            "flash_fwd_sm90_f16_d64_128x128",
        ];
        assert_eq!(plain([64, 8]), d64);
        assert_eq!(plain([8, 72]), ["flash_fwd_sm90_f16_d128_128x128"]);
        let both = ["flash_fwd_sm90_f16_d192_128_128x128"];
        assert_eq!(plain([192, 128]), both);
        assert_eq!(plain([192, 136]), ["flash_fwd_sm90_f16_d256_128x64"]);
        assert!(plain([264, 8]).is_empty());
    }

    #[test]
    fn packed_entries_are_for_128_and_256() {
        let packed = |head_dims| names(DType::Bf16, head_dims, true);
        assert_eq!(
            packed([64, 64]),
            ["flash_fwd_sm90_bf16_d128_128x128_packed"]
        );
        assert_eq!(
            packed([192, 128]),
            ["flash_fwd_sm90_bf16_d256_128x64_packed"]
        );
        assert!(names(DType::F32, [64, 64], true).is_empty());
    }

    #[test]
    fn stages_lie_one_after_the_other_and_fit() {
        for tile in FwdEntry::ALL.iter().map(|entry| entry.tile) {
            let map = tile.smem();
            assert!(map.k.is_multiple_of(TILE_ALIGN) && map.v.is_multiple_of(TILE_ALIGN));
            assert_eq!(map.v - map.k, tile.stages_k * tile.k_bytes());
            assert_eq!(map.o - map.v, tile.stages_v * tile.v_bytes());
            assert!(map.o.is_multiple_of(TILE_ALIGN));
            assert_eq!(map.tickets - map.o, tile.consumers() * O_BYTES);
            assert!(tile.smem_bytes() <= SMEM_MAX_BYTES);
            let (loader, consumer) = tile.registers();
            assert!((loader + tile.consumers() * consumer) * WARPGROUP <= 65_536);
        }
    }
}
