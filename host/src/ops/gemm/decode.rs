//! Products with 1 to 64 rows, bound by the memory that B is read from: see [`spec::gemm::decode`].
//!
//! They exist for f16 and bf16 in, the same or f32 out, of an A with contiguous k. Hopper's kernels
//! copy by tensor maps, Ampere's thread by thread; both want rows on 16 bytes.
//!
//! # What the cost model is told
//! Memory that is only read gives more than the bandwidth of a copy (an H200: 470 MB in 111 µs, all
//! included, where a copy moves 4.2 TB/s). Each tile reads A again, from L2: thread by thread those
//! bytes count like the others (an H200's multiprocessors get 4.1 TB/s that way, from L2 or not), by
//! tensor copies a tenth of them (with 50 % more bytes 3.6 to 9 % more time). A meeting of blocks
//! costs what launches were seen to take longer by it, and fewer blocks than 0.6 of the
//! multiprocessors draw less than all of the bandwidth.

use super::call::{Call, Memory};
use super::candidates::{Candidate, Entry, LAUNCH_NS, Machine, Work};
use super::desc::{GemmDesc, MatrixDesc};
use super::maps::{MapKey, MapValue};
use crate::backend::Pattern;
use crate::{L2Promotion, LaunchConfig, Result};
use spec::gemm::Transpose;
use spec::gemm::decode::{
    DECODE_BATCH_MAX, DECODE_DTYPES, DecodeArch, DecodeConfig, DecodeEntry, SPLITS_MAX,
};

/// Multiply-adds, counted as two, that a multiprocessor's tensor cores do in a cycle by `mma.sync`.
const FLOPS_PER_CYCLE: f64 = 2_000.0;
/// The part of its time in company that a block takes alone: all wait for memory.
const ALONE: f64 = 0.2;
/// First loads of a block, and its stores.
const OVERHEAD_NS: f64 = 1_500.0;
/// What a meeting in a cluster adds, and one through global memory.
const CLUSTER_NS: f64 = 800.0;
const TICKETS_NS: f64 = 1_500.0;
/// Part of the time of bytes from device memory that bytes from L2 take.
const L2_BY_THREADS: f64 = 1.0;
const L2_BY_TENSOR_COPIES: f64 = 0.1;
/// Time of bytes that are read, in that of bytes that are copied.
const READ_BY_TENSOR_COPIES: f64 = 0.95;
/// Blocks that draw all of the bandwidth, for each multiprocessor.
const ENOUGH_BLOCKS: f64 = 0.6;
/// Blocks that share a tile where a multiprocessor holds one: of larger clusters not all run at once.
const MOST_ALONE: u32 = 2;

/// Adds the tiles that hold A's rows, each whole and with k shared by a few blocks.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    if !suits(desc) {
        return;
    }
    for arch in DecodeArch::ALL {
        let is_there = match arch {
            DecodeArch::Sm80 => machine.arch >= (8, 0),
            DecodeArch::Sm90 => {
                machine.arch >= (9, 0) && desc.a.suits_tensor_map() && desc.b.suits_tensor_map()
            }
        };
        let holding = || arch.configs().iter().filter(|c| desc.m <= c.tile_m);
        let Some(least) = holding().next().filter(|_| is_there) else {
            continue;
        };
        for config in holding().filter(|c| c.tile_m == least.tile_m) {
            let chosen = config.choose_splits(desc.n, desc.k, desc.batch, machine.multiprocessors);
            let around = [1, 2, chosen, chosen + 1];
            for (i, &splits) in around.iter().enumerate() {
                let is_first = !around[..i].contains(&splits);
                let fits = config.blocks > 1 || splits <= MOST_ALONE;
                let is_asked = desc.split_k == 0 && is_first && fits;
                if is_asked && splits <= most_splits(desc, config) {
                    offer_one(desc, machine, (arch, config, splits), offer);
                }
            }
            if (1..=most_splits(desc, config)).contains(&desc.split_k) {
                offer_one(desc, machine, (arch, config, desc.split_k), offer);
            }
        }
    }
}

/// Whether the kernels compute such a product.
fn suits(desc: &GemmDesc) -> bool {
    let is_aligned = |matrix: &MatrixDesc| matrix.row_align_bytes() >= 16;
    DECODE_DTYPES.contains(&(desc.a.dtype, desc.d.dtype))
        && desc.b.dtype == desc.a.dtype
        && desc.a.transpose == Transpose::N
        && desc.k > 0
        && desc.batch <= DECODE_BATCH_MAX
        && is_aligned(&desc.a)
        && is_aligned(&desc.b)
}

