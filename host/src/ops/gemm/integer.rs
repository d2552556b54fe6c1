//! Products of i8 without tensor cores, on every device. Sums are exact, so that all kernels of such
//! products give the same bits, and the choice is one of speed alone.

use super::call::Call;
use super::candidates::{Candidate, Entry, LAUNCH_NS, Machine, Work};
use super::desc::GemmDesc;
use super::parts::{Parts, in_parts};
use crate::{DType, Error, LaunchConfig, Result};
use abi::gemm::integer::{INTEGER_ENTRY, INTEGER_TILE, a_and_b_are_k_major};

/// Flops per cycle of an SM, a multiply-add counted as two: 64 lanes of `dp4a`, less the share of the
/// loads; not measured.
const FLOPS_PER_CYCLE: f64 = 0.5 * 512.0;
/// What remains of it where an operand is gathered byte by byte; not measured.
const BY_BYTES: f64 = 0.6;
/// Resident blocks per SM.
const BLOCKS: u32 = 3;
/// [`Work::alone`].
const ALONE: f64 = 0.6;
/// Time of the first loads of a block, and of its stores.
const OVERHEAD_NS: f64 = 2_000.0;

/// Split-K factors that are considered.
const SPLITS: [u32; 5] = [1, 2, 4, 8, 16];
/// Least k of a part, unless the caller requests more parts.
const LEAST_K: u32 = 512;

/// Offers the kernel, with and without split-K.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let is_chosen = desc.split_k > 0;
    let chosen = [desc.split_k];
    let splits: &[u32] = if is_chosen { &chosen } else { &SPLITS };
    for &split_k in splits {
        let is_long = split_k == 1 || desc.k / split_k >= LEAST_K;
        let blocks = INTEGER_TILE
            .tiles(desc.m, desc.n)
            .saturating_mul(u64::from(desc.batch));
        let leaves_room = split_k == 1 || blocks < 2 * u64::from(machine.multiprocessors);
        if (is_chosen || (is_long && leaves_room))
            && let Some(candidate) = candidate(desc, machine, split_k)
        {
            offer(candidate);
        }
    }
}

/// Whether words along k can be read from both operands.
fn is_by_words(desc: &GemmDesc) -> bool {
    a_and_b_are_k_major(desc.a.transpose, desc.b.transpose) == 3
        && desc.a.row_align_bytes() >= 4
        && desc.b.row_align_bytes() >= 4
}

fn candidate(desc: &GemmDesc, machine: &Machine, split_k: u32) -> Option<Candidate> {
    let tile = INTEGER_TILE;
    let parts = Parts::of(desc.k, split_k);
    // The batch of the launch: batch times parts of equal length; `None` if it exceeds a grid.
    let grid = tile.grid(desc.m, desc.n, desc.batch.checked_mul(parts.whole)?)?;
    let k = f64::from(parts.k.next_multiple_of(tile.tile_k));
    let products = f64::from(desc.batch) * f64::from(parts.count);
    let extra_ns = match parts.count {
        1 => 0.0,
        // Partial results are written and read.
        count => LAUNCH_NS + 2.0 * desc.partial_bytes(count) / machine.bytes_per_ns,
    };
    let of_layout = if is_by_words(desc) { 1.0 } else { BY_BYTES };
    let work = Work {
        blocks: tile.tiles(desc.m, desc.n) as f64 * products,
        blocks_per_multiprocessor: BLOCKS,
        flops_per_block: 2.0 * f64::from(tile.tile_m) * f64::from(tile.tile_n) * k,
        flops_per_cycle: FLOPS_PER_CYCLE * of_layout,
        alone: ALONE,
        overhead_ns: OVERHEAD_NS,
        bytes: desc.bytes(),
        extra_ns,
    };
    Some(Candidate {
        entry: Entry::Integer(INTEGER_ENTRY),
        tile: [tile.tile_m, tile.tile_n, tile.tile_k],
        split_k,
        stream_k: false,
        band: 0,
        k_major: false,
        config: config(grid),
        estimated_ns: machine.estimate_ns(&work),
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

/// Enqueues a candidate of [`offer`].
pub(super) fn launch(candidate: &Candidate, call: &Call<'_>) -> Result<()> {
    // The kernel writes every dtype of results.
    let types = (DType::I8, call.desc.d.dtype);
    in_parts(call, types, candidate.split_k, &product)
}

/// Enqueues one main kernel.
fn product(call: &Call<'_>) -> Result<()> {
    let desc = &call.desc;
    let grid = INTEGER_TILE.grid(desc.m, desc.n, desc.batch);
    let grid = grid.ok_or(Error::Bug("a product was offered that fits no grid"))?;
    let k_major = a_and_b_are_k_major(desc.a.transpose, desc.b.transpose);
    let (a, b) = (&call.a, &call.b);
    // SAFETY: extents, strides and layouts are those of the call's memory, whose layouts lie inside of
    // their storage; d is injective, overlaps neither a nor b, and overlaps c and residual only if it is
    // the same matrix; absent operands are null.
    unsafe { call.launch_fused(INTEGER_ENTRY, config(grid), &[&a, &b, &k_major]) }
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{H200, by_estimate};
    use super::super::desc::tests::{plain, weighted};
    use super::super::{mma, sm90};
    use super::*;
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
    fn few_rows_share_the_device_by_parts_of_k() {
        let layer = of(weighted(DType::I8, [16, 4096, 14_336]), DType::I32);
        let name = first(&layer, &H200);
        assert!(name.contains("+split"), "{name}");
    }
}
