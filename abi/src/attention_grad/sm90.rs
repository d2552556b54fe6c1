//! Hopper's kernels: TMA, `wgmma`, warp specialisation; one thread block for each block of keys, or
//! a cluster of two at head dimensions above 128.
//!
//! An entry `attention_grad_sm90_<dtype>_<tile>` ([`Sm90GradEntry::ALL`] has all) takes
//! - tensor maps of q, k, v and d_o by value, with boxes of [`Sm90GradTile::tile_m`] (q, d_o) or
//!   [`Sm90GradTile::keys`] (k, v) rows of [`SPAN_BYTES`] and the dimensions
//!   `[head_dim, position, head, batch]`;
//! - `lse: *const f32` and `delta: *const f32`, contiguous `[batch, heads_q, seqlen_q]`, or
//!   `[heads_q, total_q]` if queries are packed;
//! - `sums: *mut f32` of [`Sm90GradTile::sums`] elements, and `key_sums: *mut f32` of
//!   [`Sm90GradTile::key_sums`], both with any contents;
//! - `counters: *mut u32` of [`Sm90GradTile::counters`] elements, 0 before the launch and after it;
//! - `dk: *mut u16`, `dv: *mut u16`, [`FlashFwdLengths`] and [`AttentionGradParams`].
//!
//! An entry whose name ends in `lengths` is for sequences of different lengths; the others do not
//! read these. It takes maps with the dimensions `[head_dim, box, head, position, batch]`, where
//! `box` has as many rows as a box, and `box` and `position` have the same stride. Coordinates
//! `box = i` and `position = j` are the tensor's row `i + j - rows`, so a map's address is `rows`
//! rows before the tensor. A box from `box = rows - n` on has `n` rows of the tensor, and zeros:
//! so none comes from the next sequence.
//!
//! Its grid is [`Sm90GradTile::grid`]. `sums` then holds the sums of dq. Where every query head has
//! keys of its own, dk and dv are written; where heads share keys, `key_sums` holds their sums.
//! [`ROUND_ENTRY`](super::sums::ROUND_ENTRY) turns sums into gradients.
//!
//! q, k, v, d_o, dq, dk and dv are aligned to 16 bytes, as are their strides. head_dim and
//! head_dim_v are multiples of 8, softmax_scale is more than 0, there are keys, and at most 2^30
//! queries and keys.

use super::AttentionGradParams;
use super::order::{Order, beside, heads_together};
use crate::DType;
use crate::attention::FlashFwdLengths;
use crate::attention::mask::{Mask, UNLIMITED};
use crate::entry::{Parts, entries};
use crate::gemm::sm90::{MMA_M, SMEM_MAX_BYTES, SPAN_BYTES, TILE_ALIGN, WARPGROUP};

/// Consumer warpgroups of a thread block. In a block of its own, each has 64 of the keys. In a
/// cluster of two, where a thread block has 64 keys, the first has their dv and the second their dk.
pub const CONSUMERS: u32 = 2;
/// Keys of a block of keys.
pub const TILE_N: u32 = 2 * MMA_M;
/// Threads of a block.
pub const THREADS: u32 = (1 + CONSUMERS) * WARPGROUP;
/// Stages of the rings of q, d_o, and lse and delta.
pub const STAGES: u32 = 2;

/// Most blocks of a grid along y.
const MOST_Y: u32 = 65_535;
/// Parts of a tile's dq that a thread block computes, and elements of a part: a 64 × 64 accumulator.
pub const CHUNKS: u32 = 2;
/// See [`CHUNKS`].
pub const CHUNK: u32 = MMA_M * 64;
/// Bytes of a block's place.
const PLACE_BYTES: u32 = 64;

/// The tile of a block, and the head dimensions that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90GradTile {
    /// Largest head_dim and head_dim_v; 64, 128 or 256.
    pub head_dim: u32,
    /// Queries of a tile. Its dq has [`CHUNKS`] parts for each thread block: of the columns if there
    /// are 64 queries, halves of the queries if there are 128.
    pub tile_m: u32,
}

