//! Planted bugs in asynchronous kernels: each must give the report that is stored beside it.

use warpsmith_emulator::{FaultKind, Fill, LaunchError, Swizzle, TensorMapDesc, TensorMapType};

use super::machine::{Machine, shape};

/// The only parameter of a kernel.
enum Given {
    Nothing,
    /// A buffer of this many zero bytes.
    Zeros(usize),
    /// A buffer of this many bytes that is not initialised.
    Unwritten(u64),
    /// 128 zero bytes by value.
    NoMap,
    /// The map of a matrix with 32 words per row, in boxes of 8 rows.
    Map,
}

fn params(machine: &Machine, given: &Given) -> Vec<Vec<u8>> {
    match given {
        Given::Nothing => Vec::new(),
        Given::Zeros(bytes) => vec![machine.buffer(&vec![0; *bytes]).to_le_bytes().to_vec()],
        Given::Unwritten(bytes) => {
            let address = machine.emulator.alloc(*bytes).expect("memory suffices");
            vec![address.to_le_bytes().to_vec()]
        }
        Given::NoMap => vec![vec![0; 128]],
        Given::Map => {
            let map = TensorMapDesc {
                data_type: TensorMapType::U32,
                address: machine.buffer(&[0; 4096]),
                dims: vec![32, 32],
                strides_bytes: vec![128],
                box_dims: vec![32, 8],
                element_strides: vec![1, 1],
                swizzle: Swizzle::None,
                fill: Fill::Zeros,
            };
            vec![map.encode().expect("the map is valid").to_vec()]
        }
    }
}

/// Runs `fail/name.ptx` in one cluster and compares the report with `fail/name.report`; with
/// `BLESS=1` in the environment, the report is written there instead.
fn check(name: &str, kind: FaultKind, cluster: u32, threads: u32, given: &Given) {
    let machine = Machine::new("fail", name, 0);
    let params = params(&machine, given);
    let report = match machine.launch("k", &shape(cluster, threads, 0), &params) {
        Err(LaunchError::Fault(report)) => report,
        other => panic!("{name}: a fault was expected, got {other:?}"),
    };
    assert_eq!(report.kind, kind, "{report}");
    let root = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("tests/fail").join(name).with_extension("report");
    let text = format!("{report}\n");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).expect("the report can be written");
    }
    let want = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, want, "{name}");
}

#[test]
fn mbarriers_that_are_misused() {
    let misuse = |name| check(name, FaultKind::MbarrierMisuse, 1, 32, &Given::Nothing);
    misuse("mbarrier_without_init");
    misuse("mbarrier_after_inval");
    misuse("mbarrier_initialized_twice");
    misuse("mbarrier_with_too_many_arrivals");
    misuse("mbarrier_with_too_many_bytes");
    let zeros = Given::Zeros(128);
    let name = "mbarrier_with_arrivals_of_all_lanes";
    check(name, FaultKind::MbarrierMisuse, 1, 32, &zeros);
    misuse("mbarrier_read_as_memory");
    misuse("mbarrier_state_of_an_old_phase");
}

#[test]
fn mbarriers_that_nobody_waited_for_to_be_initialised() {
    let name = "mbarrier_used_before_a_barrier";
    check(name, FaultKind::DataRace, 1, 64, &Given::Nothing);
}

#[test]
fn phases_that_cannot_come() {
    let deadlock = |name, threads, given| check(name, FaultKind::Deadlock, 1, threads, &given);
    deadlock("wait_for_a_flipped_parity", 64, Given::Nothing);
    deadlock("expect_tx_of_too_many_bytes", 32, Given::Zeros(128));
    deadlock("polls_for_a_phase_that_cannot_come", 32, Given::Nothing);
}

/// Each report ends with the most probable reason.
#[test]
fn phases_that_cannot_come_and_why() {
    let deadlock = |name, given| check(name, FaultKind::Deadlock, 1, 64, &given);
    deadlock("mbarrier_with_too_few_arrivals", Given::Nothing);
    deadlock("mbarrier_whose_phases_run_ahead", Given::Nothing);
    deadlock("mbarrier_that_is_told_of_bytes_alone", Given::Zeros(128));
    deadlock("expect_tx_of_too_few_bytes", Given::Zeros(128));
    deadlock("barriers_in_another_order", Given::Nothing);
}

/// The note names the write that comes too late.
#[test]
fn reads_of_shared_memory_that_do_not_wait_for_the_write() {
    let early = |name, given| check(name, FaultKind::Uninitialized, 1, 64, &given);
    early("shared_read_before_another_warp_writes", Given::Nothing);
    early("shared_read_before_cp_async_is_over", Given::Zeros(256));
    early("load_without_expect_tx_is_read", Given::Zeros(128));
}

#[test]
fn addresses_of_another_space() {
    let outside = |name, given| check(name, FaultKind::OutOfBounds, 1, 32, &given);
    outside("shared_address_as_generic", Given::Nothing);
    outside("generic_address_as_global", Given::Nothing);
    outside("read_one_before_the_start", Given::Zeros(128));
}

#[test]
fn bulk_copies_that_cannot_be() {
    let zeros = |name, kind| check(name, kind, 1, 32, &Given::Zeros(128));
    zeros("bulk_copy_of_an_odd_size", FaultKind::Misaligned);
    zeros("bulk_copy_from_a_misaligned_address", FaultKind::Misaligned);
    zeros("bulk_copy_past_the_allocation", FaultKind::OutOfBounds);
    zeros("bulk_copy_over_its_mbarrier", FaultKind::MbarrierMisuse);
    let given = Given::Unwritten(128);
    let kind = FaultKind::Uninitialized;
    check("bulk_copy_of_unwritten_memory", kind, 1, 32, &given);
}

#[test]
fn copies_that_a_block_leaves_behind() {
    let left = |name| check(name, FaultKind::LeftInFlight, 1, 32, &Given::Zeros(128));
    left("load_in_flight_at_exit");
    left("load_without_expect_tx_at_exit");
    left("store_unread_at_exit");
}

#[test]
fn tensor_copies_that_cannot_be() {
    let with = |name, kind, given| check(name, kind, 1, 32, &given);
    let map = FaultKind::TensorMap;
    with("tensor_copy_without_a_map", map, Given::NoMap);
    with("tensor_copy_of_another_rank", map, Given::Map);
    let kind = FaultKind::Misaligned;
    with("tensor_copy_to_a_misaligned_tile", kind, Given::Map);
    let kind = FaultKind::OutOfBounds;
    with("tensor_copy_past_shared_memory", kind, Given::Map);
}

#[test]
fn clusters_that_are_misused() {
    let with = |name, kind| check(name, kind, 2, 32, &Given::Nothing);
    with("cluster_wait_without_arrive", FaultKind::BarrierMisuse);
    with("cluster_arrive_twice", FaultKind::BarrierMisuse);
    with("cluster_peer_exits_early", FaultKind::UseAfterFree);
    with("cluster_peer_may_exit_early", FaultKind::UseAfterFree);
    with("cluster_rank_that_is_none", FaultKind::OutOfBounds);
    with("mbarrier_of_another_block", FaultKind::MbarrierMisuse);
}

#[test]
fn registers_that_there_are_not() {
    let with = |name, threads| {
        check(name, FaultKind::RegisterBudget, 1, threads, &Given::Nothing);
    };
    with("registers_40_240", 384);
    with("registers_without_bounds", 384);
    with("registers_below_none", 384);
    with("registers_of_three_warps", 128);
}
