//! Which plans are chosen, and that their rows fit.

use super::rule::RESERVED_BYTES;
use super::{Candidate, RowDesc};
use crate::fitting::h200;
use crate::ops::plan::{self, MachineModel};
use abi::DType;
use abi::rows::*;

/// As many rows as persistent blocks can share out.
const MANY: usize = 1 << 20;

/// Dynamic shared memory of a block: that of an H200 without the static one of the kernels.
const SHARED_BYTES: u32 = 226 << 10;

fn desc(op: RowOp, rows: usize, n: u64, element_bytes: u32, is_aligned: bool) -> RowDesc {
    let alignment = match is_aligned {
        true => Alignment::Vectors,
        false => Alignment::Apart,
    };
    lying(op, rows, n, element_bytes, alignment)
}

fn lying(op: RowOp, rows: usize, n: u64, element_bytes: u32, alignment: Alignment) -> RowDesc {
    let has_two = matches!(
        op,
        RowOp::SoftmaxGrad | RowOp::NormGrad | RowOp::NormGradF32
    );
    let dtype = match element_bytes {
        2 => DType::Bf16,
        _ => DType::F32,
    };
    RowDesc::new(
        op,
        dtype,
        (rows, n as usize),
        alignment,
        1 + u32::from(has_two),
    )
}

fn best(desc: &RowDesc) -> Candidate {
    plan::best(desc, &h200()).expect("a candidate")
}

fn chosen(op: RowOp, n: u64, element_bytes: u32, is_aligned: bool) -> RowPlan {
    best(&desc(op, MANY, n, element_bytes, is_aligned)).plan
}

/// A norm of bf16 of so many tensors that are added up.
fn norm(n: u64, inputs: u32, has_bias: bool) -> RowDesc {
    let norm = desc(RowOp::Norm, MANY, n, 2, true);
    RowDesc {
        shape: RowShape {
            inputs,
            is_dense: false,
            is_centered: has_bias,
            has_bias,
            ..norm.shape
        },
        ..norm
    }
}

