//! The generic address space: the address windows of the other state spaces.

/// Address of the first allocation in global memory.
pub(crate) const GLOBAL_BASE: u64 = 0x7f00_0000_0000;
/// Window of the thread's local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0x0100_0000_0000;
/// Window of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 0x0200_0000_0000;
/// Window of the kernel's parameters.
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;
/// Size in bytes of each window but that of shared memory.
const WINDOW_BYTES: u64 = 1 << 24;
/// Size of the window of shared memory: 24 bits of offset; above them 0 for the block's own memory,
/// or 1 + the rank of a block of the cluster.
const SHARED_WINDOW_BYTES: u64 = 1 << 32;

/// State space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Resolved for each lane, by the windows.
    Generic,
    /// Global memory; constants are read-only allocations there.
    Global,
    /// Shared memory, of the block or of its cluster.
    Shared,
    /// Local memory of the thread.
    Local,
    /// Parameters of the kernel.
    Param,
}

impl Space {
    /// Base of the window; 0 for global memory.
    pub(crate) fn window(self) -> u64 {
        match self {
            Self::Generic | Self::Global => 0,
            Self::Shared => SHARED_WINDOW,
            Self::Local => LOCAL_WINDOW,
            Self::Param => PARAM_WINDOW,
        }
    }

    /// Size of the window in bytes; 0 for global memory.
    pub(crate) fn window_bytes(self) -> u64 {
        match self {
            Self::Generic | Self::Global => 0,
            Self::Shared => SHARED_WINDOW_BYTES,
            Self::Local | Self::Param => WINDOW_BYTES,
        }
    }

    /// The space that a generic address falls into.
    #[inline]
    pub(crate) fn of_generic(address: u64) -> Self {
        if address & !(SHARED_WINDOW_BYTES - 1) == SHARED_WINDOW {
            return Self::Shared;
        }
        match address & !(WINDOW_BYTES - 1) {
            LOCAL_WINDOW => Self::Local,
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