/// Blocks that can share a tile: each has some of k.
fn most_splits(desc: &GemmDesc, config: &DecodeConfig) -> u32 {
    desc.k.div_ceil(config.tile_k).min(SPLITS_MAX)
}

fn offer_one(
    desc: &GemmDesc,
    machine: &Machine,
    (arch, config, splits): (DecodeArch, &DecodeConfig, u32),
    offer: &mut dyn FnMut(Candidate),
) {
    let Some(grid) = config.grid(desc.n, desc.batch, splits) else {
        return;
    };
    let tiles = f64::from(config.tiles(desc.n)) * f64::from(desc.batch);
    let read_again = (tiles - 1.0) * 2.0 * f64::from(desc.m) * f64::from(desc.k);
    let (of_l2, of_read, meeting_ns) = match arch {
        DecodeArch::Sm80 => (L2_BY_THREADS, 1.0, TICKETS_NS + LAUNCH_NS),
        DecodeArch::Sm90 => (L2_BY_TENSOR_COPIES, READ_BY_TENSOR_COPIES, CLUSTER_NS),
    };
    let k_tiles = f64::from(desc.k.div_ceil(config.tile_k).div_ceil(splits));
    let k = k_tiles * f64::from(config.tile_k);
    let work = Work {
        blocks: tiles * f64::from(splits),
        blocks_per_multiprocessor: config.blocks,
        flops_per_block: 2.0 * f64::from(config.tile_m) * f64::from(config.tile_n) * k,
        flops_per_cycle: FLOPS_PER_CYCLE,
        alone: ALONE,
        overhead_ns: OVERHEAD_NS,
        bytes: of_read * (desc.bytes() + of_l2 * read_again),
        extra_ns: if splits > 1 { meeting_ns } else { 0.0 },
    };
    offer(Candidate {
        entry: Entry::Decode(DecodeEntry {
            arch,
            input: desc.a.dtype,
            output: desc.d.dtype,
            trans_b: desc.b.transpose,
            config: *config,
        }),
        tile: [config.tile_m, config.tile_n, config.tile_k],
        split_k: splits,
        stream_k: false,
        swapped: false,
        config: LaunchConfig {
            grid,
            block: [arch.threads(), 1, 1],
            shared_bytes: config.smem_bytes(arch, desc.b.transpose),
            cluster: match arch {
                DecodeArch::Sm80 => None,
                DecodeArch::Sm90 => Some([1, splits, 1]),
            },
        },
        estimated_ns: machine.estimate_ns(&work) + starved_ns(desc, machine, &work),
    });
}

/// What memory waits where too few blocks ask for it.
fn starved_ns(desc: &GemmDesc, machine: &Machine, work: &Work) -> f64 {
    let asking = work.blocks / (ENOUGH_BLOCKS * f64::from(machine.multiprocessors));
    desc.bytes() / machine.bytes_per_ns * (1.0 / asking.min(1.0) - 1.0)
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    match entry.arch {
        DecodeArch::Sm80 => by_threads(entry, candidate, call),
        DecodeArch::Sm90 => by_tensor_maps(entry, candidate, call),
    }
}

fn by_threads(entry: DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let config = &entry.config;
    let scratch = match candidate.split_k {
        1 => None,
        splits => Some(scratch(config, splits, call)?),
    };
    let (partials, tickets) = match &scratch {
        None => (None, None),
        Some((partials, tickets)) => (Some(partials), Some(tickets)),
    };
    let (a, b) = (&call.a, &call.b);
    // SAFETY: extents and strides are those of the call's memory, whose layouts lie inside of
    // their storage, with rows on 16 bytes; d is injective and overlaps nothing that is read but
    // what is d itself; the scratch memory is as long as spec says, and its tickets are 0.
    unsafe { call.launch_fused(entry, candidate.config, &[&a, &b, &partials, &tickets]) }
}

/// Memory for partial sums, and for tickets, which are 0.
fn scratch(config: &DecodeConfig, splits: u32, call: &Call<'_>) -> Result<(Memory, Memory)> {
    let desc = &call.desc;
    let partials_bytes = 4 * config.partials(desc.n, desc.batch, splits);
    let tickets = u64::from(config.tiles(desc.n)) * u64::from(desc.batch);
    let partials = call.workspace(partials_bytes + 4 * tickets)?;
    let first_ticket = partials.offset(partials_bytes as i64);
    let stream = call.stream;
    // SAFETY: the tickets lie in the workspace, which this stream has for itself.
    unsafe {
        let backend = stream.device().backend();
        let zero = Pattern::B4(0);
        backend.fill(first_ticket.address(), zero, tickets as usize, stream.raw())?;
    }
    Ok((partials, first_ticket))
}