#[test]
fn rows_go_from_lanes_to_blocks_to_clusters_to_passes() {
    let of = |op, n| {
        let plan = chosen(op, n, 2, true);
        (plan.strategy, plan.threads, plan.cluster)
    };
    let held = Strategy::Registers(Variant::Registers);
    let more = Strategy::Registers(Variant::RegistersMore);
    assert_eq!(of(RowOp::Softmax, 8), (held, 4, 1));
    assert_eq!(of(RowOp::Softmax, 256), (held, 8, 1));
    assert_eq!(of(RowOp::Softmax, 2048), (held, 64, 1));
    assert_eq!(of(RowOp::Softmax, 8192), (held, 256, 1));
    // Their vectors are 62 % of those that 32 threads of four have, and 83 % of 16 of six.
    assert_eq!(of(RowOp::Softmax, 640), (more, 16, 1));
    assert_eq!(of(RowOp::Softmax, 2560), (held, 96, 1));
    assert_eq!(of(RowOp::Softmax, 5120), (held, 160, 1));
    assert_eq!(of(RowOp::Softmax, 8200), (more, 192, 1));
    assert_eq!(of(RowOp::Softmax, 12_288), (more, 256, 1));
    assert_eq!(of(RowOp::Softmax, 12_296), (Strategy::Slices, 128, 1));
    assert_eq!(of(RowOp::Softmax, 16_384), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::Softmax, 26_624), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::Softmax, 26_632), (Strategy::Slices, 128, 2));
    assert_eq!(of(RowOp::Softmax, 32_768), (Strategy::Slices, 256, 2));
    assert_eq!(of(RowOp::Softmax, 50_264), (Strategy::Slices, 256, 2));
    assert_eq!(of(RowOp::Softmax, 131_072), (Strategy::Slices, 256, 8));
    assert_eq!(of(RowOp::Softmax, 196_608), (Strategy::Slices, 256, 8));
    assert_eq!(of(RowOp::Softmax, 262_144), (Strategy::Slices, 128, 16));
    assert_eq!(of(RowOp::Softmax, 262_152), (Strategy::Slices, 256, 16));
    assert_eq!(of(RowOp::CrossEntropy, 2048), (held, 64, 1));
    assert_eq!(of(RowOp::CrossEntropy, 2056), (Strategy::Slices, 64, 1));
    assert_eq!(of(RowOp::CrossEntropy, 4096), (Strategy::Slices, 64, 1));
    assert_eq!(of(RowOp::CrossEntropy, 8192), (Strategy::Slices, 128, 1));
    assert_eq!(of(RowOp::CrossEntropy, 128_256), (Strategy::Slices, 256, 8));
    assert_eq!(of(RowOp::CrossEntropy, 151_936), (Strategy::Slices, 256, 8));
    assert_eq!(
        of(RowOp::CrossEntropy, 256_000),
        (Strategy::Slices, 128, 16)
    );
    let f32_classes = chosen(RowOp::CrossEntropy, 128_256, 4, true);
    assert_eq!((f32_classes.threads, f32_classes.cluster), (256, 16));
    assert_eq!(of(RowOp::Softmax, 1 << 20), (Strategy::Slices, 256, 16));
    assert_eq!(of(RowOp::Softmax, 1 << 21), (Strategy::Passes, 1024, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 8), (held, 4, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 4096), (held, 512, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 320), (more, 32, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 640), (held, 96, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 1032), (held, 160, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 3584), (more, 224, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 4608), (more, 288, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 4616), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 6144), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 8192), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 16_384), (Strategy::Slices, 128, 2));
    assert_eq!(of(RowOp::SoftmaxGrad, 65_536), (Strategy::Slices, 256, 4));
    let ring = |blocks, rows, stages| {
        Strategy::Ring(Stages {
            vectors: 4,
            stages,
            blocks,
            rows,
        })
    };
    let short = |rows| {
        Strategy::Short(Stages {
            vectors: 4,
            stages: 3,
            blocks: 2,
            rows,
        })
    };
    assert_eq!(of(RowOp::NormGrad, 8), (short(32), 8, 1));
    assert_eq!(of(RowOp::NormGrad, 256), (short(32), 8, 1));
    assert_eq!(of(RowOp::NormGrad, 512), (short(16), 16, 1));
    assert_eq!(of(RowOp::NormGrad, 1024), (short(8), 32, 1));
    assert_eq!(of(RowOp::NormGradF32, 256), (held, 32, 1));
    assert_eq!(of(RowOp::NormGrad, 2048), (ring(2, 4, 3), 64, 1));
    assert_eq!(of(RowOp::NormGrad, 4096), (ring(2, 2, 3), 128, 1));
    assert_eq!(of(RowOp::NormGrad, 8192), (ring(2, 1, 3), 256, 1));
    assert_eq!(of(RowOp::NormGrad, 32_768), (ring(4, 1, 3), 128, 8));
    assert_eq!(of(RowOp::NormGrad, 65_536), (ring(2, 1, 3), 256, 8));
    assert_eq!(of(RowOp::NormGrad, 131_072), (ring(2, 1, 3), 256, 16));
    assert_eq!(of(RowOp::NormGrad, 262_144), (ring(1, 1, 3), 512, 16));
    assert_eq!(of(RowOp::NormGrad, 300_000), (Strategy::Passes, 1024, 1));
    let unaligned = chosen(RowOp::Softmax, 1001, 2, false);
    assert_eq!(unaligned.strategy, Strategy::Shared);
}

