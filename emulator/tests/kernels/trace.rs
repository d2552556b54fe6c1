//! Timelines whose steps can be worked out by hand.

use warpsmith_emulator::profile::Waited;
use warpsmith_emulator::trace::{Activity, CopyKind, Span, Timeline, Trace, Track};
use warpsmith_emulator::{Checks, Emulator, EmulatorConfig, LaunchConfig, LaunchError};

/// Runs `body` in `blocks` blocks of two warps, after 6 instructions. `%x` is a buffer of 4 KiB, `%t`
/// the thread, and `%w` holds in warp 1. `tile` is 1 KiB of shared memory, and `bar` an mbarrier.
fn timeline(
    blocks: u32,
    checks: Checks,
    recorded: u64,
    body: &str,
) -> (Timeline, Result<(), LaunchError>) {
    let text = format!(
        ".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{{
.shared .align 16 .b8 tile[1024];
.shared .align 8 .b64 bar;
.reg .u64 %x; .reg .u32 %t, %s, %b, %r; .reg .pred %w, %p;
ld.param.u64 %x, [x];
mov.u32 %t, %tid.x;
mov.u32 %s, tile;
mov.u32 %b, bar;
setp.ge.u32 %w, %t, 32;
setp.eq.u32 %p, %t, 0;
{body}
ret;
}}"
    );
    let trace = Trace::of_blocks(recorded);
    let emulator = Emulator::new(EmulatorConfig {
        threads: Some(2),
        checks,
        trace: Some(trace.clone()),
        ..EmulatorConfig::default()
    });
    let module = emulator.load(&text).expect("the module loads");
    let x = emulator.alloc(4 << 10).expect("memory suffices");
    emulator.fill(x, 0, 4 << 10).expect("it is live");
    let shape = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [64, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let ran = emulator.launch(&module, "k", &shape, &[&x.to_le_bytes()]);
    let mut timelines = trace.take();
    assert_eq!(timelines.len(), 1);
    assert!(trace.take().is_empty());
    (timelines.remove(0), ran.map(drop))
}

/// Warp 1 runs three instructions more before the barrier. Each case has both settings of the race
/// check: the clocks do not depend on it.
const BARRIER: &str = "@!%w bra MEET;
add.u32 %r, %t, 1;
add.u32 %r, %r, 1;
add.u32 %r, %r, 1;
MEET:
bar.sync 0;
add.u32 %r, %t, 1;";

fn of(timeline: &Timeline, track: Track) -> Vec<Span> {
    let spans = timeline.spans.iter();
    spans.filter(|span| span.track == track).copied().collect()
}

fn steps(spans: &[Span]) -> Vec<(Activity, u64, u64)> {
    let each = spans.iter();
    each.map(|span| (span.activity, span.start, span.end))
        .collect()
}

#[test]
fn a_warp_waits_at_a_barrier_until_the_last_one_arrives() {
    let wait = Activity::Wait(Waited::Barrier);
    for checks in [Checks::ALL, Checks::NONE] {
        let (timeline, ran) = timeline(1, checks, 1, BARRIER);
        ran.expect("it runs");
        let first = of(&timeline, Track::Warp(0));
        // 6, the branch and the barrier itself; then `add` and `ret`.
        let want = [
            (Activity::Run, 0, 8),
            (wait, 8, 11),
            (Activity::Run, 11, 13),
        ];
        assert_eq!(steps(&first), want);
        let second = of(&timeline, Track::Warp(1));
        let want = [
            (Activity::Run, 0, 11),
            (wait, 11, 11),
            (Activity::Run, 11, 13),
        ];
        assert_eq!(steps(&second), want);
        let lines = |span: &Span| {
            let (from, to) = span.lines;
            (timeline.lines[from].ptx_line, timeline.lines[to].ptx_line)
        };
        assert_eq!(lines(&first[0]), (9, 20));
        assert_eq!(lines(&first[1]), (20, 20));
        assert_eq!(lines(&first[2]).0, 21);
        assert_eq!(timeline.lines[first[1].lines.0].ptx_text, "bar.sync 0;");
    }
}

#[test]
fn the_first_blocks_are_recorded_with_a_span_for_each_warp() {
    let (timeline, ran) = timeline(5, Checks::ALL, 3, BARRIER);
    ran.expect("it runs");
    assert_eq!(
        (timeline.blocks, timeline.recorded, timeline.warps),
        (5, 3, 2)
    );
    for block in 0..3 {
        for warp in 0..2 {
            let spans = timeline.spans.iter();
            let own =
                spans.filter(|span| span.block == [block, 0, 0] && span.track == Track::Warp(warp));
            assert_eq!(own.count(), 3, "block {block}, warp {warp}");
        }
    }
    assert!(timeline.spans.iter().all(|span| span.block[0] < 3));
}

#[test]
fn a_copy_lands_when_all_wait_and_ends_the_phase_of_its_mbarrier() {
    let body = "@%p mbarrier.init.shared.b64 [%b], 1;
bar.sync 0;
@!%p bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [%b], 512;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%x], 512, [%b];
add.u32 %r, %t, 1;
WAIT:
mbarrier.try_wait.parity.shared.b64 %w, [%b], 0;
@!%w bra WAIT;";
    for checks in [Checks::ALL, Checks::NONE] {
        let (timeline, ran) = timeline(1, checks, 1, body);
        ran.expect("it runs");
        let copy = Activity::Copy {
            kind: CopyKind::Load,
            bytes: 512,
        };
        // Warp 0: 6, init, barrier, branch, arrive: the copy is instruction 11. It and `add` run for
        // lane 0 alone, then both parts wait.
        let copies = of(&timeline, Track::Copies);
        assert_eq!(steps(&copies), [(copy, 10, 12)]);
        let phases = of(&timeline, Track::Mbarrier(0x800));
        assert_eq!(steps(&phases), [(Activity::Phase(0), 0, 12)]);
        let second = of(&timeline, Track::Warp(1));
        let wait = (Activity::Wait(Waited::Mbarrier), 9, 12);
        assert!(steps(&second).contains(&wait), "{second:?}");
    }
}

#[test]
fn a_launch_that_fails_has_a_timeline() {
    let body = "bar.sync 0;
add.u64 %x, %x, 8192;
ld.global.u32 %r, [%x];";
    let (timeline, ran) = timeline(1, Checks::ALL, 1, body);
    assert!(matches!(ran, Err(LaunchError::Fault(_))), "{ran:?}");
    let first = of(&timeline, Track::Warp(0));
    assert_eq!(first.len(), 3);
    assert_eq!((first[2].start, first[2].end), (7, 9));
}
