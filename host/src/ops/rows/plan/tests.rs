//! Which plans are chosen, and that their rows fit.

use super::limits::RowCosts;
use super::rule::{RESERVED_BYTES, Rule};
use super::{Candidate, RowDesc};
use crate::DeviceInfo;
use crate::ops::plan::{self, MachineModel};
use abi::DType;
use abi::rows::*;

const HOPPER: RowDevice = RowDevice {
    arch: (9, 0),
    shared_bytes: 226 << 10,
};

#[test]
fn rows_go_from_lanes_to_blocks_to_clusters_to_passes() {
    let of = |op, n| {
        let plan = plan(op, n, 2, true);
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
    let f32_classes = plan(RowOp::CrossEntropy, 128_256, 4, true);
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
    assert!(!RowOp::NormGrad.kernels_of(DType::F16).short);
    assert_eq!(of(RowOp::NormGradF32, 256), (held, 32, 1));
    assert_eq!(of(RowOp::NormGrad, 2048), (ring(2, 4, 3), 64, 1));
    assert_eq!(of(RowOp::NormGrad, 4096), (ring(2, 2, 3), 128, 1));
    assert_eq!(of(RowOp::NormGrad, 8192), (ring(2, 1, 3), 256, 1));
    assert_eq!(of(RowOp::NormGrad, 32_768), (ring(4, 1, 3), 128, 8));
    assert_eq!(of(RowOp::NormGrad, 65_536), (ring(2, 1, 3), 256, 8));
    assert_eq!(of(RowOp::NormGrad, 131_072), (ring(2, 1, 3), 256, 16));
    assert_eq!(of(RowOp::NormGrad, 262_144), (ring(1, 1, 3), 512, 16));
    assert_eq!(of(RowOp::NormGrad, 300_000), (Strategy::Passes, 1024, 1));
    let unaligned = plan(RowOp::Softmax, 1001, 2, false);
    assert_eq!(unaligned.strategy, Strategy::Shared);
}

#[test]
fn weights_of_norms_come_ahead_unless_rows_come_with_a_residual() {
    let of = |n, inputs, has_bias| {
        let shape = RowShape {
            n,
            element_bytes: 2,
            is_aligned: true,
            inputs,
            is_centered: has_bias,
            has_bias,
        };
        let plan = RowPlan::choose(&RowOp::Norm.kernels(), &shape, &HOPPER);
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
    assert!(RowOp::Norm.kernels_of(DType::F16).wide.is_none());
}

#[test]
fn blocks_have_room_for_every_row_that_is_theirs() {
    for op in RowOp::ALL {
        for element_bytes in [2, 4] {
            for n in (0..600_000).step_by(1000).map(|n| n / 8 * 8) {
                let plan = plan(op, n, element_bytes, true);
                let kernels = op.kernels();
                let bytes = n * u64::from(element_bytes);
                let threads = u64::from(plan.threads * plan.cluster);
                assert!(plan.cluster <= MAX_CLUSTER, "{op:?} {n}");
                match plan.strategy {
                    Strategy::Registers(variant) => {
                        let of_variant = |held: &&Holding| held.variant == variant;
                        let held = kernels.held.iter().flatten().find(of_variant);
                        let held = held.expect("a kernel of the variant");
                        let room = threads * u64::from(held.vectors * VECTOR_BYTES);
                        assert!(room >= bytes, "{op:?} {n}");
                        assert!(plan.threads <= held.threads, "{op:?} {n}");
                        assert!(plan.block_threads() <= held.bound, "{op:?} {n}");
                    }
                    Strategy::Slices => {
                        let shape = shape(op, n, element_bytes, true);
                        let slice = shape.slice_vectors(plan.cluster);
                        let slices = u64::from(slice * plan.cluster * VECTOR_BYTES);
                        assert!(
                            slices >= bytes && plan.threads <= SLICE_THREADS,
                            "{op:?} {n}"
                        );
                        assert!(plan.shared_bytes(&shape) <= HOPPER.shared_bytes);
                    }
                    Strategy::Ahead(ahead) => {
                        let held = threads * u64::from(ahead.vectors * VECTOR_BYTES);
                        assert!(held >= bytes && plan.threads <= AHEAD_THREADS, "{op:?} {n}");
                    }
                    Strategy::Ring(Stages {
                        vectors, stages, ..
                    }) => {
                        let held = threads * u64::from(vectors * VECTOR_BYTES);
                        assert!(
                            held >= bytes && plan.threads <= 32 * RING_WARPS,
                            "{op:?} {n}"
                        );
                        assert!((2..=RING_STAGES).contains(&stages), "{op:?} {n}");
                        let shape = RowShape {
                            n,
                            element_bytes,
                            is_aligned: true,
                            inputs: if vectors == WIDE_VECTORS as u32 { 1 } else { 2 },
                            is_centered: false,
                            has_bias: false,
                        };
                        assert!(plan.shared_bytes(&shape) <= HOPPER.shared_bytes);
                    }
                    Strategy::Short(ring) => {
                        let held = threads * u64::from(ring.vectors * VECTOR_BYTES);
                        assert!(held >= bytes && ring.rows * plan.threads == SHORT_THREADS);
                    }
                    Strategy::Shared | Strategy::Passes => {}
                }
            }
        }
    }
}

#[test]
fn blocks_have_several_short_rows_where_there_are_enough_for_all_multiprocessors() {
    let of = |n, rows| {
        let plan = plan(RowOp::NormGrad, n, 2, true).for_rows(rows);
        (plan.rows_per_block(), plan.persistent_blocks(rows))
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
    let shared = plan(RowOp::NormGrad, 100_000, 2, true);
    assert_eq!(shared.persistent_blocks(1 << 20) % shared.cluster, 0);
    assert_eq!(shared.blocks(u64::MAX), None);
    assert_eq!(shared.blocks(3), Some(3 * shared.cluster));
    let shape = RowShape {
        n: 32_768,
        element_bytes: 2,
        is_aligned: true,
        inputs: 1,
        is_centered: true,
        has_bias: true,
    };
    let pairs = RowPlan::choose(&RowOp::Norm.kernels(), &shape, &HOPPER);
    assert_eq!(pairs.blocks(5), Some(3 * pairs.cluster));
    let loose = plan(RowOp::Norm, 33, 2, false);
    assert_eq!(loose.blocks(u64::MAX), Some(LOOSE_BLOCKS));
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
                let plan = plan(op, n, 4, n.is_multiple_of(4));
                assert_eq!(plan.strategy, Strategy::Passes);
                let shape = shape(op, n, 4, false);
                let vectors = shape.slice_vectors(plan.cluster);
                let want = n.div_ceil(32).saturating_mul(8);
                assert_eq!(u64::from(vectors), want.min(u64::from(u32::MAX)));
            }
        }
    }
}

