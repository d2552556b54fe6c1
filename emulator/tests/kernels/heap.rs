//! `malloc` and `free` in kernels, called as nvcc calls them.

use warpsmith_emulator::{Emulator, EmulatorConfig, FaultKind, LaunchConfig};

use super::foreign::{HEADER, report, run, seeded};

const EXTERN: &str = "
.extern .func (.param .b64 func_retval0) malloc(.param .b64 malloc_param_0);
.extern .func free(.param .b64 free_param_0);
";

/// `%rdD = malloc(%rdA)`
fn malloc(d: usize, a: usize) -> String {
    format!(
        "{{ .param .b64 param0; st.param.b64 [param0], %rd{a}; .param .b64 retval0;
call.uni (retval0), malloc, (param0); ld.param.b64 %rd{d}, [retval0]; }}\n"
    )
}

/// `free(%rdA)`
fn free(a: usize) -> String {
    format!("{{ .param .b64 param0; st.param.b64 [param0], %rd{a}; call.uni free, (param0); }}\n")
}

/// A kernel `k` of a buffer in `%rd0`; `%r0` is the number of the thread in the grid.
fn kernel(body: &str) -> String {
    format!(
        "{EXTERN}.visible .entry k(.param .u64 p)
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd0, [p];
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
mad.lo.u32 %r0, %r1, %r2, %r3;
mul.wide.u32 %rd7, %r0, 4; add.u64 %rd7, %rd0, %rd7;
{body}
ret;
}}"
    )
}

