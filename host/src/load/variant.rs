//! The variants in which a kernel is loaded, and which one a launch takes.
//!
//! | variant | its launches | what the kernel gets |
//! |---|---|---|
//! | [`Plain`](LoadVariant::Plain) | all others, and those of unknown size | nothing |
//! | [`Brief`](LoadVariant::Brief) | read and write very little | it lets the next launch begin ([`begin_early`](super::edit::begin_early)) |
//! | [`Streaming`](LoadVariant::Streaming) | read and write far more than L2 holds | it tells L2 which data it reads once ([`read_once`](super::edit::read_once)) |

use super::edit;
use crate::Device;
use std::fmt;

/// How a kernel is edited before it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LoadVariant {
    /// For any launch.
    Plain,
    /// For launches that take little more time than a launch itself, on devices whose launches
    /// begin early.
    Brief,
    /// For launches that stream data through L2, on devices where a cache policy pays.
    Streaming,
}

/// Most bytes that a brief launch reads and writes. In CUDA graphs of launches of one kernel, on an
/// H200, letting the next one begin makes launches of up to 1 MiB 5 to 20 % faster. Launches of 2
/// MiB gain as much if their operands come from memory, and some lose if these are in L2. Larger
/// ones lose (docs/decisions/0048-launch-dependents.md).
const BRIEF_BYTES: u64 = 2 << 20;

/// Compute capability where streaming pays: it was measured on an H200 and on an H100.
const STREAMING_ARCH: (u32, u32) = (9, 0);

/// A streaming launch reads and writes at least this many times the bytes of L2. Of smaller tensors
/// L2 keeps a part of the results, which the next kernel may read from it. There the policy costs
/// up to 7 % (docs/decisions/0040-l2-evict-last.md).
const STREAMING_TIMES_L2: u64 = 6;

impl LoadVariant {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Brief, Self::Streaming];

    /// For a launch on `device` that reads and writes `bytes` in all, of a kernel without reads
    /// that are marked as read once.
    pub(crate) fn of(device: &Device, bytes: u64) -> Self {
        match bytes <= BRIEF_BYTES && edit::can_begin_early(device.arch()) {
            true => Self::Brief,
            false => Self::Plain,
        }
    }

    /// The same, of a kernel with such reads.
    pub(crate) fn of_once(device: &Device, bytes: u64) -> Self {
        match streams(device, bytes) {
            true => Self::Streaming,
            false => Self::of(device, bytes),
        }
    }
}

/// Whether a launch on `device` that reads and writes `bytes` in all streams them through L2.
pub(crate) fn streams(device: &Device, bytes: u64) -> bool {
    let info = device.info();
    info.arch == STREAMING_ARCH && bytes >= STREAMING_TIMES_L2 * info.l2_bytes
}

impl fmt::Display for LoadVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain => "plain",
            Self::Brief => "brief",
            Self::Streaming => "streaming",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_launches_are_brief() {
        let device = Device::emulator().expect("there is one");
        for (bytes, want) in [
            (0, LoadVariant::Brief),
            (BRIEF_BYTES, LoadVariant::Brief),
            (BRIEF_BYTES + 1, LoadVariant::Plain),
        ] {
            assert_eq!(LoadVariant::of(&device, bytes), want);
        }
    }

    #[test]
    fn only_launches_of_many_times_l2_stream() {
        let device = Device::emulator().expect("there is one");
        let least = STREAMING_TIMES_L2 * device.info().l2_bytes;
        let of = |bytes| LoadVariant::of_once(&device, bytes);
        assert_eq!(of(least), LoadVariant::Streaming);
        assert_eq!(of(least - 1), LoadVariant::Brief);
    }
}
