//! Registers that are read before they are written.

use std::path::{Path, PathBuf};

use ptx_syntax::ast::Module;
use ptx_syntax::lint::{Rule, Severity, lint};
use ptx_syntax::parse;
use ptx_syntax::unwritten::{Doubt, Doubtful, NeverWritten, never_written};

const REGISTERS: &str = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<99>; .reg .f32 %f<9>; \
                         .reg .b64 %rd<9>;";

fn kernel(body: &str) -> Module {
    let text = format!(
        ".version 8.5\n.target sm_90a\n.address_size 64\n\
         .entry k(.param .u64 x) .maxntid 128 {{ {REGISTERS}\n{body}\n}}"
    );
    parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Register, line of the read and line of the use, by lines of `body`.
fn never(body: &str) -> Vec<(String, u32, u32)> {
    let found = never_written(&kernel(body).functions[0]).into_iter();
    let tuple = |found: NeverWritten| (found.register, found.line - 4, found.used - 4);
    found.map(tuple).collect()
}

/// Names of the registers that have to be watched, and of those that are open.
fn watched(body: &str) -> (Vec<String>, Vec<String>) {
    let module = kernel(body);
    let doubtful = Doubtful::of(&module.functions[0]);
    let names = |only_open: bool| {
        let own = doubtful.watched().iter();
        let own = own.filter(|watch| watch.open || !only_open);
        own.map(|watch| watch.name.to_owned()).collect()
    };
    (names(false), names(true))
}

#[test]
fn a_register_that_nothing_writes_is_a_warning_with_name_and_place() {
    let module = kernel("mov.u32 %r2, %r1;\nadd.u32 %r3, %r2, 1;\nst.global.u32 [%rd1], %r3;");
    let found: Vec<_> = lint(&module).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "5: warning[unwritten-register]: in k: `%r1` is read, and no write of it leads here, \
             and line 7 uses what comes of it: it may hold anything; write it first",
            "7: warning[unwritten-register]: in k: `%rd1` is read, and no write of it leads here: \
             it may hold anything; write it first",
        ]
    );
    assert_eq!(lint(&module)[0].rule, Rule::UnwrittenRegister);
    assert_eq!(lint(&module)[0].severity, Severity::Warning);
}

#[test]
fn every_use_that_matters_counts() {
    for body in [
        "st.global.u32 [64], %r1;",
        "st.global.v2.u32 [64], {%r1, %r1};",
        "st.param.v2.u32 [f], {%r0, %r1};",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [64], %r1, [64];",
        "ld.global.u32 %r2, [%r1];",
        "atom.global.add.u32 %r2, [64], %r1;",
        "bar.sync %r1;",
        "call f, (%r1);",
        "call (%r0), f, (%r0, %r1);",
        "brx.idx %r1, T;",
        "vote.sync.ballot.b32 %r0, %p1, %r1;",
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [64], \
         [64, {%r1}], [64];",
        "mbarrier.arrive.expect_tx.shared.b64 _, [64], %r1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r0, %r1}, 0, 0, 1, 1, 1, 0, 0;",
    ] {
        let found = never(&format!("mov.u32 %r0, 0; setp.eq.u32 %p1, %r0, 0;\n{body}"));
        assert_eq!(found, [("%r1".into(), 2, 2)], "{body}");
    }
    assert_eq!(never("@%p1 bra L;\nL: ret;"), [("%p1".into(), 1, 1)]);
    assert_eq!(never("@!%p1 ret;"), [("%p1".into(), 1, 1)]);
}