/// Each thread takes memory for as many words as its number and two more, writes and sums them.
#[test]
fn each_thread_takes_memory_of_its_own() {
    let body = format!(
        "add.u32 %r4, %r0, 2; mul.wide.u32 %rd1, %r4, 4;
{}
mov.u64 %rd3, %rd2; mov.u32 %r5, 0;
WRITE:
st.u32 [%rd3], %r0; add.u64 %rd3, %rd3, 4; add.u32 %r5, %r5, 1;
setp.lt.u32 %p0, %r5, %r4; @%p0 bra WRITE;
mov.u64 %rd3, %rd2; mov.u32 %r5, 0; mov.u32 %r6, 0;
SUM:
ld.u32 %r7, [%rd3]; add.u32 %r6, %r6, %r7; add.u64 %rd3, %rd3, 4; add.u32 %r5, %r5, 1;
setp.lt.u32 %p0, %r5, %r4; @%p0 bra SUM;
{}
st.global.u32 [%rd7], %r6;",
        malloc(2, 1),
        free(2)
    );
    for seed in 0..3 {
        let got = run(&kernel(&body), 4, 48, 4 * 48, seeded(seed)).expect("it runs");
        let want: Vec<u32> = (0..4 * 48).map(|i| i * (i + 2)).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn more_than_the_heap_has_is_a_null_pointer() {
    // 8 MiB, of which each thread asks for a third; nothing; and more than there are addresses.
    let body = format!(
        "mov.u64 %rd1, 2796202;
{}
mov.u64 %rd1, 0;
{}
mov.u64 %rd1, -1;
{}
setp.ne.u64 %p0, %rd2, 0; selp.u32 %r4, 1, 0, %p0;
setp.ne.u64 %p0, %rd3, 0; @%p0 add.u32 %r4, %r4, 10;
setp.ne.u64 %p0, %rd4, 0; @%p0 add.u32 %r4, %r4, 10;
{}
st.global.u32 [%rd7], %r4;",
        malloc(2, 1),
        malloc(3, 1),
        malloc(4, 1),
        free(3)
    );
    let got = run(&kernel(&body), 1, 8, 8, seeded(0)).expect("it runs");
    assert_eq!(got, [1, 1, 1, 0, 0, 0, 0, 0]);
}

/// Memory outlives the launch: the first launch builds a list, the second sums and frees it.
#[test]
fn memory_outlives_the_launch_that_took_it() {
    let text = format!(
        "{HEADER}{EXTERN}
.visible .entry build(.param .u64 p)
{{
.reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<6>;
ld.param.u64 %rd0, [p];
mov.u32 %r0, 0; mov.u64 %rd4, 0; mov.u64 %rd1, 16;
NEXT:
{}st.global.u64 [%rd2], %rd4; st.global.u32 [%rd2+8], %r0;
mov.u64 %rd4, %rd2; add.u32 %r0, %r0, 1;
setp.lt.u32 %p, %r0, 10; @%p bra NEXT;
st.global.u64 [%rd0], %rd4;
ret;
}}
.visible .entry sum(.param .u64 p)
{{
.reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<6>;
ld.param.u64 %rd0, [p];
ld.global.u64 %rd2, [%rd0]; mov.u32 %r0, 0;
NEXT:
ld.global.u32 %r1, [%rd2+8]; add.u32 %r0, %r0, %r1; ld.global.u64 %rd4, [%rd2];
{}mov.u64 %rd2, %rd4;
setp.ne.u64 %p, %rd2, 0; @%p bra NEXT;
st.global.u32 [%rd0], %r0;
ret;
}}",
        malloc(2, 1),
        free(2)
    );
    let emulator = Emulator::new(EmulatorConfig::default());
    let module = emulator.load(&text).expect("it loads");
    let buffer = emulator.alloc(8).expect("memory suffices");
    let shape = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: None,
    };
    // The heap would not suffice if the lists stayed.
    for _ in 0..3 {
        for name in ["build", "sum"] {
            emulator
                .launch(&module, name, &shape, &[&buffer.to_le_bytes()])
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let mut sum = [0; 4];
        emulator.read(buffer, &mut sum).expect("the buffer is live");
        assert_eq!(u32::from_le_bytes(sum), 45);
    }
}

#[test]
fn misuse_is_a_report() {
    let taken = format!("mov.u64 %rd1, 40;\n{}", malloc(2, 1));
    let (free, again) = (free(2), format!("{}{}", free(2), free(2)));
    let inside = "add.u64 %rd2, %rd2, 8;\n".to_owned() + &free;
    let host = "mov.u64 %rd2, %rd0;\n".to_owned() + &free;
    for (body, kind, says) in [
        (
            "ld.u32 %r4, [%rd2]; st.global.u32 [%rd7], %r4;",
            FaultKind::Uninitialized,
            "nothing wrote",
        ),
        (
            "st.u32 [%rd2+40], %r0;",
            FaultKind::OutOfBounds,
            "outside what `malloc` gave",
        ),
        (
            "st.u32 [%rd2+-4], %r0;",
            FaultKind::OutOfBounds,
            "outside what `malloc` gave",
        ),
        (
            &format!("{free}st.u32 [%rd2], %r0;"),
            FaultKind::UseAfterFree,
            "`free` has taken back",
        ),
        (&again, FaultKind::UseAfterFree, "was freed before"),
        (
            &inside,
            FaultKind::OutOfBounds,
            "is not what `malloc` returned",
        ),
        (
            &host,
            FaultKind::OutOfBounds,
            "is not what `malloc` returned",
        ),
    ] {
        let found = report(run(&kernel(&format!("{taken}{body}")), 1, 1, 1, seeded(0)));
        assert_eq!(found.kind, kind, "{found}");
        assert!(found.to_string().contains(says), "{found}");
    }
}

/// What one thread writes, another reads without a barrier.
#[test]
fn races_in_the_heap_are_found() {
    let body = format!(
        ".shared .align 8 .b8 place[8];
setp.ne.u32 %p0, %r3, 0; @%p0 bra READ;
mov.u64 %rd1, 4;
{}
st.shared.u64 [place], %rd2;
READ:
bar.sync 0;
ld.shared.u64 %rd2, [place];
@!%p0 st.u32 [%rd2], 7;
//SYNC
setp.eq.u32 %p1, %r3, 40;
@%p1 ld.u32 %r4, [%rd2];
@%p1 st.global.u32 [%rd0], %r4;",
        malloc(2, 1)
    );
    let ordered = body.replace("//SYNC", "bar.sync 0;");
    let got = run(&kernel(&ordered), 1, 64, 1, seeded(0)).expect("it runs");
    assert_eq!(got, [7]);
    let found = report(run(&kernel(&body), 1, 64, 1, seeded(0)));
    assert_eq!(found.kind, FaultKind::DataRace, "{found}");
}
