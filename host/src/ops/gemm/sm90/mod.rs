//! The Hopper kernels with TMA and wgmma (`kernels-gpu/src/gemm/sm90`).
//!
//! They take 8-bit and 16-bit operands (but not two of e5m2), and f32 if tf32 is allowed. They read
//! an operand in place if a tensor map can describe it, and if it has 16 bits or a contiguous k.
//! Other operands are copied first ([`k_major`](super::k_major)). Split-K uses partial results in
//! f32 (i32 for i8), and the kernel that reduces them. Results in i32 with more than alpha also use
//! that kernel.

pub(super) mod bands;
mod cost;
mod launch;

pub(super) use launch::launch;

use cost::{shared_work, work};

use super::candidates::{Candidate, Entry};
use super::desc::{GemmDesc, ScaleExtent};
use super::k_major;
use super::options::Precision;
use super::splits::KSplits;
use crate::DType;
use crate::ops::plan::{Machine, blocks_at_once};
use abi::gemm::sm90::{EpilogueKind, SPAN_BYTES, Sm90Entry, Sm90Tile};
use abi::gemm::stream_k::Cut;

/// The only architecture that runs code for sm_90a.
const ARCH: (u32, u32) = (9, 0);
/// Rows of tiles per raster group. A row has few wide tiles, so larger groups read less of B from
/// memory. 128 x 256 is 0.4 % faster with 16 at 4096 x 4096 x 4096, and slower in no measured case.
const fn raster_group(tile: &Sm90Tile) -> u32 {
    if tile.tile_n >= 256 { 16 } else { 8 }
}
/// Split-K factors that are considered.
const SPLITS: [u32; 4] = [1, 2, 4, 8];
/// Least k of a part in bytes, unless the caller requests more parts.
const LEAST_K_BYTES: u64 = 16 * SPAN_BYTES as u64;

/// Offers the tiles that exist for `desc`, or for K-major copies of operands that no tile reads,
/// with and without split-K and stream-K.
pub(super) fn offer(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    let precision_suits = desc.a.dtype != DType::F32 || desc.precision == Precision::Tf32;
    if machine.arch != ARCH || desc.k == 0 || !precision_suits {
        return;
    }
    k_major::offer_readable(desc, machine, offer_as_stored, offer);
}

fn offer_as_stored(desc: &GemmDesc, machine: &Machine, offer: &mut dyn FnMut(Candidate)) {
    if !desc.suits_tensor_maps() {
        return;
    }
    let chosen = [desc.split_k];
    let is_chosen = desc.split_k > 0;
    for &split_k in if is_chosen { &chosen[..] } else { &SPLITS } {
        let k_bytes = u64::from(desc.k / split_k) * desc.a.dtype.size_bytes() as u64;
        if !is_chosen && split_k > 1 && k_bytes < LEAST_K_BYTES {
            continue;
        }
        let variant = Variant::of(desc, split_k);
        for entry in entries(desc, variant.output(desc), variant.epilogue()) {
            let tile = &entry.tile;
            // Partial results are stored with TMA, which their rows have to suit.
            let partial_suits = variant.is_direct() || desc.n.is_multiple_of(4);
            if !partial_suits {
                continue;
            }
            let mut whole = candidate(desc, machine, entry, (split_k, variant), None);
            if split_k == 1
                && variant == Variant::Direct(EpilogueKind::Promoted)
                && let Some(together) = whole
            {
                in_bands(desc, machine, tile, together).map(&mut *offer);
                let drift = bands::drift(desc, tile, machine);
                whole = Some(Candidate {
                    estimated_ns: together.estimated_ns * (1.0 + drift),
                    ..together
                });
            }
            whole.map(&mut *offer);
            let cut = cut_of(desc, tile, machine.multiprocessors);
            if !is_chosen && split_k == 1 && variant.is_direct() && cut.is_some() {
                candidate(desc, machine, entry, (split_k, variant), cut).map(&mut *offer);
            }
        }
    }
}

