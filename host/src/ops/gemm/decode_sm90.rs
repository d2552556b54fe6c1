//! GEMMs with few rows, or few results and a long k, on Hopper: see [`abi::gemm::decode::sm90`].
//!
//! The kernels need operands that a tensor map can describe, with contiguous k in A, or K-major copies
//! of them. For f16 and
//! bf16 they write the same dtype or f32, for e4m3 bf16 or f32, and for i8 i32. For other results
//! they write partial results, and another kernel computes D.
//!
//! # The cost model
//! Blocks run in waves; a wave is all resident blocks. A wave takes as long as one of its blocks. A
//! block never gets more than its share of the bandwidth, even if other SMs are idle:
//!
//! ```text
//! wave     = (touched * tile_n + of_tokens * tile_m) * k / splits * 2 bytes / bandwidth of a block
//! estimate = launch + start + waves * wave + ending + meeting
//! ```
//!
//! `touched` counts the lines of L2 that rows touch where they are not aligned. `of_tokens` is the
//! fitted cost of a byte of the tokens relative to a byte of the weights, less what multicast saves.
//! `ending` is the time of the stores, and `meeting` the time of the sums that splits send. So in the
//! best tilings, blocks just fill one wave, or two; `tile_n` may be any multiple of 8. With several
//! rows of tiles, weights and tokens come from L2 at another rate, and reading all operands from
//! memory is a lower bound. `Sm90DecodeCosts` has the constants;
//! `warpsmith-benches`' `fit` fits them and holds them against measured products.

use super::call::Call;
use super::candidates::{Candidate, Entry};
use super::desc::{GemmDesc, MatrixDesc, Side};
use super::k_major;
use super::splits::KSplits;
use crate::DType;
use crate::ops::plan::{Machine, blocks_at_once};
use crate::{L2Promotion, LaunchConfig, Result};
use abi::gemm::Transpose;
use abi::gemm::decode::sm90::{
    CLUSTER_MAX, DecodeTiling, MMA_WEIGHTS, SPAN_BYTES, Sm90DecodeEntry, TILE_N_MAX, TILE_N_STEP,
};

/// The only architecture that runs code for sm_90a.
const ARCH: (u32, u32) = (9, 0);
const THREADS_MAX: u32 = 2048;
/// Least rows of a tile where there are several rows of tiles.
const LEAST_ROWS: u32 = 64;
/// Most results for each multiprocessor where there are several rows of tiles.
const MOST_RESULTS: u64 = 128 * 128;

/// Offers the best `tile_n` for each number of blocks that share k (`splits`) and A (`sharers`), for
/// `desc` or for K-major copies of operands.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let [a, b] = Side::BOTH.map(|side| desc.operand(side).suits_tensor_map());
    match a && b {
        true => offer_as_stored(desc, machine, offer),
        false => k_major::offer_readable(desc, machine, offer_as_stored, offer),
    }
}

fn offer_as_stored(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let is_of_one_type = desc.b.dtype == desc.a.dtype;
    let is_product_of_rows = is_of_one_type && desc.a.transpose == Transpose::N && desc.k > 0;
    if machine.arch != ARCH || !is_product_of_rows || !desc.suits_tensor_maps() {
        return;
    }
    let whole = Sm90DecodeEntry::of(desc.a.dtype, desc.b.transpose, desc.m);
    let of_several_rows = Sm90DecodeEntry::ALL.iter().copied().filter(|entry| {
        (entry.input, entry.trans_b) == (desc.a.dtype, desc.b.transpose)
            && entry.tile_m >= LEAST_ROWS
            && whole.is_none()
            && has_few_results(desc, machine)
    });
    for entry in whole.into_iter().chain(of_several_rows) {
        if entry.input == DType::I8 && (desc.d.dtype != DType::I32 || !desc.is_product_alone()) {
            let splits = KSplits::of(desc.k, 1);
            offer_tile(&desc.partial(), machine, entry, &mut |candidate| {
                offer(Candidate {
                    partials: Some(splits),
                    estimated_ns: candidate.estimated_ns + desc.partials_ns(&splits, machine),
                    ..candidate
                })
            });
        } else if entry.writes(desc.d.dtype) {
            offer_tile(desc, machine, entry, offer);
        }
    }
}

