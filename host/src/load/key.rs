//! Keys of loaded kernels. They are borrowed and live on the stack, so that a lookup allocates
//! nothing.

use super::LoadVariant;
use crate::error::{Error, Result};
use std::fmt::{Display, Write};

/// A kernel as a device loads it. `E` is the name of an embedded entry (`str`), or the description
/// of a composed kernel (`[u64]`).
pub(crate) struct KernelKey<'a, E: ?Sized = str> {
    pub(crate) entry: &'a E,
    pub(crate) variant: LoadVariant,
}

/// The name of an entry, written on the stack.
pub(super) struct EntryName {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl EntryName {
    const CAPACITY: usize = 96;

    /// What `entry` displays.
    ///
    /// # Errors
    /// [`Error::Bug`] for more than 96 bytes.
    pub(super) fn of(entry: impl Display) -> Result<Self> {
        let mut name = Self {
            bytes: [0; Self::CAPACITY],
            len: 0,
        };
        write!(name, "{entry}").map_err(|_| Error::Bug("an entry name is longer than expected"))?;
        Ok(name)
    }

    pub(super) fn as_str(&self) -> &str {
        // Written from whole `str`s only.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for EntryName {
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
        let name = EntryName::of(format_args!("gemm_{}_nt", 1)).expect("it fits");
        assert_eq!(name.as_str(), "gemm_1_nt");
        let longest = "x".repeat(EntryName::CAPACITY);
        assert_eq!(EntryName::of(&longest).expect("it fits").as_str(), longest);
        assert!(EntryName::of(format_args!("{longest}x")).is_err());
    }
}
