//! How strongly an access orders memory.

use ptx_syntax::ast::Instruction;
use ptx_syntax::isa::{Effect, Opcode};

/// Memory-ordering strength of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strength {
    /// A plain access.
    #[default]
    Weak,
    /// A load through the cache that is not kept coherent (`ld.global.nc`).
    NonCoherent,
    /// Volatile, relaxed, or an atomic without an ordering of its own.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

impl Strength {
    /// The strength of an instruction, by its modifiers.
    pub(crate) fn of(inst: &Instruction) -> Self {
        let plain = match inst.known().map(|opcode| opcode.facts().effect) {
            // Textures have a cache of their own, which a kernel's writes do not reach.
            Some(_) if matches!(inst.known(), Some(Opcode::Tex | Opcode::Tld4)) => {
                Self::NonCoherent
            }
            Some(Effect::Reads | Effect::Writes) => Self::Weak,
            Some(Effect::Updates) => Self::Relaxed,
            _ => return Self::Weak,
        };
        let has = |words: &[&str]| words.iter().any(|word| inst.has(word));
        if has(&["acq_rel", "sc"]) {
            Self::AcquireRelease
        } else if has(&["acquire"]) {
            Self::Acquire
        } else if has(&["release"]) {
            Self::Release
        } else if has(&["volatile", "relaxed", "mmio"]) {
            Self::Relaxed
        } else if has(&["nc"]) && plain == Self::Weak {
            Self::NonCoherent
        } else {
            plain
        }
    }

    pub(crate) fn is_strong(self) -> bool {
        !matches!(self, Self::Weak | Self::NonCoherent)
    }

    pub(crate) fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcquireRelease)
    }

    pub(crate) fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcquireRelease)
    }
}

/// Threads that a strong access or a fence includes. Beyond them, the access is weak and the fence
/// does nothing. It is also how far two threads are from each other: the least scope that includes
/// both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Block,
    Cluster,
    /// All threads: the emulator has one device, and the host waits while it runs.
    #[default]
    Device,
}

impl Scope {
    /// From a block to the device.
    pub(crate) const ALL: [Self; 3] = [Self::Block, Self::Cluster, Self::Device];

    /// The scope of an instruction, by its modifiers.
    pub(crate) fn of(inst: &Instruction) -> Self {
        if inst.has("cta") {
            Self::Block
        } else if inst.has("cluster") {
            Self::Cluster
        } else {
            Self::Device
        }
    }

    /// Its name in PTX.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => ".cta",
            Self::Cluster => ".cluster",
            Self::Device => ".gpu",
        }
    }
}
