//! Habits of kernels by other compilers, each in a small kernel of its own.

use warpsmith_emulator::{
    Emulator, EmulatorConfig, FaultKind, Fill, LaunchConfig, LaunchError, LoadError, Report,
    Swizzle, TensorMapDesc, TensorMapType,
};

pub(crate) const HEADER: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n";

/// Runs the kernel `k`, whose only parameter is a zeroed buffer of `words`; returns the buffer.
pub(crate) fn run(
    text: &str,
    blocks: u32,
    threads: u32,
    words: usize,
    config: EmulatorConfig,
) -> Result<Vec<u32>, LaunchError> {
    let emulator = Emulator::new(EmulatorConfig {
        threads: config.threads.or(Some(2)),
        ..config
    });
    let module = emulator
        .load(&format!("{HEADER}{text}"))
        .unwrap_or_else(|error| panic!("{error}"));
    let bytes = 4 * words as u64;
    let buffer = emulator.alloc(bytes).expect("memory suffices");
    emulator.fill(buffer, 0, bytes).expect("the buffer is live");
    let shape = shape(blocks, threads);
    emulator.launch(&module, "k", &shape, &[&buffer.to_le_bytes()])?;
    let mut out = vec![0; 4 * words];
    emulator.read(buffer, &mut out).expect("the buffer is live");
    let word = |word: &[u8]| u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    Ok(out.chunks_exact(4).map(word).collect())
}

fn shape(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes: 0,
        cluster: None,
    }
}

pub(crate) fn seeded(seed: u64) -> EmulatorConfig {
    EmulatorConfig {
        seed,
        ..EmulatorConfig::default()
    }
}

/// The report of a kernel that must fail.
pub(crate) fn report(result: Result<Vec<u32>, LaunchError>) -> Report {
    match result {
        Err(LaunchError::Fault(report)) => *report,
        other => panic!("a fault was expected, got {other:?}"),
    }
}

const OWN_COPIES: &str = "
.visible .entry k(.param .u64 p)
{
    .shared .align 128 .b8 tile[512];
    .reg .b32 %r<4>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    mad.lo.u32 %r1, %r0, 16, %r1;
    mad.wide.u32 %d0, %r0, 16, %d0;
    st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0};
    fence.proxy.async;
    cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    st.shared.b32 [%r1], 0;
    ret;
}";

#[test]
fn each_lane_waits_for_its_own_copies() {
    for seed in 0..4 {
        let out = run(OWN_COPIES, 1, 32, 128, seeded(seed));
        let out = out.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(out.iter().zip(0..).all(|(word, i)| *word == i / 4));
    }
}

const STORE_OF_A_WARP: &str = "
.visible .entry k(.param .u64 p)
{
    .shared .align 128 .b8 tile[128];
    .reg .b32 %r<4>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.b32 [%r2], %r0;
    fence.proxy.async;
    bar.warp.sync -1;
    cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}";

#[test]
fn a_store_that_a_whole_warp_issues_is_one() {
    let out = run(STORE_OF_A_WARP, 1, 32, 32, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
    assert!(out.iter().zip(0..).all(|(word, i)| *word == i));
    // Half a warp is not.
    let half = STORE_OF_A_WARP.replace(
        "    cp.async.bulk.global",
        "    .reg .pred %q;\n    setp.lt.u32 %q, %r0, 16;\n    @%q cp.async.bulk.global",
    );
    let found = report(run(&half, 1, 32, 32, seeded(0)));
    assert_eq!(found.kind, FaultKind::DataRace, "{found}");
}

#[test]
fn a_kernel_makes_a_tensor_map_of_zeros() {
    let text = "
.visible .entry k(.param .u64 p)
{
    .shared .align 128 .b8 map[128];
    .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %q;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, map;
    mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.b32 [%r2], 0;
    bar.warp.sync -1;
    setp.ne.u32 %q, %r0, 0;
    @%q bra COPY;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], 0x7f0000000000;
    tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r1], 1;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, 8;
    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 1, 4;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 0, 64;
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 1, 32;
    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 0, 16;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 0, 1;
    tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 1, 1;
    tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 7;
    tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r1], 0;
    tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r1], 0;
    tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r1], 0;
COPY:
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r1], 128;
    ret;
}";
    let out = run(text, 1, 32, 32, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
    let bytes: Vec<u8> = out.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = bytes.try_into().expect("128 bytes");
    let want = TensorMapDesc {
        data_type: TensorMapType::F32,
        address: 0x7f00_0000_0000,
        dims: vec![64, 32],
        strides_bytes: vec![256],
        box_dims: vec![8, 4],
        element_strides: vec![1, 1],
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    };
    assert_eq!(TensorMapDesc::decode(&bytes), Ok((want, None)));
}

