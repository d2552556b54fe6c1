//! The kernels for few queries (`kernels-gpu/src/attention/sm80/decode.rs`), on sm_80 and newer.
//!
//! Their tiles have 16 or 32 rows, so the tensor cores have little work, and most of the time goes
//! to reading keys and values. [`Work::ns`] estimates the time for each number of splits.
//!
//! With paged keys, they compute any number of queries, in several tiles. Other tensor-core kernels
//! do not support pages. The same holds of keys in e4m3, and of wide heads (`sm90/wide.rs`).

use super::call::Call;
use super::candidates::{Candidate, Entry};
use super::costs::AttentionCosts;
use super::desc::AttentionDesc;
use super::packing::Sharing;
use super::pages::PagesDesc;
use super::{sm80, splits};
use crate::ops::plan::Machine;
use crate::reference::attention::AttentionModel;
use crate::{DType, Error, LaunchConfig, Result};
use abi::attention::decode::{
    ALIGN_BYTES, DecodeEntry, DecodeTile, MOST_ROWS, THREADS, WARP_KEYS, WIDE_FROM, WIDE_ROWS,
};
use abi::attention::{FwdPacking, MOST_SPLITS, Mask};

/// The oldest architecture of these kernels.
const LEAST_ARCH: u32 = 80;

/// The largest head dimension of other kernels for dense keys.
const OTHERS_UP_TO: u32 = 256;

/// Keys of each part of a batch-invariant attention: few enough that a single sequence occupies many SMs.
const INVARIANT_KEYS: u32 = 1024;

/// Largest error of queries in bf16 that become f16, relative to the largest of their row. That one is at
/// least 2^14, and what is below 2^-14 is rounded to multiples of 2^-24.
const Q_LOST: f64 = 1.0 / (1_u64 << 39) as f64;

/// Offers the kernel of the smallest head dimension that covers both, with the best number of
/// splits. A tile must have room for all queries of all heads that share keys, or keys are paged.
pub(super) fn offer(desc: &AttentionDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let group = match desc.packs_heads {
        Some(false) => 1,
        _ => desc.heads_q / desc.heads_kv,
    };
    let is_e4m3 = desc.kv_dtype == DType::E4m3;
    let most_dim = desc.head_dim.max(desc.head_dim_v);
    // Only pages and the widest heads have no other kernels by tensor cores.
    let is_wide = most_dim > WIDE_FROM && (desc.pages.is_some() || most_dim > OTHERS_UP_TO);
    if most_dim > WIDE_FROM && !is_wide {
        return;
    }
    let (group, rows) = match desc.pages.is_some() || is_e4m3 || is_wide {
        true => {
            let most = if is_wide { WIDE_ROWS } else { MOST_ROWS };
            let group = largest_divisor(group, most);
            (group, group.saturating_mul(desc.seqlen_q).min(most))
        }
        false => (group, group.saturating_mul(desc.seqlen_q)),
    };
    if is_e4m3 && !matches!(desc.dtype, DType::F16 | DType::Bf16) {
        return;
    }
    let arch = 10 * machine.arch.0 + machine.arch.1;
    if arch < LEAST_ARCH {
        return;
    }
    let dims = [desc.head_dim, desc.head_dim_v];
    let best = DecodeEntry::of(desc.kv_dtype, arch, dims, rows);
    // What every architecture has is as right, and slower where there is something newer.
    let portable = DecodeEntry::of(desc.kv_dtype, LEAST_ARCH, dims, rows);
    for (entry, time) in [(best, 1.0), (portable.filter(|_| best != portable), 2.0)] {
        if let Some(entry) = entry {
            offer_entry(entry, time, desc, machine, group, offer);
        }
    }
}

/// Offers a kernel with `group` packed heads, whose time is `time` times the estimated one.
fn offer_entry(
    entry: DecodeEntry,
    time: f64,
    desc: &AttentionDesc,
    machine: &Machine,
    group: u32,
    offer: &mut dyn FnMut(Candidate),
) {
    let tile = entry.tile;
    let Some(packing) = FwdPacking::new(group, tile.rows) else {
        return;
    };
    let fits = tile.smem_bytes() <= machine.shared_bytes;
    if !fits || !suits(desc, tile.is_wide()) {
        return;
    }
    let work = Work::new(desc, tile, &packing, machine);
    let splits = match (desc.key_splits, split_blocks(desc)) {
        (Some(splits), _) => splits,
        (None, 0) => work.best(),
        (None, blocks) => fixed_splits(desc, blocks),
    };
    let Some(config) = config(desc, tile, packing, splits) else {
        return;
    };
    let extents = [tile.rows, DecodeTile::TILE_N];
    let estimated_ns = machine.model.launch_ns + time * work.ns(splits);
    offer(Candidate {
        sharing: Sharing {
            heads: group,
            splits,
        },
        packing: Some(packing),
        ..Candidate::plain(Entry::Decode(entry), extents, config, estimated_ns)
    });
}

/// Blocks of keys of each part, counted from the sequence's first key, if their number must not depend
/// on the batch and the mask; else 0.
fn split_blocks(desc: &AttentionDesc) -> u32 {
    match desc.batch_invariant && desc.key_splits.is_none() {
        true => INVARIANT_KEYS / DecodeTile::TILE_N,
        false => 0,
    }
}

