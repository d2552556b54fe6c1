//! The instructions that programs are made of.

use std::collections::BTreeMap;

use crate::differential::forms::Form;
use crate::differential::operands::Random;
use crate::differential::table;

/// The table of instructions, by section, and in it by mnemonic.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    forms: BTreeMap<String, BTreeMap<String, Vec<Form>>>,
    machine: BTreeMap<String, Vec<String>>,
}

impl Vocabulary {
    /// All instructions that programs may use.
    #[must_use]
    pub fn new() -> Self {
        let mut forms: BTreeMap<String, BTreeMap<String, Vec<Form>>> = BTreeMap::new();
        for line in table::plain().iter().filter(|line| !line.is_alone()) {
            let section = forms.entry(line.section.clone()).or_default();
            for form in line.forms() {
                let word = form.name.split('.').next().unwrap_or_default();
                section.entry(word.to_owned()).or_default().push(form);
            }
        }
        let mut machine: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in table::machine() {
            machine.entry(line.section).or_default().extend(line.names);
        }
        Self { forms, machine }
    }

    /// A form of a section, or of any section. Half the time all forms are equally likely,
    /// otherwise all mnemonics.
    pub(super) fn form(&self, section: Option<&str>, random: &mut Random) -> &Form {
        let sections: Vec<_> = match section.and_then(|name| self.forms.get(name)) {
            Some(section) => vec![section],
            None => self.forms.values().collect(),
        };
        let section = random.choose(&sections);
        if random.below(2) == 0 {
            let all: usize = section.values().map(Vec::len).sum();
            let mut index = random.below(all);
            for forms in section.values() {
                match forms.get(index) {
                    Some(form) => return form,
                    None => index -= forms.len(),
                }
            }
        }
        let words: Vec<_> = section.values().collect();
        let forms = *random.choose(&words);
        random.choose(forms)
    }

    /// A mnemonic of a section of `machine.txt` for which `fits` is true.
    pub(super) fn name(
        &self,
        section: &str,
        random: &mut Random,
        fits: impl Fn(&str) -> bool,
    ) -> &str {
        let names: Vec<&String> = self.machine[section].iter().filter(|n| fits(n)).collect();
        names[random.below(names.len())]
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::new()
    }
}