/// The same by several launches, if sums are promoted and [`bands`] are faster. `whole` is one
/// launch, with an estimate that ignores drift.
fn in_bands(
    desc: &GemmDesc,
    machine: &Machine,
    tile: &Sm90Tile,
    whole: Candidate,
) -> Option<Candidate> {
    let rows = bands::rows_of_band(desc, tile, machine)?;
    Some(Candidate {
        band: rows * tile.tile_m,
        estimated_ns: bands::estimate_ns(desc, tile, machine, (whole.estimated_ns, rows)),
        ..whole
    })
}

/// How a description is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// By one kernel with this epilogue.
    Direct(EpilogueKind),
    /// By a kernel with this epilogue that writes f32, or i32 of i8, and one that reduces partial
    /// results.
    Partial(EpilogueKind),
}

impl Variant {
    fn of(desc: &GemmDesc, split_k: u32) -> Self {
        let is_fp8 = matches!(desc.a.dtype, DType::E4m3 | DType::E5m2);
        let bare = if is_fp8 && !desc.fast_accumulation {
            EpilogueKind::Promoted
        } else {
            EpilogueKind::Plain
        };
        if KSplits::of(desc.k, split_k).count > 1 {
            return Self::Partial(bare);
        }
        let has = |epilogue| entries(desc, desc.d.dtype, epilogue).next().is_some();
        let scales_suit = [desc.row_scale, desc.column_scale]
            .iter()
            .all(|scale| *scale != Some(ScaleExtent::Each));
        match () {
            () if scales_suit && desc.is_scaled_product() && has_map_of_d(desc) && has(bare) => {
                Self::Direct(bare)
            }
            () if has(bare.fused()) => Self::Direct(bare.fused()),
            () => Self::Partial(bare),
        }
    }

    fn is_direct(self) -> bool {
        matches!(self, Self::Direct(_))
    }

    fn epilogue(self) -> EpilogueKind {
        match self {
            Self::Direct(epilogue) | Self::Partial(epilogue) => epilogue,
        }
    }

    /// Dtype that the main kernel writes.
    fn output(self, desc: &GemmDesc) -> DType {
        match self {
            Self::Direct(_) => desc.d.dtype,
            Self::Partial(_) => desc.partial_dtype(),
        }
    }
}

/// The entries for the operands of `desc` that write this dtype by this epilogue.
fn entries(
    desc: &GemmDesc,
    output: DType,
    epilogue: EpilogueKind,
) -> impl Iterator<Item = Sm90Entry> {
    let dtypes = (desc.a.dtype, desc.b.dtype, output);
    Sm90Entry::of(dtypes, (desc.a.transpose, desc.b.transpose), epilogue)
}

/// Whether TMA can store D. TMA stores whole units of 16 bytes, and would write beyond the end of
/// rows that are not a multiple of 16 bytes.
fn has_map_of_d(desc: &GemmDesc) -> bool {
    let row_bytes = u64::from(desc.n) * desc.d.dtype.size_bytes() as u64;
    desc.d.suits_tensor_map() && row_bytes.is_multiple_of(16)
}

