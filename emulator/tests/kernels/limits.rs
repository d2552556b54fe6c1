//! Declarations and directives beyond the limits of ptxas are refused with their line; within them
//! a module costs only what its launches touch.

use std::fmt::Write;
use std::time::{Duration, Instant};

use warpsmith_emulator::{Emulator, EmulatorConfig, LaunchConfig, LaunchError, LoadError};

fn emulator() -> Emulator {
    Emulator::new(EmulatorConfig {
        threads: Some(1),
        profile: true,
        ..EmulatorConfig::default()
    })
}

fn load(text: &str) -> Result<(), LoadError> {
    let text = format!(".version 8.0 .target sm_90a .address_size 64\n{text}");
    emulator().load(&text).map(drop)
}

/// Launches the kernel `k` with one thread.
fn launch(text: &str) -> Result<(), LaunchError> {
    let text = format!(".version 8.0 .target sm_90a .address_size 64\n{text}");
    let emulator = emulator();
    let module = emulator.load(&text).expect("it loads");
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
    };
    emulator.launch(&module, "k", &shape, &[]).map(drop)
}

#[test]
fn what_ptxas_refuses_is_refused_with_its_line() {
    for declaration in [
        ".global .align 3 .b8 x[4];",
        ".global .align 0 .b8 x[4];",
        ".visible .entry k(.param .align 3 .b8 p[4]) { ret; }",
        ".visible .entry k(.param .u64 .ptr .global .align 3 p) { ret; }",
        ".visible .entry k() { .local .align 12 .b8 p[4]; ret; }",
        ".visible .entry k() { .shared .align 12 .b8 p[4]; ret; }",
        ".visible .entry k() { .param .align 256 .b8 p[4]; ret; }",
        ".func f(.param .align 256 .b8 p[4]) { ret; }",
        ".visible .entry k(.param .align 256 .b8 p[4], .param .align 2147483648 .b8 q[4]) { ret; }",
        ".visible .entry k(.param .b8 p[4353]) { ret; }",
        ".visible .entry k() .maxntid 0 { ret; }",
        ".visible .entry k() .reqntid 32, 0 { ret; }",
        ".visible .entry k() .maxnreg 0 { ret; }",
        ".visible .entry k() .maxntid 32 .minnctapersm 0 { ret; }",
        ".visible .entry k() { .local .align 1048576 .b8 p[4]; .local .align 1048576 .b8 q[4]; ret; }",
    ] {
        let found = load(&format!("\n{declaration}\n"));
        assert!(
            matches!(found, Err(LoadError::Invalid { line: 3, .. })),
            "{declaration}: {found:?}"
        );
    }
}

#[test]
fn what_ptxas_ignores_does_no_harm() {
    let most = u32::MAX;
    for directives in [
        format!(".maxntid {most}, {most}, {most} .minnctapersm {most}"),
        format!(".maxnreg {most}"),
        ".maxnreg 256".to_owned(),
    ] {
        let body = "{ setmaxnreg.dec.sync.aligned.u32 24; ret; }";
        let plain = launch(&format!(".visible .entry k() {directives} {{ ret; }}"));
        assert_eq!(plain, Ok(()), "{directives}");
        // A fault or not, but no panic.
        let _ = launch(&format!(".visible .entry k() {directives} {body}"));
    }
    for directives in [
        ".reqntid 4294967295,4294967295,4294967295",
        ".reqnctapercluster 65536,65536,65536",
    ] {
        let refused = launch(&format!(".visible .entry k() {directives} {{ ret; }}"));
        assert!(
            matches!(refused, Err(LaunchError::Shape { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_large_variable_is_aligned_zero_and_takes_memory_where_it_is_touched() {
    let emulator = emulator();
    let text = ".version 8.0 .target sm_90a .address_size 64
        .global .align 65536 .b8 big[8589934592];
        .global .b32 few[8] = {1, 2};
        .visible .entry k() {
            .reg .b64 %a; .reg .b32 %r;
            mov.u64 %a, big;
            ld.global.u32 %r, [%a+8589934588];
            st.global.u32 [%a], %r;
            ld.global.u32 %r, [few+28];
            ret;
        }";
    let module = emulator.load(text).expect("it loads");
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
    };
    emulator.launch(&module, "k", &shape, &[]).expect("it runs");
    let (address, bytes) = module.variable("big").expect("it is there");
    assert_eq!((address % 65_536, bytes), (0, 8 << 30));
    let mut few = [0; 12];
    let (address, _) = module.variable("few").expect("it is there");
    emulator.read(address, &mut few).expect("it is there");
    assert_eq!(few, [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        assert!(kib.is_some_and(|kib| kib < 4 << 20), "{kib:?} KiB");
    }
}

/// A kernel with `count` labels, all in one table, and as many branches through it.
fn branches_through_a_table(count: usize) -> String {
    let mut text = ".version 8.0 .target sm_90a .address_size 64
        .visible .entry k() { .reg .b32 %r; mov.u32 %r, 0;\nT: .branchtargets L0"
        .to_owned();
    for label in 1..count {
        let _ = write!(text, ", L{label}");
    }
    text += ";\n";
    for label in 0..count {
        let _ = writeln!(text, "brx.idx %r, T;\nL{label}:");
    }
    text + "ret; }"
}

#[test]
fn branches_through_one_table_share_it() {
    let text = branches_through_a_table(16_000);
    let begin = Instant::now();
    emulator().load(&text).expect("it loads");
    // Linear: tenths of a second. A copy of the table for each branch: 256 million labels.
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn kernels_share_their_functions() {
    let count = 1_000;
    let mut text = ".version 8.0 .target sm_90a .address_size 64\n.func f0() { ret; }\n".to_owned();
    for i in 1..count {
        let _ = writeln!(text, ".func f{i}() {{ call f{}; ret; }}", i - 1);
    }
    for i in 0..count {
        let last = count - 1;
        let _ = writeln!(text, ".visible .entry k{i}() {{ call f{last}; ret; }}");
    }
    let begin = Instant::now();
    let module = emulator().load(&text).expect("it loads");
    assert_eq!(module.kernels().len(), count);
    // Linear: hundredths of a second. All functions for each kernel: a million of them.
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
}
