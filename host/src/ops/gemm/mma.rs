//! The tensor-core kernels that use `mma.sync`. From Ampere on they multiply 16-bit operands, and
//! f32 as tf32 where that is allowed, at any alignment; on Turing, f16. On Hopper they serve
//! operands that TMA cannot load, where K-major copies of them do not pay.
//! [`MmaEntry::ALL`] has all of them.
//!
//! 8-bit floats are multiplied directly on Ada, if both are K-major and fast accumulation is
//! allowed. Otherwise they are converted to f16 first, which is exact. i8 is multiplied directly
//! from Ampere on, K-major, or after K-major copies. Outputs that no kernel writes, and split-K,
//! use partial results in f32, of i8 in i32, and the kernel that reduces them.

use super::call::Call;
use super::candidates::{Candidate, Entry, Reads, splits};
use super::desc::{GemmDesc, Side};
use super::options::Precision;
use super::splits::KSplits;
use crate::ops::plan::{Machine, Work};
use crate::{DType, LaunchConfig, Result};
use abi::gemm::{MMA_ADA, MMA_LARGE, MMA_SMALL, MMA_TURING, MmaEntry, MmaTile, Transpose};

/// Compute capability whose `mma.sync` multiplies 8-bit floats; Hopper does so with other
/// instructions.
const ADA: (u32, u32) = (8, 9);

/// Split-K factors that are considered, and the least k of a part.
const SPLITS: (&[u32], u32) = (&[1, 2, 4, 8, 16], 512);

/// Peak flops per cycle of an SM, for 16-bit operands with f32 accumulation.
fn peak_flops_per_cycle(arch: (u32, u32)) -> f64 {
    match arch {
        (8, 0) => 2048.0,
        (..=8, _) => 1024.0,
        _ => 2760.0, // what mma.sync reaches on Hopper
    }
}

/// Factor of the speed for operands with rows of this alignment.
fn alignment_efficiency(align_bytes: u32, machine: &Machine) -> f64 {
    let costs = &machine.model.gemm.mma;
    match align_bytes {
        16.. => 1.0,
        8..16 => costs.aligned_8,
        4..8 => costs.aligned_4,
        _ => costs.aligned_less,
    }
}

/// Throughput of the tensor cores for a dtype, relative to 16-bit operands.
fn flops_of(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 0.5,
        DType::E4m3 | DType::E5m2 | DType::I8 => 2.0,
        _ => 1.0,
    }
}

/// The dtypes in which kernels with `tile` read the operands.
fn inputs(desc: &GemmDesc, machine: &Machine, tile: MmaTile) -> Option<[DType; 2]> {
    let types = [desc.a.dtype, desc.b.dtype];
    let layout = (desc.a.transpose, desc.b.transpose);
    match types {
        [DType::I8, _] => Some(types),
        [DType::F16, _] | [DType::Bf16, _] => Some(types),
        [DType::F32, _] => (desc.precision == Precision::Tf32).then_some(types),
        [DType::E4m3 | DType::E5m2, _] => {
            let is_direct = machine.arch == ADA
                && tile == MMA_ADA
                && desc.fast_accumulation
                && layout == (Transpose::N, Transpose::T);
            Some(if is_direct { types } else { [DType::F16; 2] })
        }
        _ => None,
    }
}

/// The tiles for a device.
fn tiles(machine: &Machine) -> &'static [MmaTile] {
    if machine.arch >= (8, 0) {
        &[MMA_LARGE, MMA_SMALL, MMA_ADA]
    } else {
        &[MMA_TURING]
    }
}

/// Offers all tiles, with and without split-K.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    for &tile in tiles(machine) {
        for split_k in splits(desc, machine, tile.tiles(desc.m, desc.n), SPLITS) {
            candidate(desc, machine, tile, split_k).map(&mut *offer);
        }
    }
}

