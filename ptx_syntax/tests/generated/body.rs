//! Random statements, instructions and operands.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ptx_syntax::ast::{AddressBase, Guard, Instruction, Operand, Statement};

use super::declaration::{integer, parameter, registers, variable};
use super::{directives, name, text};

pub(crate) fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let prototype = (
        name(),
        vec(parameter(), 0..2),
        vec(parameter(), 0..3),
        directives(),
    )
        .prop_map(
            |(name, returns, params, directives)| Statement::CallPrototype {
                name,
                returns,
                params,
                directives,
                line: 0,
            },
        );
    let simple = prop_oneof![
        6 => instruction().prop_map(Statement::Instruction),
        1 => name().prop_map(|name| Statement::Label { name, line: 0 }),
        1 => registers().prop_map(Statement::Registers),
        1 => variable().prop_map(Statement::Variable),
        1 => (name(), vec(name(), 1..3)).prop_map(|(name, targets)| Statement::BranchTargets {
            name,
            targets,
            line: 0
        }),
        1 => (name(), vec(name(), 1..3)).prop_map(|(name, targets)| Statement::CallTargets {
            name,
            targets,
            line: 0
        }),
        1 => prototype,
        1 => any::<[u32; 3]>().prop_map(|[file, line, column]| Statement::Loc {
            file,
            line,
            column,
            inlined_at: None
        }),
        1 => text().prop_map(Statement::Pragma),
    ];
    let nested = simple.prop_recursive(3, 24, 6, |inner| {
        vec(inner, 0..5).prop_map(Statement::Block)
    });
    vec(nested, 0..8)
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let guard = (name(), any::<bool>()).prop_map(|(register, negated)| Guard { register, negated });
    let modifier = "[a-z0-9][a-z0-9_]{0,5}(::[a-z0-9_]{1,5}){0,2}";
    let ordinary = (name(), vec(operand(), 0..5));
    let call_list = vec(operand(), 0..3).prop_map(Operand::List);
    let call = vec(prop_oneof![operand(), call_list], 0..4).prop_map(|list| ("call".into(), list));
    (
        of(guard),
        vec(modifier, 0..4),
        prop_oneof![4 => ordinary, 1 => call],
        any::<bool>(),
    )
        .prop_map(
            |(guard, modifiers, (opcode, operands), reads_once)| Instruction {
                guard,
                opcode,
                modifiers,
                operands,
                reads_once,
                line: 0,
            },
        )
}

fn register() -> impl Strategy<Value = String> {
    prop_oneof![3 => name(), 1 => "%[a-z]{1,4}\\.[xyzw]"]
}

fn operand() -> impl Strategy<Value = Operand> {
    let sink_or_name =
        || prop_oneof![3 => register().prop_map(Operand::Name), 1 => Just(Operand::Sink)];
    let leaf = prop_oneof![
        4 => register().prop_map(Operand::Name),
        2 => integer().prop_map(Operand::Integer),
        1 => any::<u32>().prop_map(Operand::F32),
        1 => any::<u64>().prop_map(Operand::F64),
        1 => Just(Operand::Sink),
        1 => register().prop_map(|name| Operand::Not(Box::new(Operand::Name(name)))),
        1 => register().prop_map(|name| Operand::Negated(Box::new(Operand::Name(name)))),
        1 => (register(), any::<i64>())
            .prop_map(|(name, offset)| Operand::SymbolOffset { name, offset }),
        1 => (name(), of(register()), any::<i64>())
            .prop_map(|(array, register, offset)| Operand::Element { array, register, offset }),
        1 => (sink_or_name(), sink_or_name())
            .prop_map(|(a, b)| Operand::Pair(Box::new(a), Box::new(b))),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        let base = prop_oneof![
            (register(), any::<i64>()).prop_map(|(name, offset)| (AddressBase::Name(name), offset)),
            any::<u64>().prop_map(|address| (AddressBase::Absolute(address), 0)),
        ];
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(Operand::Vector),
            (base, vec(inner, 0..3)).prop_map(|((base, offset), extra)| Operand::Address {
                base,
                offset,
                extra
            }),
        ]
    })
}
