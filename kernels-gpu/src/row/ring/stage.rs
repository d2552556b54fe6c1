//! The stages of a ring, one after the other.

use cuda_std::hint::opaque;

/// A stage, and the parity of its phase.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub(super) index: u32,
    pub(super) parity: u32,
}

impl Stage {
    /// The first stage, in its first phase.
    pub(crate) const FIRST: Self = Self {
        index: 0,
        parity: 0,
    };

    /// The stage after it, of `stages`.
    #[inline(always)]
    pub(crate) fn next(self, stages: u32) -> Self {
        if self.index + 1 < stages {
            return Self {
                index: self.index + 1,
                ..self
            };
        }
        Self {
            index: 0,
            parity: self.parity ^ 1,
        }
    }

    /// The same stage, of which the compiler does not know that it is the same: it does not keep
    /// what was read there.
    #[inline(always)]
    pub(crate) fn again(self) -> Self {
        Self {
            index: opaque(self.index),
            ..self
        }
    }

    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    #[inline(always)]
    pub(crate) fn parity(self) -> u32 {
        self.parity
    }
}
