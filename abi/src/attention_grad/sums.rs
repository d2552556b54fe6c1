//! Sums in device memory to which [`sm90`](super::sm90)'s blocks add in turns, the counters that
//! say whose turn it is, and the kernel that rounds sums to gradients.
//!
//! Sums are f32, in chunks of [`CHUNK`] elements: accumulators of 64 × 64, in the order of their
//! registers. Register r of thread t of a warpgroup is element `512 (r / 4) + 4 t + r % 4`.
//!
//! | sums of | a tile | its chunks | blocks add in the order of |
//! |---|---|---|---|
//! | dq | [`Sm90GradTile::tile_m`] queries of a head | [`CHUNKS`] for each thread block: of the columns if there are 64 queries, halves of the queries if there are 128 | their keys |
//! | dk, and behind them those of dv | [`TILE_N`] keys of a key head | the [`Sm90GradTile::panels`] of 64 keys, twice | their query heads |
//!
//! A tile of dq has one counter for each thread block, a tile of dk and dv one for each consumer,
//! which adds to its own chunks. Counters of keys are behind those of queries. There are sums and counters of
//! keys only where no block has all heads that share them.
//!
//! [`ROUND_ENTRY`] takes `sums: *const f32`, the gradient `*mut u16`,
//! [`FlashFwdLengths`](crate::attention::FlashFwdLengths), [`AttentionGradParams`], of which it uses
//! `o_dtype` as well, and [`Rounding`], with a grid of [`Rounding::grid`] and
//! [`WARPGROUP`](crate::gemm::sm90::WARPGROUP) threads.

use super::params::AttentionGradParams;
use super::sm90::{CHUNK, CHUNKS, CONSUMERS, Sm90GradTile, TILE_N};
use crate::attention::BshStrides;
use crate::attention::params::FlashFwdParams;
use crate::gemm::sm90::MMA_M;
use crate::kernel_param;
pub use crate::single::ROUND_ENTRY;

impl Sm90GradTile {
    /// Number of counters of a launch.
    pub const fn counters(&self, params: &AttentionGradParams) -> u64 {
        self.counters_of_queries(&params.fwd)
            + self.tiles_of_keys(params) * (self.ctas() * CONSUMERS) as u64
    }

    /// Those of them that are of queries.
    #[inline(always)]
    pub const fn counters_of_queries(&self, params: &FlashFwdParams) -> u64 {
        self.tiles_of_queries(params)
            .wrapping_mul(self.ctas() as u64)
    }

    /// Elements of the sums of dq.
    pub const fn sums(&self, params: &AttentionGradParams) -> u64 {
        self.counters_of_queries(&params.fwd) * (CHUNKS * CHUNK) as u64
    }

    /// Elements of the sums of dk and dv together.
    pub const fn key_sums(&self, params: &AttentionGradParams) -> u64 {
        self.tiles_of_keys(params) * 2 * (TILE_N * self.head_dim) as u64
    }

    /// Elements of the sums of dk of 64 keys, and of their dv.
    pub const fn consumer_sums(&self) -> u32 {
        MMA_M * self.head_dim
    }

    /// Tiles of the queries of all heads.
    #[inline(always)]
    pub const fn tiles_of_queries(&self, params: &FlashFwdParams) -> u64 {
        self.query_slots(params).wrapping_mul(params.heads_q as u64)
    }

    /// Tiles of the keys of all key heads, if several blocks add to each.
    #[inline(always)]
    pub const fn tiles_of_keys(&self, params: &AttentionGradParams) -> u64 {
        if params.adders() == 1 {
            return 0;
        }
        let fwd = &params.fwd;
        self.key_slots(fwd.batch, fwd.seqlen_k, fwd.total_k)
            .wrapping_mul(fwd.heads_kv as u64)
    }

    /// Places for the tiles of a head's queries of all sequences, one sequence after the other. If
    /// sequences have lengths of their own, some may be left over.
    #[inline(always)]
    pub const fn query_slots(&self, params: &FlashFwdParams) -> u64 {
        let of_longest = self.query_tiles(params.seqlen_q);
        slots(params.batch, of_longest, params.total_q, self.tile_m)
    }

    /// The same of blocks of a key head's keys, of `batch` sequences of up to `seqlen_k` keys, or of
    /// `total_k` packed ones.
    #[inline(always)]
    pub const fn key_slots(&self, batch: u32, seqlen_k: u32, total_k: u32) -> u64 {
        slots(batch, self.key_blocks(seqlen_k), total_k, TILE_N)
    }

    /// Index of a tile of queries among all of the launch. Its counters and sums are as many as there
    /// are [thread blocks](Self::ctas), from as many times the index on.
    #[inline(always)]
    pub const fn query_tile_idx(
        &self,
        params: &FlashFwdParams,
        (head_idx, slot): (u32, u32),
    ) -> u64 {
        let of_head = self.query_slots(params).wrapping_mul(head_idx as u64);
        of_head.wrapping_add(slot as u64)
    }

