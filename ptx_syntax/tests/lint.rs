//! Each rule finds its fault and leaves the sound twin alone.

use crate::samples;
use ptx_syntax::lint::{LintOptions, Rule, Severity, lint, lint_with};
use ptx_syntax::parse;

/// Severity, rule and line (within `text`) of all findings.
fn findings(text: &str) -> Vec<(Severity, Rule, u32)> {
    let module = parse(&module(text)).expect("valid PTX");
    lint_with(&module, &LintOptions::default().rounding(true))
        .iter()
        .map(|f| (f.severity, f.rule, f.line - 3))
        .collect()
}

fn module(text: &str) -> String {
    format!(".version 8.5\n.target sm_90a\n.address_size 64\n{text}")
}

#[test]
fn an_extern_function_that_nobody_defines_is_an_error() {
    let found = findings(".extern .func panic_bounds_check;\n.extern .func vprintf;");
    assert_eq!(found, [(Severity::Error, Rule::UnresolvedExtern, 1)]);
    assert_eq!(findings(".func f;\n.func f { ret; }"), []);
    assert_eq!(findings(".func f;\n.func g { ret; }\n.alias f, g;"), []);
}

#[test]
fn an_extern_variable_that_nobody_defines_is_an_error() {
    let found = findings(".extern .global .u32 x;\n.extern .shared .b8 s[];");
    assert_eq!(found, [(Severity::Error, Rule::UnresolvedExtern, 1)]);
    assert_eq!(
        findings(".extern .global .u32 x;\n.visible .global .u32 x;"),
        []
    );
}

#[test]
fn local_memory_is_an_error_unless_allowed() {
    let text = ".entry k() {\n.local .align 8 .b8 depot[16];\nld.local.u32 %r1, [depot];\n}";
    let want = [
        (Severity::Error, Rule::LocalMemory, 2),
        (Severity::Error, Rule::LocalMemory, 3),
    ];
    assert_eq!(findings(text), want);
    let parsed = parse(&module(text)).expect("valid PTX");
    let allowed = LintOptions::default().allow_local_in("k");
    assert_eq!(lint_with(&parsed, &allowed), []);
    assert_eq!(
        lint_with(&parsed, &LintOptions::default().allow_local(true)),
        []
    );
    let elsewhere = LintOptions::default().allow_local_in("other");
    assert_eq!(lint_with(&parsed, &elsewhere).len(), 2);
}

#[test]
fn local_memory_for_the_arguments_of_vprintf_is_a_warning() {
    let text = ".extern .func vprintf;\n.entry k() {\n.local .b8 depot[16];\ncall vprintf;\n}";
    assert_eq!(findings(text), [(Severity::Warning, Rule::LocalMemory, 3)]);
}

#[test]
fn wgmma_wants_launch_bounds() {
    let wgmma = "{\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2;\n}";
    let found = findings(&format!(".entry k()\n{wgmma}"));
    assert_eq!(found, [(Severity::Error, Rule::WgmmaWithoutBounds, 3)]);
    assert_eq!(findings(&format!(".entry k() .maxntid 128\n{wgmma}")), []);
    assert_eq!(findings(&format!(".entry k() .reqntid 128\n{wgmma}")), []);
}

#[test]
fn setmaxnreg_wants_both_bounds() {
    let body = "{\nsetmaxnreg.dec.sync.aligned.u32 24;\n}";
    let found = findings(&format!(".entry k() .maxntid 384\n{body}"));
    assert_eq!(found, [(Severity::Error, Rule::SetmaxnregWithoutBounds, 3)]);
    assert_eq!(
        findings(&format!(".entry k() .maxntid 384 .minnctapersm 1\n{body}")),
        []
    );
    assert_eq!(findings(&format!(".entry k() .maxnreg 168\n{body}")), []);
}

#[test]
fn rounding_is_looked_for_only_if_asked() {
    let text = module(".entry k() {\nadd.f32 a, b, c;\n}");
    assert_eq!(lint(&parse(&text).expect("valid PTX")), []);
}

