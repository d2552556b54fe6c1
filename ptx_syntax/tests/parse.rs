//! What the parser reads, form by form.

use ptx_syntax::ast::{AddressBase, Instruction, Operand, Statement};
use ptx_syntax::parse;

const HEADER: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n";

/// The only instruction of a kernel whose body is `text`.
fn instruction(text: &str) -> Instruction {
    let module = parse(&format!("{HEADER}.visible .entry k() {{ {text} }}")).expect("valid PTX");
    match module.functions[0].body.as_deref() {
        Some([Statement::Instruction(instruction)]) => instruction.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

fn name(text: &str) -> Operand {
    Operand::Name(text.into())
}

#[test]
fn a_comment_behind_an_instruction_marks_what_reads_once() {
    for marked in [
        "ld.global.b32 %r1, [%rd1]; // once\n",
        "prefetch.global.L2 [%rd1];// once \r\n",
    ] {
        assert!(instruction(marked).reads_once, "{marked}");
    }
    for other in [
        "ld.global.b32 %r1, [%rd1]; // once more\n",
        "// once\nld.global.b32 %r1, [%rd1];\n// once\n",
        "ld.global.b32 %r1, // once\n[%rd1];\n",
    ] {
        assert!(!instruction(other).reads_once, "{other}");
    }
}

#[test]
fn a_tensor_copy_keeps_its_coordinates_in_the_address() {
    let copy = instruction(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
         [%r1], [%rd1, {%r2, %r3}], [%r4+8];",
    );
    assert_eq!(copy.modifiers[3], "2d");
    assert_eq!(copy.modifiers[4], "shared::cluster");
    assert_eq!(copy.modifiers[7], "mbarrier::complete_tx::bytes");
    assert_eq!(
        copy.operands[1],
        Operand::Address {
            base: AddressBase::Name("%rd1".into()),
            offset: 0,
            extra: vec![Operand::Vector(vec![name("%r2"), name("%r3")])],
        }
    );
}

#[test]
fn pairs_sinks_and_negated_predicates() {
    let setp = instruction("setp.lt.and.f32 %p1|_, %f1, -%f2, !%p3;");
    let pair = Operand::Pair(Box::new(name("%p1")), Box::new(Operand::Sink));
    assert_eq!(setp.operands[0], pair);
    assert_eq!(setp.operands[2], Operand::Negated(Box::new(name("%f2"))));
    assert_eq!(setp.operands[3], Operand::Not(Box::new(name("%p3"))));
}

#[test]
fn immediates_are_constant_expressions() {
    let operand = |text: &str| instruction(&format!("mov.b64 %rd1, {text};")).operands[1].clone();
    assert_eq!(
        operand("-9223372036854775808"),
        Operand::Integer(i128::from(i64::MIN))
    );
    assert_eq!(
        operand("0xFFFFFFFFFFFFFFFF"),
        Operand::Integer(i128::from(u64::MAX))
    );
    assert_eq!(operand("(1 << 4) | 3 + 2*5"), Operand::Integer(29));
    assert_eq!(operand("017"), Operand::Integer(15));
    assert_eq!(operand("0b101U"), Operand::Integer(5));
    assert_eq!(operand("~0"), Operand::Integer(-1));
    assert_eq!(operand("1 < 2 ? 7 : 8"), Operand::Integer(7));
    assert_eq!(operand("0f3F800000"), Operand::F32(0x3f80_0000));
    assert_eq!(operand("1.5"), Operand::F64(1.5_f64.to_bits()));
    assert_eq!(operand("-1e3"), Operand::F64((-1e3_f64).to_bits()));
    assert_eq!(operand(".5"), Operand::F64(0.5_f64.to_bits()));
    assert_eq!(operand("WARP_SZ-1"), Operand::Integer(31));
    assert_eq!(
        operand("sym+-8"),
        Operand::SymbolOffset {
            name: "sym".into(),
            offset: -8
        }
    );
}

#[test]
fn what_ptxas_refuses_is_refused() {
    for text in [
        "ld.u32 %r1, [%rd1-4];",
        "ld.u32 %r1, [4+%rd1];",
        "ld.u32 %r1, [%rd1+%r2];",
        "ld.u32 %r1, [%rd1][2];",
        "mov.f32 %f1, -0f3F800000;",
        "mov.u32 %r1, 08;",
        "mov.u32 %r1, 5u;",
        "mov.u32 %r1, 5 %3;",
        "mov.u32 %r1, 'a';",
        "ld . global.u32 %r1, [a];",
        "setp.eq.u32 %p|!%p, 1, 2;",
        "mov.u64 %rd1, generic(a);",
        ".shared .u32 .align 8 s;",
        ".reg .v3 .b32 x;",
        "mov.u32 %r1, %r2",
        ";",
        "@%p;",
        "ld.u32 %r1, [%rd1;",
    ] {
        let module = format!("{HEADER}.visible .entry k() {{ {text} }}");
        assert!(parse(&module).is_err(), "{text} was accepted");
    }
}

#[test]
fn calls_have_lists() {
    let call = instruction("call.uni (retval0), vprintf, (param0, param1);");
    assert_eq!(call.operands[0], Operand::List(vec![name("retval0")]));
    assert_eq!(
        call.operands[2],
        Operand::List(vec![name("param0"), name("param1")])
    );
    assert_eq!(
        instruction("call f, ();").operands[1],
        Operand::List(vec![])
    );
}

#[test]
fn a_guard_and_a_component_belong_to_their_register() {
    let mov = instruction("@!%p1 mov.u32 %r1, %tid.x;");
    assert!(
        mov.guard
            .is_some_and(|guard| guard.negated && guard.register == "%p1")
    );
    assert_eq!(mov.operands[1], name("%tid.x"));
}

#[test]
fn errors_say_where_and_what() {
    for (text, want) in [
        (
            "",
            "1:1: expected `.version`, which begins a PTX module, found the end of the text",
        ),
        (
            ".version 8.3\n.target sm_75\nfoo",
            "3:1: expected a directive, found `foo`",
        ),
        (
            ".version 8.3\n.target sm_75\n/* open",
            "3:1: comment `/*` is never closed",
        ),
        (
            ".version 8.3\n.target sm_75\n.global .b99 x;",
            "3:9: expected a type, found `.b99`",
        ),
        (
            ".version 8\n.target sm_75",
            "1:10: expected a version such as 8.3, found `8`",
        ),
        (
            ".version 8.3\n.target sm_75\n\u{e9}",
            "3:1: unexpected character 'é'",
        ),
    ] {
        assert_eq!(parse(text).expect_err(text).to_string(), want);
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    let deep = |open: &str| open.repeat(200_000);
    for text in [
        format!("{HEADER}.entry k() {}", deep("{")),
        format!("{HEADER}.global .u32 x = {};", deep("(")),
        format!("{HEADER}.global .u32 x = {};", deep("-")),
        format!("{HEADER}.global .u32 x = {};", deep("(.s64)")),
        format!("{HEADER}.global .u32 x[1] = {};", deep("{")),
        format!("{HEADER}.entry k() {{ mov.b32 {}; }}", deep("{")),
        format!("{HEADER}.entry k() {{ mov.b32 a, {}; }}", deep("1?1:")),
        format!("{HEADER}.entry k() {{ ld.b32 a, {}; }}", deep("[a,")),
    ] {
        let error = parse(&text).expect_err("nested too deep");
        assert!(
            error.message.contains("nested more than 128 deep"),
            "{error}"
        );
    }
}
