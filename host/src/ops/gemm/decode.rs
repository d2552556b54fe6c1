//! Decode GEMMs, with 1 to 64 rows, which are bound by reading B from memory: see
//! [`abi::gemm::decode`].
//!
//! The kernels take f16 and bf16, write the same dtype or f32, and need an A with contiguous k.
//! Copies are made thread by thread, without TMA. Where rows are not aligned to 16 bytes, the entries
//! that end in `anywhere` read them in place, if k is contiguous in B too.
//!
//! # Inputs of the cost model
//! Each tile reads A again, from L2. These bytes cost the same as bytes from memory: in both cases
//! the SMs of an H200 receive 4.1 TB/s. A launch takes 4.5 µs beyond its bytes. If blocks share k,
//! the measured time of their meeting is added. Fewer blocks than 0.6 times the number of SMs do
//! not reach the full bandwidth. Rows that begin anywhere take time for each stage and row of the
//! tile, because their fragments come from shared memory in more loads.

use super::call::{Call, Memory};
use super::candidates::{Candidate, Entry};
use super::desc::{GemmDesc, MatrixDesc};
use crate::backend::Pattern;
use crate::ops::plan::{Machine, Work};
use crate::{LaunchConfig, Result};
use abi::gemm::Transpose;
use abi::gemm::decode::{
    DECODE_BATCH_MAX, DECODE_THREADS, DecodeConfig, DecodeEntry, SPLITS_MAX, output_dtypes,
};

/// First compute capability that runs these kernels.
const ARCH: (u32, u32) = (8, 0);

/// Offers the tile that holds all rows of A, alone and with k shared by a few blocks.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let is_aligned = |matrix: &MatrixDesc| matrix.row_align_bytes() >= 16;
    let is_anywhere = !is_aligned(&desc.a) || !is_aligned(&desc.b);
    let Some(entry) = DecodeEntry::of(desc.a.dtype, desc.b.transpose, desc.m, is_anywhere) else {
        return;
    };
    let config = entry.config;
    if machine.arch < ARCH || !suits(desc) {
        return;
    }
    let most_splits = desc.k.div_ceil(config.tile_k).min(SPLITS_MAX);
    if desc.split_k != 0 {
        if desc.split_k <= most_splits {
            offer_one(desc, machine, entry, desc.split_k, offer);
        }
        return;
    }
    let chosen = config.choose_splits(desc.n, desc.k, desc.batch, machine.multiprocessors);
    let around = [1, 2, chosen, chosen + 1];
    for (i, &splits) in around.iter().enumerate() {
        if !around[..i].contains(&splits) && splits <= most_splits {
            offer_one(desc, machine, entry, splits, offer);
        }
    }
}

/// Whether the kernels can compute this GEMM.
fn suits(desc: &GemmDesc) -> bool {
    DecodeEntry::find(|entry| entry.input == desc.a.dtype).is_some()
        && output_dtypes(desc.a.dtype).contains(&desc.d.dtype)
        && desc.b.dtype == desc.a.dtype
        && desc.a.transpose == Transpose::N
        && desc.k > 0
        && desc.batch <= DECODE_BATCH_MAX
}

fn offer_one(
    desc: &GemmDesc,
    machine: &Machine,
    entry: DecodeEntry,
    splits: u32,
    offer: &mut dyn FnMut(Candidate),
) {
    let config = entry.config;
    let Some(grid) = config.grid(desc.n, desc.batch, splits) else {
        return;
    };
    let tiles = f64::from(config.tiles(desc.n)) * f64::from(desc.batch);
    let read_again = (tiles - 1.0) * 2.0 * f64::from(desc.m) * f64::from(desc.k);
    let k_tiles = f64::from(desc.k.div_ceil(config.tile_k).div_ceil(splits));
    let k = k_tiles * f64::from(config.tile_k);
    let costs = &machine.model.gemm.decode;
    let meeting_ns = costs.tickets_ns + machine.model.launch_ns;
    let work = Work {
        blocks: tiles * f64::from(splits),
        blocks_per_multiprocessor: 1,
        flops_per_block: 2.0 * f64::from(config.tile_m) * f64::from(config.tile_n) * k,
        flops_per_cycle: costs.flops,
        alone: costs.alone,
        overhead_ns: costs.overhead_ns,
        bytes: desc.bytes() + read_again,
        extra_ns: costs.beside_ns + if splits > 1 { meeting_ns } else { 0.0 },
    };
    let least_ns = if entry.is_anywhere {
        let stage_ns = costs.stage_ns + costs.stage_row_ns * f64::from(config.tile_m);
        let waves = (work.blocks / f64::from(machine.multiprocessors)).ceil();
        let meetings_ns = if splits > 1 {
            costs.split_ns * f64::from(splits)
        } else {
            0.0
        };
        machine.model.launch_ns + waves * k_tiles * stage_ns + work.extra_ns + meetings_ns
    } else {
        0.0
    };
    let tile = [config.tile_m, config.tile_n, config.tile_k];
    let config = LaunchConfig {
        grid,
        block: [DECODE_THREADS, 1, 1],
        shared_bytes: config.smem_bytes(desc.b.transpose),
        cluster: None,
    };
    offer(Candidate {
        split_k: splits,
        estimated_ns: (machine.estimate_ns(&work) + starved_ns(desc, machine, &work)).max(least_ns),
        ..Candidate::direct(Entry::Decode(entry), tile, config)
    });
}