#[test]
fn float_arithmetic_wants_a_rounding() {
    for fault in [
        "add.f32",
        "sub.ftz.f32",
        "mul.f64",
        "add.f16x2",
        "mul.sat.bf16",
        "mul.f32x2",
    ] {
        let found = findings(&format!(".entry k() {{\n{fault} a, b, c;\n}}"));
        assert_eq!(
            found,
            [(Severity::Warning, Rule::UnroundedFloat, 2)],
            "{fault}"
        );
    }
    for sound in [
        "add.rn.f32",
        "mul.rz.ftz.f32",
        "fma.rn.f32",
        "add.s32",
        "min.f32",
        "neg.f32",
    ] {
        assert_eq!(
            findings(&format!(".entry k() {{\n{sound} a, b, c;\n}}")),
            [],
            "{sound}"
        );
    }
}

#[test]
fn approximate_instructions_are_noted() {
    for fault in ["ex2.approx.ftz.f32", "div.full.f32", "tanh.approx.f32"] {
        let found = findings(&format!(".entry k() {{\n{fault} a, b;\n}}"));
        assert_eq!(
            found,
            [(Severity::Note, Rule::ApproximateFloat, 2)],
            "{fault}"
        );
    }
    assert_eq!(
        findings(".entry k() {\ndiv.rn.f32 a, b, c;\nsqrt.rn.f32 a, b;\n}"),
        []
    );
}

#[test]
fn a_generic_access_to_shared_memory_is_noted() {
    let text = ".entry k() {\ncvta.shared.u64 %rd2, %rd1;\nst.u32 [%rd2], 1;\nst.u32 [%rd3], 1;\n}";
    assert_eq!(findings(text), [(Severity::Note, Rule::GenericShared, 3)]);
    let sound = ".entry k() {\ncvta.to.shared.u64 %rd2, %rd1;\nst.shared.u32 [%rd2], 1;\n}";
    assert_eq!(findings(sound), []);
}

#[test]
fn a_guarded_aligned_barrier_is_a_warning() {
    let found = findings(".entry k() {\n@%p bar.sync 0;\n@%p bar.warp.sync -1;\nbar.sync 0;\n}");
    assert_eq!(found, [(Severity::Warning, Rule::GuardedBarrier, 2)]);
}

#[test]
fn collective_instructions_are_counted_by_kind() {
    let text = ".entry k() {\nbar.sync 0;\n{ barrier.sync.aligned 1, 64; }\nbarrier.arrive 1, 64;\n\
                bar.warp.sync -1;\nbarrier.cluster.arrive.aligned;\n\
                wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16 a;\n}";
    let module = parse(&module(text)).expect("valid PTX");
    let counts = module.functions[0].sync_counts();
    assert_eq!(counts.aligned_barriers, 2);
    assert_eq!(counts.unaligned_barriers, 1);
    assert_eq!(counts.cluster_barriers, 1);
    assert_eq!(counts.wgmma, 1);
    assert_eq!(counts.other_aligned, 1);
}

#[test]
fn a_finding_reads_as_one_line() {
    let module = parse(&module(".extern .func nobody;")).expect("valid PTX");
    let line = lint(&module)[0].to_string();
    assert_eq!(
        line,
        "4: error[unresolved-extern]: function `nobody` is declared and never defined; \
         the driver only knows vprintf, malloc, free, __assertfail"
    );
}

#[test]
fn what_compilers_emit_links() {
    for (name, text) in samples::ALL {
        let findings = lint(&parse(text).expect("valid PTX"));
        assert!(
            findings.iter().all(|f| f.rule != Rule::UnresolvedExtern),
            "{name}: {findings:?}"
        );
        assert!(findings.is_sorted_by_key(|f| f.line), "{name}");
    }
}

const NONE: [u32; 0] = [];

/// Lines with an instruction that the target lacks, of a kernel with one instruction a line.
fn newer(target: &str, instructions: &str) -> Vec<u32> {
    let text = format!(
        ".version 8.5\n.target {target}\n.address_size 64\n.entry k() .maxntid 128 .minnctapersm 1 {{\n{instructions}\n}}"
    );
    let module = parse(&text).expect("valid PTX");
    let findings = lint(&module).into_iter();
    let findings = findings.filter(|finding| finding.rule == Rule::NewerInstruction);
    findings.map(|finding| finding.line - 4).collect()
}

