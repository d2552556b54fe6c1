//! What is printed parses back to the same tree, and no text makes the parser panic.

use crate::{generated, samples};
use proptest::prelude::*;
use ptx_syntax::ast::{Module, Statement};
use ptx_syntax::explain::explain;
use ptx_syntax::lint::lint;
use ptx_syntax::parse;

fn without_lines(mut module: Module) -> Module {
    module.clear_lines();
    module
}

#[test]
fn samples_parse_back_to_the_same_tree() {
    for (name, text) in samples::ALL {
        let module = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let printed = module.to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
        assert_eq!(without_lines(module), without_lines(again), "{name}");
    }
}

/// What printing drops: where a `.loc` was inlined.
fn without_inlined(mut module: Module) -> Module {
    fn clear(statement: &mut Statement) {
        match statement {
            Statement::Loc { inlined_at, .. } => *inlined_at = None,
            Statement::Block(inner) => inner.iter_mut().for_each(clear),
            _ => {}
        }
    }
    let bodies = module
        .functions
        .iter_mut()
        .filter_map(|it| it.body.as_mut());
    bodies.flatten().for_each(clear);
    module
}

#[test]
fn samples_printed_at_their_lines_parse_back_with_their_lines() {
    for (name, text) in samples::ALL {
        let module = without_inlined(parse(text).expect("valid"));
        let printed = module.text_at_lines();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
        assert_eq!(again, module, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_module_parses_back_to_the_same_tree(module in generated::module()) {
        let printed = module.to_string();
        match parse(&printed) {
            Ok(again) => prop_assert_eq!(without_lines(again), module, "{}", printed),
            Err(error) => prop_assert!(false, "{error}\n{printed}"),
        }
    }

    #[test]
    fn any_module_printed_at_its_lines_parses_back(module in generated::module()) {
        let printed = module.text_at_lines();
        match parse(&printed) {
            Ok(again) => prop_assert_eq!(without_lines(again), module, "{}", printed),
            Err(error) => prop_assert!(false, "{error}\n{printed}"),
        }
    }

    #[test]
    fn a_damaged_sample_never_panics(
        sample in 0..samples::ALL.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut bytes = samples::ALL[sample].1.as_bytes().to_vec();
        for (place, byte, kind) in damage {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_truncated_sample_never_panics(
        sample in 0..samples::ALL.len(),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = samples::ALL[sample].1;
        let end = (0..=cut.index(text.len())).rev().find(|at| text.is_char_boundary(*at));
        survives(&text[..end.unwrap_or(0)]);
    }

    #[test]
    fn any_text_never_panics(text in "(\\PC|[ \n.,;%{}()\\[\\]<>!|0-9a-z]){0,64}") {
        survives(&text);
        survives(&format!(".version 8.0\n.target sm_90\n{text}"));
        survives(&format!(".version 8.0\n.target sm_90\n.entry k() {{ {text} }}"));
    }
}

/// Whatever parses can also be printed, linted and explained.
fn survives(text: &str) {
    match parse(text) {
        Ok(module) => {
            lint(&module);
            assert!(explain(&module).kernels.len() <= module.functions.len());
            let again = parse(&module.to_string()).expect("what is printed parses");
            assert_eq!(without_lines(again), without_lines(module));
        }
        Err(error) => assert!(error.line >= 1 && error.column >= 1, "{error:?}"),
    }
}
