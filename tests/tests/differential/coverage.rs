//! Checks what the random programs contain against the table of instructions.

use std::collections::BTreeSet;

use ptx_syntax::isa::Opcode;
use warpsmith::Device;
use warpsmith_tests::differential::coverage::{Counts, wanted};
use warpsmith_tests::differential::program::{self, PROGRAMS, Vocabulary};
use warpsmith_tests::differential::table;

#[test]
fn programs_contain_every_plain_form() {
    let vocabulary = Vocabulary::new();
    let mut counts = Counts::default();
    for seed in 0..PROGRAMS {
        let added = counts.add(&program::generate(seed, &vocabulary));
        added.unwrap_or_else(|error| panic!("program {seed}: {error}"));
    }
    println!("section      forms appearances least");
    let mut missing = Vec::new();
    for (section, forms) in wanted() {
        let of: Vec<usize> = forms.iter().map(|form| counts.of(form)).collect();
        println!(
            "{section:<12} {:>5} {:>11} {:>5}",
            of.len(),
            of.iter().sum::<usize>(),
            of.iter().min().unwrap_or(&0)
        );
        missing.extend(forms.into_iter().filter(|form| counts.of(form) == 0));
    }
    assert!(missing.is_empty(), "no program has {missing:?}");
}

#[test]
fn every_opcode_of_ptx_is_in_the_table_or_has_a_reason() {
    let lines = table::plain().into_iter().chain(table::machine());
    let opcode = |name: &String| name.split('.').next().unwrap_or_default().to_owned();
    let table: BTreeSet<String> = lines
        .flat_map(|line| line.names.iter().map(opcode).collect::<Vec<_>>())
        .collect();
    let elsewhere: BTreeSet<String> = table::elsewhere()
        .into_iter()
        .map(|(word, _)| word)
        .collect();
    let both: Vec<&String> = table.intersection(&elsewhere).collect();
    assert!(both.is_empty(), "in the table and elsewhere: {both:?}");
    let all: BTreeSet<String> = Opcode::ALL.iter().map(|it| it.word().to_owned()).collect();
    let known: BTreeSet<String> = table.union(&elsewhere).cloned().collect();
    let missing: Vec<&String> = all.symmetric_difference(&known).collect();
    assert!(missing.is_empty(), "in one list only: {missing:?}");
}

#[test]
fn what_the_table_says_is_refused_is_refused() {
    let device = Device::emulator().expect("the emulator");
    let refused = table::elsewhere().into_iter();
    for (word, _) in refused.filter(|(_, reason)| reason.starts_with("refused")) {
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n\t.reg .b32 \
             %r<4>;\n\t{word}.u32 %r1, %r2, %r3;\n\tret;\n}}\n"
        );
        let error = device.load_ptx(&text).err().map(|error| error.to_string());
        let says = error.as_deref().is_some_and(|error| error.contains(&word));
        assert!(
            says,
            "{word} loads or is refused without its name: {error:?}"
        );
    }
}
