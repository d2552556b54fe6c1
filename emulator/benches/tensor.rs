//! Floating-point operations a second of the tensor cores, on one host thread.
//!
//! `cargo bench -p warpsmith-emulator --bench tensor` prints throughput in elements a second, where
//! an element is an operation (a multiply-add is two). The measurements are in docs/numerics.md.

use criterion::{Criterion, Throughput};
use warpsmith_emulator::{Checks, Emulator, EmulatorConfig, LaunchConfig, Module};

const GEMM: &str = include_str!("../tests/pass/wgmma_gemm_n256.ptx");

/// Instructions of a launch of the kernels below.
const STEPS: u32 = 64;

/// One warpgroup that multiplies the same tiles again and again: `instruction` on values that the
/// threads make up, of which `mask` keeps the bits that are numbers of moderate size.
fn wgmma(instruction: &str, registers: usize, tail: &str, mask: u32, base: u32) -> String {
    let names: Vec<String> = (0..registers).map(|i| format!("%f{i}")).collect();
    let zero: String = names
        .iter()
        .map(|name| format!("mov.b32 {name}, 0;\n"))
        .collect();
    let names = names.join(", ");
    format!(
        ".version 8.4\n.target sm_90a\n.address_size 64
.visible .entry multiply(.param .u64 out)
{{
    .shared .align 1024 .b8 tile[12288];
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b32 %f<{registers}>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 4, %r2;
    mad.lo.u32 %r4, %r1, 747796405, 12345;
    mov.u32 %r5, 0;
FILL:
    mad.lo.u32 %r4, %r4, 1664525, 1013904223;
    shr.u32 %r6, %r4, 7;
    xor.b32 %r6, %r6, %r4;
    and.b32 %r6, %r6, {mask};
    add.u32 %r6, %r6, {base};
    st.shared.b32 [%r3], %r6;
    add.u32 %r3, %r3, 512;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 24;
    @%p1 bra FILL;
    bar.sync 0;
    shr.u32 %r6, %r2, 4;
    cvt.u64.u32 %rd2, %r6;
    or.b64 %rd2, %rd2, 0x0000001000080000;
    add.u64 %rd3, %rd2, 128;
{zero}
    mov.u32 %r5, 0;
    wgmma.fence.sync.aligned;
STEP:
    {instruction} {{{names}}}, %rd2, %rd3, 1{tail};
    wgmma.commit_group.sync.aligned;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, {STEPS};
    @%p1 bra STEP;
    wgmma.wait_group.sync.aligned 0;
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd4, %rd1, %rd4;
    st.global.b32 [%rd4], %f0;
    ret;
}}"
    )
}

/// A warp that multiplies registers.
fn mma() -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64
.visible .entry multiply(.param .u64 out)
{{
    .reg .pred %p<2>; .reg .b32 %r<12>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.lo.u32 %r2, %r1, 747796405;
    and.b32 %r2, %r2, 0x83ff83ff;
    add.u32 %r2, %r2, 0x3c003c00;
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, 0f00000000;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f3, 0f00000000;
    mov.u32 %r3, 0;
STEP:
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, \
         {{%r2, %r2, %r2, %r2}}, {{%r2, %r2}}, {{%f0, %f1, %f2, %f3}};
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, {STEPS};
    @%p1 bra STEP;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd2, %rd1, %rd2;
    st.global.f32 [%rd2], %f0;
    ret;
}}"
    )
}

fn emulator(checks: Checks) -> Emulator {
    Emulator::new(EmulatorConfig {
        threads: Some(1),
        checks,
        ..EmulatorConfig::default()
    })
}

fn instructions(criterion: &mut Criterion) {
    let emulator = emulator(Checks::QUICK);
    let out = emulator.alloc(4096).expect("memory suffices");
    let mut group = criterion.benchmark_group("tensor_flops");
    group.sample_size(10);
    let mut measure = |name: &str, text: &str, threads: u32, flops: u64| {
        let module: Module = emulator
            .load(text)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let shape = LaunchConfig {
            grid: [1; 3],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        group.throughput(Throughput::Elements(flops * u64::from(STEPS)));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                emulator
                    .launch(&module, "multiply", &shape, &[&out.to_le_bytes()])
                    .expect("the kernel runs")
            });
        });
    };
    let prefix = "wgmma.mma_async.sync.aligned.m64n256";
    let flops = 2 * 64 * 256;
    for (name, types, registers, tail, mask, base, k) in [
        (
            "wgmma_bf16",
            "k16.f32.bf16.bf16",
            128,
            ", 1, 1, 0, 0",
            0x807f_807f,
            0x3f80_3f80,
            16,
        ),
        (
            "wgmma_f16",
            "k16.f32.f16.f16",
            128,
            ", 1, 1, 0, 0",
            0x83ff_83ff,
            0x3c00_3c00,
            16,
        ),
        (
            "wgmma_f16_into_f16",
            "k16.f16.f16.f16",
            64,
            ", 1, 1, 0, 0",
            0x83ff_83ff,
            0x2c00_2c00,
            16,
        ),
        (
            "wgmma_tf32",
            "k8.f32.tf32.tf32",
            128,
            ", 1, 1",
            0x807f_ffff,
            0x3f80_0000,
            8,
        ),
        (
            "wgmma_e4m3",
            "k32.f32.e4m3.e4m3",
            128,
            ", 1, 1",
            0x8787_8787,
            0x3838_3838,
            32,
        ),
        ("wgmma_s8", "k32.s32.s8.s8", 128, "", 0xffff_ffff, 0, 32),
    ] {
        let text = wgmma(&format!("{prefix}{types}"), registers, tail, mask, base);
        measure(name, &text, 128, flops * k);
    }
    measure("mma_f16", &mma(), 32, 2 * 16 * 8 * 16);
    group.finish();
}

/// A product of 512 by 512 by 512 in bf16, with all checks and without races.
fn gemm(criterion: &mut Criterion) {
    const EXTENT: usize = 512;
    let mut group = criterion.benchmark_group("gemm_512");
    group.sample_size(10);
    group.throughput(Throughput::Elements(2 * (EXTENT as u64).pow(3)));
    for (name, checks) in [("all_checks", Checks::ALL), ("no_races", Checks::QUICK)] {
        let emulator = emulator(checks);
        let module = emulator.load(GEMM).expect("the kernel loads");
        let bytes = (2 * EXTENT * EXTENT) as u64;
        let a = emulator.alloc(bytes).expect("memory suffices");
        let d = emulator.alloc(2 * bytes).expect("memory suffices");
        let values: Vec<u8> = (0..EXTENT * EXTENT)
            .flat_map(|i| (0x3f80 + (i * 7919 % 128) as u16).to_le_bytes())
            .collect();
        emulator.write(a, &values).expect("the buffer is live");
        let shape = LaunchConfig {
            grid: [2, 8, 1],
            block: [128, 1, 1],
            shared_bytes: 0,
            cluster: None,
        };
        let (a, d) = (a.to_le_bytes(), d.to_le_bytes());
        let extent = (EXTENT as u32).to_le_bytes();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                emulator
                    .launch(&module, "gemm", &shape, &[&a, &a, &d, &extent, &extent])
                    .expect("the kernel runs")
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    instructions(&mut criterion);
    gemm(&mut criterion);
    criterion.final_summary();
}