/// One way to compute a description: with whole tiles or, with a `cut`, with stream-K.
fn candidate(
    desc: &GemmDesc,
    machine: &Machine,
    entry: Sm90Entry,
    (split_k, variant): (u32, Variant),
    cut: Option<Cut>,
) -> Option<Candidate> {
    let tile = entry.tile;
    let splits = KSplits::of(desc.k, split_k);
    if tile.smem_bytes() > machine.shared_bytes {
        return None;
    }
    if variant.epilogue().is_fused() && !has_map_of_d(desc) && !tile.stores_by_thread() {
        return None;
    }
    let products = desc.batch.checked_mul(splits.whole)?;
    let cluster_blocks = tile.cluster.blocks();
    // Clusters read less from L2, which binds only where rows are not aligned.
    if cluster_blocks > 1 && desc.rows_are_aligned() {
        return None;
    }
    let at_once = blocks_at_once(machine.multiprocessors, cluster_blocks);
    let grid = tile.grid(desc.m, desc.n, products, at_once)?;
    let grid = cut.map_or(grid, |cut| cut.blocks);
    // These tiles are for few rows only; 64 rows, where there are more.
    let is_for_few_rows = matches!((tile.tile_m, tile.tile_n), (128, 48 | 80 | 224));
    let is_for_many_rows = (tile.tile_m, tile.tile_n) == (64, 128);
    if is_for_few_rows && desc.m > tile.tile_m || is_for_many_rows && desc.m <= 128 {
        return None;
    }
    let mut work = work(desc, machine, &tile, &splits, variant);
    if let Some(cut) = cut {
        work = shared_work(work, desc, &tile, cut, machine);
    }
    let machine = &Machine {
        multiprocessors: at_once,
        ..*machine
    };
    // Few blocks do not reach the full bandwidth.
    let busy = work.blocks.min(f64::from(machine.multiprocessors));
    let bytes_per_ns = busy * machine.model.gemm.sm90.block_bytes_per_ns;
    work.bytes *= (machine.bytes_per_ns / bytes_per_ns).max(1.0);
    let tile_k = SPAN_BYTES / desc.a.dtype.size_bytes() as u32;
    Some(Candidate {
        split_k,
        partials: (!variant.is_direct()).then_some(splits),
        cut,
        estimated_ns: machine.estimate_ns(&work),
        ..Candidate::direct(
            Entry::Sm90(entry),
            [tile.tile_m, tile.tile_n, tile_k],
            launch::config(&tile, grid),
        )
    })
}

/// How stream-K cuts the tiles of `desc`, if it can.
fn cut_of(desc: &GemmDesc, tile: &Sm90Tile, multiprocessors: u32) -> Option<Cut> {
    if !tile.takes_stream_k() {
        return None;
    }
    let (rows, columns) = tile.grid_tiles(desc.m, desc.n);
    let tiles = rows.checked_mul(columns)?.checked_mul(desc.batch)?;
    let tile_k = SPAN_BYTES / desc.a.dtype.size_bytes() as u32;
    Cut::of(tiles, desc.k.div_ceil(tile_k), multiprocessors)
}

#[cfg(test)]
mod tests {
    use super::super::candidates::tests::{H200, by_estimate};
    use super::super::desc::MatrixDesc;
    use super::super::desc::tests::weighted;
    use super::*;
    use abi::gemm::Activation;

    fn best(m: u32, n: u32, k: u32) -> String {
        best_of(DType::Bf16, m, n, k)
    }

    fn best_of(dtype: DType, m: u32, n: u32, k: u32) -> String {
        let desc = GemmDesc {
            precision: Precision::Tf32,
            ..weighted(dtype, [m, n, k])
        };
        let name = by_estimate(|each| offer(&desc, &H200, each))[0].to_string();
        name.replace(&format!("gemm_sm90_{dtype}_nt_"), "")
            .replace("_plain", "")
    }

    #[test]
    fn what_was_measured_to_be_fastest_from_1024_rows_on_is_expected_to_be() {
        for k in [4096, 14_336] {
            assert_eq!(best(1024, 4096, k), "128x256_s4"); // one wave
            assert_eq!(best(4096, 4096, k), "128x256_s4");
        }
        let in_splits = "128x128_s6_pp+streamk"; // few tiles are left over
        for [m, n, k] in [
            [16_384, 4096, 14_336],
            [16_384, 8192, 8192],
            [16_384, 8192, 28_672],
            [4096, 28_672, 8192],
            [16_384; 3],
        ] {
            assert_eq!(best(m, n, k), in_splits, "{m} {n} {k}");
        }
        assert_eq!(best(2048, 2048, 256), "128x128_s6_pp");
        assert_eq!(best(2048, 2048, 2048), "128x256_s4");
        assert_eq!(best(4096, 4096, 1024), "128x256_s4");
        assert_eq!(best(1024, 6144, 4096), "128x192_s4_pp");
        assert_eq!(best(4096, 6144, 4096), "128x256_s4");
        assert_eq!(best(4096, 14_336, 4096), "128x176_s5_pp");
        assert_eq!(best(1024, 14_336, 4096), "128x176_s5_pp");
        assert_eq!(best(1024, 28_672, 8192), "128x176_s5_pp");
        assert_eq!(best(1024, 8192, 8192), "128x256_s4");
        assert_eq!(best(1024, 10_240, 8192), "128x160_s5_pp");
        for (n, k) in [(10_240, 8192), (8192, 8192), (8192, 28_672)] {
            assert_eq!(best(4096, n, k), "128x168_s5_pp");
        }
        let of_e4m3 = |size| {
            let desc = weighted(DType::E4m3, [size; 3]);
            let desc = GemmDesc {
                d: MatrixDesc {
                    dtype: DType::Bf16,
                    ..desc.d
                },
                ..desc
            };
            by_estimate(|each| offer(&desc, &H200, each))[0].to_string()
        };
        for (size, tile) in [(4096, "256_s4"), (8192, "176_s5"), (16_384, "256_s4")] {
            let expected = format!("gemm_sm90_e4m3_bf16_nt_128x{tile}_promoted");
            assert_eq!(of_e4m3(size), expected);
        }
        let desc = GemmDesc {
            batch: 64,
            ..weighted(DType::Bf16, [512; 3])
        };
        let of_batch = by_estimate(|each| offer(&desc, &H200, each))[0].to_string();
        assert_eq!(of_batch, "gemm_sm90_bf16_nt_128x256_s4_plain");
    }