/// Whether so few tiles make up D that blocks have to split k to use all multiprocessors.
fn has_few_results(desc: &GemmDesc, machine: &Machine) -> bool {
    let results = u64::from(desc.m) * u64::from(desc.n) * u64::from(desc.batch);
    results <= u64::from(machine.multiprocessors) * MOST_RESULTS
}

/// Offers the tilings of one entry, which writes results of `desc`.
fn offer_tile(
    desc: &GemmDesc,
    machine: &Machine,
    entry: Sm90DecodeEntry,
    offer: &mut dyn FnMut(Candidate),
) {
    let most_splits = entry.k_tiles(desc.k).min(CLUSTER_MAX);
    for splits in 1..=most_splits {
        if desc.split_k != 0 && desc.split_k != splits {
            continue;
        }
        for sharers in [1, 2, 4] {
            let tilings = (MMA_WEIGHTS..=TILE_N_MAX)
                .step_by(TILE_N_STEP as usize)
                .map(|tile_n| DecodeTiling {
                    tile_m: entry.tile_m,
                    tile_n,
                    splits,
                    sharers,
                })
                .filter(|tiling| tiling.is_valid(desc.b.transpose));
            let candidates = tilings.filter_map(|tiling| candidate(desc, machine, entry, &tiling));
            if let Some(best) = candidates.min_by(|x, y| x.estimated_ns.total_cmp(&y.estimated_ns))
            {
                offer(best);
            }
        }
    }
}

fn candidate(
    desc: &GemmDesc,
    machine: &Machine,
    entry: Sm90DecodeEntry,
    tiling: &DecodeTiling,
) -> Option<Candidate> {
    let grid = tiling.grid(desc.m, desc.n, desc.batch)?;
    let config = LaunchConfig {
        grid,
        block: [tiling.threads(), 1, 1],
        shared_bytes: tiling.smem_bytes(entry.k_tiles(desc.k)),
        cluster: Some(tiling.cluster()),
    };
    let tile = [tiling.tile_m, tiling.tile_n, entry.tile_k()];
    Some(Candidate {
        split_k: tiling.splits,
        estimated_ns: estimate_ns(desc, machine, (entry, tiling), grid),
        ..Candidate::direct(Entry::Sm90Decode(entry), tile, config)
    })
}

