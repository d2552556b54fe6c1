//! The registers that may be read before they are written.
//!
//! `ptx_syntax::unwritten` says which those are: none in most kernels. For each, a predicate of the
//! emulator's own has the lanes in which it is unwritten. An operation before each instruction that
//! has to do with them keeps it up to date, so that all others cost nothing.

use super::{Access, Guard};
use crate::exec::registers::Slot;

/// What an instruction that follows does to watched registers.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Whether it has to do with none that is unwritten at the start, so that all is well as long
    /// as nothing was taken from such a one.
    pub(crate) follows: bool,
    pub(crate) steps: Box<[WatchStep]>,
}

/// One step. Slots are those of the predicates for unwritten lanes.
#[derive(Clone, Debug)]
pub(crate) enum WatchStep {
    /// Sets a register as it is at the start of a function.
    Begin {
        slot: Slot,
        unwritten: bool,
    },
    /// The content matters, in lanes where `when` holds.
    Read {
        slot: Slot,
        when: Option<Guard>,
        doubt: Box<Doubt>,
    },
    Write(Slot),
    /// Takes over what others hold: needs all of them, or one.
    Take {
        to: Slot,
        from: Box<[Slot]>,
        all: bool,
    },
    /// Takes over what the first holds where the predicate holds, and the second elsewhere.
    Select {
        to: Slot,
        from: [Option<Slot>; 2],
        when: Guard,
        /// The predicate's own lanes: where it is unwritten, the result is.
        by: Option<Slot>,
    },
}

/// A store of registers of which some may be unwritten.
#[derive(Clone, Debug)]
pub(crate) struct OpenStore {
    pub(crate) access: Access,
    /// For each element that may be unwritten, the predicate of the lanes in which it is.
    pub(crate) elements: Box<[Option<(Slot, Doubt)>]>,
}

/// What a report says of a register.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) register: String,
    /// Registers that it may have its content from, and the lines that read them.
    pub(crate) origins: Box<[(String, u32)]>,
}
