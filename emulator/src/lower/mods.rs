//! The modifiers of a mnemonic, taken one by one, so that none is ignored by oversight.

use ptx_syntax::ast::{Instruction, ScalarType};

use super::Lowered;
use crate::error::LoadError;
use crate::semantics::{FloatMode, Rounding};

/// The modifiers of an instruction that have not been taken yet.
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

    /// Takes a modifier; false if it is not there.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        self.take_map(|have| (have == word).then_some(())).is_some()
    }

    /// Takes a modifier that has to be there.
    pub(crate) fn require(&mut self, word: &str) -> Lowered {
        match self.take(word) {
            true => Ok(()),
            false => Err(self.unsupported()),
        }
    }

    /// Takes all of these modifiers that are there.
    pub(crate) fn ignore(&mut self, words: &[&str]) {
        self.words.retain(|have| !words.contains(have));
    }

    /// Takes the first modifier for which `f` returns something.
    pub(crate) fn take_map<T>(&mut self, f: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        let (index, value) = self
            .words
            .iter()
            .enumerate()
            .find_map(|(i, have)| Some((i, f(have)?)))?;
        self.words.remove(index);
        Some(value)
    }

    /// Takes the first modifier for which `f` returns something; there has to be one.
    pub(crate) fn need<T>(&mut self, f: impl Fn(&'a str) -> Option<T>) -> Result<T, LoadError> {
        self.take_map(f).ok_or_else(|| self.unsupported())
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

    /// Takes the rounding mode, `.ftz` and `.sat`.
    pub(crate) fn float_mode(&mut self) -> FloatMode {
        FloatMode {
            rounding: self.take_map(Rounding::from_modifier).unwrap_or_default(),
            ftz: self.take("ftz"),
            saturate: self.take("sat"),
        }
    }

    /// The modifiers that are left.
    pub(crate) fn rest(&self) -> &[&'a str] {
        &self.words
    }

    /// The error for an instruction that is not supported.
    pub(crate) fn unsupported(&self) -> LoadError {
        LoadError::Unsupported {
            what: self.inst.mnemonic(),
            line: self.inst.line,
        }
    }

    /// Fails if a modifier is left.
    pub(crate) fn finish(self) -> Lowered {
        match self.words.is_empty() {
            true => Ok(()),
            false => Err(self.unsupported()),
        }
    }
}
