//! Which plans are chosen, and that their rows fit.

extern crate std;

use std::string::ToString;

use super::*;
use crate::DType;

const HOPPER: RowDevice = RowDevice {
    arch: (9, 0),
    shared_bytes: 226 << 10,
};

fn plan(op: RowOp, n: u64, element_bytes: u32, is_aligned: bool) -> RowPlan {
    let shape = RowShape {
        n,
        element_bytes,
        is_aligned,
        inputs: if matches!(
            op,
            RowOp::SoftmaxGrad | RowOp::NormGrad | RowOp::NormGradF32
        ) {
            2
        } else {
            1
        },
        has_bias: false,
    };
    RowPlan::choose(&op.kernels(), &shape, &HOPPER)
}

#[test]
fn rows_go_from_lanes_to_blocks_to_clusters_to_passes() {
    let of = |op, n| {
        let plan = plan(op, n, 2, true);
        (plan.strategy, plan.threads, plan.cluster)
    };
    assert_eq!(of(RowOp::Softmax, 8), (Strategy::Registers, 4, 1));
    assert_eq!(of(RowOp::Softmax, 256), (Strategy::Registers, 8, 1));
    assert_eq!(of(RowOp::Softmax, 2048), (Strategy::Registers, 64, 1));
    assert_eq!(of(RowOp::Softmax, 8192), (Strategy::Registers, 256, 1));
    assert_eq!(of(RowOp::Softmax, 8200), (Strategy::Slices, 128, 1));
    assert_eq!(of(RowOp::Softmax, 16_384), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::Softmax, 26_624), (Strategy::Slices, 256, 1));
    assert_eq!(of(RowOp::Softmax, 26_632), (Strategy::Slices, 128, 2));
    assert_eq!(of(RowOp::Softmax, 32_768), (Strategy::Slices, 256, 2));
    assert_eq!(of(RowOp::Softmax, 50_264), (Strategy::Slices, 256, 2));
    assert_eq!(of(RowOp::Softmax, 131_072), (Strategy::Slices, 256, 8));
    assert_eq!(of(RowOp::Softmax, 196_608), (Strategy::Slices, 256, 8));
    assert_eq!(of(RowOp::Softmax, 262_144), (Strategy::Slices, 128, 16));
    assert_eq!(of(RowOp::Softmax, 262_152), (Strategy::Slices, 256, 16));
    assert_eq!(of(RowOp::CrossEntropy, 2048), (Strategy::Registers, 64, 1));
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
    assert_eq!(of(RowOp::SoftmaxGrad, 8), (Strategy::Registers, 4, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 4096), (Strategy::Registers, 512, 1));
    assert_eq!(of(RowOp::SoftmaxGrad, 8192), (Strategy::Slices, 256, 1));
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
    assert_eq!(of(RowOp::NormGradF32, 256), (Strategy::Registers, 32, 1));
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
            has_bias,
        };
        let plan = RowPlan::choose(&RowOp::Norm.kernels(), &shape, &HOPPER);
        (plan.strategy, plan.threads, plan.cluster)
    };
    let ahead = Strategy::Ahead(AHEAD);
    assert_eq!(of(256, 1, false), (Strategy::Registers, 8, 1));
    assert_eq!(of(1024, 1, true), (Strategy::Registers, 32, 1));
    assert_eq!(of(2056, 1, false), (ahead, 64, 1));
    assert_eq!(of(4104, 1, false), (ahead, 96, 1));
    assert_eq!(of(7160, 1, false), (ahead, 128, 1));
    assert_eq!(of(8192, 1, false), (ahead, 128, 1));
    assert_eq!(of(16_384, 1, false), (ahead, 256, 1));
    assert_eq!(of(16_392, 1, false), (ahead, 160, 2));
    assert_eq!(of(262_144, 1, false), (ahead, 256, 16));
    assert_eq!(of(262_152, 1, false), (Strategy::Slices, 256, 16));
    let pairs = Strategy::Ahead(PAIRS);
    assert_eq!(of(2048, 1, true), (pairs, 64, 1));
    assert_eq!(of(2048, 2, true), (Strategy::Registers, 64, 1));
    assert_eq!(of(4104, 1, true), (pairs, 160, 1));
    assert_eq!(of(16_384, 1, true), (pairs, 256, 2));
    assert_eq!(of(131_072, 1, true), (pairs, 256, 16));
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
                let held = threads * u64::from(kernels.vectors * VECTOR_BYTES);
                assert!(plan.cluster <= MAX_CLUSTER, "{op:?} {n}");
                match plan.strategy {
                    Strategy::Registers => {
                        assert!(held >= bytes && plan.threads <= HELD_THREADS, "{op:?} {n}");
                    }
                    Strategy::Slices => {
                        let shape = RowShape {
                            n,
                            element_bytes,
                            is_aligned: true,
                            inputs: 1,
                            has_bias: false,
                        };
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
        has_bias: true,
    };
    let pairs = RowPlan::choose(&RowOp::Norm.kernels(), &shape, &HOPPER);
    assert_eq!(pairs.blocks(5), Some(3 * pairs.cluster));
    let loose = plan(RowOp::Norm, 33, 2, false);
    assert_eq!(loose.blocks(u64::MAX), Some(LOOSE_BLOCKS));
}

#[test]
fn entries_are_named_by_operation_dtype_and_form() {
    let entry = RowEntry {
        op: RowOp::SoftmaxGrad,
        dtype: DType::F16,
        form: Form::Held,
    };
    assert_eq!(entry.to_string(), "softmax_grad_f16_held");
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
                let shape = RowShape {
                    n,
                    element_bytes: 4,
                    is_aligned: false,
                    inputs: 1,
                    has_bias: false,
                };
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
    let form = |op: RowOp, rows, n| {
        let shape = RowShape {
            n,
            element_bytes: 2,
            is_aligned: true,
            inputs: 1,
            has_bias: false,
        };
        RowPlan::choose(&op.kernels_of(DType::Bf16), &shape, &device).form_of(op, rows)
    };
    // 16 threads a row of 512, so four rows a block.
    let most = 4 * u64::from(FEW_BLOCKS) * 132;
    assert_eq!(form(RowOp::Norm, 1, 512), Form::Few);
    assert_eq!(form(RowOp::Norm, most, 512), Form::Few);
    assert_eq!(form(RowOp::Norm, most + 1, 512), Form::Held);
    assert_eq!(form(RowOp::Norm, 1, 2048), Form::Few);
    assert_ne!(form(RowOp::Norm, 1, 2056), Form::Few);
    assert_eq!(form(RowOp::Softmax, 1, 512), Form::Held);
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