/// Offers all tiles on K-major copies, if an operand of i8 is not K-major. No kernel reads such an
/// operand in place.
pub(super) fn offer_k_major(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let is_k_major = |side: Side| desc.operand(side).transpose == side.k_major();
    let copied = match Side::BOTH.into_iter().all(is_k_major) {
        true => None,
        false => desc.k_major(),
    };
    let Some(copied) = copied.filter(|_| desc.k > 0) else {
        return self::offer(desc, machine, offer);
    };
    let copies_ns = desc.k_major_ns(machine);
    self::offer(&copied, machine, &mut |candidate| {
        offer(Candidate {
            reads: Reads::KMajor,
            estimated_ns: candidate.estimated_ns + copies_ns,
            ..candidate
        })
    });
}

/// The entry that computes `desc` in `splits` parts of k: one that writes D directly, if it exists.
fn entry(desc: &GemmDesc, machine: &Machine, tile: MmaTile, splits: u32) -> Option<MmaEntry> {
    let operands = inputs(desc, machine, tile)?;
    let layout = (desc.a.transpose, desc.b.transpose);
    let runs = |entry: &MmaEntry| entry.arch() <= machine.arch;
    let entry = |output| MmaEntry::of(operands, output, layout, tile).filter(runs);
    let direct = (splits == 1).then(|| entry(desc.d.dtype)).flatten();
    direct.or_else(|| entry(desc.partial_dtype()))
}

fn candidate(desc: &GemmDesc, machine: &Machine, tile: MmaTile, split_k: u32) -> Option<Candidate> {
    let splits = KSplits::of(desc.k, split_k);
    let entry = entry(desc, machine, tile, splits.count)?;
    if tile.smem_bytes() > machine.shared_bytes {
        return None;
    }
    let is_direct = splits.count == 1 && entry.writes(desc.d.dtype);
    // The batch of the launch: batch times parts of equal length; `None` if it exceeds a grid.
    let grid = tile.grid(desc.m, desc.n, desc.batch.checked_mul(splits.whole)?)?;
    let costs = &machine.model.gemm.mma;
    let (efficiency, most_blocks) = match tile {
        MMA_LARGE => (costs.large_efficiency, 1),
        MMA_ADA => (costs.small_efficiency, 1),
        MMA_TURING => (costs.turing_efficiency, 1),
        _ => (costs.small_efficiency, 2),
    };
    let is_converted = entry.a != desc.a.dtype;
    let mut extra_ns = 0.0;
    if !is_direct {
        extra_ns += desc.partials_ns(&splits, machine);
    }
    let align_bytes = if is_converted {
        // Per element of an operand, one byte is read, then two bytes are written and read again.
        extra_ns += 2.0 * machine.model.launch_ns + 4.0 * desc.bytes() / machine.bytes_per_ns;
        converted_align_bytes(desc)
    } else {
        desc.a.row_align_bytes().min(desc.b.row_align_bytes())
    };
    let tile_k = tile.tile_k_bytes / entry.a.size_bytes() as u32;
    let extents = [tile.tile_m, tile.tile_n, tile_k];
    let work = Work {
        blocks_per_multiprocessor: most_blocks.min(machine.shared_bytes / tile.smem_bytes()),
        flops_per_cycle: peak_flops_per_cycle(machine.arch)
            * flops_of(entry.a)
            * efficiency
            * alignment_efficiency(align_bytes, machine),
        alone: costs.alone,
        overhead_ns: costs.overhead_ns,
        extra_ns,
        ..desc.work(&splits, extents)
    };
    Some(Candidate {
        split_k,
        reads: match is_converted {
            true => Reads::Converted(entry.a),
            false => Reads::InPlace,
        },
        partials: (!is_direct).then_some(splits),
        estimated_ns: machine.estimate_ns(&work),
        ..Candidate::direct(Entry::Mma(entry), extents, config(&tile, grid))
    })
}

/// Alignment of the rows of operands after conversion to contiguous 16-bit rows.
fn converted_align_bytes(desc: &GemmDesc) -> u32 {
    let row = |transpose, [n, t]: [u32; 2]| if transpose == Transpose::N { n } else { t };
    let a = row(desc.a.transpose, [desc.k, desc.m]);
    let b = row(desc.b.transpose, [desc.n, desc.k]);
    1 << (2 * u64::from(a | b)).trailing_zeros().min(4)
}

fn config(tile: &MmaTile, grid: [u32; 3]) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [tile.threads(), 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    }
}