#[test]
fn rows_that_begin_anywhere_have_variants_of_their_own() {
    let of = |op, n, element_bytes| {
        let desc = lying(op, MANY, n, element_bytes, Alignment::Alike);
        let Candidate { plan, entry, .. } = best(&desc);
        (entry.variant, plan.threads, plan.cluster)
    };
    let (held, slices) = (Variant::RegistersAny, Variant::ClusterAny);
    // A thread for each element of the ends, of which there are up to 14.
    assert_eq!(of(RowOp::Softmax, 5, 2), (held, 16, 1));
    assert_eq!(of(RowOp::Softmax, 333, 2), (held, 16, 1));
    assert_eq!(of(RowOp::Norm, 333, 2), (held, 16, 1));
    // Whole warps, and as many slices as an aligned row has.
    assert_eq!(of(RowOp::SoftmaxGrad, 333, 2), (slices, 32, 1));
    assert_eq!(of(RowOp::CrossEntropy, 1001, 2), (slices, 64, 1));
    assert_eq!(of(RowOp::CrossEntropy, 5, 4), (slices, 64, 1));
    assert_eq!(of(RowOp::Softmax, 50_257, 2), (slices, 256, 2));
    assert_eq!(of(RowOp::CrossEntropy, 151_937, 2), (slices, 256, 8));
    // Of f32, up to 6 elements are at the ends.
    assert_eq!(of(RowOp::Softmax, 5, 4), (held, 8, 1));
    assert_eq!(of(RowOp::Norm, 333, 4), (held, 32, 1));
    // Gradients of norms, and norms with weights in f32, by warps of 512 elements.
    let ring = Variant::SmemRingAny;
    assert_eq!(of(RowOp::NormF32, 333, 2), (ring, 32, 1));
    assert_eq!(of(RowOp::NormGrad, 333, 2), (ring, 32, 1));
    assert_eq!(of(RowOp::NormGrad, 513, 2), (ring, 64, 1));
    assert_eq!(of(RowOp::NormGradF32, 65_535, 2), (ring, 256, 16));
    assert_eq!(of(RowOp::NormGrad, 131_073, 2).0, Variant::Streaming);
    let dense = |n, alignment| {
        let mut desc = lying(RowOp::NormGrad, MANY, n, 2, alignment);
        desc.shape.is_dense = true;
        let Candidate { plan, entry, .. } = best(&desc);
        (entry.variant, plan.threads, plan.rows_per_block())
    };
    let short = Variant::SmemRingShortAny;
    assert_eq!(dense(92, Alignment::Alike), (short, 8, 32));
    assert_eq!(dense(333, Alignment::Apart), (short, 32, 8));
    assert_eq!(dense(513, Alignment::Apart).0, ring);
    // Rows that begin at multiples of a vector may end elsewhere.
    let whole = lying(RowOp::Softmax, MANY, 333, 2, Alignment::Vectors);
    assert_eq!(whole.shape.alignment, Alignment::Alike);
}

#[test]
fn weights_of_norms_come_ahead_unless_rows_come_with_a_residual() {
    let of = |n, inputs, has_bias| {
        let plan = best(&norm(n, inputs, has_bias)).plan;
        (plan.strategy, plan.threads, plan.cluster)
    };
    let held = Strategy::Registers(Variant::Registers);
    let more = Strategy::Registers(Variant::RegistersMore);
    let ahead = Strategy::Ahead(AHEAD);
    assert_eq!(of(256, 1, false), (held, 8, 1));
    assert_eq!(of(640, 1, false), (more, 16, 1));
    assert_eq!(of(4096, 1, false), (held, 128, 1));
    assert_eq!(of(4104, 1, false), (more, 96, 1));
    assert_eq!(of(7160, 1, false), (held, 224, 1));
    assert_eq!(of(8192, 1, false), (held, 256, 1));
    assert_eq!(of(10_240, 1, false), (more, 224, 1));
    assert_eq!(of(12_288, 1, false), (ahead, 192, 1));
    assert_eq!(of(16_384, 1, false), (ahead, 256, 1));
    assert_eq!(of(16_392, 1, false), (ahead, 160, 2));
    assert_eq!(of(262_144, 1, false), (ahead, 256, 16));
    assert_eq!(of(262_152, 1, false), (Strategy::Slices, 256, 16));
    let pairs = Strategy::Ahead(PAIRS);
    assert_eq!(of(1280, 1, true), (more, 32, 1));
    assert_eq!(of(2048, 1, true), (held, 64, 1));
    assert_eq!(of(4096, 1, true), (held, 128, 1));
    assert_eq!(of(4104, 1, true), (more, 96, 1));
    assert_eq!(of(5120, 1, true), (pairs, 160, 1));
    assert_eq!(of(6144, 1, true), (more, 128, 1));
    assert_eq!(of(8192, 1, true), (pairs, 256, 1));
    assert_eq!(of(16_384, 1, true), (pairs, 256, 2));
    assert_eq!(of(131_072, 1, true), (pairs, 256, 16));
    // With a residual, registers are the fastest way wherever rows fit.
    assert_eq!(of(8192, 2, true), (held, 256, 1));
    assert_eq!(of(16_384, 2, false), (held, 512, 1));
    assert_eq!(of(21_504, 2, true), (more, 448, 1));
    assert_eq!(of(21_512, 2, true), (Strategy::Slices, 128, 4));
    let ring = |blocks, stages| {
        Strategy::Ring(Stages {
            vectors: 4,
            stages,
            blocks,
            rows: 1,
        })
    };
    let wide = |stages| {
        Strategy::Ring(Stages {
            vectors: 8,
            stages,
            blocks: 1,
            rows: 1,
        })
    };
    assert_eq!(of(131_080, 1, true), (wide(5), 288, 8));
    assert_eq!(of(262_144, 1, true), (wide(3), 512, 8));
    assert_eq!(of(262_152, 1, true), (Strategy::Slices, 256, 16));
    assert_eq!(of(65_536, 2, true), (ring(1, 3), 512, 4));
}

