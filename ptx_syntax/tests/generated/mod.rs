//! Random modules: every node of the tree, every field, as the parser could have made them.

mod body;
mod declaration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ptx_syntax::ast::{Alias, Directives, Function, FunctionKind, Linkage, Module};

pub(crate) fn module() -> impl Strategy<Value = Module> {
    let header = (
        1..10_u32,
        0..20_u32,
        vec("sm_[0-9]{2}a?", 1..3),
        any::<bool>(),
    );
    let lists = (
        vec((0..9_u32, text()), 0..3),
        vec(text(), 0..2),
        vec(declaration::variable(), 0..4),
        vec(function(), 0..4),
        vec((name(), name()), 0..2),
    );
    (header, lists).prop_map(|((major, minor, targets, wide), lists)| Module {
        version: (major, minor),
        targets,
        target_line: 0,
        address_size: if wide { 64 } else { 32 },
        files: lists.0,
        pragmas: lists.1,
        variables: lists.2,
        functions: lists.3,
        aliases: lists
            .4
            .into_iter()
            .map(|(name, target)| Alias {
                name,
                target,
                line: 0,
            })
            .collect(),
    })
}

/// A name that is not `_` and not `WARP_SZ`.
fn name() -> impl Strategy<Value = String> {
    "([a-zA-V][a-zA-Z0-9_$]{0,6}|[_$%][a-zA-Z0-9_$]{1,6})"
        .prop_filter("generic( is an operator", |name| name != "generic")
}

/// The inside of a string.
fn text() -> impl Strategy<Value = String> {
    "([a-z /.;{}\u{e9}]|\\\\\"){0,8}"
}

fn linkage() -> impl Strategy<Value = Linkage> {
    use Linkage as L;
    prop::sample::select(vec![L::Internal, L::Visible, L::Extern, L::Weak, L::Common])
}

fn attributes() -> impl Strategy<Value = Vec<String>> {
    vec("\\.managed|\\.unified\\([0-9], [1-9][0-9]\\)", 0..2)
}

fn function() -> impl Strategy<Value = Function> {
    let signature = (
        name(),
        any::<bool>(),
        linkage(),
        vec(declaration::parameter(), 0..2),
        vec(declaration::parameter(), 0..4),
    );
    (
        signature,
        attributes(),
        directives(),
        of(body::statements()),
    )
        .prop_map(
            |((name, entry, linkage, returns, params), attributes, directives, body)| Function {
                name,
                kind: if entry {
                    FunctionKind::Entry
                } else {
                    FunctionKind::Func
                },
                linkage,
                returns: if entry { Vec::new() } else { returns },
                params,
                attributes,
                directives,
                body,
                line: 0,
            },
        )
}

fn directives() -> impl Strategy<Value = Directives> {
    let extents = || of([1..9_u32, 1..9, 1..9]);
    let counts = [
        of(any::<u32>()),
        of(any::<u32>()),
        of(any::<u32>()),
        of(any::<u32>()),
    ];
    let abi = (of(0..9_u32), of(0..9_u32), of(0..9_u32));
    (
        extents(),
        extents(),
        extents(),
        counts,
        abi,
        any::<[bool; 3]>(),
        vec(text(), 0..2),
    )
        .prop_map(
            |(maxntid, reqntid, reqnctapercluster, counts, abi, flags, pragmas)| Directives {
                maxntid,
                reqntid,
                minnctapersm: counts[0],
                maxnctapersm: counts[1],
                maxnreg: counts[2],
                reqnctapercluster,
                maxclusterrank: counts[3],
                explicitcluster: flags[0],
                blocksareclusters: flags[1],
                noreturn: flags[2],
                abi_preserve: abi.0,
                abi_preserve_control: abi.1,
                local_maxnreg: abi.2,
                pragmas,
            },
        )
}
