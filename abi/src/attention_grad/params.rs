//! Extents, strides and scalars of a launch.

use crate::attention::{BshStrides, FlashFwdParams};
use crate::kernel_param;

kernel_param! {
    /// Extents, strides and scalars of one launch of gradients.
    #[derive(Debug, PartialEq)]
    pub struct AttentionGradParams {
        /// What the forward launch had. `o_dtype` is the code of the type of every tensor but lse
        /// and delta, which are f32 and lie as `lse_offset` says; `write_lse` has no meaning.
        pub fwd: FlashFwdParams,
        /// Strides of d_o.
        pub d_o: BshStrides,
        /// Strides of dq.
        pub dq: BshStrides,
        /// Strides of dk.
        pub dk: BshStrides,
        /// Strides of dv.
        pub dv: BshStrides,
        /// Factor of the scores, without log2(e) and whether there is a softcap or not: that of dq
        /// and dk.
        pub softmax_scale: f32,
        /// Query heads of a thread block of [`sm90`](super::sm90); a divisor of those that share
        /// keys. Others do not use it.
        pub heads_together: u32,
    }
}

impl AttentionGradParams {
    /// Turns of the blocks that add to the dk and dv of a key; 1 if a block has all heads that
    /// share it.
    #[inline(always)]
    pub const fn adders(&self) -> u32 {
        match self.fwd.heads_per_kv().checked_div(self.heads_together) {
            Some(adders) => adders,
            None => 0,
        }
    }

    /// Grid of a launch whose blocks own `tile_n` keys of a key head each. x = key tiles of the
    /// longest sequence; y and z = key heads of all batches, see [`owner`](Self::owner). `None` if
    /// there is no key or more than a grid can hold.
    pub const fn grid_of_keys(
        batch: u32,
        seqlen_k: u32,
        heads_kv: u32,
        tile_n: u32,
    ) -> Option<[u32; 3]> {
        FlashFwdParams::grid(batch, seqlen_k, heads_kv, tile_n)
    }

    /// Head and batch that block (`[y, z]` of its index) owns, in a grid `grid_dim_y` high: a key
    /// head if it `owns_keys`, else a query head. The last layer of a grid may hold blocks beyond
    /// the last batch, which do nothing.
    #[inline(always)]
    pub const fn owner(&self, owns_keys: bool, [y, z]: [u32; 2], grid_dim_y: u32) -> (u32, u32) {
        let heads_q = if owns_keys {
            self.fwd.heads_kv
        } else {
            self.fwd.heads_q
        };
        FlashFwdParams {
            heads_q,
            ..self.fwd
        }
        .head_and_batch(y, z, grid_dim_y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::params::tests::PARAMS;

    #[test]
    fn blocks_of_keys_cover_every_key_head_of_every_batch() {
        let params = AttentionGradParams {
            fwd: PARAMS, // 2 sequences, 6 heads on 2
            d_o: PARAMS.o,
            dq: PARAMS.q,
            dk: PARAMS.k,
            dv: PARAMS.v,
            softmax_scale: 1.0,
            heads_together: 1,
        };
        assert_eq!(
            AttentionGradParams::grid_of_keys(2, 65, 2, 64),
            Some([2, 4, 1])
        );
        assert_eq!(AttentionGradParams::grid_of_keys(2, 0, 2, 64), None);
        let of_block = |y| params.owner(true, [y, 0], 4);
        assert!((0..4).map(of_block).eq([(0, 0), (1, 0), (0, 1), (1, 1)]));
        assert_eq!(of_block(4).1, 2); // beyond the last batch
    }
}
