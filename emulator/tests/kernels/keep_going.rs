//! Launches that go on after findings, and findings that are left out.

use warpsmith_emulator::{EmulatorConfig, FaultKind, Ignored, LaunchError, Report};

use super::foreign::{HEADER, report, run};

/// Each thread writes its word of a tile and reads the word of its mirror image without a barrier.
/// It stores a word that nothing wrote and uses a register that nothing wrote. It also writes a
/// word that both blocks write.
const FAULTY: &str = "
.visible .entry k(.param .u64 out) {
    .reg .b32 %r<16>;
    .reg .b64 %rd<6>;
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 64, %r1;
    mad.wide.u32 %rd2, %r3, 4, %rd1;
    mad.wide.u32 %rd3, %r1, 4, %rd1;
    mov.u32 %r4, tile;
    shl.b32 %r5, %r1, 2;
    add.u32 %r6, %r4, %r5;
    sub.u32 %r7, 63, %r1;
    shl.b32 %r7, %r7, 2;
    add.u32 %r7, %r4, %r7;
    st.shared.u32 [%r6], 0;
    bar.sync 0;
    st.shared.u32 [%r6], %r1; // DataRace
    ld.shared.u32 %r8, [%r7]; // DataRace
    bar.sync 0;
    ld.shared.u32 %r9, [%r6+256]; // Uninitialized
    st.global.u32 [%rd2], %r9;
    add.u32 %r11, %r6, %r10;
    st.shared.u32 [%r11], 1; // UnwrittenRegister
    TRAP
    st.global.u32 [%rd3+512], %r2; // DataRace
    ret;
}";

fn launch(text: &str, threads: usize, config: EmulatorConfig) -> Result<Vec<u32>, LaunchError> {
    let config = EmulatorConfig {
        threads: Some(threads),
        ..config
    };
    run(text, 2, 64, 192, config)
}

fn going_on(ignored: Vec<Ignored>) -> EmulatorConfig {
    EmulatorConfig {
        keep_going: true,
        ignored,
        ..EmulatorConfig::default()
    }
}

/// Kind and line of each finding, in the report's order.
fn listed(report: &Report) -> Vec<(String, u32)> {
    let all = report.earlier.iter().chain([report]);
    all.map(|report| (format!("{:?}", report.kind), report.place.ptx_line))
        .collect()
}

/// The lines that say what is found there.
fn marked(text: &str) -> Vec<(String, u32)> {
    let whole = format!("{HEADER}{text}");
    let lines = (1..).zip(whole.lines());
    lines
        .filter_map(|(line, text)| Some((text.split_once("// ")?.1.to_owned(), line)))
        .collect()
}

#[test]
fn a_launch_that_goes_on_reports_each_kind_and_line_once() {
    let text = FAULTY.replace("TRAP", "");
    let want = marked(&text);
    assert_eq!(want.len(), 5);
    for threads in [1, 2] {
        let found = report(launch(&text, threads, going_on(Vec::new())));
        assert_eq!(listed(&found), want, "{found}");
        assert_eq!(found.to_string().matches("error: ").count(), 5, "{found}");
    }
    let first = report(launch(&text, 2, EmulatorConfig::default()));
    assert_eq!(listed(&first), want[..1]);
}

#[test]
fn a_fault_that_ends_the_launch_comes_last() {
    let text = FAULTY.replace("TRAP", "trap; // Trap");
    let want = marked(&text);
    for threads in [1, 2] {
        let found = report(launch(&text, threads, going_on(Vec::new())));
        // The second block, which would race with the first one, does not matter.
        assert_eq!(listed(&found), want[..5], "{found}");
        assert_eq!(found.kind, FaultKind::Trap);
    }
}

#[test]
fn findings_are_left_out_by_kind_and_by_line() {
    let text = FAULTY.replace("TRAP", "");
    let all = marked(&text);
    let races = Ignored {
        kind: FaultKind::DataRace,
        line: None,
    };
    let found = report(launch(&text, 2, going_on(vec![races])));
    assert_eq!(listed(&found), all[2..4]);
    let one = Ignored {
        line: Some(all[0].1),
        ..races
    };
    let found = report(launch(&text, 2, going_on(vec![one])));
    assert_eq!(listed(&found), all[1..]);
    let others = [FaultKind::Uninitialized, FaultKind::UnwrittenRegister];
    let mut config = EmulatorConfig {
        ignored: vec![races],
        ..EmulatorConfig::default()
    };
    config
        .ignored
        .extend(others.map(|kind| Ignored { kind, line: None }));
    let out = launch(&text, 2, config).expect("all is left out");
    assert!(out[128..].iter().all(|word| *word < 2), "{out:?}");
}

#[test]
fn a_copy_of_unwritten_memory_is_left_out() {
    use super::common::Case;
    let case = Case::new("fail", "bulk_copy_of_unwritten_memory", 1, 32);
    let mut case = case.uninitialized(64);
    assert!(case.run().result.is_err());
    case.config.ignored = vec![Ignored {
        kind: FaultKind::Uninitialized,
        line: None,
    }];
    assert!(case.run().result.is_ok());
}
