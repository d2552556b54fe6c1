//! The words of a mnemonic, taken one by one, so that none is passed over in silence.

use ptx_syntax::ast::{Instruction, ScalarType};

use crate::error::LoadError;
use crate::semantics::{FloatMode, Rounding};

/// The modifiers of an instruction that nobody has accounted for yet.
pub(crate) struct Mods<'a> {
    inst: &'a Instruction,
    words: Vec<&'a str>,
}

impl<'a> Mods<'a> {
    pub(crate) fn new(inst: &'a Instruction) -> Self {
        Self {
            inst,
            words: inst.modifiers.iter().map(String::as_str).collect(),
        }
    }

    /// Takes a word if it is there.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.take_map(|have| (have == word).then_some(())).is_some()
    }

    /// Takes all of these words that are there.
    pub(crate) fn ignore(&mut self, words: &[&str]) {
        self.words.retain(|have| !words.contains(have));
    }

    /// Takes the first word that `f` knows.
    pub(crate) fn take_map<T>(&mut self, f: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        let (index, value) = self
            .words
            .iter()
            .enumerate()
            .find_map(|(i, have)| Some((i, f(have)?)))?;
        self.words.remove(index);
        Some(value)
    }

    /// Takes the last type.
    pub(crate) fn ty(&mut self) -> Result<ScalarType, LoadError> {
        let found = self
            .words
            .iter()
            .rposition(|word| ScalarType::from_word(word).is_some());
        found
            .and_then(|index| ScalarType::from_word(self.words.remove(index)))
            .ok_or_else(|| self.unsupported())
    }

    /// Takes a rounding, `.ftz` and `.sat`.
    pub(crate) fn float_mode(&mut self) -> FloatMode {
        FloatMode {
            rounding: self.take_map(Rounding::from_modifier).unwrap_or_default(),
            ftz: self.take("ftz"),
            saturate: self.take("sat"),
        }
    }

    /// The words that are left.
    pub(crate) fn rest(&self) -> &[&'a str] {
        &self.words
    }

    /// The error that names the instruction.
    pub(crate) fn unsupported(&self) -> LoadError {
        LoadError::Unsupported {
            what: self.inst.mnemonic(),
            line: self.inst.line,
        }
    }

    /// Fails when a word is left.
    pub(crate) fn finish(self) -> Result<(), LoadError> {
        if self.words.is_empty() {
            Ok(())
        } else {
            Err(self.unsupported())
        }
    }
}
