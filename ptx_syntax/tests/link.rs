//! Several modules as one.

use ptx_syntax::ast::Module;
use ptx_syntax::link::{LinkError, link};
use ptx_syntax::parse;

fn module(target: &str, body: &str) -> Module {
    let text = format!(".version 8.0\n.target {target}\n.address_size 64\n{body}");
    parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The text of what is linked, which has to parse.
fn linked(bodies: &[&str]) -> Result<String, LinkError> {
    let modules = bodies.iter().map(|body| module("sm_80", body)).collect();
    let text = link(modules)?.to_string();
    parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Ok(text)
}

#[test]
fn declarations_give_way_to_definitions() {
    let text = linked(&[
        ".extern .global .align 4 .u32 base;\n\
         .extern .func (.param .b32 r) twice(.param .b32 x);\n\
         .extern .func vprintf(.param .b64 text);\n\
         .visible .entry k() { .reg .u32 %r; ld.global.u32 %r, [base]; ret; }",
        ".extern .func vprintf(.param .b64 text);\n\
         .visible .global .align 4 .u32 base = 7;\n\
         .visible .func (.param .b32 r) twice(.param .b32 x) { ret; }",
    ])
    .expect("they fit");
    assert!(!text.contains(".extern .global"), "{text}");
    assert_eq!(text.matches("twice").count(), 1, "{text}");
    assert_eq!(text.matches(".extern .func vprintf").count(), 1, "{text}");
    assert!(text.contains("base = 7"), "{text}");
}

#[test]
fn names_of_one_module_are_parted_from_those_of_others() {
    let text = linked(&[
        ".global .align 4 .u32 state = 1;\n\
         .global .align 8 .u64 where = state;\n\
         .func step() { .reg .u32 %r; ld.global.u32 %r, [state+0]; ret; }\n\
         .visible .entry a() { call step; ret; }\n\
         .visible .entry c() { .shared .align 4 .b8 state[4]; st.shared.u32 [state], 0; ret; }",
        ".visible .global .align 4 .u32 state = 2;\n\
         .func step() { ret; }\n\
         .visible .entry b() { .reg .u32 %r; call step; ld.global.u32 %r, [state]; ret; }",
    ])
    .expect("they fit");
    for words in [
        "state__module_1 = 1",
        "where = state__module_1",
        "[state__module_1]",
        "call step__module_1",
        "st.shared.u32 [state], 0",
        ".visible .global .align 4 .u32 state = 2",
        "call step__module_2",
        "ld.global.u32 %r, [state]",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn the_strongest_definition_is_taken() {
    let of = |linkage: &str, value: u32| format!("{linkage} .global .align 4 .u32 x = {value};");
    let text = linked(&[&of(".weak", 1), &of(".visible", 2), &of(".weak", 3)]).expect("they fit");
    assert!(
        text.contains("x = 2") && text.matches(" x ").count() == 1,
        "{text}"
    );
    let twice = linked(&[&of(".visible", 1), "", &of(".visible", 2)]);
    let (name, first, second) = ("x".to_owned(), 1, 3);
    assert_eq!(
        twice,
        Err(LinkError::DefinedTwice {
            name,
            first,
            second
        })
    );
}

#[test]
fn the_newest_target_is_that_of_the_result() {
    let modules = vec![
        module("sm_80", ""),
        module("sm_90a", ""),
        module("sm_75", ""),
    ];
    assert_eq!(link(modules).expect("they fit").targets, ["sm_90a"]);
    assert_eq!(link(Vec::new()), Err(LinkError::Nothing));
}

#[test]
fn source_files_keep_their_lines() {
    let of = |name: &str| {
        format!(".visible .func {name}() {{\n.loc 1 7 1\nret;\n}}\n.file 1 \"{name}.cu\"\n")
    };
    let text = linked(&[&of("a"), &of("b")]).expect("they fit");
    for words in [
        ".file 1 \"a.cu\"",
        ".file 3 \"b.cu\"",
        ".loc 1 7 1",
        ".loc 3 7 1",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}
