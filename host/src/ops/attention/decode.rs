//! The kernels for few queries (`kernels-gpu/src/attention/sm80/decode.rs`), on sm_80 and newer.
//!
//! Their tiles have 16 or 32 rows, so the tensor cores have little to do, and the time is that of
//! reading keys and values. [`Work::ns`] estimates it for each number of splits.
//!
//! Where keys are paged, they compute any number of queries, in as many tiles as that takes: other
//! kernels by tensor cores take no pages.

use super::call::Call;
use super::candidates::{Candidate, Entry, estimate_ns};
use super::desc::AttentionDesc;
use super::packing::Sharing;
use super::pages::PagesDesc;
use super::{parts, sm80};
use crate::reference::attention::AttentionModel;
use crate::{DeviceInfo, Error, LaunchConfig, Result};
use abi::attention::decode::{ALIGN_BYTES, DecodeEntry, DecodeTile, MOST_ROWS, THREADS, WARP_KEYS};
use abi::attention::{FwdPacking, MOST_SPLITS, Mask};

/// Flops per cycle of an SM, so many that nothing else is chosen where a tile has room for all
/// queries: other kernels' tiles have 64 rows or more, and read keys no faster.
const FLOPS_PER_CYCLE: f64 = 1e6;

/// Offers the kernel of the smallest head dimension that covers both, with the best number of
/// splits, if a tile has room for all queries of all heads that share keys, or if keys are paged.
pub(super) fn offer(desc: &AttentionDesc, device: &DeviceInfo, offer: &mut dyn FnMut(Candidate)) {
    let group = match desc.packs_heads {
        Some(false) => 1,
        _ => desc.heads_q / desc.heads_kv,
    };
    let (group, rows) = match desc.pages {
        Some(_) => {
            let group = largest_divisor(group, MOST_ROWS);
            (group, group.saturating_mul(desc.seqlen_q).min(MOST_ROWS))
        }
        None => (group, group.saturating_mul(desc.seqlen_q)),
    };
    let Some(entry) = DecodeEntry::of(desc.dtype, desc.head_dim, desc.head_dim_v, rows) else {
        return;
    };
    let tile = entry.tile;
    let Some(packing) = FwdPacking::new(group, tile.rows) else {
        return;
    };
    let fits = tile.smem_bytes() <= device.max_shared_bytes_per_block;
    if device.arch < (8, 0) || !fits || !suits(desc) {
        return;
    }
    let work = Work::new(desc, tile, &packing, device);
    let splits = desc.key_splits.unwrap_or_else(|| work.best());
    let Some(config) = config(desc, tile, packing, splits) else {
        return;
    };
    offer(Candidate {
        entry: Entry::Decode(entry),
        tile: [tile.rows, DecodeTile::TILE_N],
        config,
        sharing: Sharing {
            heads: group,
            splits,
        },
        estimated_ns: estimate_ns(desc, device, FLOPS_PER_CYCLE),
    });
}

/// The largest divisor of `group` that is at most `most`.
fn largest_divisor(group: u32, most: u32) -> u32 {
    let is_divisor = |&heads: &u32| group.is_multiple_of(heads);
    (1..=group.min(most)).rev().find(is_divisor).unwrap_or(1)
}

/// Whether the kernels can read q, k and v and write o. A warp's keys lie in one page.
fn suits(desc: &AttentionDesc) -> bool {
    let inputs = [&desc.q, &desc.k, &desc.v];
    let pages_suit = |pages: PagesDesc| pages.page_size.is_multiple_of(WARP_KEYS);
    desc.positive_scale
        && desc.pages.is_none_or(pages_suit)
        && inputs
            .iter()
            .all(|input| input.row_align_bytes(desc.dtype) >= ALIGN_BYTES)
        && desc.o.row_align_bytes(desc.o_dtype) >= ALIGN_BYTES
}