impl Sm90GradTile {
    /// Keys of a block.
    pub const fn tile_n(&self) -> u32 {
        TILE_N
    }

    /// Thread blocks of a block of keys: a cluster of two where one has no registers for dk and dv of
    /// 128 keys. Each has half of the keys and half of the columns of dq.
    pub const fn ctas(&self) -> u32 {
        if self.head_dim > 128 { 2 } else { 1 }
    }

    /// Keys of a thread block.
    pub const fn keys(&self) -> u32 {
        TILE_N / self.ctas()
    }

    /// Stages of the ring of d_o.
    pub const fn d_o_stages(&self) -> u32 {
        STAGES / self.ctas()
    }

    /// Buffers of dS. A thread block alone has two: a consumer may write the next while the other
    /// still reads the last.
    pub const fn ds_buffers(&self) -> u32 {
        2 / self.ctas()
    }

    /// Registers of a thread of the loader's warpgroup, and of a consumer.
    pub const fn registers(&self) -> (u32, u32) {
        (24, 240)
    }

    /// Panels (of [`SPAN_BYTES`] of columns) of a query or a key.
    pub const fn panels(&self) -> u32 {
        self.head_dim * 2 / SPAN_BYTES
    }

    /// Bytes of a stage of q, and of one of d_o.
    pub const fn q_bytes(&self) -> u32 {
        self.tile_m * self.head_dim * 2
    }

    /// Bytes of the keys of a thread block, and of its values.
    pub const fn k_bytes(&self) -> u32 {
        self.keys() * self.head_dim * 2
    }

    /// Bytes of the other thread block's keys that dq needs: the columns of dq.
    pub const fn peer_bytes(&self) -> u32 {
        (self.ctas() - 1) * self.k_bytes() / 2
    }

    /// Bytes of a buffer of dS.
    pub const fn ds_bytes(&self) -> u32 {
        TILE_N * self.tile_m * 2
    }

    /// Bytes of a stage of lse and delta: first all lse, then all delta.
    pub const fn rows_bytes(&self) -> u32 {
        2 * self.tile_m * 4
    }

    /// Offsets in shared memory, from the first multiple of [`TILE_ALIGN`] on.
    pub const fn smem(&self) -> BwdSmem {
        let peer = 2 * self.k_bytes();
        let q = peer + self.peer_bytes();
        let d_o = q + STAGES * self.q_bytes();
        let ds = d_o + self.d_o_stages() * self.q_bytes();
        let dq = ds + self.ds_buffers() * self.ds_bytes();
        let rows = dq + CHUNKS * CHUNK * 4;
        let barriers_kv = rows + STAGES * self.rows_bytes();
        let barriers_q = barriers_kv + 2 * 16;
        let barriers_d_o = barriers_q + STAGES * 16;
        let barriers_rows = barriers_d_o + STAGES * 16;
        let barriers_ds = barriers_rows + STAGES * 16;
        BwdSmem {
            peer,
            q,
            d_o,
            ds,
            dq,
            rows,
            barriers_kv,
            barriers_q,
            barriers_d_o,
            barriers_rows,
            barriers_ds,
            place: barriers_ds + 16,
            end: barriers_ds + 16 + PLACE_BYTES,
        }
    }

    /// Dynamic shared memory of a launch, with room to align it.
    pub const fn smem_bytes(&self) -> u32 {
        let bytes = self.smem().end + TILE_ALIGN - 16;
        assert!(bytes <= SMEM_MAX_BYTES, "the stages do not fit");
        bytes
    }
}

impl Sm90GradTile {
    /// Which tiles of a sequence are visited, and in which order their dq is summed.
    #[inline(always)]
    pub const fn order(&self, mask: Mask) -> Order {
        Order {
            mask,
            tile_m: self.tile_m,
            tile_n: TILE_N,
        }
    }

