//! Products in f64: by multiply-adds on every device, by tensor cores from Ampere on. All give the
//! same bits, so the choice is one of speed alone.

use super::candidates::{Candidate, Entry};
use super::desc::{GemmDesc, Side};
use super::splits::KSplits;
use crate::LaunchConfig;
use crate::ops::plan::{Machine, Work};
use abi::gemm::{DOUBLE_LARGE, DoubleEntry, DoubleProduct};

/// Blocks that share a multiprocessor: what registers and barriers allow.
const SIMT_BLOCKS: u32 = 2;
const LARGE_BLOCKS: u32 = 1;
const SMALL_BLOCKS: u32 = 3;

/// Flops per cycle of an SM, a multiply-add counted as two: by multiply-adds, and by tensor cores.
fn peak_flops_per_cycle(arch: (u32, u32)) -> [f64; 2] {
    match arch {
        (8, 0) => [64.0, 128.0],
        (9, 0) => [128.0, 256.0],
        (10, 0) => [128.0, 128.0],
        _ => [4.0, 4.0],
    }
}

/// Offers every entry that the device runs.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    if desc.split_k > 1 {
        return;
    }
    for &entry in DoubleEntry::ALL {
        if entry.runs_on(machine.arch)
            && entry.smem_bytes() <= machine.shared_bytes
            && let Some(candidate) = candidate(entry, desc, machine)
        {
            offer(candidate);
        }
    }
}

/// Flops per cycle that a full SM reaches with this entry.
fn flops_per_cycle(entry: DoubleEntry, desc: &GemmDesc, machine: &Machine) -> f64 {
    let [simt, mma] = peak_flops_per_cycle(machine.arch);
    let costs = &machine.model.gemm.double;
    let [large, small] = match machine.arch {
        (9, 0) => [costs.hopper_large_efficiency, costs.hopper_small_efficiency],
        _ => [costs.mma_large_efficiency, costs.mma_small_efficiency],
    };
    let of_tile = if entry.tile == DOUBLE_LARGE {
        large
    } else {
        small
    };
    let is_aligned = Side::BOTH
        .iter()
        .all(|&side| desc.operand(side).row_align_bytes() >= 16);
    let of_copies = if is_aligned { 1.0 } else { costs.unaligned };
    match entry.product {
        DoubleProduct::Simt => simt * costs.simt_efficiency,
        DoubleProduct::Mma8 if machine.arch == (9, 0) => {
            mma * of_tile * of_copies * costs.older_instruction
        }
        DoubleProduct::Mma8 | DoubleProduct::Mma16 => mma * of_tile * of_copies,
    }
}

fn candidate(entry: DoubleEntry, desc: &GemmDesc, machine: &Machine) -> Option<Candidate> {
    let tile = entry.tile;
    let grid = tile.grid(desc.m, desc.n, desc.batch)?;
    let smem_bytes = entry.smem_bytes();
    let most_blocks = match (entry.product, tile) {
        (DoubleProduct::Simt, _) => SIMT_BLOCKS,
        (_, DOUBLE_LARGE) => LARGE_BLOCKS,
        _ => SMALL_BLOCKS,
    };
    let (extents, costs) = (
        [tile.tile_m, tile.tile_n, tile.tile_k],
        &machine.model.gemm.double,
    );
    let work = Work {
        blocks_per_multiprocessor: match smem_bytes {
            0 => most_blocks,
            bytes => most_blocks.min(machine.shared_bytes / bytes),
        },
        flops_per_cycle: flops_per_cycle(entry, desc, machine),
        alone: costs.alone,
        overhead_ns: costs.overhead_ns,
        ..desc.work(&KSplits::of(desc.k, 1), extents)
    };
    let config = LaunchConfig {
        grid,
        block: [tile.threads, 1, 1],
        shared_bytes: smem_bytes,
        cluster: None,
    };
    Some(Candidate {
        estimated_ns: machine.estimate_ns(&work),
        ..Candidate::direct(Entry::Double(entry), extents, config)
    })
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{H200, by_estimate};
    use super::super::desc::tests::plain;
    use super::*;
    use crate::DType;

    fn first(extents: [u32; 3], machine: &Machine) -> String {
        let [m, n, k] = extents;
        let desc = plain(DType::F64, m, n, k);
        let all = by_estimate(|each| offer(&desc, machine, each));
        all.first().map(ToString::to_string).unwrap_or_default()
    }

    fn machine(arch: (u32, u32), shared_kib: u32) -> Machine {
        Machine {
            arch,
            shared_bytes: shared_kib << 10,
            ..H200
        }
    }

    #[test]
    fn tensor_cores_are_chosen_where_they_are_and_tiles_by_size() {
        let large = [4096; 3];
        assert_eq!(first(large, &H200), "gemm_mma_f64_64x64x8_s4_m16");
        assert_eq!(first([256; 3], &H200), "gemm_mma_f64_64x64x8_s4_m16");
        let a100 = machine((8, 0), 163);
        assert_eq!(first(large, &a100), "gemm_mma_f64_128x128x8_s4");
        let blackwell = machine((10, 0), 227);
        assert_eq!(first(large, &blackwell), "gemm_mma_f64_128x128x8_s4");
        let turing = machine((7, 5), 64);
        assert_eq!(first(large, &turing), "gemm_simt_f64_64x64x8");
    }

    #[test]
    fn k_is_not_split() {
        let desc = GemmDesc {
            split_k: 2,
            ..plain(DType::F64, 64, 64, 640)
        };
        assert!(by_estimate(|each| offer(&desc, &H200, each)).is_empty());
    }
}
