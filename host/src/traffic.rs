//! How much a launch reads and writes, which decides how its kernel is loaded.
//!
//! | | what the kernel's text gets |
//! |---|---|
//! | [`Brief`](Traffic::Brief) | it lets the next launch begin ([`crate::early`]) |
//! | [`Usual`](Traffic::Usual) | nothing |
//! | [`Streams`](Traffic::Streams) | it tells L2 what it reads once ([`crate::once`]) |

use crate::Device;
use crate::{early, once};

/// How much a launch reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// So little that the launch itself takes most of the time, on a device whose launches begin early.
    Brief,
    /// Neither of the others, or not known.
    Usual,
    /// Much more than L2 holds, on a device that it pays on.
    Streams,
}

/// A launch of up to as many bytes is brief. In CUDA graphs of launches of one kernel, on an H200,
/// letting the next one begin makes those that move up to 1 MiB 5 to 20 % faster; those of 2 MiB gain as
/// much if their operands come from memory, and some lose if these are in L2; larger ones lose
/// (docs/reduce-measured.md).
const BRIEF_BYTES: u64 = 2 << 20;

/// The end of the name of a kernel for brief launches.
const BRIEF_MARK: &str = " // brief";

impl Traffic {
    /// Of a launch on `device` that reads and writes `bytes` in all, of a kernel that gains nothing
    /// by streaming.
    pub(crate) fn of(device: &Device, bytes: u64) -> Self {
        match bytes <= BRIEF_BYTES && device.arch() >= early::SINCE {
            true => Self::Brief,
            false => Self::Usual,
        }
    }

    /// Of a launch of a kernel that says what it reads once.
    pub(crate) fn of_once(device: &Device, bytes: u64) -> Self {
        match once::streams(device, bytes) {
            true => Self::Streams,
            false => Self::of(device, bytes),
        }
    }

    /// What is behind an entry's name in the name of a kernel that is loaded for this.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Brief => BRIEF_MARK,
            Self::Usual => "",
            Self::Streams => once::MARK,
        }
    }

    /// The entry's name in the name of a kernel, and what the kernel is loaded for.
    pub(crate) fn of_name(name: &str) -> (&str, Self) {
        let marked = [Self::Brief, Self::Streams]
            .into_iter()
            .find_map(|traffic| {
                let entry = name.strip_suffix(traffic.mark())?;
                Some((entry, traffic))
            });
        marked.unwrap_or((name, Self::Usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_kernel_is_loaded_for() {
        for traffic in [Traffic::Brief, Traffic::Usual, Traffic::Streams] {
            let name = format!("copy_b128{}", traffic.mark());
            assert_eq!(Traffic::of_name(&name), ("copy_b128", traffic));
        }
    }

    #[test]
    fn only_little_is_brief() {
        let device = Device::emulator().expect("there is one");
        for (bytes, want) in [
            (0, Traffic::Brief),
            (BRIEF_BYTES, Traffic::Brief),
            (BRIEF_BYTES + 1, Traffic::Usual),
        ] {
            assert_eq!(Traffic::of(&device, bytes), want);
        }
    }
}