fn config(
    desc: &AttentionDesc,
    tile: DecodeTile,
    mut packing: FwdPacking,
    splits: u32,
) -> Option<LaunchConfig> {
    packing.splits = splits;
    Some(LaunchConfig {
        grid: DecodeTile::grid(desc.batch, desc.seqlen_q, desc.heads_q, &packing)?,
        block: [THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    })
}

/// The work of a launch.
struct Work {
    /// Blocks that run at a time.
    slots: f64,
    /// Tiles, without splits.
    tiles: f64,
    /// Blocks of keys of a tile.
    key_blocks: f64,
    /// Bytes of a block of keys and of its values.
    block_bytes: f64,
    /// Bytes of o in f32.
    o_bytes: f64,
}

impl Work {
    /// Memory bandwidth, in bytes a nanosecond (an H200's).
    const MEMORY: f64 = 4200.0;
    /// What one block can have, beside few others.
    const OF_BLOCK: f64 = 40.0;
    /// Nanoseconds until the first keys arrive, and from the last ones until results are written.
    const BLOCK_NS: f64 = 1500.0;
    /// Nanoseconds of the merge, and of each of its parts.
    const MERGE_NS: f64 = 2500.0;
    const PART_NS: f64 = 40.0;

    fn new(
        desc: &AttentionDesc,
        tile: DecodeTile,
        packing: &FwdPacking,
        device: &DeviceInfo,
    ) -> Self {
        let window = (desc.window_left, desc.window_right);
        let mask = Mask::new(desc.seqlen_q, desc.seqlen_k, window, desc.top_left);
        let key_blocks = mask.key_blocks(0, desc.seqlen_q, DecodeTile::TILE_N).len();
        let heads_all = f64::from(desc.batch) * f64::from(desc.heads_q);
        let row_bytes = f64::from(desc.head_dim + desc.head_dim_v) * desc.dtype.size_bytes() as f64;
        let of_multiprocessor = device.max_shared_bytes_per_block / tile.smem_bytes();
        Self {
            slots: f64::from(device.multiprocessors.max(1)) * f64::from(of_multiprocessor.max(1)),
            tiles: heads_all / f64::from(packing.heads)
                * f64::from(desc.seqlen_q.div_ceil(packing.queries)),
            key_blocks: f64::from(key_blocks.max(1)),
            block_bytes: f64::from(DecodeTile::TILE_N) * row_bytes,
            o_bytes: heads_all * f64::from(desc.seqlen_q) * f64::from(desc.head_dim_v) * 4.0,
        }
    }

    /// The number of splits with the least time.
    fn best(&self) -> u32 {
        let most = (self.key_blocks as u32).clamp(1, MOST_SPLITS);
        let (mut best, mut least) = (1, self.ns(1));
        for splits in 2..=most {
            let ns = self.ns(splits);
            if ns < least {
                (best, least) = (splits, ns);
            }
        }
        best
    }

    /// Estimated time with `splits` splits.
    fn ns(&self, splits: u32) -> f64 {
        let splits = f64::from(splits);
        let blocks = self.tiles * splits;
        let of_block = (self.key_blocks / splits).ceil() * self.block_bytes;
        let at_a_time = blocks.min(self.slots);
        let rate = (Self::MEMORY / at_a_time).min(Self::OF_BLOCK);
        let rounds = (blocks / self.slots).ceil();
        let merge = if splits == 1.0 {
            0.0
        } else {
            Self::MERGE_NS + splits * Self::PART_NS + 2.0 * splits * self.o_bytes / Self::MEMORY
        };
        Self::BLOCK_NS + rounds * of_block / rate + merge
    }
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    const OFFERED: Error = Error::Bug("a decoding was offered with more heads than rows");
    let Sharing { heads, splits } = candidate.sharing;
    let packing = FwdPacking::new(heads, entry.tile.rows).ok_or(OFFERED)?;
    parts::launch(call, packing, splits, |call, packing| {
        // SAFETY: extents, strides and lengths are those of the call's memory, whose alignment
        // `offer` checked; grid and shared memory are those of the tile; `packing` says where the
        // splits' results go.
        unsafe { call.launch(entry, candidate.config, &[&packing, &call.pages()]) }
    })
}

/// Error model: that of the [kernels for sm_80](sm80), whose sums the merges of warps and splits add
/// to.
pub(super) fn model(sharing: Sharing, desc: &AttentionDesc) -> AttentionModel {
    let mut model = sm80::model(DecodeTile::TILE_N, desc);
    let merges = (THREADS / 32) as usize + 2 + parts::roundings(sharing.splits);
    model.softmax.rescales += merges;
    model.softmax.additions += merges;
    model
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::{DType, Device};

    fn offered(desc: &AttentionDesc) -> Option<Candidate> {
        let mut info = Device::emulator().expect("an emulator").info().clone();
        info.arch = (8, 0);
        let mut all = None;
        offer(desc, &info, &mut |candidate| all = Some(candidate));
        all
    }

    #[test]
    fn paged_keys_have_tiles_for_any_number_of_queries_and_heads() {
        let pages = |page_size| PagesDesc {
            count: 9,
            page_size,
            row: 4,
        };
        let desc = AttentionDesc {
            seqlen_q: 100,
            seqlen_k: 640,
            heads_q: 66,
            pages: Some(pages(16)),
            ..plain(DType::Bf16, 1, 128)
        };
        let dense = AttentionDesc {
            pages: None,
            ..desc
        };
        assert_eq!(offered(&dense), None);
        let paged = offered(&desc).expect("a candidate");
        assert_eq!((paged.tile[0], paged.sharing.heads), (32, 22));
        assert_eq!(paged.config.grid, [100 * paged.sharing.splits, 3, 1]);
        let unaligned = AttentionDesc {
            pages: Some(pages(24)),
            ..desc
        };
        assert_eq!(offered(&unaligned), None);
    }
}
