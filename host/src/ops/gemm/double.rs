//! Products in f64: by multiply-adds on every device, by tensor cores from Ampere on. All give the
//! same bits, so the choice is one of speed alone.

use super::call::Call;
use super::candidates::{Candidate, Entry, Machine, Work};
use super::desc::{GemmDesc, Side};
use crate::{LaunchConfig, Result};
use abi::gemm::{DOUBLE_LARGE, DoubleEntry, DoubleProduct};

/// Share of the peak that a mainloop by multiply-adds reaches; not measured.
const SIMT_EFFICIENCY: f64 = 0.6;
/// The same by tensor cores, of large tiles and of small ones: as measured on an H200 (4096, 8192).
const HOPPER_EFFICIENCY: [f64; 2] = [0.68, 0.72];
/// The same on others; not measured.
const MMA_EFFICIENCY: [f64; 2] = [0.9, 0.8];
/// The same of Hopper's tensor cores by the instruction of Ampere; not measured.
const OLDER_INSTRUCTION: f64 = 0.5;
/// What remains of it where an operand is copied element by element; not measured.
const UNALIGNED: f64 = 0.9;
/// [`Work::alone`] where blocks share a multiprocessor.
const ALONE: f64 = 0.5;
/// Time of the first loads of a block, and of its stores.
const OVERHEAD_NS: f64 = 2_500.0;
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
    let [large, small] = match machine.arch {
        (9, 0) => HOPPER_EFFICIENCY,
        _ => MMA_EFFICIENCY,
    };
    let of_tile = if entry.tile == DOUBLE_LARGE {
        large
    } else {
        small
    };
    let is_aligned = Side::BOTH
        .iter()
        .all(|&side| desc.operand(side).row_align_bytes() >= 16);
    let of_copies = if is_aligned { 1.0 } else { UNALIGNED };
    match entry.product {
        DoubleProduct::Simt => simt * SIMT_EFFICIENCY,
        DoubleProduct::Mma8 if machine.arch == (9, 0) => {
            mma * of_tile * of_copies * OLDER_INSTRUCTION
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
    let k = f64::from(desc.k.next_multiple_of(tile.tile_k));
    let work = Work {
        blocks: tile.tiles(desc.m, desc.n) as f64 * f64::from(desc.batch),
        blocks_per_multiprocessor: match smem_bytes {
            0 => most_blocks,
            bytes => most_blocks.min(machine.shared_bytes / bytes),
        },
        flops_per_block: 2.0 * f64::from(tile.tile_m) * f64::from(tile.tile_n) * k,
        flops_per_cycle: flops_per_cycle(entry, desc, machine),
        alone: ALONE,
        overhead_ns: OVERHEAD_NS,
        bytes: desc.bytes(),
        extra_ns: 0.0,
    };
    Some(Candidate {
        entry: Entry::Double(entry),
        tile: [tile.tile_m, tile.tile_n, tile.tile_k],
        split_k: 1,
        stream_k: false,
        band: 0,
        k_major: false,
        config: LaunchConfig {
            grid,
            block: [tile.threads, 1, 1],
            shared_bytes: smem_bytes,
            cluster: None,
        },
        estimated_ns: machine.estimate_ns(&work),
    })
}

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(entry: DoubleEntry, candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    call.launch_double(entry, candidate.config)
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