#[test]
fn a_kernel_that_cannot_run_leaves_the_others_alone() {
    let bad = ".visible .entry bad(.param .u64 p)\n{\n.reg .b32 %r<2>;\nfrobnicate.u32 %r1, %r0;\nret;\n}\n";
    let good = ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d;\nld.param.u64 %d, [p];\nst.global.u32 [%d], 7;\nret;\n}\n";
    for text in [format!("{bad}{good}"), format!("{good}{bad}")] {
        let out = run(&text, 1, 1, 1, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(out, [7]);
    }
    let emulator = Emulator::new(EmulatorConfig::default());
    let unsupported = LoadError::Unsupported {
        what: "frobnicate.u32".to_owned(),
        line: 7,
    };
    let module = emulator
        .load(&format!("{HEADER}{bad}{good}"))
        .expect("one kernel can run");
    let source = Box::new(unsupported.clone());
    let kernel = "bad".to_owned();
    let want = LaunchError::Unusable { kernel, source };
    let launched = emulator.launch(&module, "bad", &shape(1, 1), &[&[0; 8]]);
    assert_eq!(launched.unwrap_err().to_string(), want.to_string());
    assert_eq!(
        module.check("bad").unwrap_err().to_string(),
        want.to_string()
    );
    assert!(module.check("k").is_ok());
    // A module in which nothing can run is refused.
    let refused = emulator.load(&format!("{HEADER}{bad}"));
    assert_eq!(refused.expect_err("nothing can run"), unsupported);
}

#[test]
fn blocks_of_a_cooperative_launch_meet_in_the_workspace() {
    let text = "
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>; .reg .b64 %d<6>; .reg .pred %q;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %nctaid.x;
    mad.wide.u32 %d1, %r0, 4, %d0;
    st.global.u32 [%d1], %r0;
    mov.u32 %r2, %envreg2;
    mov.u32 %r3, %envreg1;
    mov.b64 %d2, {%r2, %r3};
    fence.acq_rel.gpu;
    atom.global.add.u32 %r4, [%d2+4], 1;
SPIN:
    ld.acquire.gpu.global.u32 %r5, [%d2+4];
    setp.lt.u32 %q, %r5, %r1;
    @%q bra SPIN;
    add.u32 %r6, %r0, 1;
    rem.u32 %r6, %r6, %r1;
    mad.wide.u32 %d3, %r6, 4, %d0;
    ld.global.u32 %r7, [%d3];
    add.u32 %r8, %r0, %r1;
    mad.wide.u32 %d4, %r8, 4, %d0;
    st.global.u32 [%d4], %r7;
    ret;
}";
    for seed in 0..3 {
        let out = run(text, 70, 1, 140, seeded(seed)).unwrap_or_else(|error| panic!("{error}"));
        assert!((0..70).all(|i| out[70 + i] as usize == (i + 1) % 70));
    }
}

/// Warps 2 and 3 change their registers at another line than warps 0 and 1.
fn two_lines(first: u32, second: u32) -> String {
    format!(
        "
.visible .entry k(.param .u64 p) .reqntid 128
{{
    .reg .pred %q; .reg .b32 %r;
    mov.u32 %r, %tid.x;
    setp.lt.u32 %q, %r, 64;
    @%q bra LOW;
    setmaxnreg.dec.sync.aligned.u32 {first};
    ret;
LOW:
    setmaxnreg.dec.sync.aligned.u32 {second};
    ret;
}}"
    )
}