/// See the module's documentation.
fn estimate_ns(
    desc: &GemmDesc,
    machine: &Machine,
    (entry, tiling): (Sm90DecodeEntry, &DecodeTiling),
    grid: [u32; 3],
) -> f64 {
    let blocks: f64 = grid.into_iter().map(f64::from).product();
    let all_k_tiles = entry.k_tiles(desc.k);
    let k_tiles = all_k_tiles.div_ceil(tiling.splits);
    let k_bytes = f64::from(k_tiles) * f64::from(SPAN_BYTES); // up to 2^32
    let costs = &machine.model.gemm.sm90_decode;
    let (of_tokens, of_sum_ns, as_others) = if tiling.tile_m <= 64 {
        (costs.tokens_64, costs.sum_64_ns, costs.as_others_64)
    } else {
        (costs.tokens_128, costs.sum_128_ns, costs.as_others_128)
    };
    let (of_tokens, bytes_per_ns, memory_ns) = match tiling.row_tiles(desc.m) {
        0 | 1 => {
            let of_device = machine.bytes_per_ns / costs.full_bytes_per_ns;
            (of_tokens, costs.bytes_per_ns * of_device, 0.0)
        }
        _ => (
            1.0,
            costs.l2_bytes_per_ns,
            desc.bytes() / machine.bytes_per_ns,
        ),
    };
    // A box of rows that are not aligned touches more lines and sectors of L2.
    let touched = |operand: &MatrixDesc| match operand.row_align_bytes() {
        0..32 => costs.touched_16,
        32..128 => costs.touched_32,
        _ => 1.0,
    };
    let weights = touched(&desc.b) * f64::from(tiling.tile_n);
    // Sharers of A read a part each, and multicast it.
    let of_others = 1.0 - 1.0 / f64::from(tiling.sharers);
    let of_tokens = of_tokens * (1.0 - costs.multicast * of_others);
    let rows = weights + of_tokens * touched(&desc.a) * f64::from(tiling.tile_m);
    let results = f64::from(tiling.tile_m * tiling.tile_n) / f64::from(tiling.splits);
    let ending_ns = costs.ending_ns * results / f64::from(4 * tiling.threads());
    let at_once = f64::from(resident(all_k_tiles, machine, tiling));
    // Blocks on the same SM share its bandwidth.
    let wave_ns = |blocks: f64| {
        let sharing = (blocks / f64::from(machine.multiprocessors)).max(1.0);
        rows * k_bytes * sharing / bytes_per_ns
    };
    let (full, last) = ((blocks / at_once).floor(), blocks % at_once);
    let last_ns = if last > 0.0 { wave_ns(last) } else { 0.0 };
    let first_ns = wave_ns(blocks.min(at_once));
    let later_ns = full * wave_ns(at_once) + last_ns - first_ns;
    let waves_ns = first_ns + costs.later_waves * later_ns;
    let waves_ns = waves_ns.max(memory_ns);
    let meetings = if tiling.splits > 1 {
        (blocks / at_once).ceil()
    } else {
        0.0
    };
    // Each block sends the sums of all parts but its own.
    let sums = f64::from(tiling.tile_m * tiling.tile_n) - results;
    let meeting_ns = (costs.meeting_ns + of_sum_ns * sums) * meetings;
    let neighbours = f64::from(tiling.splits + tiling.sharers - 2);
    // Only the last block's epilogue counts: the others overlap with copies.
    let ns = costs.start_ns + waves_ns + ending_ns + meeting_ns + costs.neighbour_ns * neighbours;
    machine.model.launch_ns + as_others * ns
}

