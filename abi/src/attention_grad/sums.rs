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
//! [`ROUND_ENTRY`] takes `sums: *const f32`, the gradient `*mut u16`, [`AttentionGradParams`], of
//! which it uses
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
        let heads = params.batch as u64 * params.heads_q as u64;
        heads.wrapping_mul(self.query_tiles(params.seqlen_q) as u64)
    }

    /// Tiles of the keys of all key heads, if several blocks add to each.
    #[inline(always)]
    pub const fn tiles_of_keys(&self, params: &AttentionGradParams) -> u64 {
        if params.adders() == 1 {
            return 0;
        }
        let heads = params.fwd.batch as u64 * params.fwd.heads_kv as u64;
        heads.wrapping_mul(self.key_blocks(params.fwd.seqlen_k) as u64)
    }

    /// Index of a tile of queries among all of the launch. Its counters and sums are as many as there
    /// are [thread blocks](Self::ctas), from as many times the index on.
    #[inline(always)]
    pub const fn query_tile_idx(
        &self,
        params: &FlashFwdParams,
        [batch_idx, head_idx, query_tile]: [u32; 3],
    ) -> u64 {
        let tiles = self.query_tiles(params.seqlen_q);
        tile_idx([params.heads_q, tiles], [batch_idx, head_idx, query_tile])
    }

    /// Index of a block of keys among all of the launch.
    #[inline(always)]
    pub const fn key_tile_idx(
        &self,
        params: &FlashFwdParams,
        [batch_idx, head_kv, key_block]: [u32; 3],
    ) -> u64 {
        let tiles = self.key_blocks(params.seqlen_k);
        tile_idx([params.heads_kv, tiles], [batch_idx, head_kv, key_block])
    }

    /// What turns the sums of dq into dq.
    pub const fn rounding_of_dq(&self, params: &AttentionGradParams) -> Rounding {
        Rounding {
            strides: params.dq,
            first: 0,
            positions: params.fwd.seqlen_q,
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
            positions: params.fwd.seqlen_k,
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

#[inline(always)]
const fn tile_idx([heads, tiles]: [u32; 2], [batch_idx, head_idx, tile]: [u32; 3]) -> u64 {
    let head = batch_idx.wrapping_mul(heads).wrapping_add(head_idx) as u64;
    head.wrapping_mul(tiles as u64).wrapping_add(tile as u64)
}

kernel_param! {
    /// One gradient that is made of sums.
    #[derive(Debug, PartialEq)]
    pub struct Rounding {
        /// Strides of the gradient.
        pub strides: BshStrides,
        /// Its first element among the sums.
        pub first: u64,
        /// Queries, or keys.
        pub positions: u32,
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

    /// The grid of `batch` sequences.
    pub const fn grid(&self, batch: u32) -> [u32; 3] {
        let tiles = self.positions.div_ceil(self.tile);
        [tiles * self.chunks(), self.heads, batch]
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
                let blocks: u32 = rounding.grid(params.fwd.batch).iter().product();
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