#[test]
fn blocks_have_room_for_every_row_that_is_theirs() {
    let model = MachineModel::H200;
    for op in RowOp::ALL {
        for element_bytes in [2, 4] {
            for n in (1000..600_000).step_by(1000).map(|n| n / 8 * 8) {
                let aligned = desc(op, MANY, n, element_bytes, true);
                for desc in [
                    aligned,
                    lying(op, MANY, n + 1, element_bytes, Alignment::Alike),
                ] {
                    let all = plan::all(&desc, &h200(), &model);
                    assert!(!all.is_empty(), "{desc}");
                    all.iter().for_each(has_room);
                }
            }
        }
    }
}

/// Checks that the blocks of a candidate have room for its rows.
fn has_room(candidate: &Candidate) {
    let Candidate { desc, plan, .. } = candidate;
    let bytes = desc.shape.n * u64::from(desc.shape.element_bytes);
    let threads = u64::from(plan.threads * plan.cluster);
    let room = |vectors: u32| threads * u64::from(vectors * VECTOR_BYTES);
    assert!(plan.cluster <= MAX_CLUSTER, "{candidate} {desc}");
    assert!(
        plan.shared_bytes(&desc.shape) <= SHARED_BYTES,
        "{candidate} {desc}"
    );
    assert!(
        candidate.config.shared_bytes <= SHARED_BYTES,
        "{candidate} {desc}"
    );
    let fits = match plan.strategy {
        Strategy::Registers(_) => {
            let entry = RowEntry::of(desc.op, desc.dtype, plan.variant(&desc.shape));
            let held = entry.expect("an entry").holding();
            room(held.vectors) >= bytes && plan.block_threads() <= held.bound
        }
        Strategy::Slices => {
            let slices = desc.shape.slice_vectors(plan.cluster) * plan.cluster;
            u64::from(slices * VECTOR_BYTES) >= bytes && plan.threads <= SLICE_THREADS
        }
        Strategy::Ahead(ahead) => room(ahead.vectors) >= bytes && plan.threads <= AHEAD_THREADS,
        Strategy::Ring(Stages {
            vectors, stages, ..
        }) => {
            let threads = 32 * RING_WARPS;
            let has_stages = (2..=RING_STAGES).contains(&stages);
            room(vectors) >= bytes && plan.threads <= threads && has_stages
        }
        Strategy::Short(ring) => {
            room(ring.vectors) >= bytes && ring.rows * plan.threads <= SHORT_THREADS
        }
        Strategy::Shared | Strategy::Passes => true,
    };
    assert!(fits, "{candidate} {desc}");
}

#[test]
fn blocks_have_several_short_rows_where_there_are_enough_for_all_multiprocessors() {
    let of = |n, rows| {
        let candidate = best(&desc(RowOp::NormGrad, rows, n, 2, true));
        (candidate.plan.rows_per_block(), candidate.config.grid[0])
    };
    assert_eq!(of(1024, 1 << 20), (8, 264));
    assert_eq!(of(1024, 2112), (8, 264));
    assert_eq!(of(1024, 2111), (4, 264));
    assert_eq!(of(1024, 528), (2, 264));
    assert_eq!(of(1024, 527), (1, 264));
    assert_eq!(of(1024, 5), (1, 5));
    assert_eq!(of(2048, 1 << 20), (4, 264));
    assert_eq!(of(2048, 527), (1, 264));
    // A warp has four rows of 256.
    assert_eq!(of(256, 1 << 20), (32, 264));
    assert_eq!(of(256, 527), (4, 132));
}