#[test]
fn weights_are_loaded_ahead_where_all_blocks_run_at_once() {
    let device = RowDevice {
        arch: (9, 0),
        shared_bytes: 227 << 10,
    };
    let variant = |op: RowOp, rows, n| {
        let shape = shape(op, n, 2, true);
        RowPlan::choose(&op.kernels_of(DType::Bf16), &shape, &device).variant_of(
            op,
            DType::Bf16,
            rows,
        )
    };
    // 16 threads a row of 512, so four rows a block.
    let most = 4 * u64::from(FEW_BLOCKS) * 132;
    assert_eq!(variant(RowOp::Norm, 1, 512), Variant::RegistersWeights);
    assert_eq!(variant(RowOp::Norm, most, 512), Variant::RegistersWeights);
    assert_eq!(variant(RowOp::Norm, most + 1, 512), Variant::Registers);
    assert_eq!(variant(RowOp::Norm, 1, 2048), Variant::RegistersWeights);
    assert_ne!(variant(RowOp::Norm, 1, 2056), Variant::RegistersWeights);
    assert_eq!(variant(RowOp::Softmax, 1, 512), Variant::Registers);
}

#[test]
fn sums_over_rows_have_several_blocks_where_there_are_many_rows() {
    assert_eq!(total_blocks(0), 1);
    assert_eq!(total_blocks(16_384), 1);
    assert_eq!(total_blocks(16_385), 5);
    assert_eq!(total_blocks(1 << 24), 4096);
    assert_eq!(total_blocks(u64::MAX), 4096);
    // What they leave is for one block.
    assert_eq!(total_blocks(u64::from(total_blocks(u64::MAX))), 1);
}

#[test]
fn no_more_blocks_with_slices_run_on_a_multiprocessor_than_have_enough_in_flight() {
    let of = |op, n| {
        let plan = plan(op, n, 2, true);
        let shape = shape(op, n, 2, true);
        let paced = plan.paced_bytes(&op.kernels(), &shape, &HOPPER);
        let used = plan.shared_bytes(&shape);
        assert!(used <= paced && paced <= HOPPER.shared_bytes);
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
