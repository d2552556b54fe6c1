//! The generic address space: where the windows of the other spaces lie.

/// First address that global memory gives out.
pub(crate) const GLOBAL_BASE: u64 = 0x7f00_0000_0000;
/// Window of a thread's local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0x0100_0000_0000;
/// Window of a block's shared memory.
pub(crate) const SHARED_WINDOW: u64 = 0x0200_0000_0000;
/// Window of the kernel's parameters.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;
/// Size of each window in bytes. A block's shared memory is the first of its cluster's slots of
/// this size, so that bits 24 and up of a shared address are free to name a block of the cluster.
pub(crate) const WINDOW_BYTES: u64 = 1 << 24;

/// State space of one access, after generic addresses are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Resolved lane by lane, by window.
    Generic,
    /// Global memory, and constants, which live there read-only.
    Global,
    /// Shared memory of the block.
    Shared,
    /// Local memory of the thread.
    Local,
    /// Parameters of the kernel.
    Param,
}

impl Space {
    /// Base of the window, 0 for global memory.
    pub(crate) fn window(self) -> u64 {
        match self {
            Self::Generic | Self::Global => 0,
            Self::Shared => SHARED_WINDOW,
            Self::Local => LOCAL_WINDOW,
            Self::Param => PARAM_WINDOW,
        }
    }

    /// The space that a generic address falls into.
    #[inline]
    pub(crate) fn of_generic(address: u64) -> Self {
        match address & !(WINDOW_BYTES - 1) {
            LOCAL_WINDOW => Self::Local,
            SHARED_WINDOW => Self::Shared,
            PARAM_WINDOW => Self::Param,
            _ => Self::Global,
        }
    }

    /// The name that reports use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Param => "parameter",
        }
    }
}
