//! Values that nothing wrote: read for nothing, used, copied as padding, and multiplied.

use warpsmith_emulator::{Checks, EmulatorConfig, FaultKind};

use super::foreign::{report, run, seeded};

/// A warp copies its words and one more, which the last lane reads for nothing.
const ONE_TOO_MANY: &str = "
.visible .entry k(.param .u64 p)
{
    .reg .pred %q; .reg .b32 %r<6>; .reg .b64 %d<3>;
    .shared .align 4 .b8 words[132];
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, words;
    mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.u32 [%r2], %r0;
    bar.sync 0;
    ld.shared.u32 %r3, [%r2+4];
    setp.eq.u32 %q, %r0, 31;
    //USE
    mad.wide.u32 %d1, %r0, 4, %d0;
    st.global.u32 [%d1], %r4;
    ret;
}";

#[test]
fn what_nothing_wrote_may_be_read_and_dropped() {
    let dropped = [
        "selp.u32 %r4, 99, %r3, %q;",
        "add.u32 %r4, %r3, 1; selp.u32 %r4, 99, %r4, %q; @!%q sub.u32 %r4, %r4, 1;",
        "shfl.sync.idx.b32 %r4, %r3, %r0, 31, -1; @%q mov.u32 %r4, 99;",
        "@%q atom.shared.exch.b32 %r4, [%r2+4], 99; @%q ld.shared.u32 %r3, [%r2+4]; mov.u32 %r4, %r3;",
        "setp.lt.u32 %q, %r3, 5; setp.eq.or.u32 %q, %r0, 31, %q; mov.u32 %r4, %r3;
         setp.eq.u32 %q, %r0, 31; @%q mov.u32 %r4, 99;",
    ];
    for how in dropped {
        let out = run(&ONE_TOO_MANY.replace("//USE", how), 1, 32, 32, seeded(0));
        let out = out.unwrap_or_else(|error| panic!("{how}: {error}"));
        let want: Vec<u32> = (1..32).chain([99]).collect();
        assert_eq!(out, want, "{how}");
    }
}

#[test]
fn what_nothing_wrote_is_a_report_where_it_matters() {
    let used = [
        "mov.u32 %r4, %r3;",
        "add.u32 %r4, %r3, 1;",
        "mul.lo.u32 %r4, %r3, 0;",
        "setp.eq.u32 %q, %r3, 5; @%q exit; mov.u32 %r4, 0;",
        "and.b32 %r4, %r3, 124; add.u32 %r4, %r1, %r4; ld.shared.u32 %r4, [%r4];",
        "atom.shared.add.u32 %r4, [%r1], %r3;",
        "selp.u32 %r4, %r3, 0, %q;",
        "shfl.sync.up.b32 %r4, %r3, 1, 0, -1; shfl.sync.idx.b32 %r4, %r3, 31, 31, -1;",
    ];
    for how in used {
        let found = report(run(
            &ONE_TOO_MANY.replace("//USE", how),
            1,
            32,
            32,
            seeded(0),
        ));
        assert_eq!(found.kind, FaultKind::Uninitialized, "{how}: {found}");
        assert_eq!(found.place.ptx_line, 15, "{how}: {found}");
        assert_eq!(found.place.thread, Some([31, 0, 0]), "{how}: {found}");
    }
    let config = EmulatorConfig {
        checks: Checks {
            unwritten: false,
            ..Checks::ALL
        },
        ..EmulatorConfig::default()
    };
    let text = ONE_TOO_MANY.replace("//USE", used[1]);
    assert!(run(&text, 1, 32, 32, config).is_ok());
}

#[test]
fn what_an_exchange_reads_matters_where_it_is_used() {
    let how = "@%q atom.shared.exch.b32 %r4, [%r2+4], 7; @!%q mov.u32 %r4, 0;";
    let text = ONE_TOO_MANY.replace("//USE", how);
    let found = report(run(&text, 1, 32, 32, seeded(0)));
    assert_eq!(found.kind, FaultKind::Uninitialized, "{found}");
    assert_eq!(found.place.ptx_line, 17, "{found}");
    assert_eq!(found.notes, ["PTX line 19 uses what this read"], "{found}");
}

