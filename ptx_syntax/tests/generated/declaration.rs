//! Random variables, parameters, registers and initial values.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ptx_syntax::ast::{
    Constant, Initializer, Linkage, PointerAttribute, RegisterNames, Registers, ScalarType, Space,
    Variable,
};

use super::{attributes, linkage, name};

fn scalar() -> impl Strategy<Value = ScalarType> {
    let words = [
        "b8",
        "b16",
        "b32",
        "b64",
        "b128",
        "u8",
        "u16",
        "u32",
        "u64",
        "s8",
        "s16",
        "s32",
        "s64",
        "f16",
        "f16x2",
        "bf16",
        "bf16x2",
        "tf32",
        "f32",
        "f64",
        "e4m3",
        "e5m2",
        "e4m3x2",
        "e5m2x2",
        "u16x2",
        "s16x2",
        "pred",
        "texref",
        "samplerref",
        "surfref",
    ];
    let types: Option<Vec<_>> = words.into_iter().map(ScalarType::from_word).collect();
    prop::sample::select(types.expect("every type has its word"))
}

fn space() -> impl Strategy<Value = Space> {
    use Space as S;
    prop::sample::select(vec![S::Const, S::Global, S::Local, S::Param, S::Shared])
}

fn lanes() -> impl Strategy<Value = Option<u8>> {
    of(prop::sample::select(vec![2_u8, 4, 8]))
}

pub(crate) fn variable() -> impl Strategy<Value = Variable> {
    let head = (
        space(),
        linkage(),
        of(1..256_u32),
        attributes(),
        scalar(),
        lanes(),
    );
    (head, name(), vec(of(any::<u64>()), 0..3), of(initializer())).prop_map(
        |((space, linkage, align, attributes, ty, vector), name, dims, init)| Variable {
            space,
            linkage,
            align,
            attributes,
            pointer: None,
            ty,
            vector,
            name,
            dims,
            init,
            line: 0,
        },
    )
}

pub(crate) fn parameter() -> impl Strategy<Value = Variable> {
    let pointer =
        (of(space()), of(1..256_u32)).prop_map(|(space, align)| PointerAttribute { space, align });
    (variable(), of(pointer), any::<bool>()).prop_map(|(variable, pointer, in_register)| Variable {
        space: if in_register {
            Space::Reg
        } else {
            Space::Param
        },
        linkage: Linkage::Internal,
        init: None,
        pointer,
        ..variable
    })
}

pub(crate) fn registers() -> impl Strategy<Value = Registers> {
    let names = prop_oneof![
        name().prop_map(RegisterNames::One),
        (name(), any::<u32>()).prop_map(|(prefix, count)| RegisterNames::Range { prefix, count }),
    ];
    (scalar(), lanes(), vec(names, 1..3)).prop_map(|(ty, vector, names)| Registers {
        ty,
        vector,
        names,
        line: 0,
    })
}

/// Integers as the parser gives them: 64 bits, either sign.
pub(crate) fn integer() -> impl Strategy<Value = i128> {
    prop_oneof![
        any::<i64>().prop_map(i128::from),
        any::<u64>().prop_map(i128::from)
    ]
}

fn initializer() -> impl Strategy<Value = Initializer> {
    let symbol = (name(), any::<i32>(), any::<bool>(), of(any::<u64>())).prop_map(
        |(name, offset, generic, mask)| Constant::Symbol {
            name,
            offset: i64::from(offset),
            generic,
            mask,
        },
    );
    let constant = prop_oneof![
        integer().prop_map(Constant::Integer),
        any::<u32>().prop_map(Constant::F32),
        any::<u64>().prop_map(Constant::F64),
        symbol,
    ];
    constant
        .prop_map(Initializer::Value)
        .prop_recursive(3, 16, 4, |inner| {
            vec(inner, 0..4).prop_map(Initializer::List)
        })
}
