//! The portable kernels, without tensor cores: one that writes delta, and one that runs twice after it,
//! once with blocks that own queries and write dq, and once with blocks that own keys and write dk and
//! dv.
//!
//! Entries: [`DELTA_ENTRY`], and `attention_backward_simt_d<head_dim cap>` with caps
//! [`SIMT_HEAD_DIMS`](super::super::SIMT_HEAD_DIMS), which serves any head_dim and head_dim_v up to its
//! cap, with the threads of [`SIMT_WIDE_TILE`](super::super::SIMT_WIDE_TILE). They need no dynamic
//! shared memory. Pointers need the alignment of one element only.
//!
//! | entry | arguments | grid |
//! |---|---|---|
//! | delta | `o, d_o: *const T, delta: *mut f32, lengths: FlashFwdLengths, params: FlashBwdParams` | [`FlashFwdParams::grid`](super::super::FlashFwdParams::grid) of [`DELTA_TILE`] |
//! | queries | `q, k, v, d_o: *const T, lse, delta: *const f32, dq, unused: *mut T, lengths, params, BackwardLaunch` | the same, of its tile |
//! | keys | `q, k, v, d_o: *const T, lse, delta: *const f32, dk, dv: *mut T, lengths, params, BackwardLaunch` | [`FlashBwdParams::grid_of_keys`](super::FlashBwdParams::grid_of_keys) |

use crate::kernel_param;
use core::fmt;

use super::super::{BshStrides, TileConfig};

/// Name of the kernel that computes delta.
pub const DELTA_ENTRY: &str = "attention_backward_delta_simt";

/// Its tile: queries of a block, and elements that a thread reads at once. It has no keys.
pub const DELTA_TILE: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 0,
    tile_k: 4,
    threads: 256,
};

/// The portable kernel of dq, dk and dv; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackwardEntry {
    /// One of [`SIMT_HEAD_DIMS`](super::super::SIMT_HEAD_DIMS).
    pub head_dim_cap: u32,
}

kernel_param! {
    /// What the blocks of a launch own.
    #[derive(Debug, PartialEq, Eq)]
    pub struct BackwardLaunch {
        /// Strides of the first gradient: dq, or dk. Those of the parameters are not selected by kernels,
        /// since parameters that are indexed go to local memory.
        pub strides: BshStrides,
        /// 0: queries; 1: keys.
        pub owns_keys: u32,
        /// 0.
        pub reserved: u32,
    }
}

impl fmt::Display for BackwardEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attention_backward_simt_d{}", self.head_dim_cap)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entry_names_are_as_documented() {
        let entry = BackwardEntry { head_dim_cap: 128 };
        assert_eq!(entry.to_string(), "attention_backward_simt_d128");
    }
}