    /// Index of a block of keys among all of the launch.
    #[inline(always)]
    pub const fn key_tile_idx(&self, params: &FlashFwdParams, (head_kv, slot): (u32, u32)) -> u64 {
        let slots = self.key_slots(params.batch, params.seqlen_k, params.total_k);
        let of_head = slots.wrapping_mul(head_kv as u64);
        of_head.wrapping_add(slot as u64)
    }

    /// What turns the sums of dq into dq.
    pub const fn rounding_of_dq(&self, params: &AttentionGradParams) -> Rounding {
        Rounding {
            strides: params.dq,
            first: 0,
            slots: self.query_slots(&params.fwd) as u32,
            columns: params.fwd.head_dim,
            heads: params.fwd.heads_q,
            tile: self.tile_m,
            panels: self.panels(),
            factor: params.softmax_scale,
            is_dq: 1,
            reserved: 0,
        }
    }

    /// What turns the sums of dk and dv into them.
    pub const fn roundings_of_keys(&self, params: &AttentionGradParams) -> [Rounding; 2] {
        let dk = Rounding {
            strides: params.dk,
            first: 0,
            slots: self.key_slots(params.fwd.batch, params.fwd.seqlen_k, params.fwd.total_k) as u32,
            columns: params.fwd.head_dim,
            heads: params.fwd.heads_kv,
            tile: TILE_N,
            panels: self.panels(),
            factor: params.softmax_scale,
            is_dq: 0,
            reserved: 0,
        };
        let dv = Rounding {
            strides: params.dv,
            first: self.key_sums(params) / 2,
            columns: params.fwd.head_dim_v,
            factor: 1.0,
            ..dk
        };
        [dk, dv]
    }
}

/// Places for the tiles of `batch` sequences, the longest of which has `of_longest`: no more than
/// `total` packed positions need in tiles of `tile`, a power of two. 0: positions are not packed.
#[inline(always)]
const fn slots(batch: u32, of_longest: u32, total: u32, tile: u32) -> u64 {
    let all = (batch as u64).wrapping_mul(of_longest as u64);
    if total == 0 {
        return all;
    }
    // Each sequence has at most one tile that is not full.
    let packed = (total >> (tile.trailing_zeros() & 31)) as u64 + batch as u64;
    if packed < all { packed } else { all }
}

kernel_param! {
    /// One gradient that is made of sums.
    #[derive(Debug, PartialEq)]
    pub struct Rounding {
        /// Strides of the gradient.
        pub strides: BshStrides,
        /// Its first element among the sums.
        pub first: u64,
        /// Tiles of a head in all sequences, at most.
        pub slots: u32,
        /// head_dim, or head_dim_v.
        pub columns: u32,
        /// Query heads, or key heads.
        pub heads: u32,
        /// Positions of a tile: 64 or 128.
        pub tile: u32,
        /// Chunks side by side.
        pub panels: u32,
        /// What sums are multiplied by.
        pub factor: f32,
        /// 1 for dq: tiles that see no key have no sums. Else 0.
        pub is_dq: u32,
        /// 0.
        pub reserved: u32,
    }
}

impl Rounding {
    /// Chunks of a tile.
    #[inline(always)]
    pub const fn chunks(&self) -> u32 {
        (self.tile / MMA_M).wrapping_mul(self.panels)
    }

    /// The grid.
    pub const fn grid(&self) -> [u32; 3] {
        [self.slots * self.chunks(), self.heads, 1]
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::attention::params::tests::PARAMS;
    use crate::attention_grad::sm90::Sm90GradEntry;

    /// 2 sequences, 6 heads on 2.
    fn params(heads_together: u32) -> AttentionGradParams {
        AttentionGradParams {
            fwd: PARAMS,
            d_o: PARAMS.o,
            dq: PARAMS.q,
            dk: PARAMS.k,
            dv: PARAMS.v,
            softmax_scale: 0.5,
            heads_together,
        }
    }

    #[test]
    fn every_gradient_is_rounded_from_all_its_sums() {
        let params = params(1);
        for tile in Sm90GradEntry::ALL.iter().map(|entry| entry.tile) {
            let elements = |rounding: Rounding| {
                let blocks: u32 = rounding.grid().iter().product();
                u64::from(blocks) * u64::from(CHUNK)
            };
            let [dk, dv] = tile.roundings_of_keys(&params);
            assert_eq!(elements(tile.rounding_of_dq(&params)), tile.sums(&params));
            assert_eq!(elements(dk), dv.first);
            assert_eq!(dv.first + elements(dv), tile.key_sums(&params));
            assert_eq!(tile.rounding_of_dq(&params).chunks(), tile.ctas() * CHUNKS);
            assert_eq!(dk.chunks() * CHUNK, 2 * tile.consumer_sums());
        }
    }

    #[test]
    fn keys_have_sums_where_blocks_have_some_of_the_heads_that_share_them() {
        let (split, whole) = (params(1), params(3));
        for tile in Sm90GradEntry::ALL.iter().map(|entry| entry.tile) {
            assert_eq!(tile.key_sums(&whole), 0);
            let of_queries = tile.counters_of_queries(&whole.fwd);
            assert_eq!(tile.counters(&whole), of_queries);
            assert!(tile.counters(&split) > of_queries);
        }
    }
}