/// A structure of a word and a byte is copied as two words through a memory, and its byte is read.
fn padding(space: &str, declare: &str) -> String {
    format!(
        "
.visible .entry k(.param .u64 p)
{{
    {declare}
    .reg .b16 %h; .reg .b32 %r<6>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, 7;
    mov.u32 %r5, at;
    st.{space}.u32 [at], %r0;
    st.{space}.u8 [at+4], %r0;
    ld.{space}.v2.u32 {{%r1, %r2}}, [at];
    st.{space}.v2.u32 [at+8], {{%r1, %r2}};
    ld.{space}.v2.u32 {{%r3, %r4}}, [at+8];
    ld.{space}.u8 %h, [at+12];
    st.global.v2.u32 [%d0], {{%r3, %r4}};
    cvt.u32.u16 %r1, %h;
    and.b32 %r2, %r4, 255;
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%d0+8], %r1;
    //USE
    ret;
}}"
    )
}

#[test]
fn padding_is_copied_as_it_is() {
    for (space, declare) in [
        ("shared", ".shared .align 8 .b8 at[16];"),
        ("local", ".local .align 8 .b8 at[16];"),
    ] {
        let text = padding(space, declare);
        let out = run(&text, 1, 1, 4, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(out, [7, 0xffff_ff07, 14, 0], "{space}");
        let text = text.replace("//USE", "add.u32 %r4, %r4, 1; st.global.u32 [%d0], %r4;");
        if space == "shared" {
            let found = report(run(&text, 1, 1, 4, seeded(0)));
            assert_eq!(found.kind, FaultKind::Uninitialized, "{found}");
        }
    }
}

#[test]
fn an_asynchronous_copy_of_a_vector_leaves_its_padding_unwritten() {
    let declare = ".shared .align 16 .b8 at[16]; .shared .align 16 .b8 to[16];";
    let copy = "mov.u32 %r5, to; cp.async.cg.shared.global [%r5], [%d0], 16; cp.async.wait_all;
        ld.shared.v2.u32 {%r3, %r4}, [to]; //MASK
        add.u32 %r3, %r3, %r4; st.global.u32 [%d0+12], %r3;";
    let text = padding("shared", declare).replace("//USE", copy);
    let masked = text.replace("//MASK", "and.b32 %r4, %r4, 255;");
    let out = run(&masked, 1, 1, 4, seeded(0)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(out, [7, 0xffff_ff07, 14, 14]);
    let found = report(run(&text, 1, 1, 4, seeded(0)));
    assert_eq!(found.kind, FaultKind::Uninitialized, "{found}");
}

#[test]
fn a_product_depends_on_the_rows_that_were_written() {
    // Rows 8 to 15 of A are not written, so rows 8 to 15 of the product are dropped.
    let text = "
.visible .entry k(.param .u64 p)
{
    .shared .align 16 .b8 a[512];
    .reg .b32 %r<16>; .reg .f32 %f<4>; .reg .b64 %d<3>; .reg .pred %q;
    ld.param.u64 %d0, [p];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, a;
    mad.lo.u32 %r2, %r0, 8, %r1;
    mov.u32 %r3, 0x3f803f80;
    st.shared.v2.b32 [%r2], {%r3, %r3};
    bar.warp.sync -1;
    mad.lo.u32 %r2, %r0, 16, %r1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r6, %r5, %r7}, [%r2];
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, %f0;
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r4, %r5, %r6, %r7}, {%r3, %r3}, {%f0, %f1, %f2, %f3};
    mad.wide.u32 %d1, %r0, 8, %d0;
    st.global.v2.f32 [%d1], {ROWS};
    ret;
}";
    let out = run(&text.replace("ROWS", "%f0, %f1"), 1, 32, 64, seeded(0));
    let out = out.unwrap_or_else(|error| panic!("{error}"));
    assert!(out.iter().all(|word| *word == 16f32.to_bits()), "{out:x?}");
    let found = report(run(&text.replace("ROWS", "%f2, %f3"), 1, 32, 64, seeded(0)));
    assert_eq!(found.kind, FaultKind::Uninitialized, "{found}");
}
