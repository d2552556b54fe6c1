//! Scopes of strong accesses and fences: each has to include both threads.

use warpsmith_emulator::{FaultKind, LaunchError};

use super::foreign::{report, run, seeded};

/// The names of the scopes, from the narrowest to the widest.
const SCOPES: [&str; 3] = ["cta", "cluster", "gpu"];

/// Two threads of two warps: the writer is thread 0 of block 0. `READER` is the thread that reads,
/// as block and warp; the others exit.
const PAIR: &str = "
.visible .entry k(.param .u64 p) CLUSTER
{
    .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r0, %r1, 64, %r0;
    setp.eq.u32 %q, %r0, 0;
    @%q bra WRITER;
    setp.eq.u32 %q, %r0, READER;
    @%q bra READER;
    exit;
WRITER:
    //WRITER
    exit;
READER:
    //READER
    exit;
}";

/// Threads at each distance: of the writer's block, of another block of its cluster, and of another
/// cluster; each with the clusters of its launch.
const DISTANCES: [(&str, &str); 3] = [
    ("32", ""),
    ("64", ".explicitcluster .reqnctapercluster 2, 1, 1"),
    ("64", ""),
];

fn pair(distance: usize, writer: &str, reader: &str, seed: u64) -> Result<Vec<u32>, LaunchError> {
    let (number, cluster) = DISTANCES[distance];
    let text = PAIR
        .replace("//WRITER", writer)
        .replace("//READER", reader)
        .replace("%r0, READER", &format!("%r0, {number}"))
        .replace("CLUSTER", cluster);
    run(&text, 2, 64, 64, seeded(seed))
}

/// A launch must be clean if `includes`, and otherwise be a race with a note that names the scope
/// which is needed.
fn expect(ran: Result<Vec<u32>, LaunchError>, includes: bool, distance: usize, case: &str) {
    if includes {
        if let Err(error) = ran {
            panic!("{case}: {error}");
        }
        return;
    }
    let report = report(ran);
    assert_eq!(report.kind, FaultKind::DataRace, "{case}: {report}");
    let needed = format!(".{} includes both", SCOPES[distance]);
    let all = format!("all need .{}", SCOPES[distance]);
    let is_named = |note: &String| note.contains(&needed) || note.contains(&all);
    assert!(report.notes.iter().any(is_named), "{case}: {report}");
}

#[test]
fn two_strong_accesses_need_scopes_that_include_both() {
    let forms = [
        (
            "st.relaxed.SCOPE.global.u32 [%d0], 1;",
            "ld.relaxed.SCOPE.global.u32 %r2, [%d0];",
        ),
        (
            "red.relaxed.SCOPE.global.add.u32 [%d0], 1;",
            "atom.relaxed.SCOPE.global.add.u32 %r2, [%d0], 2;",
        ),
        (
            "atom.SCOPE.global.exch.b32 %r2, [%d0], 1;",
            "st.relaxed.SCOPE.global.u32 [%d0], 2;",
        ),
        (
            "ld.acquire.SCOPE.global.u32 %r2, [%d0];",
            "st.release.SCOPE.global.u32 [%d0], 2;",
        ),
    ];
    for (writer, reader) in forms {
        for case in 0..27 {
            let [distance, first, second] = [case % 3, case / 3 % 3, case / 9];
            let writer = writer.replace("SCOPE", SCOPES[first]);
            let reader = reader.replace("SCOPE", SCOPES[second]);
            let includes = first.min(second) >= distance;
            for seed in 0..2 {
                let ran = pair(distance, &writer, &reader, seed);
                expect(
                    ran,
                    includes,
                    distance,
                    &format!("{distance}: {writer} {reader}"),
                );
            }
        }
    }
}

#[test]
fn volatile_accesses_include_all_threads() {
    for distance in 0..3 {
        let [writer, reader] = [
            "st.volatile.global.u32 [%d0], 1;",
            "ld.volatile.global.u32 %r2, [%d0];",
        ];
        expect(pair(distance, writer, reader, 0), true, distance, writer);
    }
}