#[test]
fn an_instruction_that_the_target_lacks_is_an_error() {
    let ampere = "cp.async.ca.shared.global [%r1], [%rd1], 4;\n\
                  mbarrier.init.shared.b64 [%r1], 1;\n\
                  redux.sync.add.s32 %r1, %r2, -1;\n\
                  cvt.rn.bf16x2.f32 %r1, %f1, %f2;";
    assert_eq!(newer("sm_75", ampere), [1, 2, 3, 4]);
    assert_eq!(newer("sm_80", ampere), NONE);
    let ada = "cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;";
    assert_eq!(newer("sm_86", ada), [1]);
    assert_eq!(newer("sm_89", ada), NONE);
    let hopper = "cp.async.bulk.commit_group;\n\
                  barrier.cluster.arrive.release;\n\
                  mapa.shared::cluster.u32 %r1, %r2, %r3;\n\
                  ld.shared::cluster.u32 %r1, [%r2];\n\
                  fence.proxy.async;\n\
                  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;";
    assert_eq!(newer("sm_89", hopper), [1, 2, 3, 4, 5, 6]);
    assert_eq!(newer("sm_90", hopper), NONE);
    let hopper_alone = "wgmma.fence.sync.aligned;\nsetmaxnreg.inc.sync.aligned.u32 240;";
    assert_eq!(newer("sm_90", hopper_alone), [1, 2]);
    assert_eq!(newer("sm_90a", hopper_alone), NONE);
}

#[test]
fn what_every_target_has_is_left_alone() {
    let old = "bar.sync 0;\nshfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;\n\
               mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, {%f0,%f1,%f2,%f3};\n\
               membar.gl;\nfence.acq_rel.gpu;\ncp.async.x;";
    assert_eq!(newer("sm_75", old), [6]);
    assert_eq!(
        newer(
            "sm_75",
            "st.global.u32 [%rd1], %r1;\nprefetch.global.L2 [%rd1];"
        ),
        NONE
    );
}

#[test]
fn what_a_cluster_shares_and_cache_policies_have_their_targets() {
    let policies =
        "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;\ndiscard.global.L2 [%rd1], 128;";
    assert_eq!(newer("sm_75", policies), [1, 2]);
    assert_eq!(newer("sm_80", policies), NONE);
    let scopes = "fence.acq_rel.cluster;\nld.relaxed.cluster.global.u32 %r1, [%rd1];\n\
                  prefetch.tensormap [%rd1];";
    assert_eq!(newer("sm_89", scopes), [1, 2, 3]);
    assert_eq!(newer("sm_90", scopes), NONE);
    let replace = "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;";
    assert_eq!(newer("sm_90", replace), [1]);
    assert_eq!(newer("sm_90a", replace), NONE);
}

#[test]
fn an_unknown_target_is_an_error_at_its_line() {
    for target in ["sm_999", "debug, sm_90f", "compute_75"] {
        let text =
            format!(".version 8.5\n\n.target {target}\n.entry k() {{\nfence.proxy.async;\n}}");
        let findings = lint(&parse(&text).expect("valid PTX"));
        let found: Vec<_> = findings
            .iter()
            .map(|f| (f.severity, f.rule, f.line))
            .collect();
        assert_eq!(
            found,
            [(Severity::Error, Rule::UnknownTarget, 3)],
            "{target}"
        );
        let name = target.trim_start_matches("debug, ");
        let message = &findings[0].message;
        assert!(message.contains(&format!("`{name}`")), "{message}");
    }
    for target in ["sm_90a, debug", "sm_75, texmode_independent"] {
        let text = format!(".version 8.5\n.target {target}\n.entry k() {{ ret; }}");
        assert_eq!(lint(&parse(&text).expect("valid PTX")), [], "{target}");
    }
}

#[test]
fn more_static_shared_memory_than_ptxas_takes_is_an_error() {
    let kernel = |bytes: u32| {
        findings(&format!(
            ".shared .align 4 .b8 x[{bytes}];\n.entry k() {{\nmov.b32 %r1, x;\n}}"
        ))
    };
    assert_eq!(kernel(48 << 10), []);
    assert_eq!(
        kernel((48 << 10) + 1),
        [(Severity::Error, Rule::StaticShared, 2)]
    );
}