#[test]
fn what_comes_of_an_unwritten_register_counts_where_it_is_used() {
    // Through a loop, and by the register that nothing ever set.
    let sum = "mov.u32 %r1, 0;\nL: add.u32 %r2, %r2, %r1;\nadd.u32 %r1, %r1, 1;\n\
               setp.lt.u32 %p1, %r1, 9;\n@%p1 bra L;\nst.global.u32 [64], %r2;";
    assert_eq!(never(sum), [("%r2".into(), 2, 6)]);
    // A write that stands only behind the read, or on a way that does not lead to it.
    assert_eq!(
        never("st.global.u32 [64], %r1;\nmov.u32 %r1, 0;"),
        [("%r1".into(), 1, 1)]
    );
    let apart = "setp.eq.u32 %p1, 0, 0;\n@%p1 bra L;\nmov.u32 %r1, 0;\nret;\n\
                 L: st.global.u32 [64], %r1;";
    assert_eq!(never(apart), [("%r1".into(), 5, 5)]);
    // A copy of an unwritten register over what was there.
    let over = "mov.u32 %r1, 0;\nmov.u32 %r1, %r2;\nst.global.u32 [64], %r1;";
    assert_eq!(never(over), [("%r2".into(), 2, 3)]);
    let choice = "setp.eq.u32 %p1, %r1, 0;\nselp.u32 %r2, 0, 1, %p1;\nst.global.u32 [64], %r2;";
    assert_eq!(never(choice), [("%r1".into(), 1, 3)]);
    let both = "setp.eq.u32 %p1, 0, 0;\nselp.u32 %r1, %r2, %r3, %p1;\nst.global.u32 [64], %r1;";
    assert_eq!(never(both), [("%r2".into(), 2, 3), ("%r3".into(), 2, 3)]);
}

#[test]
fn what_may_be_written_or_does_not_matter_is_left_alone() {
    for body in [
        // Behind a guard, on one way of two, in an earlier round.
        "setp.eq.u32 %p1, 0, 0; @%p1 mov.u32 %r1, 0; st.global.u32 [64], %r1;",
        "setp.eq.u32 %p1, 0, 0; @%p1 bra L; mov.u32 %r1, 0; L: st.global.u32 [64], %r1;",
        "mov.u32 %r0, 0; L: setp.eq.u32 %p1, %r0, 0; @%p1 bra F; st.global.u32 [64], %r1; \
         F: mov.u32 %r1, 0; bra L;",
        "mov.u32 %r0, 0; brx.idx %r0, T; T: .branchtargets A, B; A: mov.u32 %r1, 0; \
         B: st.global.u32 [64], %r1;",
        // Copies, arithmetic and shuffles whose result is thrown away.
        "mov.u32 %r2, %r1; add.u32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, %r1;",
        "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; st.global.u32 [64], %r2;",
        // Halves, bits, arms of a choice.
        "mov.u16 %h1, 0; mov.b32 %r1, {%h1, %h2}; st.global.u32 [64], %r1;",
        "mov.u32 %r1, 0; prmt.b32 %r3, %r1, %r2, 0x7531; st.global.u32 [64], %r3;",
        "mov.u32 %r1, 0; setp.eq.u32 %p1, %r1, 0; selp.u32 %r3, %r1, %r2, %p1; \
         st.global.u32 [64], %r3;",
        "xor.b32 %r1, %r1, %r1; st.global.u32 [64], %r1;",
        // A choice by an unwritten register, whose result is thrown away.
        "setp.eq.u32 %p1, %r1, 0; selp.u32 %r2, 0, 1, %p1; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;",
        // An element beside one that is written, or a constant.
        "mov.u32 %r1, 0; st.global.v2.u32 [64], {%r1, %r2};",
        "st.global.v4.u32 [64], {%r1, 0, %r2, %r2};",
        // Accumulators that are not read, or perhaps not.
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1}, 0, 0, 0, 1, 1, 0, 0; \
         st.global.f32 [64], %f1;",
        "setp.eq.u32 %p1, 0, 0; \
         wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1}, 0, 0, %p1, 1, 1, 0, 0;",
        // Written by an instruction that is not arithmetic.
        "call (%r1), f, (0); st.global.u32 [64], %r1;",
        "elect.sync %r1|%p1, -1; @%p1 st.global.u32 [64], %r1;",
        "ld.global.v2.u32 {%r1, _}, [64]; st.global.u32 [64], %r1;",
        "mbarrier.arrive.shared.b64 %rd1, [64]; mbarrier.test_wait.shared.b64 %p1, [64], %rd1; \
         @%p1 ret;",
        // Nothing leads there.
        "ret; st.global.u32 [64], %r1;",
        // A block's own register of that name.
        "mov.u32 %r1, 0; { .reg .b32 %r1; mov.u32 %r1, 1; st.global.u32 [64], %r1; }",
    ] {
        assert_eq!(never(body), [], "{body}");
    }
}

