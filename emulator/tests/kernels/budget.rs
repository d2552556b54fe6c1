//! The instruction budget: the warps of a block may run as many instructions as it says, and not one more.

use std::time::Duration;

use warpsmith_emulator::{EmulatorConfig, FaultKind, LaunchError};

use super::common::Case;
use super::foreign::{report, run};

/// Runs a case of one warp a block with exactly the budget that its warps need, and with one less.
fn at_the_boundary(case: &Case, blocks: u64) {
    let name = case.path.display();
    let run = |budget: Option<u64>, threads: usize| {
        let mut case = case.clone();
        case.config.instruction_budget = budget;
        case.config.threads = Some(threads);
        case.run().result
    };
    let free = run(None, 1).expect("the case is right");
    let need = free.warp_instructions / blocks;
    assert_eq!(
        need * blocks,
        free.warp_instructions,
        "{name}: warps are equal"
    );
    for threads in [1, 2, 4] {
        let exact = run(Some(need), threads);
        assert_eq!(exact.as_ref(), Ok(&free), "{name}, {threads} threads");
        for less in [need - 1, need / 2, 1] {
            let report = match run(Some(less), threads) {
                Err(LaunchError::Fault(report)) => report,
                other => panic!("{name}: a budget of {less} is not enough, got {other:?}"),
            };
            assert_eq!(report.kind, FaultKind::InstructionBudget, "{report}");
            let ran = format!("the warps of a block ran {less} instructions");
            assert!(report.message.starts_with(&ran), "{report}");
            assert_eq!(report.place.block, [0, 0, 0], "{report}");
        }
    }
}

#[test]
fn straight_code_and_jumps() {
    let case = Case::new("pass", "carry_flag", 1, 1).zeros(4);
    at_the_boundary(&case, 1);
    let case = Case::new("pass", "jump_table", 1, 32).zeros(32);
    at_the_boundary(&case, 1);
}

#[test]
fn divergent_lanes_share_the_budget_of_their_warp() {
    let case = Case::new("pass", "nested_divergence", 1, 32).zeros(32);
    at_the_boundary(&case, 1);
}

#[test]
fn a_wait_at_a_barrier_counts_once() {
    let mut case = Case::new("pass", "odd_block_sum", 2, 32).zeros(2);
    case.shape.shared_bytes = 128;
    at_the_boundary(&case, 2);
}

#[test]
fn the_warps_of_a_block_share_its_budget() {
    let with = |budget| {
        let mut case = Case::new("pass", "nested_divergence", 1, 96).zeros(96);
        case.config.instruction_budget = budget;
        case.run().result
    };
    let free = with(None).expect("the case is right");
    let all = free.warp_instructions;
    assert_eq!(with(Some(all)).as_ref(), Ok(&free));
    let less = with(Some(all - 1)).expect_err("one less than all need");
    let LaunchError::Fault(report) = less else {
        panic!("another error: {less}");
    };
    assert_eq!(report.kind, FaultKind::InstructionBudget, "{report}");
    assert!(!report.notes.is_empty(), "where the warps are: {report}");
}

const POLL: &str = "
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p<3>;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r2, 0;
    setp.eq.u32 %p1, %r0, 0;
POLL:
    ld.volatile.global.u32 %r1, [%d0];
    BODY
    setp.eq.u32 %p0, %r1, 0;
    @%p0 bra POLL;
    ret;
}";

/// Blocks that poll for what no one writes are a deadlock long before the budget is spent.
#[test]
fn a_polling_deadlock_of_all_multiprocessors_is_found_soon() {
    let config = EmulatorConfig {
        instruction_budget: Some(20_000),
        ..EmulatorConfig::default()
    };
    let fault = report(run(&POLL.replace("BODY", ""), 132, 256, 1, config));
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
}

/// A poll that counts is not the same each time: block 0 loses its patience and lets all go on.
#[test]
fn blocks_that_count_their_polls_are_no_deadlock() {
    let body = "add.u32 %r2, %r2, 1; setp.gt.and.u32 %p2, %r2, 3000, %p1;
        @%p2 st.volatile.global.u32 [%d0], 1;";
    let ran = run(
        &POLL.replace("BODY", body),
        4,
        32,
        1,
        EmulatorConfig::default(),
    );
    assert_eq!(ran.expect("it ends"), [1]);
}

/// Neither an endless loop nor a grid of any size takes longer than the configuration allows.
#[test]
fn a_launch_ends_when_its_time_is_over() {
    let endless = ".visible .entry k(.param .u64 p) { AGAIN: bra AGAIN; }";
    let empty = ".visible .entry k(.param .u64 p) { ret; }";
    for (kernel, blocks) in [(endless, 1), (empty, i32::MAX as u32)] {
        let config = EmulatorConfig {
            timeout: Some(Duration::from_millis(50)),
            ..EmulatorConfig::default()
        };
        let fault = report(run(kernel, blocks, 32, 1, config));
        assert_eq!(fault.kind, FaultKind::TimeLimit, "{fault}");
        assert!(!fault.notes.is_empty(), "where the warps are: {fault}");
    }
}
