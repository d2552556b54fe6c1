//! Kernels with a planted bug. The report is compared with `fail/<name>.report`; with `BLESS=1` in
//! the environment, it is written there instead.

use std::path::Path;

use warpsmith_emulator::{EmulatorConfig, FaultKind, LaunchError, LaunchStats};

use super::common::Case;

/// Runs a case that must fail, and compares its report.
pub(crate) fn check(case: &Case, kind: FaultKind) {
    compare(&case.path, case.run().result, kind);
}

/// Compares the report of a kernel that must have failed.
pub(crate) fn compare(path: &Path, result: Result<LaunchStats, LaunchError>, kind: FaultKind) {
    let name = path.display();
    let report = match result {
        Err(LaunchError::Fault(report)) => report,
        other => panic!("{name}: a fault was expected, got {other:?}"),
    };
    assert_eq!(report.kind, kind, "{report}");
    let path = path.with_extension("report");
    let text = format!("{report}\n");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).expect("the report can be written");
    }
    let want = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, want, "{name}");
}

fn one_warp(name: &str) -> Case {
    Case::new("fail", name, 1, 32).zeros(32)
}

#[test]
fn read_one_past_the_end() {
    check(
        &Case::new("fail", "read_one_past_the_end", 2, 33).zeros(65),
        FaultKind::OutOfBounds,
    );
}

#[test]
fn write_through_null() {
    check(&one_warp("write_through_null"), FaultKind::OutOfBounds);
}

#[test]
fn write_in_an_inlined_function() {
    check(
        &one_warp("write_in_an_inlined_function"),
        FaultKind::OutOfBounds,
    );
}

#[test]
fn misaligned_vector_load() {
    check(&one_warp("misaligned_vector_load"), FaultKind::Misaligned);
}

#[test]
fn uninitialized_global_read() {
    let case = Case::new("fail", "uninitialized_global_read", 1, 32).uninitialized(32);
    check(&case, FaultKind::Uninitialized);
}

#[test]
fn uninitialized_shared_read() {
    check(
        &one_warp("uninitialized_shared_read"),
        FaultKind::Uninitialized,
    );
}

#[test]
fn uninitialized_local_read() {
    check(
        &one_warp("uninitialized_local_read"),
        FaultKind::Uninitialized,
    );
}

#[test]
fn unwritten_registers() {
    for name in [
        "unwritten_accumulator",
        "unwritten_argument",
        "unwritten_guard",
        "unwritten_address_in_a_function",
        "unwritten_by_selp",
    ] {
        check(&one_warp(name), FaultKind::UnwrittenRegister);
    }
}

#[test]
fn unwritten_registers_that_are_stored_and_loaded() {
    for name in [
        "unwritten_register_is_stored",
        "unwritten_element_is_read",
        "unwritten_over_what_was_there",
        "unwritten_in_local_memory",
        "unwritten_in_memory_of_alloca",
        "unwritten_by_the_lane_that_wins",
    ] {
        check(&one_warp(name), FaultKind::Uninitialized);
    }
    let mut case = Case::new("fail", "unwritten_by_a_peer", 2, 32).zeros(1);
    case.shape.cluster = Some([2, 1, 1]);
    check(&case, FaultKind::Uninitialized);
}

#[test]
fn shared_out_of_bounds() {
    check(&one_warp("shared_out_of_bounds"), FaultKind::OutOfBounds);
}

#[test]
fn write_to_constant() {
    check(&one_warp("write_to_constant"), FaultKind::ReadOnly);
}

#[test]
fn divergent_aligned_barrier() {
    check(
        &one_warp("divergent_aligned_barrier"),
        FaultKind::DivergentBarrier,
    );
}

#[test]
fn barrier_that_a_warp_misses() {
    let case = Case::new("fail", "barrier_that_a_warp_misses", 1, 96).zeros(96);
    check(&case, FaultKind::Deadlock);
}

#[test]
fn barrier_with_two_counts() {
    let case = Case::new("fail", "barrier_with_two_counts", 1, 96).zeros(96);
    check(&case, FaultKind::BarrierMisuse);
}

#[test]
fn shuffle_that_a_lane_misses() {
    check(&one_warp("shuffle_that_a_lane_misses"), FaultKind::Deadlock);
}

#[test]
fn lane_outside_its_member_mask() {
    check(
        &one_warp("lane_outside_its_member_mask"),
        FaultKind::BarrierMisuse,
    );
}

#[test]
fn trap() {
    check(&one_warp("trap"), FaultKind::Trap);
}

#[test]
fn assertion_that_fails() {
    check(&one_warp("assertion_that_fails"), FaultKind::Trap);
}

#[test]
fn index_out_of_bounds() {
    check(&one_warp("index_out_of_bounds"), FaultKind::Trap);
}

#[test]
fn call_of_no_function() {
    check(&one_warp("call_of_no_function"), FaultKind::BadTarget);
}

#[test]
fn branch_index_past_the_table() {
    check(
        &one_warp("branch_index_past_the_table"),
        FaultKind::BadTarget,
    );
}

#[test]
fn endless_recursion() {
    check(&one_warp("endless_recursion"), FaultKind::StackOverflow);
}

#[test]
fn endless_loop() {
    let mut case = one_warp("endless_loop");
    case.config = EmulatorConfig {
        instruction_budget: Some(100_000),
        ..case.config
    };
    check(&case, FaultKind::InstructionBudget);
}

#[test]
fn unknown_conversion_in_printf() {
    check(
        &one_warp("unknown_conversion_in_printf"),
        FaultKind::BadFormat,
    );
}

#[test]
fn the_first_block_that_fails_is_the_one_reported() {
    for threads in [1, 2, 4] {
        let mut case = Case::new("fail", "read_one_past_the_end", 2, 33).zeros(65);
        case.config.threads = Some(threads);
        check(&case, FaultKind::OutOfBounds);
    }
}