    #[test]
    fn clusters_are_for_rows_that_are_not_aligned_to_32_bytes() {
        assert_eq!(best(3008, 3008, 3008), "128x192_s4_pp");
        assert_eq!(best(3008, 3008, 3000), "128x192_s4_pp_c2x1");
        assert_eq!(best(671, 1912, 2824), "128x128_s6_pp_c2x2");
        let offers_clusters = |k| {
            let all = by_estimate(|each| offer(&weighted(DType::Bf16, [512, 512, k]), &H200, each));
            all.iter()
                .any(|candidate| candidate.config.cluster.is_some())
        };
        assert!(offers_clusters(1000) && !offers_clusters(1024));
    }

    #[test]
    fn columns_of_96_are_chosen_where_they_make_one_wave() {
        // 12 × 11 tiles for 132 multiprocessors; of 128 columns there are 12 × 9.
        assert_eq!(best(1458, 1056, 15_344), "128x96_s6");
        assert_eq!(best(1536, 1056, 4096), "128x96_s6");
    }

    #[test]
    fn epilogues_of_8_bit_operands_are_in_the_same_kernel() {
        let best = |fast_accumulation| {
            let desc = weighted(DType::E4m3, [4096; 3]);
            let desc = GemmDesc {
                d: MatrixDesc {
                    dtype: DType::Bf16,
                    ..desc.d
                },
                activation: Activation::Gelu,
                fast_accumulation,
                ..desc
            };
            by_estimate(|each| offer(&desc, &H200, each))[0].to_string()
        };
        let name = "gemm_sm90_e4m3_bf16_nt";
        assert_eq!(best(true), format!("{name}_128x192_s4_pp_fused"));
        assert_eq!(best(false), format!("{name}_128x256_s4_promoted_fused"));
    }

    #[test]
    fn extents_beyond_the_coordinates_of_tensor_copies_go_elsewhere() {
        let offers = |m, n| {
            let desc = weighted(DType::Bf16, [m, n, 8]);
            !by_estimate(|each| offer(&desc, &H200, each)).is_empty()
        };
        const REACH: u32 = 1 << 31;
        assert!(offers(REACH, 8) && !offers(REACH + 1, 8));
        assert!(offers(8, REACH) && !offers(8, REACH + 8));
    }

    #[test]
    fn splits_of_k_beyond_4_gib_are_not_short_ones() {
        let desc = GemmDesc {
            precision: Precision::Tf32,
            ..weighted(DType::F32, [8, 128, 1 << 31])
        };
        let all = by_estimate(|each| offer(&desc, &H200, each));
        assert!(all.iter().any(|candidate| candidate.split_k == 2));
    }

    #[test]
    fn stream_k_is_for_products_that_do_not_fill_the_device() {
        assert_eq!(best(128, 8192, 28_672), "128x128_s6_pp+streamk");
        assert!(!best(4096, 4096, 4096).contains("streamk"));
    }
}