#[test]
fn names_belong_to_their_block() {
    let inner = "mov.u32 %r1, 0;\n{ .reg .b32 %r1;\nst.global.u32 [64], %r1; }";
    assert_eq!(never(inner), [("%r1".into(), 3, 3)]);
    // Both blocks have a label L.
    let labels = "setp.eq.u32 %p1, 0, 0;\n{ @%p1 bra L; mov.u32 %r1, 0; L: }\n\
                  { @%p1 bra L; L: st.global.u32 [64], %r1; }";
    assert_eq!(never(labels), []);
}

#[test]
fn only_what_may_be_unwritten_is_watched() {
    let none = (Vec::<String>::new(), Vec::<String>::new());
    // Written on both ways.
    let both = "setp.eq.u32 %p1, 0, 0; @%p1 bra L; mov.u32 %r1, 0; bra M; L: mov.u32 %r1, 1; \
                M: st.global.u32 [64], %r1;";
    assert_eq!(watched(both), none);
    // Unwritten, but used nowhere.
    assert_eq!(watched("mov.u32 %r2, %r1; add.u32 %r3, %r2, 1;"), none);
    // %r2 only follows %r1; %r3 is written.
    let one = "setp.eq.u32 %p1, 0, 0; @%p1 mov.u32 %r1, 0; mov.u32 %r3, 1; add.u32 %r2, %r1, %r3; \
               st.global.u32 [64], %r2;";
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(watched(one), (names(&["%r1", "%r2"]), names(&["%r1"])));
}

/// A register that may be unwritten where it is stored, and where that comes from.
type Stored = (String, Vec<(String, u32)>);

/// The elements that the store in line `line` of `body` stores, if they may be unwritten.
fn stored(body: &str, line: u32) -> Vec<Option<Stored>> {
    let module = kernel(body);
    let doubtful = Doubtful::of(&module.functions[0]);
    let element = |doubt: &Doubt<'_>| {
        let origins = doubt.origins.iter();
        let origins = origins.map(|(name, line)| ((*name).to_owned(), line - 4));
        let name = doubtful.watched()[doubt.register].name;
        (name.to_owned(), origins.collect())
    };
    let elements = doubtful.stored(line - 1).iter();
    elements.map(|own| own.as_ref().map(element)).collect()
}

#[test]
fn elements_of_a_store_are_told_apart() {
    let body = "setp.eq.u32 %p1, 0, 0;\n@%p1 mov.u32 %r1, 0;\nmov.u32 %r2, %r1;\n\
                st.global.v4.u32 [64], {%r0, %r1, 5, %r2};\nmov.u32 %r1, 0;\n\
                st.global.v2.u32 [64], {%r1, 0};\nld.global.u32 %r3, [64];";
    let one = |name: &str, origins: &[(&str, u32)]| {
        let origins = origins.iter().map(|(name, line)| ((*name).into(), *line));
        Some((name.to_owned(), origins.collect()))
    };
    let want = [
        one("%r0", &[]),
        one("%r1", &[]),
        None,
        one("%r2", &[("%r1", 3)]),
    ];
    assert_eq!(stored(body, 4), want);
    for line in [1, 2, 3, 5, 6, 7] {
        assert_eq!(stored(body, line), [], "line {line}");
    }
    // A store is not a use that would be reported.
    let doubtful = kernel(body);
    assert_eq!(Doubtful::of(&doubtful.functions[0]).steps(3), []);
}

fn modules(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            modules(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
}

#[test]
fn kernels_that_compilers_made_have_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for folder in ["ptx", "examples/kernels/ptx", "tests/corpus/ptx"] {
        modules(&root.join(folder), &mut found);
    }
    assert!(found.len() > 80, "{found:?}");
    for path in found {
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        let module = parse(&text).expect("valid PTX");
        for function in module.functions.iter().filter(|f| f.body.is_some()) {
            let never = never_written(function);
            assert_eq!(never, [], "{} in {}", function.name, path.display());
        }
    }
}