#[test]
fn warps_of_a_warpgroup_change_registers_at_several_lines() {
    run(&two_lines(24, 24), 1, 128, 1, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
    let found = report(run(&two_lines(24, 32), 1, 128, 1, seeded(0)));
    assert_eq!(found.kind, FaultKind::RegisterBudget, "{found}");
}

#[test]
fn a_barrier_that_lanes_skip_by_exiting_is_a_report() {
    let text = "
.visible .entry k(.param .u64 p)
{
    .reg .pred %q; .reg .b32 %r;
    mov.u32 %r, %tid.x;
    setp.ge.u32 %q, %r, LEFT;
    @%q exit;
    bar.sync 0;
    ret;
}";
    let left = |threads: u32| text.replace("LEFT", &threads.to_string());
    let found = report(run(&left(40), 1, 64, 1, seeded(0)));
    assert_eq!(found.kind, FaultKind::DivergentBarrier, "{found}");
    assert_eq!(found.place.warp, 1);
    // A whole warp may be missing, and lanes that have no thread are.
    for (threads, stay) in [(64, 32), (48, 48)] {
        run(&left(stay), 1, threads, 1, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_copy_that_landed_by_chance_was_not_waited_for() {
    let text = "
.visible .entry k(.param .u64 p)
{
    .shared .align 128 .b8 tile[64];
    .shared .align 8 .b64 first;
    .shared .align 8 .b64 second;
    .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %q;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, tile;
    mov.u32 %r1, first;
    mov.u32 %r2, second;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], 16, [%r1];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+16], [%d0], 16, [%r2];
SECOND:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%r2], 0;
    @!%q bra SECOND;
    //FIRST
    ret;
}";
    for seed in 0..3 {
        let found = report(run(text, 1, 1, 4, seeded(seed)));
        assert_eq!(found.kind, FaultKind::LeftInFlight, "{found}");
        assert_eq!(found.place.ptx_line, 19, "{found}");
        let both = text.replace(
            "//FIRST",
            "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%r1], 0;\n@!%q bra WAIT;",
        );
        run(&both, 1, 1, 4, seeded(seed)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_order_of_blocks_depends_on_the_seed() {
    let text = "
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<3>; .reg .b64 %d<2>;
    ld.param.u64 %d0, [p];
    atom.global.add.u32 %r0, [%d0], 1;
    mov.u32 %r1, %ctaid.x;
    mad.wide.u32 %d1, %r1, 4, %d0;
    st.global.u32 [%d1+4], %r0;
    ret;
}";
    let order = |seed| {
        let out = run(text, 40, 1, 41, seeded(seed)).unwrap_or_else(|error| panic!("{error}"));
        out[1..].to_vec()
    };
    let plain: Vec<u32> = (0..40).collect();
    assert_eq!(order(0), plain);
    assert_ne!(order(1), plain);
    assert_ne!(order(1), order(2));
    assert_eq!(order(1), order(1));
    let mut sorted = order(1);
    sorted.sort_unstable();
    assert_eq!(sorted, plain);
}

/// Blocks pass a word on through a flag; the scopes of the writer's and reader's fences and of the
/// flag.
fn flag(writer: &str, flag: &str, reader: &str) -> String {
    format!(
        "
.visible .entry k(.param .u64 p)
{{
    .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %q;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %ctaid.x;
    setp.ne.u32 %q, %r0, 0;
    @%q bra WAIT;
    st.global.u32 [%d0], 7;
    fence.acq_rel.{writer};
    st.relaxed.{flag}.global.u32 [%d0+4], 1;
    ret;
WAIT:
    ld.relaxed.gpu.global.u32 %r1, [%d0+4];
    setp.eq.u32 %q, %r1, 0;
    @%q bra WAIT;
    fence.acq_rel.{reader};
    ld.global.u32 %r2, [%d0];
    st.global.u32 [%d0+8], %r2;
    ret;
}}"
    )
}

#[test]
fn scopes_that_leave_out_the_other_block_are_reported() {
    let out = run(&flag("gpu", "gpu", "sys"), 2, 1, 3, seeded(0));
    let out = out.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(out, [7, 1, 7]);
    for (writer, word, reader) in [
        ("cta", "gpu", "gpu"),
        ("gpu", "cta", "gpu"),
        ("gpu", "gpu", "cta"),
        ("cluster", "gpu", "gpu"),
    ] {
        let found = report(run(&flag(writer, word, reader), 2, 1, 3, seeded(0)));
        assert_eq!(found.kind, FaultKind::DataRace, "{found}");
    }
    // A narrow fence after a wide one takes nothing back.
    let both = flag("gpu", "gpu", "gpu")
        .replace("    st.relaxed", "    fence.acq_rel.cta;\n    st.relaxed");
    run(&both, 2, 1, 3, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn an_atomic_of_block_scope_is_not_one_for_other_blocks() {
    let text = |scope: &str| {
        format!(
            "
.visible .entry k(.param .u64 p)
{{
    .reg .b64 %d; .reg .b32 %r;
    ld.param.u64 %d, [p];
    atom.relaxed.{scope}.global.add.u32 %r, [%d], 1;
    ret;
}}"
        )
    };
    let found = report(run(&text("cta"), 2, 32, 1, seeded(0)));
    assert_eq!(found.kind, FaultKind::DataRace, "{found}");
    assert!(
        found.notes.iter().any(|note| note.contains(".gpu")),
        "{found}"
    );
    for (scope, blocks) in [("gpu", 2), ("sys", 2), ("cta", 1)] {
        let out = run(&text(scope), blocks, 32, 1, seeded(0));
        assert_eq!(out.unwrap_or_else(|error| panic!("{error}")), [32 * blocks]);
    }
}
