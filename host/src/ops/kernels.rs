//! Finds the embedded kernel of an operation by its entry, whose `Display` is the kernel's name.

use crate::module::Kernel;
use crate::traffic::Traffic;
use crate::{Error, Result, Stream};
use std::fmt::{Display, Write};

/// The embedded kernel with the name that `entry` displays, on the stream's device.
///
/// The name is built on the stack, so that a launch allocates nothing.
pub(super) fn kernel(stream: &Stream, entry: impl Display) -> Result<Kernel> {
    let mut name = Name {
        bytes: [0; Name::CAPACITY],
        len: 0,
    };
    write!(name, "{entry}").map_err(|_| Error::Bug("an entry name is longer than expected"))?;
    stream.device().builtin_kernel(name.as_str())
}

/// The same for a launch of this traffic.
pub(super) fn kernel_for(traffic: Traffic, stream: &Stream, entry: impl Display) -> Result<Kernel> {
    kernel(stream, format_args!("{entry}{}", traffic.mark()))
}

struct Name {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Name {
    const CAPACITY: usize = 96;

    fn as_str(&self) -> &str {
        // Written from whole `str`s only.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_whole_or_not_at_all() {
        let mut name = Name {
            bytes: [0; Name::CAPACITY],
            len: 0,
        };
        write!(name, "gemm_{}_nt", 1).expect("it fits");
        assert_eq!(name.as_str(), "gemm_1_nt");
        assert!(write!(name, "{}", "x".repeat(Name::CAPACITY)).is_err());
    }
}