/// Resident blocks of the device.
fn resident(k_tiles: u32, machine: &Machine, tiling: &DecodeTiling) -> u32 {
    const RESERVED_BYTES: u32 = 1024;
    let size = tiling.splits * tiling.sharers;
    if size == 1 {
        let of_block = tiling.smem_bytes(k_tiles) + RESERVED_BYTES;
        let blocks = (machine.shared_bytes + RESERVED_BYTES) / of_block;
        let blocks = blocks.min(THREADS_MAX / tiling.threads()).max(1);
        return machine.multiprocessors * blocks;
    }
    // One on a multiprocessor, even where there is room for more: k is shared to fill them.
    blocks_at_once(machine.multiprocessors, size)
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: Sm90DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let desc = &call.desc;
    let [sharers, splits, _] = candidate.cluster();
    let tiling = DecodeTiling {
        tile_m: entry.tile_m,
        tile_n: candidate.tile[1],
        splits,
        sharers,
    };
    let stored_b = match entry.trans_b {
        Transpose::N => [desc.k, desc.n],
        Transpose::T => [desc.n, desc.k],
    };
    // Weights are read once, in order, so L2 promotion does not help.
    let map =
        |operand, extents, box_dims| call.tensor_map(operand, extents, box_dims, L2Promotion::None);
    let box_a = tiling.box_a(entry.tile_k());
    let map_a = map((&call.a, &desc.a), [desc.m, desc.k], box_a)?;
    let box_b = tiling.box_b(entry.trans_b, entry.tile_k());
    let map_b = map((&call.b, &desc.b), stored_b, box_b)?;
    let launch = tiling.launch(entry.k_tiles(desc.k));
    call.uses()?;
    // SAFETY: the maps are of the call's memory, with the layouts of `desc`; d is injective and
    // overlaps nothing that is read, unless it is the same matrix.
    unsafe {
        let maps = (&map_a, &map_b);
        call.launch_fused(entry, candidate.config, maps, |params, epilogue| {
            (params, epilogue, launch)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{H200, by_estimate};
    use super::super::desc::tests::{plain, weighted};
    use super::*;
    use crate::DType;

    fn offered(desc: &GemmDesc, machine: &Machine) -> Vec<Candidate> {
        by_estimate(|each| offer(desc, machine, each))
    }

    fn weights(m: u32, n: u32, k: u32) -> GemmDesc {
        weighted(DType::Bf16, [m, n, k])
    }

    #[test]
    fn weights_with_contiguous_n_are_taken_by_whole_boxes() {
        let desc = plain(DType::F16, 8, 10_240, 8192);
        let all = offered(&desc, &H200);
        assert!(!all.is_empty() && all.iter().all(|candidate| candidate.tile[1] % 64 == 0));
    }

    #[test]
    fn results_in_f32_have_the_same_entries() {
        let desc = weights(128, 14_336, 4096);
        let wide = GemmDesc {
            d: plain(DType::F32, 128, 14_336, 4096).d,
            ..desc
        };
        let best = |desc| offered(desc, &H200)[0].to_string();
        assert_eq!(best(&wide), best(&desc));
        let other = GemmDesc {
            d: plain(DType::F16, 128, 14_336, 4096).d,
            ..desc
        };
        assert!(offered(&other, &H200).is_empty());
    }

    #[test]
    fn what_no_tensor_map_describes_and_other_devices_go_elsewhere() {
        assert!(!offered(&weights(64, 100, 64), &H200).is_empty());
        assert!(!offered(&weights(128, 100, 64), &H200).is_empty());
        assert!(!offered(&weights(129, 100, 64), &H200).is_empty());
        assert!(offered(&weights(1 << 20, 100, 64), &H200).is_empty());
        let two_types = GemmDesc {
            b: weights(8, 100, 64).b,
            ..weighted(DType::F16, [8, 100, 64])
        };
        assert!(offered(&two_types, &H200).is_empty());
        let copied = offered(&weights(8, 100, 63), &H200);
        assert!(
            copied
                .iter()
                .all(|each| each.to_string().ends_with("+kmajor"))
        );
        assert!(!copied.is_empty());
        assert!(offered(&weights(8, 100, 0), &H200).is_empty());
        assert!(!offered(&weights(1, 1 << 31, 8), &H200).is_empty());
        assert!(offered(&weights(1, (1 << 31) + 1, 8), &H200).is_empty());
        let longest = offered(&weights(1, 64, 1 << 31), &H200);
        assert!(longest[0].estimated_ns > offered(&weights(1, 64, 1 << 30), &H200)[0].estimated_ns);
        for arch in [(8, 0), (10, 0)] {
            let other = Machine { arch, ..H200 };
            assert!(offered(&weights(8, 100, 64), &other).is_empty(), "{arch:?}");
        }
    }

    #[test]
    fn a_number_of_splits_that_was_asked_for_is_the_only_one() {
        let desc = GemmDesc {
            split_k: 3,
            ..weights(8, 4096, 4096)
        };
        let all = offered(&desc, &H200);
        assert!(!all.is_empty() && all.iter().all(|candidate| candidate.split_k == 3));
        let too_many = GemmDesc { split_k: 9, ..desc };
        assert!(offered(&too_many, &H200).is_empty());
    }

    #[test]
    fn clusters_that_do_not_all_run_at_once_are_two_waves() {
        let tiling = |splits, sharers| DecodeTiling {
            tile_m: 16,
            tile_n: 64,
            splits,
            sharers,
        };
        let resident = |splits, sharers| resident(64, &H200, &tiling(splits, sharers));
        assert_eq!(resident(1, 1), 132);
        assert_eq!(resident(2, 1), 132);
        assert_eq!(resident(1, 4), 120);
        assert_eq!(resident(6, 1), 84);
        // Little k takes little shared memory.
        assert!(super::resident(1, &H200, &tiling(1, 1)) > 132);
    }
}
