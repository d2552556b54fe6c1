//! When heads are packed and keys are split.
//!
//! **Packed**: of the heads that share keys and values, as many as have room lie side by side in a tile of
//! queries. Where queries are few that makes fewer tiles, of which each reads all of its keys: 64 heads on
//! 8, one query each, are 64 tiles of 128 rows with one row in use, or 8 with eight. **Split**: a tile's
//! keys are taken in parts, by a block each, and a merge follows: 8 tiles are work for 8 of 132
//! multiprocessors.
//!
//! Where there is a single query which sees all keys, its heads can be taken for queries without a kernel of
//! their own ([`AttentionDesc::heads_as_queries`]): every kernel does that.
//!
//! [`Work::cycles`] says what a way of doing it is expected to take. A packed kernel is the plan's choice where
//! it is expected to take less than [`PAYS`] of the time of the other one: the rest is room for what the
//! model does not know. It has not been held against a GPU yet.

use super::desc::AttentionDesc;
use spec::attention::sm90::FwdTile;
use spec::attention::{MOST_SPLITS, Mask, UNLIMITED, packed_heads};

/// How heads and keys are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sharing {
    /// Heads side by side in a tile.
    pub(super) heads: u32,
    /// Parts of a tile's keys.
    pub(super) splits: u32,
}

impl Sharing {
    /// A tile is of one head, and takes all of its keys.
    pub(super) const NONE: Self = Self {
        heads: 1,
        splits: 1,
    };
}

/// Most of the time of kernels that are not packed that a packed one is chosen for.
pub(super) const PAYS: f64 = 0.8;

/// Multiply-adds, counted as two, that the tensor cores of a multiprocessor do in a cycle (measured:
/// 2,829 cycles for a block of 128 keys with 128 queries, head_dim 128).
const FLOPS: f64 = 2800.0;
/// Bytes that a multiprocessor gets from L2 in a cycle.
const BLOCK_BYTES: f64 = 48.0;
/// Bytes that all of them get from L2 in a cycle (measured: 5.4 TB/s).
const L2_BYTES: f64 = 3000.0;
/// Bytes from memory in a cycle (copies: 4.3 TB/s).
const MEMORY_BYTES: f64 = 2400.0;
/// Until a block's first keys are there, and from its last until its results are.
const TILE_CYCLES: f64 = 3000.0;
/// Another launch, which waits for all of the first.
const MERGE_CYCLES: f64 = 5000.0;
/// Tiles of a head that are looked at.
const SAMPLES: u32 = 16;

/// The best sharing of a packed kernel, and what it is expected to take for every cycle of the one that
/// is not packed. As far as the description does not say it. `None` where there is nothing to share.
pub(super) fn best(
    desc: &AttentionDesc,
    packed: &FwdTile,
    plain: &FwdTile,
    multiprocessors: u32,
) -> Option<(Sharing, f64)> {
    let heads = match desc.packs_heads {
        Some(false) => 1,
        _ => packed_heads(desc.heads_q / desc.heads_kv),
    };
    let multiprocessors = f64::from(multiprocessors.max(1));
    let shared = Work::new(desc, packed, heads, multiprocessors);
    let of = |splits| (Sharing { heads, splits }, shared.cycles(splits));
    let (sharing, packed_cycles) = match desc.key_splits {
        Some(splits) => of(splits),
        // More parts than that only make more of a merge.
        None if shared.tiles >= 2.0 * multiprocessors => of(1),
        None => {
            let blocks = desc.seqlen_k.div_ceil(packed.tile_n);
            (1..=blocks.clamp(1, MOST_SPLITS))
                .map(of)
                .reduce(|best, other| if other.1 < best.1 { other } else { best })?
        }
    };
    if sharing == Sharing::NONE {
        return None;
    }
    // Without a packed kernel heads may still be queries.
    let viewed = match desc.packs_heads {
        Some(false) => None,
        _ => desc.heads_as_queries(),
    };
    let of_plain = viewed.as_ref().unwrap_or(desc);
    let plain = Work::new(of_plain, plain, 1, multiprocessors).cycles(1);
    Some((sharing, packed_cycles / plain))
}

/// What there is to do, in tiles of some queries.
struct Work {
    multiprocessors: f64,
    /// Tiles, without parts.
    tiles: f64,
    blocks: Blocks,
    /// Cycles and bytes of a block of keys.
    block_cycles: f64,
    block_bytes: f64,
    /// Bytes of all keys and values that are seen.
    once_bytes: f64,
    /// Bytes of o in f32.
    o_bytes: f64,
}

impl Work {
    /// Of `desc` in tiles of `tile`, with `heads` side by side.
    fn new(desc: &AttentionDesc, tile: &FwdTile, heads: u32, multiprocessors: f64) -> Self {
        let queries = queries(tile, heads);
        let heads_all = f64::from(desc.batch) * f64::from(desc.heads_q);
        let blocks = blocks(desc, queries, tile.tile_n);
        let pairs = f64::from(tile.tile_m) * f64::from(tile.tile_n);
        let flops = 2.0 * pairs * f64::from(tile.head_dim + tile.head_dim_v);
        let row_bytes = f64::from(desc.head_dim + desc.head_dim_v) * desc.dtype.size_bytes() as f64;
        let block_bytes = f64::from(tile.tile_n) * row_bytes;
        let of_keys = f64::from(desc.batch) * f64::from(desc.heads_kv) * blocks.most;
        Self {
            multiprocessors,
            tiles: heads_all / f64::from(heads) * f64::from(desc.seqlen_q.div_ceil(queries)),
            blocks,
            block_cycles: (flops / FLOPS).max(block_bytes / BLOCK_BYTES),
            block_bytes,
            once_bytes: of_keys * block_bytes,
            o_bytes: heads_all * f64::from(desc.seqlen_q) * f64::from(desc.head_dim_v) * 4.0,
        }
    }