/// Parts of so many blocks that the longest sequence has. With a sink there are two at least, because a
/// single one is not merged: its sink is added elsewhere.
fn fixed_splits(desc: &AttentionDesc, blocks: u32) -> u32 {
    let parts = desc.seqlen_k.div_ceil(blocks * DecodeTile::TILE_N);
    parts.clamp(1 + u32::from(desc.sink), MOST_SPLITS)
}

/// The largest divisor of `group` that is at most `most`.
fn largest_divisor(group: u32, most: u32) -> u32 {
    let is_divisor = |&heads: &u32| group.is_multiple_of(heads);
    (1..=group.min(most)).rev().find(is_divisor).unwrap_or(1)
}

/// Whether the kernels can read q, k and v and write o. A warp's keys lie in one page, but
/// those of wide heads anywhere.
fn suits(desc: &AttentionDesc, is_wide: bool) -> bool {
    let inputs = [
        (&desc.q, desc.dtype),
        (&desc.k, desc.kv_dtype),
        (&desc.v, desc.kv_dtype),
    ];
    let pages_suit = |pages: PagesDesc| is_wide || pages.page_size.is_multiple_of(WARP_KEYS);
    desc.positive_scale
        && desc.pages.is_none_or(pages_suit)
        && inputs
            .iter()
            .all(|(input, dtype)| input.row_align_bytes(*dtype) >= ALIGN_BYTES)
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
        block: [tile.threads(), 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    })
}

/// The work of a launch.
struct Work {
    costs: AttentionCosts,
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
    fn new(
        desc: &AttentionDesc,
        tile: DecodeTile,
        packing: &FwdPacking,
        machine: &Machine,
    ) -> Self {
        let window = (desc.window_left, desc.window_right);
        let mask = Mask::new(desc.seqlen_q, desc.seqlen_k, window, desc.top_left);
        let key_blocks = mask.key_blocks(0, desc.seqlen_q, DecodeTile::TILE_N).len();
        let heads_all = f64::from(desc.batch) * f64::from(desc.heads_q);
        // Values of wide heads are most often the first elements of keys.
        let head_dim_v = if tile.is_wide() { 0 } else { desc.head_dim_v };
        let row_bytes = f64::from(desc.head_dim + head_dim_v) * desc.kv_dtype.size_bytes() as f64;
        let of_multiprocessor = machine.shared_bytes / tile.smem_bytes();
        Self {
            costs: machine.model.attention,
            slots: f64::from(machine.multiprocessors) * f64::from(of_multiprocessor.max(1)),
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
        let (costs, splits) = (&self.costs, f64::from(splits));
        let blocks = self.tiles * splits;
        let of_block = (self.key_blocks / splits).ceil() * self.block_bytes;
        let at_a_time = blocks.min(self.slots);
        let rate = (costs.decode_bytes_per_ns / at_a_time).min(costs.decode_block_bytes_per_ns);
        let rounds = (blocks / self.slots).ceil();
        let merge = if splits == 1.0 {
            0.0
        } else {
            let bytes = 2.0 * splits * self.o_bytes;
            costs.decode_merge_ns
                + splits * costs.decode_part_ns
                + bytes / costs.decode_bytes_per_ns
        };
        costs.decode_block_ns + rounds * of_block / rate + merge
    }
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let packing = candidate
        .packing
        .ok_or(Error::Bug("a decoding without a packing"))?;
    splits::launch(call, packing, candidate.sharing.splits, |call, packing| {
        let scales = match entry.dtype {
            DType::E4m3 => Some(call.decode_scales()?),
            _ => None,
        };
        // SAFETY: extents, strides and lengths describe the call's memory, whose alignment `offer`
        // checked. Grid and shared memory are the tile's. `packing` states where the splits'
        // results go. There is a factor for each sequence and key head.
        unsafe {
            call.launch(entry, candidate.config, |lengths, params| {
                (
                    lengths,
                    params,
                    packing,
                    call.pages(),
                    split_blocks(&call.desc),
                    scales,
                )
            })
        }
    })
}

/// Error model: that of the [kernels for sm_80](sm80), and the roundings of the merges of warps and
/// splits.
pub(super) fn model(sharing: Sharing, desc: &AttentionDesc) -> AttentionModel {
    let products = match desc.kv_dtype {
        DType::E4m3 => DType::F16,
        other => other,
    };
    let mut model = sm80::model(DecodeTile::TILE_N, desc, products);
    if desc.dtype != products {
        model.q_lost = Q_LOST;
    }
    let merges = (THREADS / 32) as usize + 2 + splits::roundings(sharing.splits);
    model.softmax.rescales += merges;
    model.softmax.additions += merges;
    model
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::Device;
    use crate::ops::plan::MachineModel;

    fn offered(desc: &AttentionDesc) -> Option<Candidate> {
        let mut info = Device::emulator().expect("an emulator").info().clone();
        info.arch = (8, 0);
        let mut all = None;
        offer(
            desc,
            &Machine::of(&info, &MachineModel::H200),
            &mut |candidate| all = Some(candidate),
        );
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
