//! The portable kernels, without tensor cores: one that owns queries and writes dq, one that owns
//! keys and writes dk and dv, and one that runs before either and writes delta.
//!
//! Entries: `attention_backward_dq_simt_d<head_dim cap>`, `attention_backward_dkv_simt_d<head_dim
//! cap>` with caps [`SIMT_HEAD_DIMS`](super::super::SIMT_HEAD_DIMS), and [`DELTA_ENTRY`]. Each serves
//! any head_dim and head_dim_v up to its cap and needs no dynamic shared memory. Pointers need the
//! alignment of one element only.
//!
//! | entry | arguments | grid |
//! |---|---|---|
//! | delta | `o, d_o: *const T, delta: *mut f32, lengths: FlashFwdLengths, params: FlashBwdParams` | [`FlashFwdParams::grid`](super::super::FlashFwdParams::grid) of [`DELTA_TILE`] |
//! | dq | `q, k, v, d_o: *const T, lse, delta: *const f32, dq: *mut T, lengths, params` | the same, of its tile |
//! | dkv | `q, k, v, d_o: *const T, lse, delta: *const f32, dk, dv: *mut T, lengths, params` | [`FlashBwdParams::grid_of_keys`](super::FlashBwdParams::grid_of_keys) |

use core::fmt;

use super::super::{SIMT_TILE, SIMT_WIDE_TILE, TileConfig, simt_tile};

/// Name of the kernel that computes delta.
pub const DELTA_ENTRY: &str = "attention_backward_delta_simt";

/// Its tile: queries of a block, and elements that a thread reads at once. It has no keys.
pub const DELTA_TILE: TileConfig = TileConfig {
    tile_m: 64,
    tile_n: 0,
    tile_k: 4,
    threads: 256,
};

/// The portable kernel that owns queries; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueriesEntry {
    /// One of [`SIMT_HEAD_DIMS`](super::super::SIMT_HEAD_DIMS).
    pub head_dim_cap: u32,
}

impl QueriesEntry {
    /// Its tile: `tile_m` queries of a block.
    pub const fn tile(&self) -> TileConfig {
        simt_tile(self.head_dim_cap)
    }
}

impl fmt::Display for QueriesEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attention_backward_dq_simt_d{}", self.head_dim_cap)
    }
}

/// The portable kernel that owns keys; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeysEntry {
    /// One of [`SIMT_HEAD_DIMS`](super::super::SIMT_HEAD_DIMS).
    pub head_dim_cap: u32,
}

impl KeysEntry {
    /// Its tile: `tile_n` keys of a block, `tile_m` queries at a time.
    pub const fn tile(&self) -> TileConfig {
        keys_tile(self.head_dim_cap)
    }
}

impl fmt::Display for KeysEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attention_backward_dkv_simt_d{}", self.head_dim_cap)
    }
}

/// The tile of a kernel that owns keys: it has two results, dk and dv, so it needs more threads than
/// one with a single result to hold them in registers.
pub const fn keys_tile(head_dim_cap: u32) -> TileConfig {
    if head_dim_cap <= 64 {
        SIMT_TILE
    } else {
        SIMT_WIDE_TILE
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entry_names_are_as_documented() {
        let head_dim_cap = 128;
        let names = [
            QueriesEntry { head_dim_cap }.to_string(),
            KeysEntry { head_dim_cap }.to_string(),
        ];
        assert_eq!(
            names,
            [
                "attention_backward_dq_simt_d128",
                "attention_backward_dkv_simt_d128"
            ]
        );
    }
}