/// A flag orders a message if its four steps include both threads.
#[test]
fn a_flag_passes_on_what_all_its_scopes_include() {
    for case in 0..243 {
        let scopes = [1, 3, 9, 27].map(|place| SCOPES[case / 3 / place % 3]);
        let narrowest = [1, 3, 9, 27]
            .map(|place| case / 3 / place % 3)
            .into_iter()
            .min();
        let distance = case % 3;
        let [fence, write, read, other] = scopes;
        let writer = format!(
            "st.global.u32 [%d0], 7; fence.acq_rel.{fence}; st.relaxed.{write}.global.u32 [%d0+128], 1;"
        );
        let reader = format!(
            "ld.relaxed.{read}.global.u32 %r2, [%d0+128]; setp.eq.u32 %q, %r2, 0; @%q bra READER;
             fence.acq_rel.{other}; ld.global.u32 %r3, [%d0]; st.global.u32 [%d0+64], %r3;"
        );
        let includes = narrowest >= Some(distance);
        let ran = pair(distance, &writer, &reader, 0);
        if let Ok(out) = &ran {
            assert_eq!(out[16], 7, "{distance}: {scopes:?}");
        }
        expect(ran, includes, distance, &format!("{distance}: {scopes:?}"));
    }
}

#[test]
fn a_release_passes_on_what_its_scope_includes() {
    for case in 0..27 {
        let [distance, release, acquire] = [case % 3, case / 3 % 3, case / 9];
        let writer = format!(
            "st.global.u32 [%d0], 7; st.release.{}.global.u32 [%d0+128], 1;",
            SCOPES[release]
        );
        let reader = format!(
            "ld.acquire.{}.global.u32 %r2, [%d0+128]; setp.eq.u32 %q, %r2, 0; @%q bra READER;
             ld.global.u32 %r3, [%d0];",
            SCOPES[acquire]
        );
        let includes = release.min(acquire) >= distance;
        let ran = pair(distance, &writer, &reader, 0);
        expect(
            ran,
            includes,
            distance,
            &format!("{distance}: {writer} {reader}"),
        );
    }
}

/// From block 0 to block 1, to another warp of block 1, and back to another warp of block 0. Each
/// step needs only the scope that includes its two threads.
const CHAIN: &str = "
.visible .entry k(.param .u64 p) CLUSTER
{
    .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 31;
    setp.ne.u32 %q, %r1, 0;
    @%q exit;
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r0, %r1, 64, %r0;
    setp.eq.u32 %q, %r0, 64;
    @%q bra SECOND;
    setp.eq.u32 %q, %r0, 96;
    @%q bra THIRD;
    setp.eq.u32 %q, %r0, 32;
    @%q bra LAST;
    st.global.u32 [%d0], 7;
    fence.acq_rel.gpu;
    st.relaxed.gpu.global.u32 [%d0+128], 1;
    exit;
SECOND:
    ld.relaxed.gpu.global.u32 %r2, [%d0+128];
    setp.eq.u32 %q, %r2, 0;
    @%q bra SECOND;
    fence.acq_rel.gpu;
    fence.acq_rel.cta;
    st.relaxed.cta.global.u32 [%d0+132], 1;
    exit;
THIRD:
    ld.relaxed.cta.global.u32 %r2, [%d0+132];
    setp.eq.u32 %q, %r2, 0;
    @%q bra THIRD;
    fence.acq_rel.cta;
    ld.global.u32 %r3, [%d0];
    st.global.u32 [%d0+4], %r3;
    fence.acq_rel.gpu;
    st.relaxed.gpu.global.u32 [%d0+136], 1;
    exit;
LAST:
    ld.relaxed.gpu.global.u32 %r2, [%d0+136];
    setp.eq.u32 %q, %r2, 0;
    @%q bra LAST;
    fence.acq_rel.gpu;
    ld.global.u32 %r3, [%d0];
    ld.global.u32 %r4, [%d0+4];
    add.u32 %r3, %r3, %r4;
    st.global.u32 [%d0+8], %r3;
    exit;
}";

#[test]
fn order_goes_through_threads_with_different_scopes() {
    for (_, cluster) in &DISTANCES[1..] {
        let text = CHAIN.replace("CLUSTER", cluster);
        for seed in 0..8 {
            let out = run(&text, 2, 64, 64, seeded(seed));
            let out = out.unwrap_or_else(|error| panic!("{cluster} under seed {seed}: {error}"));
            assert_eq!(out[2], 14);
        }
        // A narrower fence in the first step leaves all of the others without the message.
        let narrow = text.replacen("fence.acq_rel.gpu", "fence.acq_rel.cta", 1);
        assert_eq!(
            report(run(&narrow, 2, 64, 64, seeded(0))).kind,
            FaultKind::DataRace
        );
    }
}
