//! Planted bugs around the tensor cores.

use warpsmith_emulator::FaultKind;

use super::common::Case;
use super::fail::check;

fn warpgroup(name: &str) -> Case {
    Case::new("fail", name, 1, 128).zeros(512)
}

#[test]
fn accumulators_in_flight_are_not_to_be_touched() {
    for name in [
        "wgmma_accumulator_read_in_flight",
        "wgmma_without_wait_group",
        "wgmma_without_commit_group",
        "wgmma_of_two_shapes_in_flight",
        "wgmma_a_overwritten_in_flight",
    ] {
        check(&warpgroup(name), FaultKind::AsyncInFlight);
    }
}

#[test]
fn registers_are_fenced_before_a_wgmma() {
    for name in ["wgmma_without_fence", "wgmma_fence_before_the_zeroing"] {
        check(&warpgroup(name), FaultKind::MissingFence);
    }
}

#[test]
fn descriptors_lead_to_what_was_written() {
    for (name, kind) in [
        ("wgmma_misaligned_descriptor", FaultKind::Misaligned),
        ("wgmma_wrong_swizzle_span", FaultKind::Uninitialized),
        ("wgmma_stride_out_of_bounds", FaultKind::OutOfBounds),
    ] {
        check(&warpgroup(name), kind);
    }
}

/// CUTLASS's matrices begin at any multiple of 128 bytes.
#[test]
fn a_matrix_may_begin_inside_of_the_pattern_by_addresses() {
    let ran = Case::new("pass", "wgmma_pattern_by_addresses", 1, 128)
        .zeros(512)
        .run();
    assert!(ran.result.is_ok(), "{:?}", ran.result);
    assert_eq!(ran.buffers[0], [16_f32.to_bits(); 512]);
}

#[test]
fn all_warps_of_a_warpgroup_come_to_a_wgmma() {
    check(&warpgroup("wgmma_that_lanes_miss"), FaultKind::Deadlock);
    check(
        &warpgroup("wgmma_that_a_warp_misses"),
        FaultKind::DivergentBarrier,
    );
    check(
        &warpgroup("wgmma_different_descriptors"),
        FaultKind::DivergentBarrier,
    );
    let three = Case::new("fail", "wgmma_of_three_warps", 1, 96).zeros(512);
    check(&three, FaultKind::BarrierMisuse);
}

#[test]
fn results_are_waited_for_before_the_exit() {
    check(&warpgroup("wgmma_left_in_flight"), FaultKind::LeftInFlight);
}

#[test]
fn instructions_of_a_warp_take_all_its_lanes() {
    let case = Case::new("fail", "mma_after_lanes_exited", 1, 32).zeros(32);
    check(&case, FaultKind::BarrierMisuse);
}

#[test]
fn fragments_are_of_a_matrix_that_is_there() {
    for (name, kind) in [
        ("wmma_misaligned_matrix", FaultKind::Misaligned),
        ("wmma_misaligned_stride", FaultKind::Misaligned),
        ("wmma_stride_below_a_row", FaultKind::Misaligned),
        ("wmma_addresses_of_each_lane", FaultKind::BarrierMisuse),
        ("wmma_past_the_allocation", FaultKind::OutOfBounds),
        ("wmma_store_to_local_memory", FaultKind::OutOfBounds),
        ("wmma_of_unwritten_memory", FaultKind::Uninitialized),
    ] {
        check(&Case::new("fail", name, 1, 32).zeros(256), kind);
    }
}

#[test]
fn rows_of_a_matrix_begin_at_multiples_of_16_bytes() {
    let case = Case::new("fail", "ldmatrix_misaligned_row", 1, 32).zeros(32);
    check(&case, FaultKind::Misaligned);
}
