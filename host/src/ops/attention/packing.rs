//! GQA packing and split-KV: the choice of packed heads and key splits.
//!
//! **Packed**: one tile of queries has several query heads that share a key/value head, as many as
//! fit. With few queries, this makes fewer tiles, and each tile reads all of its keys. For example,
//! 64 query heads on 8 with one query each are 64 tiles of 128 rows with one row in use, or 8 tiles
//! with eight rows in use. **Split**: the keys of a tile are split among several blocks, and a
//! merge follows, because 8 tiles occupy only 8 of 132 SMs.
//!
//! For a single query that sees all keys, every kernel can view heads as queries
//! ([`AttentionDesc::heads_as_queries`]).
//!
//! [`Work::cycles`] estimates the time of each choice. The plan chooses a packed kernel if its
//! estimate is below [`AttentionCosts::packing_pays`] times that of the other kernel. The margin
//! covers errors of the model, whose constants are not fitted to packed kernels. docs/results.md
//! has measured times of packed kernels.

use super::costs::AttentionCosts;
use super::desc::AttentionDesc;
use crate::ops::plan::Machine;
use abi::attention::sm90::FwdTile;
use abi::attention::{MOST_SPLITS, Mask, UNLIMITED, packed_heads};

/// Packed heads and key splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct Sharing {
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

/// Tiles of a head that are sampled.
const SAMPLES: u32 = 16;

/// The best packing and splitting for a packed kernel, as far as the description leaves the choice
/// open, and its estimate relative to that of the kernel without packing. `None` if there is
/// nothing to pack or split.
pub(super) fn best(
    desc: &AttentionDesc,
    packed: &FwdTile,
    plain: &FwdTile,
    machine: &Machine,
) -> Option<(Sharing, f64)> {
    let heads = match desc.packs_heads {
        Some(false) => 1,
        _ => packed_heads(desc.heads_q / desc.heads_kv),
    };
    let shared = Work::new(desc, packed, heads, machine);
    let of = |splits| (Sharing { heads, splits }, shared.cycles(splits));
    let (sharing, packed_cycles) = match desc.key_splits {
        Some(splits) => of(splits),
        // Enough tiles for all SMs: splits would only add the cost of a merge.
        None if shared.tiles >= 2.0 * shared.multiprocessors => of(1),
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
    let plain = Work::new(of_plain, plain, 1, machine).cycles(1);
    Some((sharing, packed_cycles / plain))
}

/// The work of an attention in tiles of queries.
struct Work {
    costs: AttentionCosts,
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
    fn new(desc: &AttentionDesc, tile: &FwdTile, heads: u32, machine: &Machine) -> Self {
        let costs = machine.model.attention;
        let queries = queries(tile, heads);
        let heads_all = f64::from(desc.batch) * f64::from(desc.heads_q);
        let blocks = blocks(desc, queries, tile.tile_n);
        let pairs = f64::from(tile.tile_m) * f64::from(tile.tile_n);
        let flops = 2.0 * pairs * f64::from(tile.head_dim + tile.head_dim_v);
        let row_bytes = f64::from(desc.head_dim + desc.head_dim_v) * desc.dtype.size_bytes() as f64;
        let block_bytes = f64::from(tile.tile_n) * row_bytes;
        let of_keys = f64::from(desc.batch) * f64::from(desc.heads_kv) * blocks.most;
        Self {
            costs,
            multiprocessors: f64::from(machine.multiprocessors),
            tiles: heads_all / f64::from(heads) * f64::from(desc.seqlen_q.div_ceil(queries)),
            blocks,
            block_cycles: (flops / costs.sm90_flops).max(block_bytes / costs.block_bytes_per_cycle),
            block_bytes,
            once_bytes: of_keys * block_bytes,
            o_bytes: heads_all * f64::from(desc.seqlen_q) * f64::from(desc.head_dim_v) * 4.0,
        }
    }

    /// Estimated cycles with `splits` key splits: the maximum of the busiest SM, L2 and memory,
    /// plus the merge.
    fn cycles(&self, splits: u32) -> f64 {
        let (costs, splits) = (&self.costs, f64::from(splits));
        let tiles = self.tiles * splits;
        let Blocks { mean, most } = self.blocks;
        let of_split = |blocks: f64| (blocks / splits).ceil();
        let of_tile = |blocks: f64| costs.tile_cycles + of_split(blocks) * self.block_cycles;
        let rounds = tiles / self.multiprocessors;
        let busiest = if mean == most {
            rounds.ceil() * of_tile(mean)
        } else {
            // Persistent blocks take tiles dynamically, the longest first.
            (rounds * of_tile(mean)).max(of_tile(most))
        };
        let loaded_bytes = tiles * of_split(mean) * self.block_bytes;
        let merge = if splits == 1.0 {
            0.0
        } else {
            costs.merge_cycles + 2.0 * splits * self.o_bytes / costs.merge_bytes_per_cycle
        };
        let l2 = loaded_bytes / costs.l2_bytes_per_cycle;
        let memory = self.once_bytes / costs.memory_bytes_per_cycle;
        busiest.max(l2).max(memory) + merge
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
    use crate::ops::plan::MachineModel;
    use abi::attention::sm90::TILE_D128;

    fn machine(multiprocessors: u32) -> Machine {
        Machine {
            arch: (9, 0),
            multiprocessors,
            shared_bytes: 227 << 10,
            bytes_per_ns: 4_300.0,
            clock_ghz: 1.7,
            model: MachineModel::H200,
        }
    }

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
        let (sharing, ratio) = best(desc, &TILE_D128, &TILE_D128, &machine(132))?;
        (ratio < MachineModel::H200.attention.packing_pays).then_some(sharing)
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
        let (sharing, _) = best(&desc, &TILE_D128, &TILE_D128, &machine(1)).expect("keys in parts");
        assert_eq!((sharing.heads, sharing.splits), (1, 3));
        let one_head = AttentionDesc {
            heads_q: 8,
            ..grouped(64, 4, 1000, false)
        };
        assert_eq!(chosen(&one_head), None);
    }
}
