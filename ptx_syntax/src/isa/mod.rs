//! The instruction set: one table with the facts of each opcode.
//!
//! The table is in `table.rs`. The linter, [`explain`](crate::explain),
//! [`unwritten`](crate::unwritten), the emulator, the library's edits at load and the builder read
//! it. A new instruction is a new line there. The emulator's dispatch
//! (`emulator/src/lower/dispatch.rs`) names every opcode, so it does not compile before it lowers or
//! refuses the new one.
//!
//! An opcode that is not in the table is not an error here. Nothing is promised of it.

mod class;
mod instruction;
mod table;

pub use class::Class;
pub use instruction::{Collective, is_float};
pub use table::Opcode;

use crate::target::Target;

/// What happens to the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// The first is computed from the others. It is unwritten if one of them is.
    Computed,
    /// The first is put together from the others. Bits of it may be independent of a source, or be
    /// thrown away later, so it is unwritten if all of them are.
    Merged,
    /// `selp d, a, b, p`.
    Selected,
    /// `shfl d, a, ..`: what a lane passes may be thrown away, and what it gets is another lane's.
    Exchanged,
    /// The first is written if it is a register, and the others are read.
    Written,
    /// All are read.
    Read,
    /// `st [address], value`.
    Stored,
    /// `wgmma.mma_async`: the first is read, too, where `scale-d` says so.
    Accumulated,
    /// `call (results), function, (arguments)`.
    Called,
}

/// What an instruction does beside writing registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: its results depend on its operands alone.
    Nothing,
    /// It depends on other lanes of the warp.
    Lanes,
    /// It reads memory.
    Reads,
    /// It writes memory.
    Writes,
    /// It reads and writes memory.
    Updates,
    /// It begins something that ends later, such as a copy or a product.
    Asynchronous,
    /// It tells caches what will be needed.
    Hints,
    /// It orders accesses to memory, or waits for other threads.
    Orders,
    /// It goes to a label.
    Jumps,
    /// It calls a function.
    Calls,
    /// It leaves the function or the kernel.
    Ends,
    /// It ends the launch with a fault.
    Traps,
    /// It changes the state of the thread or of the machine.
    Thread,
    /// It is not in the table.
    Unknown,
}

/// Whether an instruction may stand before `griddepcontrol.wait`: it touches no memory that other
/// launches may touch, and every thread goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Yes,
    /// If it accesses parameters or the block's own shared memory.
    Own,
    No,
}

/// How the class of an instruction is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Of(Class),
    /// By its type.
    Float {
        class: Class,
        /// Floating-point operations for each value.
        flops: u8,
        other: Class,
    },
    /// By the state space that it accesses.
    Memory,
}

/// The first architecture and PTX version that have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The least target.
    pub target: Target,
    /// `.version`.
    pub version: (u32, u32),
}

impl Since {
    fn max(self, other: Self) -> Self {
        Self {
            target: self.target.max(other.target),
            version: self.version.max(other.version),
        }
    }
}

/// What is known of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    sort: Sort,
    /// What happens to its operands.
    pub operands: Operands,
    /// What it does beside that.
    pub effect: Effect,
    wait: Wait,
    /// Where it begins, as far as its modifiers do not need more.
    pub since: Since,
}

/// An opcode of the table.
struct Row {
    word: &'static str,
    facts: Facts,
    /// Modifiers with which the facts differ. If an instruction has several, the last one counts.
    forms: &'static [(&'static str, Facts)],
}

/// Makes [`Opcode`] and its rows.
macro_rules! opcodes {
    ($($($name:ident $word:literal),+: $facts:tt)+) => {
        /// The opcodes of PTX: the first word of a mnemonic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // each variant is the opcode of that name
        pub enum Opcode { $($($name),+),+ }

        impl Opcode {
            /// All opcodes.
            pub const ALL: &[Self] = &[$($(Self::$name),+),+];
        }

        pub(super) static ROWS: &[super::Row] = &[$($(super::row!($word, $facts)),+),+];
    };
}

macro_rules! row {
    ($word:literal, { $facts:tt $($modifier:literal: $form:tt)+ }) => {
        super::Row {
            word: $word,
            facts: super::facts! $facts,
            forms: &[$(($modifier, super::facts! $form)),+],
        }
    };
    ($word:literal, $facts:tt) => {
        super::Row { word: $word, facts: super::facts! $facts, forms: &[] }
    };
}

macro_rules! facts {
    ($sort:expr, $operands:expr, $effect:expr, $wait:expr) => {
        super::facts!($sort, $operands, $effect, $wait, ptx(1, 0))
    };
    ($sort:expr, $operands:expr, $effect:expr, $wait:expr, $since:expr) => {
        super::Facts {
            sort: $sort,
            operands: $operands,
            effect: $effect,
            wait: $wait,
            since: $since,
        }
    };
}

use {facts, opcodes, row};