    /// Tiles of a head's queries.
    #[inline(always)]
    pub const fn query_tiles(&self, seqlen_q: u32) -> u32 {
        let log2 = self.tile_m.trailing_zeros() & 31;
        seqlen_q.wrapping_add(self.tile_m - 1) >> log2
    }

    /// Blocks of a head's keys.
    #[inline(always)]
    pub const fn key_blocks(&self, seqlen_k: u32) -> u32 {
        seqlen_k.wrapping_add(TILE_N - 1) / TILE_N
    }

    /// How many query heads a block has if `multiprocessors` run one each at a time.
    pub const fn heads_together(&self, heads: &Heads, multiprocessors: u32) -> u32 {
        let blocks = (heads.heads_q as u64).saturating_mul(heads.key_slots);
        // Four for each, so that few wait for the last.
        let at_a_time = multiprocessors / self.ctas();
        heads_together(heads.group(), blocks, 4 * at_a_time as u64)
    }

    /// The grid, if a block has `together` query heads; `None` if there are too many heads. Thread
    /// blocks of a cluster are neighbours along x. The blocks of parts [side by side](super::order::beside) alternate along x.
    pub const fn grid(
        &self,
        heads: &Heads,
        together: u32,
        multiprocessors: u32,
    ) -> Option<[u32; 3]> {
        let Some(adders) = heads.group().checked_div(together) else {
            return None;
        };
        let batch = if heads.has_lengths { 1 } else { heads.batch };
        let parts = batch as u64 * heads.heads_kv as u64;
        let parts = parts.saturating_mul(adders as u64);
        if parts > u32::MAX as u64 || batch == 0 {
            return None;
        }
        let of_parts = (parts as u32, together);
        let at_a_time = multiprocessors / self.ctas();
        let of_longest = self.key_blocks(heads.seqlen_k);
        let beside = beside(of_parts, of_longest, at_a_time, heads.is_masked);
        let of_part = heads.key_slots / batch as u64;
        let x = (of_part.saturating_mul(beside as u64)).saturating_mul(self.ctas() as u64);
        let y = parts as u32 / beside;
        if y > MOST_Y || x > i32::MAX as u64 {
            return None;
        }
        Some([x as u32, y, 1])
    }
}

/// What a grid depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Sequences.
    pub batch: u32,
    /// Query heads of a sequence.
    pub heads_q: u32,
    /// Its key heads, of which that is a multiple.
    pub heads_kv: u32,
    /// Keys of a head of the longest sequence.
    pub seqlen_k: u32,
    /// [`Sm90GradTile::key_slots`].
    pub key_slots: u64,
    /// Whether sequences have lengths of their own: then the blocks of all sequences lie along x.
    pub has_lengths: bool,
    /// Whether some queries may not see all keys.
    pub is_masked: bool,
}

impl Heads {
    /// Whether a window, to the left and to the right, hides keys from some queries.
    pub const fn masked_by((left, right): (i32, i32)) -> bool {
        left < UNLIMITED || right < UNLIMITED
    }

    /// Query heads that share keys; 0 if there are none.
    const fn group(&self) -> u32 {
        match self.heads_q.checked_div(self.heads_kv) {
            Some(group) => group,
            None => 0,
        }
    }
}

/// Offsets in shared memory, in bytes. The keys are at 0, the values behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BwdSmem {
    /// The other thread block's keys, as far as dq needs them.
    pub peer: u32,
    /// The ring of q.
    pub q: u32,
    /// The ring of d_o.
    pub d_o: u32,
    /// The buffers of dS.
    pub ds: u32,
    /// A tile's dq on its way out.
    pub dq: u32,
    /// The ring of lse and delta.
    pub rows: u32,
    /// Barriers of keys and values, two stages.
    pub barriers_kv: u32,
    /// Barriers of the ring of q.
    pub barriers_q: u32,
    /// Barriers of the ring of d_o.
    pub barriers_d_o: u32,
    /// Barriers of the ring of lse and delta.
    pub barriers_rows: u32,
    /// Barriers of a cluster's dS, one stage.
    pub barriers_ds: u32,
    /// Where a block of keys of sequences of different lengths is.
    pub place: u32,
    /// The end.
    pub end: u32,
}

