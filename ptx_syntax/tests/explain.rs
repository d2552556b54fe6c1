//! The counts of `explain` on text whose counts are known.

use ptx_syntax::explain::{KernelReport, explain};
use ptx_syntax::isa::Class;
use ptx_syntax::parse;

const PTX: &str = "\
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.shared .align 8 .b8 used[12];
.shared .align 8 .b8 unused[400];
.func helper { .shared .align 16 .b32 inner[4]; ld.shared.u32 %r1, [dynamic]; ret; }
.visible .entry k(.param .u64 .ptr .global .align 16 x, .param .align 8 .b8 y[24], .param .f32 z)
.maxntid 256 .minnctapersm 2
{
	.reg .pred %p<3>;
	.reg .b32 %r<10>, %extra;
	.reg .v4 .f32 %v;
	.local .align 8 .b8 depot[40];
	ld.param.u64 %rd1, [x];
	ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
	st.shared::cta.f32 [used+4], %f1;
	fma.rn.f32 %f1, %f2, %f3, %f4;
	{ mad.lo.s32 %r1, %r2, %r3, %r4; }
	ex2.approx.f32 %f1, %f1;
	cp.async.bulk.commit_group;
	call helper;
	bar.sync 0;
	ret;
}
.visible .entry empty() { ret; }
";

fn kernel() -> KernelReport {
    let report = explain(&parse(PTX).expect("valid PTX"));
    assert_eq!(report.kernels.len(), 2);
    report.kernels[0].clone()
}

#[test]
fn shared_memory_counts_what_the_kernel_and_its_callees_use() {
    let kernel = kernel();
    // 12 bytes, padded to the 16 that `inner` wants, and its 16 bytes.
    assert_eq!(kernel.static_shared_bytes, 32);
    assert!(kernel.uses_dynamic_shared);
    assert_eq!(kernel.local_bytes, 40);
    assert_eq!(kernel.calls, ["helper"]);
}

#[test]
fn parameters_have_sizes_and_alignments() {
    let sizes: Vec<_> = kernel().params.iter().map(|p| (p.bytes, p.align)).collect();
    assert_eq!(sizes, [(Some(8), 8), (Some(24), 8), (Some(4), 4)]);
}

#[test]
fn registers_are_counted_by_type_and_lane() {
    let registers: Vec<_> = kernel().registers.into_iter().collect();
    assert_eq!(
        registers,
        [("b32".into(), 11), ("f32".into(), 4), ("pred".into(), 3)]
    );
}

#[test]
fn instructions_are_counted_by_class() {
    let kernel = kernel();
    let mix: Vec<_> = kernel.mix.into_iter().collect();
    let want = [
        (Class::Fma, 1),
        (Class::Special, 1),
        (Class::Integer, 1),
        (Class::Global, 1),
        (Class::Shared, 1),
        (Class::Constant, 1),
        (Class::AsyncCopy, 1),
        (Class::Barrier, 1),
        (Class::Control, 2),
    ];
    assert_eq!(mix, want);
    assert_eq!(kernel.instructions, 10);
}

#[test]
fn the_table_shows_bounds_and_shares() {
    let text = kernel().to_string();
    for line in [
        "k (line 8)",
        "  parameters    u64 (8 bytes), b8 (24 bytes), f32 (4 bytes)",
        "  launch bounds at most 256 x 1 x 1 threads, at least 2 blocks a multiprocessor",
        "  shared memory 32 bytes + dynamic",
        "  collective    1 aligned barriers",
        "    control            2   20.0 %",
    ] {
        assert!(
            text.lines().any(|l| l == line),
            "{line:?} is not in\n{text}"
        );
    }
}

#[test]
fn json_has_the_same_counts() {
    let value = serde_json::to_value(kernel()).expect("serializable");
    assert_eq!(value["static_shared_bytes"], 32);
    assert_eq!(value["mix"]["async-copy"], 1);
    assert_eq!(value["max_threads"][0], 256);
}