/// Additional time where too few blocks use the memory bandwidth.
fn starved_ns(desc: &GemmDesc, machine: &Machine, work: &Work) -> f64 {
    let enough = machine.model.gemm.decode.enough_blocks;
    let asking = work.blocks / (enough * f64::from(machine.multiprocessors));
    desc.bytes() / machine.bytes_per_ns * (1.0 / asking.min(1.0) - 1.0)
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: DecodeEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    let config = &entry.config;
    let scratch = match candidate.split_k {
        1 => None,
        splits => Some(scratch(config, splits, call)?),
    };
    let (partials, tickets) = match &scratch {
        None => (None, None),
        Some((partials, tickets)) => (Some(partials), Some(tickets)),
    };
    let operands = (&call.a, &call.b, partials, tickets);
    // SAFETY: extents and strides describe the call's memory, whose layouts lie inside of their
    // storage. Rows are aligned to 16 bytes, unless the entry reads them anywhere. Memory begins at
    // a multiple of 16. d is injective and overlaps nothing that is read,
    // unless it is the same matrix. The scratch memory is as long as `abi` states, and its tickets
    // are 0.
    unsafe {
        call.launch_fused(entry, candidate.config, operands, |params, epilogue| {
            (params, epilogue)
        })
    }
}

/// Memory for partial sums, and for tickets (counters of the blocks that share k), which are set to
/// 0.
fn scratch(config: &DecodeConfig, splits: u32, call: &Call<'_>) -> Result<(Memory, Memory)> {
    let desc = &call.desc;
    let partials_bytes = 4 * config.partials(desc.n, desc.batch, splits);
    let tickets = u64::from(config.tiles(desc.n)) * u64::from(desc.batch);
    let partials = call.workspace(partials_bytes + 4 * tickets)?;
    let first_ticket = partials.offset(partials_bytes as i64);
    let stream = call.stream;
    // SAFETY: the tickets lie in the workspace, which only this stream uses.
    unsafe {
        let backend = stream.device().backend();
        let zero = Pattern::B4(0);
        backend.fill(first_ticket.address(), zero, tickets as usize, stream.raw())?;
    }
    Ok((partials, first_ticket))
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::by_estimate;
    use super::super::desc::tests::weighted;
    use super::*;
    use crate::DType;
    use crate::ops::plan::MachineModel;

    const A100: Machine = Machine {
        arch: (8, 0),
        multiprocessors: 108,
        shared_bytes: 163 << 10,
        bytes_per_ns: 1_500.0,
        clock_ghz: 1.4,
        model: MachineModel::H200,
    };

    fn offered(desc: &GemmDesc, machine: &Machine) -> Vec<Candidate> {
        by_estimate(|each| offer(desc, machine, each))
    }

    fn weights(m: u32, n: u32, k: u32) -> GemmDesc {
        weighted(DType::Bf16, [m, n, k])
    }

    #[test]
    fn k_is_shared_where_there_are_few_columns() {
        let best = |m, n, k| offered(&weights(m, n, k), &A100)[0].to_string();
        assert_eq!(best(1, 28_672, 8192), "gemm_decode_sm80_bf16_nt_16x64x128");
        assert_eq!(best(64, 8192, 8192), "gemm_decode_sm80_bf16_nt_64x64x64");
        assert_eq!(
            best(8, 1024, 14_336),
            "gemm_decode_sm80_bf16_nt_16x64x128+split6"
        );
    }

    #[test]
    fn rows_that_lie_on_no_16_bytes_have_entries_and_too_many_rows_go_elsewhere() {
        assert!(!offered(&weights(64, 100, 64), &A100).is_empty());
        assert!(offered(&weights(65, 100, 64), &A100).is_empty());
        let anywhere = offered(&weights(8, 100, 63), &A100);
        assert!(
            anywhere
                .iter()
                .all(|each| each.to_string().contains("anywhere"))
        );
        assert!(!anywhere.is_empty());
        // Stages take time, so few tiles with a long k share it.
        let shared = offered(&weights(7, 2281, 7193), &A100);
        assert!(shared[0].split_k > 1, "{}", shared[0]);
        assert!(offered(&weights(8, 100, 0), &A100).is_empty());
        let turing = Machine {
            arch: (7, 5),
            ..A100
        };
        assert!(offered(&weights(8, 100, 64), &turing).is_empty());
    }

    #[test]
    fn a_number_of_splits_that_was_asked_for_is_the_only_one() {
        let desc = GemmDesc {
            split_k: 3,
            ..weights(8, 4096, 4096)
        };
        let all = offered(&desc, &A100);
        assert!(!all.is_empty() && all.iter().all(|candidate| candidate.split_k == 3));
        let too_many = GemmDesc { split_k: 9, ..desc };
        assert!(offered(&too_many, &A100).is_empty());
    }
}