/// One kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sm90GradEntry {
    name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// The tile.
    pub tile: Sm90GradTile,
    /// Whether it is for sequences of different lengths.
    pub has_lengths: bool,
}

impl Sm90GradEntry {
    /// The entry of a name `attention_grad_sm90_<dtype>_d<head_dim cap>_<m>x<n>`, with `_lengths`
    /// behind it or not.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("attention_grad_sm90");
        let dtype = parts.expect_dtype();
        let head_dim = parts.number("d");
        let [tile_m, tile_n] = parts.numbers("");
        let has_lengths = parts.take("lengths");
        parts.end();
        assert!(tile_n == TILE_N);
        Self {
            name,
            dtype,
            tile: Sm90GradTile { head_dim, tile_m },
            has_lengths,
        }
    }

    /// The entry for the smallest head dimensions that serves both.
    pub fn of(dtype: DType, head_dims: [u32; 2], has_lengths: bool) -> Option<Self> {
        let [head_dim, head_dim_v] = head_dims;
        let has_room = |tile: Sm90GradTile| head_dim.max(head_dim_v) <= tile.head_dim;
        Self::find(|entry| {
            (entry.dtype, entry.has_lengths) == (dtype, has_lengths) && has_room(entry.tile)
        })
    }
}

entries! { $ Sm90GradEntry((FlashFwdLengths, AttentionGradParams)) {
    /// The `wgmma` type of elements. The smallest head dimensions come first.
    attention_grad_sm90 {
        attention_grad_sm90_bf16_d64_128x128(Bf16);
        attention_grad_sm90_bf16_d128_64x128(Bf16);
        attention_grad_sm90_f16_d64_128x128(F16);
        attention_grad_sm90_f16_d128_64x128(F16);
        attention_grad_sm90_bf16_d64_128x128_lengths(Bf16);
        attention_grad_sm90_bf16_d128_64x128_lengths(Bf16);
        attention_grad_sm90_f16_d64_128x128_lengths(F16);
        attention_grad_sm90_f16_d128_64x128_lengths(F16);
    }
    /// The same, by clusters of two.
    attention_grad_sm90_pair {
        attention_grad_sm90_bf16_d256_64x128(Bf16);
        attention_grad_sm90_f16_d256_64x128(F16);
    }
} }

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn every_tile_fits_and_its_dq_is_two_accumulators_of_each_thread_block() {
        for tile in Sm90GradEntry::ALL.iter().map(|entry| entry.tile) {
            assert!(tile.smem_bytes() <= SMEM_MAX_BYTES);
            assert_eq!(tile.tile_m * tile.head_dim, tile.ctas() * CHUNKS * CHUNK);
            let smem = tile.smem();
            for part in [smem.peer, smem.q, smem.d_o, smem.ds, smem.dq] {
                assert!(part.is_multiple_of(TILE_ALIGN));
            }
        }
    }

    #[test]
    fn names_say_type_and_tile() {
        let name = |head_dim, head_dim_v| {
            Sm90GradEntry::of(DType::Bf16, [head_dim, head_dim_v], false)
                .map(|entry| entry.to_string())
        };
        let d128 = Some("attention_grad_sm90_bf16_d128_64x128");
        assert_eq!(name(72, 40).as_deref(), d128);
        assert_eq!(name(64, 72).as_deref(), d128);
        let d256 = Some("attention_grad_sm90_bf16_d256_64x128");
        assert_eq!(name(64, 136).as_deref(), d256);
        assert_eq!(name(264, 64), None);
        assert_eq!(Sm90GradEntry::of(DType::F32, [64, 64], false), None);
    }
}
