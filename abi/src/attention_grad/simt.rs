//! The portable kernels, without tensor cores. One writes delta. Another runs twice after it: once
//! with blocks that own queries and write dq, and once with blocks that own keys and write dk and
//! dv.
//!
//! Entries: [`DELTA_ENTRY`], and `attention_grad_simt_d<head_dim cap>` ([`SimtGradEntry::ALL`] has
//! all), which serves any head_dim and head_dim_v up to its cap, with the threads of
//! [`SIMT_WIDE_TILE`](crate::attention::SIMT_WIDE_TILE). They need no dynamic shared memory.
//! Pointers need the alignment of one element only.
//!
//! | entry | arguments | grid |
//! |---|---|---|
//! | delta | `o, d_o: *const T, delta: *mut f32, lengths: FlashFwdLengths, params: AttentionGradParams` | [`FlashFwdParams::grid`](crate::attention::FlashFwdParams::grid) of [`DELTA_TILE`] |
//! | queries | `q, k, v, d_o: *const T, lse, delta: *const f32, dq, unused: *mut T, lengths, params, SimtGradLaunch` | the same, of its tile |
//! | keys | `q, k, v, d_o: *const T, lse, delta: *const f32, dk, dv: *mut T, lengths, params, SimtGradLaunch` | [`AttentionGradParams::grid_of_keys`](super::AttentionGradParams::grid_of_keys) |

use super::AttentionGradParams;
use crate::attention::{BshStrides, FlashFwdLengths, TileConfig};
use crate::entry::{Parts, entries};
use crate::kernel_param;
pub use crate::single::DELTA_ENTRY;

/// The tile of [`DELTA_ENTRY`]: queries of a block, and elements that a thread reads at once. It
/// has no keys.
pub const DELTA_TILE: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 0,
    tile_k: 4,
    threads: 256,
};

/// The portable kernel of dq, dk and dv; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimtGradEntry {
    name: &'static str,
    /// Largest head_dim and head_dim_v.
    pub head_dim_cap: u32,
}

impl SimtGradEntry {
    /// The entry of a name `attention_grad_simt_d<head_dim cap>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("attention_grad_simt");
        let head_dim_cap = parts.number("d");
        parts.end();
        Self { name, head_dim_cap }
    }

    /// The entry of the smallest cap that serves both extents; `None` if one exceeds all caps.
    pub fn of(head_dim: u32, head_dim_v: u32) -> Option<Self> {
        Self::find(|entry| head_dim.max(head_dim_v) <= entry.head_dim_cap)
    }
}

entries! { $ SimtGradEntry((FlashFwdLengths, AttentionGradParams, SimtGradLaunch)) {
    /// The smallest cap comes first.
    attention_grad_simt {
        attention_grad_simt_d64;
        attention_grad_simt_d128;
        attention_grad_simt_d256;
    }
} }

kernel_param! {
    /// What the blocks of a launch own.
    #[derive(Debug, PartialEq, Eq)]
    pub struct SimtGradLaunch {
        /// Strides of the first gradient: dq, or dk. Those of the parameters are not selected by
        /// kernels, since parameters that are indexed go to local memory.
        pub strides: BshStrides,
        /// 0: queries; 1: keys.
        pub owns_keys: u32,
        /// 0.
        pub reserved: u32,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn the_smallest_cap_that_fits_is_chosen() {
        let name = |head_dim, head_dim_v| {
            SimtGradEntry::of(head_dim, head_dim_v).map(|entry| entry.to_string())
        };
        assert_eq!(name(64, 65).as_deref(), Some("attention_grad_simt_d128"));
        assert_eq!(name(257, 64), None);
    }
}
