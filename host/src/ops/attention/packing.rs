//! GQA packing and split-KV: the choice of packed heads and key splits.
//!
//! **Packed**: as many of the query heads that share a key/value head as fit are packed into one
//! tile of queries. With few queries this makes fewer tiles, each of which reads all of its keys.
//! For example, 64 query heads on 8 with one query each are 64 tiles of 128 rows of which one is
//! used, or 8 tiles of which eight rows are used. **Split**: the keys of a tile are split among
//! several blocks, and a merge follows, because 8 tiles occupy only 8 of 132 SMs.
//!
//! For a single query that sees all keys, heads can be viewed as queries, without a kernel of its
//! own ([`AttentionDesc::heads_as_queries`]): every kernel can do that.
//!
//! [`Work::cycles`] estimates the time of each choice. The plan chooses a packed kernel if its
//! estimate is below [`PAYS`] times that of the other kernel; the margin is for what the model does
//! not know. Its constants are not fitted to packed kernels yet; docs/attention-hopper.md has times
//! of these.

use super::desc::AttentionDesc;
use abi::attention::sm90::FwdTile;
use abi::attention::{MOST_SPLITS, Mask, UNLIMITED, packed_heads};

/// Packed heads and key splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sharing {
    /// Query heads packed into a tile.
    pub(super) heads: u32,
    /// Number of parts of a tile's keys.
    pub(super) splits: u32,
}

impl Sharing {
    /// A tile has one head and all of its keys.
    pub(super) const NONE: Self = Self {
        heads: 1,
        splits: 1,
    };
}

/// A packed kernel is chosen if its estimate is below this fraction of the other kernel's.
pub(super) const PAYS: f64 = 0.8;

/// Flops per cycle of an SM's tensor cores, a multiply-add counted as two (measured: 2,829 cycles
/// for a block of 128 keys with 128 queries, head_dim 128).
const FLOPS: f64 = 2800.0;
/// L2 bandwidth of one SM, in bytes per cycle.
const BLOCK_BYTES: f64 = 48.0;
/// L2 bandwidth of all SMs together, in bytes per cycle (measured: 5.4 TB/s).
const L2_BYTES: f64 = 3000.0;
/// Memory bandwidth, in bytes per cycle (copies: 4.3 TB/s).
const MEMORY_BYTES: f64 = 2400.0;
/// Cycles of a tile until its first keys arrive, and from its last keys until its results are
/// written.
const TILE_CYCLES: f64 = 3000.0;
/// Cycles of the launch of the merge, which waits for all of the first launch.
const MERGE_CYCLES: f64 = 5000.0;
/// Bytes of partial results per cycle, from their writing to the end of the merge (measured: 0.4 us
/// for a split of 512 KiB, which is written and read; 2,048 keys and 16 queries of 64 heads on 8).
const MERGE_BYTES: f64 = 1500.0;
/// Tiles of a head that are sampled.
const SAMPLES: u32 = 16;

/// The best packing and splitting for a packed kernel, as far as the description leaves the choice
/// open, and its estimate relative to that of the kernel without packing. `None` if there is
/// nothing to pack or split.
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
        // Enough tiles for all SMs: splits would only add the cost of a merge.
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
    // The kernel without packing may still view heads as queries.
    let viewed = match desc.packs_heads {
        Some(false) => None,
        _ => desc.heads_as_queries(),
    };
    let of_plain = viewed.as_ref().unwrap_or(desc);
    let plain = Work::new(of_plain, plain, 1, multiprocessors).cycles(1);
    Some((sharing, packed_cycles / plain))
}

/// The work of an attention in tiles of queries.
struct Work {
    multiprocessors: f64,
    /// Number of tiles, without splits.
    tiles: f64,
    blocks: Blocks,
    /// Cycles and bytes of a block of keys.
    block_cycles: f64,
    block_bytes: f64,
    /// Bytes of all visible keys and values.
    once_bytes: f64,
    /// Bytes of o in f32.
    o_bytes: f64,
}

impl Work {
    /// The work of `desc` in tiles of `tile`, with `heads` packed heads.
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

    /// Estimated cycles with `splits` key splits: the maximum of the busiest SM, L2 and memory,
    /// plus the merge.
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
            // Persistent blocks take tiles dynamically, the longest first.
            (rounds * of_tile(mean)).max(of_tile(most))
        };
        let loaded_bytes = tiles * of_part(mean) * self.block_bytes;
        let merge = if splits == 1.0 {
            0.0
        } else {
            MERGE_CYCLES + 2.0 * splits * self.o_bytes / MERGE_BYTES
        };
        let l2 = loaded_bytes / L2_BYTES;
        busiest.max(l2).max(self.once_bytes / MEMORY_BYTES) + merge
    }
}

/// Queries of a tile with `heads` packed heads.
pub(super) fn queries(tile: &FwdTile, heads: u32) -> u32 {
    tile.consumers() * (tile.box_rows_q() / heads.max(1)).max(1)
}

/// Blocks of keys that a tile visits.
#[derive(Clone, Copy)]
struct Blocks {
    mean: f64,
    most: f64,
}

/// Blocks of keys that tiles visit, if all sequences have the length of the longest.
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
        // A tile that sees no key still visits one block.
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
    use abi::attention::sm90::TILE_D128;

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