    /// Cycles with keys in `splits` parts, about: of the multiprocessor that has most to do, or of L2, or of
    /// memory, whichever takes longest; and of the merge.
    fn cycles(&self, splits: u32) -> f64 {
        let splits = f64::from(splits);
        let tiles = self.tiles * splits;
        let Blocks { mean, most } = self.blocks;
        let of_part = |blocks: f64| (blocks / splits).ceil();
        let of_tile = |blocks: f64| TILE_CYCLES + of_part(blocks) * self.block_cycles;
        let rounds = tiles / self.multiprocessors;
        let busiest = if mean == most {
            rounds.ceil() * of_tile(mean)
        } else {
            // Blocks take tiles as they come, the longest first.
            (rounds * of_tile(mean)).max(of_tile(most))
        };
        let loaded_bytes = tiles * of_part(mean) * self.block_bytes;
        let merge = if splits == 1.0 {
            0.0
        } else {
            MERGE_CYCLES + 2.0 * splits * self.o_bytes / L2_BYTES
        };
        let l2 = loaded_bytes / L2_BYTES;
        busiest.max(l2).max(self.once_bytes / MEMORY_BYTES) + merge
    }
}

/// Queries of a tile with `heads` side by side.
pub(super) fn queries(tile: &FwdTile, heads: u32) -> u32 {
    tile.consumers() * (tile.box_rows_q() / heads.max(1)).max(1)
}

/// Blocks of keys that a tile visits.
#[derive(Clone, Copy)]
struct Blocks {
    mean: f64,
    most: f64,
}

/// Of sequences as long as the longest.
fn blocks(desc: &AttentionDesc, queries: u32, tile_n: u32) -> Blocks {
    if desc.window_left == UNLIMITED && desc.window_right == UNLIMITED {
        let all = f64::from(desc.seqlen_k.div_ceil(tile_n));
        return Blocks {
            mean: all,
            most: all,
        };
    }
    let window = (desc.window_left, desc.window_right);
    let mask = Mask::new(desc.seqlen_q, desc.seqlen_k, window, desc.top_left);
    let tiles = desc.seqlen_q.div_ceil(queries);
    let samples = tiles.min(SAMPLES);
    let visited = (0..samples).map(|sample| {
        let tile = u64::from(sample) * u64::from(tiles) / u64::from(samples);
        let first = tile as u32 * queries;
        // One that sees nothing visits one all the same.
        let visited = mask.key_blocks(first, first.saturating_add(queries), tile_n);
        f64::from(visited.len().max(1))
    });
    let (sum, most) = visited.fold((0.0, 0.0_f64), |(sum, most), x| (sum + x, most.max(x)));
    Blocks {
        mean: sum / f64::from(samples.max(1)),
        most,
    }
}

#[cfg(test)]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::DType;
    use spec::attention::sm90::TILE_D128;

    /// An H200's.
    const MULTIPROCESSORS: u32 = 132;

    fn grouped(batch: u32, seqlen_q: u32, seqlen_k: u32, is_causal: bool) -> AttentionDesc {
        AttentionDesc {
            batch,
            seqlen_q,
            seqlen_k,
            heads_q: 64,
            heads_kv: 8,
            window_right: if is_causal { 0 } else { UNLIMITED },
            ..plain(DType::Bf16, 1, 128)
        }
    }

    fn chosen(desc: &AttentionDesc) -> Option<Sharing> {
        let (sharing, ratio) = best(desc, &TILE_D128, &TILE_D128, MULTIPROCESSORS)?;
        (ratio < PAYS).then_some(sharing)
    }

    #[test]
    fn short_queries_are_packed_and_long_ones_are_not() {
        // A single query needs no packed kernel: its heads are as good as queries.
        for (seqlen_q, packs) in [
            (1, false),
            (2, true),
            (4, true),
            (16, true),
            (64, true),
            (128, false),
        ] {
            for is_causal in [false, true] {
                let sharing = chosen(&grouped(32, seqlen_q, 8192, is_causal));
                let packed = sharing.is_some_and(|sharing| sharing.heads == 8);
                assert_eq!(packed, packs, "{seqlen_q} queries: {sharing:?}");
            }
        }
        for seqlen in [512, 2048, 8192, 32_768] {
            assert_eq!(chosen(&grouped(4, seqlen, seqlen, true)), None, "{seqlen}");
        }
    }

    #[test]
    fn keys_are_split_until_every_multiprocessor_has_some() {
        let splits = |batch, seqlen_k| {
            let sharing = chosen(&grouped(batch, 1, seqlen_k, true));
            sharing.map_or(1, |sharing| sharing.splits)
        };
        let long = splits(1, 32_768);
        assert!((12..=16).contains(&long), "{long}");
        assert!(splits(1, 2048) > 1);
        assert_eq!([splits(1, 128), splits(64, 32_768)], [1, 1]);
    }

    #[test]
    fn what_is_asked_for_is_done() {
        let desc = AttentionDesc {
            key_splits: Some(3),
            packs_heads: Some(false),
            ..grouped(1, 1, 1000, false)
        };
        let (sharing, _) = best(&desc, &TILE_D128, &TILE_D128, 1).expect("keys in parts");
        assert_eq!((sharing.heads, sharing.splits), (1, 3));
        let one_head = AttentionDesc {
            heads_q: 8,
            ..grouped(64, 4, 1000, false)
        };
        assert_eq!(chosen(&one_head), None);
    }
}
