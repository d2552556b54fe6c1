//! The table of the instruction set.

use ptx_syntax::ast::Instruction;
use ptx_syntax::isa::{Class, Effect, Opcode, Operands};

fn instruction(mnemonic: &str) -> Instruction {
    Instruction::new(mnemonic, Vec::new(), 1)
}

#[test]
fn every_opcode_is_found_by_its_word() {
    for opcode in Opcode::ALL {
        assert_eq!(Opcode::of(opcode.word()), Some(*opcode), "{opcode:?}");
        let lower = format!("{opcode:?}").to_lowercase();
        assert_eq!(opcode.word(), lower);
    }
}

#[test]
fn an_opcode_that_ptx_does_not_have_has_facts_that_promise_nothing() {
    let unknown = instruction("frobnicate.cluster.f32");
    assert_eq!(unknown.known(), None);
    let facts = unknown.facts();
    assert_eq!(facts.operands, Operands::Written);
    assert_eq!(facts.effect, Effect::Unknown);
    assert_eq!(unknown.class(), Class::Other);
    assert!(!unknown.may_precede_wait());
    // Its modifiers are known all the same.
    assert_eq!(unknown.since().target.to_string(), "sm_90");
}

#[test]
fn modifiers_decide_what_an_instruction_is() {
    let operands = |mnemonic: &str| instruction(mnemonic).facts().operands;
    assert_eq!(operands("bar.sync"), Operands::Read);
    assert_eq!(operands("bar.red.and.pred"), Operands::Written);
    assert_eq!(operands("st.global.u32"), Operands::Stored);
    assert_eq!(operands("st.param.u32"), Operands::Read);
    let class = |mnemonic: &str| instruction(mnemonic).class();
    assert_eq!(class("mad.lo.s32"), Class::Integer);
    assert_eq!(class("mad.rn.f32"), Class::Fma);
    assert_eq!(class("ld.shared::cta.u32"), Class::Shared);
    assert_eq!(class("ld.u32"), Class::Generic);
    let flops = |mnemonic: &str| instruction(mnemonic).flops();
    assert_eq!(
        [flops("mad.lo.s32"), flops("mad.rn.f32"), flops("abs.f32")],
        [0, 2, 0]
    );
}

#[test]
fn the_form_that_needs_most_says_where_an_instruction_begins() {
    let since = |mnemonic: &str| {
        let since = instruction(mnemonic).since();
        (since.target.to_string(), since.version)
    };
    let at = |target: &str, version| (target.to_owned(), version);
    assert_eq!(since("mbarrier.init.shared.b64"), at("sm_80", (7, 0)));
    assert_eq!(
        since("mbarrier.try_wait.parity.shared.b64"),
        at("sm_90", (7, 8))
    );
    assert_eq!(since("cp.async.ca.shared.global"), at("sm_80", (7, 0)));
    assert_eq!(since("cp.async.bulk.commit_group"), at("sm_90", (8, 0)));
    assert_eq!(since("ld.global.L2::cache_hint.u32"), at("sm_80", (7, 4)));
    assert_eq!(
        since("tensormap.replace.tile.rank.global.b1024.b32"),
        at("sm_90a", (8, 3))
    );
}

#[test]
fn no_access_to_global_memory_may_stand_before_the_wait() {
    for mnemonic in [
        "add.f32",
        "xor.b32",
        "ld.param.u64",
        "st.shared.u32",
        "bar.sync",
        "bra",
    ] {
        assert!(instruction(mnemonic).may_precede_wait(), "{mnemonic}");
    }
    for mnemonic in [
        "ld.global.u32",
        "ld.u32",
        "ld.shared::cluster.u32",
        "st.param.u32",
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32",
        "atom.shared.add.u32",
        "prefetch.global.L2",
        "barrier.cluster.arrive",
        "griddepcontrol.wait",
        "ret",
        "call",
    ] {
        assert!(!instruction(mnemonic).may_precede_wait(), "{mnemonic}");
    }
}