/// Enqueues one main kernel.
pub(super) fn launch(entry: MmaEntry, call: &Call<'_>) -> Result<()> {
    let desc = &call.desc;
    let grid = entry.tile.grid(desc.m, desc.n, desc.batch);
    let config = grid.map(|grid| config(&entry.tile, grid));
    call.launch_by_pointers(entry, config, |params, epilogue| (params, epilogue))
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::by_estimate;
    use super::super::desc::tests::plain;
    use super::*;
    use crate::ops::plan::MachineModel;

    fn machine(arch: (u32, u32), shared_kib: u32) -> Machine {
        Machine {
            arch,
            multiprocessors: 108,
            shared_bytes: shared_kib << 10,
            bytes_per_ns: 2_000.0,
            clock_ghz: 1.4,
            model: MachineModel::H200,
        }
    }

    /// What is offered, the one expected to be fastest first.
    fn offered(desc: &GemmDesc, machine: &Machine) -> Vec<Candidate> {
        by_estimate(|each| offer(desc, machine, each))
    }

    fn first(desc: &GemmDesc, machine: &Machine) -> String {
        let all = offered(desc, machine);
        all.first().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn tiles_are_chosen_by_size_and_shared_memory() {
        let large = plain(DType::Bf16, 8192, 8192, 8192);
        let a100 = machine((8, 0), 163);
        let geforce = machine((8, 6), 99);
        assert_eq!(first(&large, &a100), "gemm_mma_bf16_nn_128x256x64_s3_fused");
        assert_eq!(
            first(&large, &geforce),
            "gemm_mma_bf16_nn_128x128x32_s4_fused"
        );
        let small = plain(DType::F16, 256, 256, 256);
        assert_eq!(first(&small, &a100), "gemm_mma_f16_nn_128x128x32_s4_fused");
        let deep = plain(DType::F16, 256, 256, 65_536);
        assert_eq!(
            first(&deep, &a100),
            "gemm_mma_f16_nn_128x128x32_s4_fused+split16"
        );
    }

    #[test]
    fn only_what_the_kernels_compute_is_offered() {
        let a100 = machine((8, 0), 163);
        let turing = machine((7, 5), 64);
        assert!(offered(&plain(DType::Bf16, 64, 64, 64), &turing).is_empty());
        let half = plain(DType::F16, 64, 64, 64);
        assert_eq!(first(&half, &turing), "gemm_mma_f16_nn_128x128x32_s2_fused");
        assert!(offered(&plain(DType::F32, 64, 64, 64), &a100).is_empty());
        let eight = GemmDesc {
            d: plain(DType::F16, 64, 64, 64).d,
            ..plain(DType::E5m2, 64, 64, 64)
        };
        assert_eq!(first(&eight, &a100), "gemm_mma_f16_nn_128x128x32_s4_fused");
        let mut ada_eight = GemmDesc {
            fast_accumulation: true,
            d: plain(DType::Bf16, 64, 64, 64).d,
            ..eight
        };
        ada_eight.b.transpose = Transpose::T;
        let name = "gemm_mma_e5m2_bf16_nt_128x128x64_s4_fused";
        assert_eq!(first(&ada_eight, &machine((8, 9), 99)), name);
        let single = GemmDesc {
            precision: Precision::Tf32,
            ..plain(DType::F32, 64, 64, 64)
        };
        assert_eq!(first(&single, &a100), "gemm_mma_f32_nn_128x128x16_s4_fused");
        let wide = GemmDesc {
            d: plain(DType::F32, 64, 64, 64).d,
            ..plain(DType::Bf16, 64, 64, 64)
        };
        let name = "gemm_mma_bf16_nn_128x128x32_s4_fused";
        assert_eq!(first(&wide, &a100), name);
    }

    #[test]
    fn alignment_costs_time_and_nothing_else() {
        let a100 = machine((8, 0), 163);
        let aligned = plain(DType::Bf16, 4096, 4096, 4096);
        let mut last = 0.0;
        for align_bytes in [16, 8, 4, 2] {
            let mut desc = aligned;
            desc.a.align_bytes = align_bytes;
            let estimate = offered(&desc, &a100)[0].estimated_ns;
            assert!(estimate > last, "{align_bytes} bytes: {estimate} ns");
            last = estimate;
        }
    }
}
