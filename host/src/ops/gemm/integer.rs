//! Products of i8 without tensor cores, on every device. Sums are exact, so that all kernels of
//! such products give the same bits, and the choice is one of speed alone.

use super::call::Call;
use super::candidates::{Candidate, Entry, splits};
use super::desc::GemmDesc;
use super::splits::KSplits;
use crate::ops::plan::{Machine, Work};
use crate::{LaunchConfig, Result};
use abi::gemm::integer::{INTEGER_ENTRY, INTEGER_TILE, a_and_b_are_k_major};

/// Resident blocks per SM.
const BLOCKS: u32 = 3;

/// Split-K factors that are considered, and the least k of a part.
const SPLITS: (&[u32], u32) = (&[1, 2, 4, 8, 16], 512);

/// Offers the kernel, with and without split-K.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    for split_k in splits(desc, machine, INTEGER_TILE.tiles(desc.m, desc.n), SPLITS) {
        candidate(desc, machine, split_k).map(&mut *offer);
    }
}

/// Whether words along k can be read from both operands.
fn is_by_words(desc: &GemmDesc) -> bool {
    a_and_b_are_k_major(desc.a.transpose, desc.b.transpose) == 3
        && desc.a.row_align_bytes() >= 4
        && desc.b.row_align_bytes() >= 4
}

fn candidate(desc: &GemmDesc, machine: &Machine, split_k: u32) -> Option<Candidate> {
    let costs = &machine.model.gemm.integer;
    let tile = [
        INTEGER_TILE.tile_m,
        INTEGER_TILE.tile_n,
        INTEGER_TILE.tile_k,
    ];
    let splits = KSplits::of(desc.k, split_k);
    // The kernel writes every dtype of results.
    let partials = (splits.count > 1).then_some(splits);
    // The batch of the launch: batch times parts of equal length; `None` if it exceeds a grid.
    let grid = INTEGER_TILE.grid(desc.m, desc.n, desc.batch.checked_mul(splits.whole)?)?;
    let work = Work {
        blocks_per_multiprocessor: BLOCKS,
        flops_per_cycle: match is_by_words(desc) {
            true => costs.flops,
            false => costs.flops * costs.by_bytes,
        },
        alone: costs.alone,
        overhead_ns: costs.overhead_ns,
        extra_ns: partials.map_or(0.0, |splits| desc.partials_ns(&splits, machine)),
        ..desc.work(&splits, tile)
    };
    Some(Candidate {
        split_k,
        partials,
        estimated_ns: machine.estimate_ns(&work),
        ..Candidate::direct(Entry::Integer, tile, config(grid))
    })
}

fn config(grid: [u32; 3]) -> LaunchConfig {
    LaunchConfig {
        grid,
        block: [INTEGER_TILE.threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}

/// Enqueues one main kernel.
pub(super) fn launch(call: &Call<'_>) -> Result<()> {
    let desc = &call.desc;
    let grid = INTEGER_TILE.grid(desc.m, desc.n, desc.batch);
    let k_major = a_and_b_are_k_major(desc.a.transpose, desc.b.transpose);
    call.launch_by_pointers(INTEGER_ENTRY, grid.map(config), |params, epilogue| {
        (params, epilogue, k_major)
    })
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{H200, by_estimate};
    use super::super::desc::tests::{plain, weighted};
    use super::super::{mma, sm90};
    use super::*;
    use crate::DType;
    use abi::gemm::Activation;

    fn first(desc: &GemmDesc, machine: &Machine) -> String {
        let all = by_estimate(|each| {
            offer(desc, machine, each);
            mma::offer_k_major(desc, machine, each);
            sm90::offer(desc, machine, each);
        });
        all.first().map(ToString::to_string).unwrap_or_default()
    }

    fn machine(arch: (u32, u32), shared_kib: u32) -> Machine {
        Machine {
            arch,
            shared_bytes: shared_kib << 10,
            ..H200
        }
    }

    /// With results in `output`.
    fn of(desc: GemmDesc, output: DType) -> GemmDesc {
        let mut desc = desc;
        desc.d.dtype = output;
        desc
    }

    #[test]
    fn tensor_cores_are_chosen_where_they_are() {
        let layer = of(weighted(DType::I8, [4096; 3]), DType::I32);
        let sums = "gemm_sm90_i8_i32_nt_128x256_s4_plain";
        assert_eq!(first(&layer, &H200), sums);
        for dtype in [DType::F16, DType::Bf16, DType::F32] {
            let fused = format!("gemm_sm90_i8_{dtype}_nt_128x256_s4_fused");
            assert_eq!(first(&of(layer, dtype), &H200), fused);
        }
        let relu = GemmDesc {
            activation: Activation::Relu,
            ..layer
        };
        assert_eq!(first(&relu, &H200), sums);
        let ampere = "gemm_mma_i8_nt_128x128x64_s4_fused";
        for arch in [(8, 0), (8, 9), (10, 0)] {
            assert_eq!(first(&layer, &machine(arch, 99)), ampere, "{arch:?}");
        }
        let portable = "gemm_simt_i8_64x64x32";
        assert_eq!(first(&layer, &machine((7, 5), 64)), portable);
    }

    #[test]
    fn operands_without_contiguous_k_are_copied_for_tensor_cores() {
        let rows = of(plain(DType::I8, 4096, 4096, 4096), DType::I32);
        let name = first(&rows, &H200);
        assert_eq!(name, "gemm_sm90_i8_i32_nt_128x256_s4_plain+kmajor");
        let name = first(&rows, &machine((8, 0), 163));
        assert_eq!(name, "gemm_mma_i8_nt_128x128x64_s4_fused+kmajor");
        let small = of(plain(DType::I8, 8, 8, 8), DType::I32);
        assert_eq!(first(&small, &H200), "gemm_simt_i8_64x64x32");
    }

    #[test]
    fn few_rows_share_the_device_by_splits_of_k() {
        let layer = of(weighted(DType::I8, [16, 4096, 14_336]), DType::I32);
        let name = first(&layer, &H200);
        assert!(name.contains("+split"), "{name}");
    }
}