fn by_tensor_maps(entry: DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let (config, desc) = (&entry.config, &call.desc);
    let stored_b = match entry.trans_b {
        Transpose::N => [desc.k, desc.n],
        Transpose::T => [desc.n, desc.k],
    };
    let map_a = map(call, (&call.a, &desc.a), [desc.m, desc.k], config.box_a())?;
    let box_b = config.box_b(entry.trans_b);
    let map_b = map(call, (&call.b, &desc.b), stored_b, box_b)?;
    let (map_a, map_b) = (&map_a, &map_b);
    call.uses()?;
    // SAFETY: the maps are of the call's memory, which lies as `desc` says; d is injective and
    // overlaps nothing that is read but what is d itself.
    unsafe { call.launch_fused(entry, candidate.config, &[&map_a, &map_b]) }
}

/// The tensor map of an operand with so many rows and columns as stored.
fn map(
    call: &Call<'_>,
    (memory, matrix): (&Memory, &MatrixDesc),
    [rows, columns]: [u32; 2],
    box_dims: [u32; 3],
) -> Result<MapValue> {
    // A matrix that is repeated is a batch of one, of which no stride counts.
    let (products, product_stride) = match matrix.batch_stride {
        0 => (1, matrix.ld),
        stride => (call.desc.batch, stride),
    };
    let size_bytes = matrix.dtype.size_bytes() as u64;
    call.tensor_map(&MapKey {
        address: memory.address(),
        data_type: matrix.dtype.into(),
        dims: [columns, rows, products].map(u64::from),
        strides_bytes: [matrix.ld, product_stride].map(|stride| stride.unsigned_abs() * size_bytes),
        box_dims,
        // Weights are read once, as they come: more around them is no gain.
        l2_promotion: L2Promotion::None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::desc::tests::plain;
    use super::*;
    use crate::DType;

    const H200: Machine = Machine {
        arch: (9, 0),
        multiprocessors: 132,
        shared_bytes: 227 << 10,
        bytes_per_ns: 4_300.0,
        clock_ghz: 1.7,
    };

    fn offered(desc: &GemmDesc, machine: &Machine) -> Vec<Candidate> {
        let mut all = Vec::new();
        offer(desc, machine, &mut |candidate| all.push(candidate));
        all.sort_by(|x, y| x.estimated_ns.total_cmp(&y.estimated_ns));
        all
    }

    fn weights(m: u32, n: u32, k: u32) -> GemmDesc {
        let mut desc = plain(DType::Bf16, m, n, k);
        desc.b.transpose = Transpose::T;
        desc.b.ld = i64::from(k);
        desc
    }

    #[test]
    fn what_was_measured_to_be_fastest_is_expected_to_be() {
        let best = |m, n, k| offered(&weights(m, n, k), &H200)[0].to_string();
        assert_eq!(best(1, 28_672, 8192), "gemm_decode_sm90_bf16_nt_16x64x128");
        assert_eq!(
            best(64, 28_672, 8192),
            "gemm_decode_sm90_bf16_nt_64x128x128"
        );
        assert_eq!(
            best(64, 10_240, 8192),
            "gemm_decode_sm90_bf16_nt_64x128x128"
        );
        assert_eq!(
            best(8, 4096, 4096),
            "gemm_decode_sm90_bf16_nt_16x64x128+cluster1x2+split2"
        );
        assert_eq!(
            best(64, 4096, 14_336),
            "gemm_decode_sm90_bf16_nt_64x64x128+cluster1x2+split2"
        );
    }

    #[test]
    fn rows_that_lie_on_no_16_bytes_and_too_many_rows_go_elsewhere() {
        assert!(!offered(&weights(64, 100, 64), &H200).is_empty());
        assert!(offered(&weights(65, 100, 64), &H200).is_empty());
        assert!(offered(&weights(8, 100, 63), &H200).is_empty());
        assert!(offered(&weights(8, 100, 0), &H200).is_empty());
        let turing = Machine {
            arch: (7, 5),
            ..H200
        };
        assert!(offered(&weights(8, 100, 64), &turing).is_empty());
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
}