#[test]
fn grids_are_multiples_of_clusters_and_no_larger_than_grids_can_be() {
    let shared = best(&desc(RowOp::NormGrad, MANY, 100_000, 2, true));
    assert_eq!(shared.config.grid[0] % shared.plan.cluster, 0);
    assert_eq!(shared.plan.blocks(u64::MAX), None);
    assert_eq!(shared.plan.blocks(3), Some(3 * shared.plan.cluster));
    let pairs = best(&norm(32_768, 1, true)).plan;
    assert_eq!(pairs.blocks(5), Some(3 * pairs.cluster));
    let loose = chosen(RowOp::Softmax, 33, 2, false);
    assert_eq!(loose.blocks(u64::MAX), Some(LOOSE_BLOCKS));
}

#[test]
fn more_rows_than_a_grid_has_blocks_go_to_blocks_that_loop() {
    let rows = best(&desc(RowOp::Softmax, usize::MAX, 4096, 2, true));
    assert_eq!(rows.config.grid[0], LOOSE_BLOCKS);
}

#[test]
fn entries_are_named_by_operation_dtype_and_form() {
    let entry = RowEntry::of(RowOp::SoftmaxGrad, DType::F16, Variant::Registers);
    let name = entry.map(|entry| entry.to_string());
    assert_eq!(name.as_deref(), Some("softmax_grad_f16_registers"));
}

/// The rows of a tensor may be repeated elements, so their lengths need no memory.
#[test]
fn rows_of_any_length_have_a_plan_and_no_overflow() {
    for op in RowOp::ALL {
        for n_log2 in 30..=60 {
            let n = 1 << n_log2;
            for n in [n - 1, n, n + 8] {
                let desc = desc(op, 1, n, 4, true);
                let plan = best(&desc).plan;
                assert_eq!(plan.strategy, Strategy::Passes);
                let vectors = desc.shape.slice_vectors(plan.cluster);
                let want = n.div_ceil(32).saturating_mul(8);
                assert_eq!(u64::from(vectors), want.min(u64::from(u32::MAX)));
            }
        }
    }
}

#[test]
fn weights_are_loaded_ahead_where_all_blocks_run_at_once() {
    let variant = |op: RowOp, rows, n| best(&desc(op, rows, n, 2, true)).entry.variant;
    // 16 threads a row of 512, so four rows a block.
    let most = 4 * FEW_BLOCKS as usize * 132;
    assert_eq!(variant(RowOp::Norm, 1, 512), Variant::RegistersWeights);
    assert_eq!(variant(RowOp::Norm, most, 512), Variant::RegistersWeights);
    assert_eq!(variant(RowOp::Norm, most + 1, 512), Variant::Registers);
    assert_eq!(variant(RowOp::Norm, 1, 2048), Variant::RegistersWeights);
    assert_ne!(variant(RowOp::Norm, 1, 2056), Variant::RegistersWeights);
    assert_eq!(variant(RowOp::Softmax, 1, 512), Variant::Registers);
}

#[test]
fn no_more_blocks_with_slices_run_on_a_multiprocessor_than_have_enough_in_flight() {
    let of = |op, n| {
        let Candidate {
            plan, config, desc, ..
        } = best(&desc(op, MANY, n, 2, true));
        let (used, paced) = (plan.shared_bytes(&desc.shape), config.shared_bytes);
        assert!(used <= paced && paced <= SHARED_BYTES);
        let blocks = |bytes: u32| (228 << 10) / (bytes + RESERVED_BYTES);
        (plan.strategy, blocks(used), blocks(paced))
    };
    let slices = Strategy::Slices;
    assert_eq!(of(RowOp::Softmax, 16_384), (slices, 6, 4));
    assert_eq!(of(RowOp::Softmax, 32_768), (slices, 6, 4));
    assert_eq!(of(RowOp::CrossEntropy, 4096), (slices, 24, 16));
    assert_eq!(of(RowOp::SoftmaxGrad, 6144), (slices, 8, 4));
    assert_eq!(of(RowOp::SoftmaxGrad, 8192), (slices, 6, 3));
    // Three blocks of 64 KiB are all that there is room for, and all of a cluster of 16 may run.
    assert_eq!(of(RowOp::SoftmaxGrad, 32_768), (slices, 3, 3));
    assert_eq!(of(RowOp::Softmax, 262_144), (slices, 6, 6));
    let held = Strategy::Registers(Variant::Registers);
    let (strategy, used, paced) = of(RowOp::Softmax, 4096);
    assert_eq!((strategy, used), (held, paced));
}
