//! Lane-instructions a second, with all checks and with those that can be turned off.
//!
//! `cargo bench -p warpsmith-emulator` prints throughput in elements a second, where an element is
//! an instruction of one lane. The measurements are in docs/emulator.md.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use warpsmith_emulator::{Checks, Emulator, EmulatorConfig, LaunchConfig, Module};

const HEADER: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// A chain of fused multiply-adds and integer arithmetic in registers.
const ARITHMETIC: &str = "
.visible .entry arithmetic(.param .u64 out)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 256, %r1;
    cvt.rn.f32.u32 %f1, %r3;
    mov.f32 %f2, 0f3F800000;
    mov.f32 %f3, 0f3F7FFFFF;
    mov.u32 %r4, 0;
LOOP:
    fma.rn.f32 %f1, %f1, %f3, %f2;
    fma.rn.f32 %f2, %f2, %f3, %f1;
    fma.rn.f32 %f4, %f1, %f2, %f3;
    xor.b32 %r3, %r3, %r4;
    mad.lo.s32 %r3, %r3, 5, %r1;
    shl.b32 %r5, %r3, 3;
    add.s32 %r4, %r4, 1;
    setp.lt.s32 %p1, %r4, 1000;
    @%p1 bra LOOP;
    add.f32 %f1, %f1, %f4;
    mad.lo.u32 %r3, %r2, 256, %r1;
    mad.wide.u32 %rd2, %r3, 4, %rd1;
    st.global.f32 [%rd2], %f1;
    ret;
}";

/// The inner loop of a tiled f32 GEMM: a tile of each operand in shared memory, four by four
/// accumulators a thread.
const SGEMM: &str = "
.visible .entry sgemm(.param .u64 out)
{
    .shared .align 16 .b8 a[8192];
    .shared .align 16 .b8 b[8192];
    .reg .pred %p<2>; .reg .b32 %r<16>; .reg .f32 %c<16>; .reg .f32 %x<8>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    cvt.rn.f32.u32 %x0, %r1;
    mov.u32 %r5, a;
    mov.u32 %r6, b;
    mad.lo.u32 %r7, %r1, 32, %r5;
    mad.lo.u32 %r8, %r1, 32, %r6;
    st.shared.v4.f32 [%r7], {%x0, %x0, %x0, %x0};
    st.shared.v4.f32 [%r7+16], {%x0, %x0, %x0, %x0};
    st.shared.v4.f32 [%r8], {%x0, %x0, %x0, %x0};
    st.shared.v4.f32 [%r8+16], {%x0, %x0, %x0, %x0};
    ZERO
    mov.u32 %r4, 0;
TILE:
    bar.sync 0;
    and.b32 %r9, %r1, 15;
    mad.lo.u32 %r9, %r9, 16, %r5;
    shr.u32 %r10, %r1, 4;
    mad.lo.u32 %r10, %r10, 16, %r6;
    mov.u32 %r11, 0;
STEP:
    ld.shared.v4.f32 {%x0, %x1, %x2, %x3}, [%r9];
    ld.shared.v4.f32 {%x4, %x5, %x6, %x7}, [%r10];
    FMAS
    add.u32 %r9, %r9, 256;
    add.u32 %r10, %r10, 256;
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p1, %r11, 28;
    @%p1 bra STEP;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 16;
    @%p1 bra TILE;
    mad.lo.u32 %r3, %r2, 256, %r1;
    mul.wide.u32 %rd2, %r3, 64;
    add.u64 %rd2, %rd1, %rd2;
    st.global.v4.f32 [%rd2], {%c0, %c1, %c2, %c3};
    st.global.v4.f32 [%rd2+16], {%c4, %c5, %c6, %c7};
    st.global.v4.f32 [%rd2+32], {%c8, %c9, %c10, %c11};
    st.global.v4.f32 [%rd2+48], {%c12, %c13, %c14, %c15};
    ret;
}";

/// A copy in global memory, one word a thread and step.
const COPY: &str = "
.visible .entry copy(.param .u64 from, .param .u64 to)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 4096, %r1;
    mad.wide.u32 %rd3, %r3, 4, %rd1;
    mad.wide.u32 %rd4, %r3, 4, %rd2;
    mov.u32 %r4, 0;
LOOP:
    ld.global.u32 %r5, [%rd3];
    st.global.u32 [%rd4], %r5;
    add.s64 %rd3, %rd3, 1024;
    add.s64 %rd4, %rd4, 1024;
    add.s32 %r4, %r4, 1;
    setp.lt.s32 %p1, %r4, 16;
    @%p1 bra LOOP;
    ret;
}";

fn load(emulator: &Emulator, body: &str) -> Module {
    emulator
        .load(&format!("{HEADER}{body}"))
        .expect("the kernel loads")
}

fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    emulator: &Emulator,
    name: &str,
    module: &Module,
    blocks: u32,
    params: &[&[u8]],
) {
    let shape = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        cluster: None,
    };
    let run = || {
        emulator
            .launch(module, name, &shape, params)
            .expect("the kernel runs")
    };
    group.throughput(Throughput::Elements(run().lane_instructions));
    group.bench_function(name, |bencher| bencher.iter(run));
}

/// Measures each kernel with some checks.
fn speed(criterion: &mut Criterion, name: &str, checks: Checks) {
    let emulator = Emulator::new(EmulatorConfig {
        checks,
        ..EmulatorConfig::default()
    });
    let mut group = criterion.benchmark_group(name);
    let out = emulator.alloc(16 << 20).expect("memory suffices");
    let from = emulator.alloc(16 << 20).expect("memory suffices");
    emulator
        .fill(from, 1, 16 << 20)
        .expect("the buffer is live");
    let arithmetic = load(&emulator, ARITHMETIC);
    measure(
        &mut group,
        &emulator,
        "arithmetic",
        &arithmetic,
        32,
        &[&out.to_le_bytes()],
    );
    let zero: String = (0..16)
        .map(|i| format!("mov.f32 %c{i}, 0f00000000;\n"))
        .collect();
    let fmas: String = (0..16)
        .map(|i| format!("fma.rn.f32 %c{i}, %x{}, %x{}, %c{i};\n", i / 4, 4 + i % 4))
        .collect();
    let sgemm = load(
        &emulator,
        &SGEMM.replace("ZERO", &zero).replace("FMAS", &fmas),
    );
    measure(
        &mut group,
        &emulator,
        "sgemm",
        &sgemm,
        32,
        &[&out.to_le_bytes()],
    );
    let copy = load(&emulator, COPY);
    let params: [&[u8]; 2] = [&from.to_le_bytes(), &out.to_le_bytes()];
    measure(&mut group, &emulator, "copy", &copy, 1024, &params);
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    speed(&mut criterion, "lane_instructions", Checks::ALL);
    speed(
        &mut criterion,
        "lane_instructions_without_races",
        Checks::QUICK,
    );
    criterion.final_summary();
}
