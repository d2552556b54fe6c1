//! Symbols in the nested blocks of a function.

use std::collections::HashMap;
use std::sync::Arc;

use crate::program::Reg;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Symbol {
    Register(Reg),
    /// Number of a label.
    Label(u32),
    /// Numbers of the labels of a `.branchtargets`.
    BranchTargets(Arc<[u32]>),
    /// A `.callprototype` or `.calltargets`, which the emulator does not need.
    Prototype,
    /// Offset of a kernel parameter.
    KernelParam(u64),
    /// Offset and size of a variable in the function's frame.
    Frame(u64, u64),
    /// Address in shared memory.
    Shared(u64),
}

/// The open blocks and their symbols, innermost last.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<HashMap<String, Symbol>>);

impl Scopes {
    pub(super) fn open(&mut self) {
        self.0.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.0.pop();
    }

    /// Adds a name to the innermost block; false if it has the name already.
    pub(super) fn declare(&mut self, name: &str, symbol: Symbol) -> bool {
        let innermost = self.0.last_mut();
        innermost.is_none_or(|names| names.insert(name.to_owned(), symbol).is_none())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Symbol> {
        self.0.iter().rev().find_map(|scope| scope.get(name))
    }
}
