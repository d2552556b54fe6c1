//! What a .npy file is read from: no more than its header says, and in pieces.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// Bytes that are read at once, a multiple of the size of every element.
const CHUNK: usize = 1 << 16;

/// A file, of which the beginning was read.
pub(super) struct Source<R> {
    from: R,
    /// Bytes of the rest. Known for a regular file only: pipes and devices have none to tell.
    left: Option<u64>,
}

impl Source<File> {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let from = File::open(path)?;
        let metadata = from.metadata()?;
        let left = metadata.is_file().then_some(metadata.len());
        Ok(Self { from, left })
    }
}

#[cfg(test)]
impl<'b> Source<&'b [u8]> {
    pub(super) fn of(bytes: &'b [u8]) -> Self {
        let left = Some(bytes.len() as u64);
        Self { from: bytes, left }
    }
}

impl<R: Read> Source<R> {
    /// The next bytes: `count`, or fewer at the end.
    pub(super) fn up_to(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(CHUNK));
        let mut rest = Read::by_ref(&mut self.from).take(count as u64);
        rest.read_to_end(&mut bytes)?;
        self.left = self
            .left
            .map(|left| left.saturating_sub(bytes.len() as u64));
        Ok(bytes)
    }

    /// The next `N` bytes of the header.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.up_to(N)?;
        bytes.try_into().ok().context("the header is cut off")
    }

    /// The bytes of data that `what` needs, if the file can have so many.
    pub(super) fn expect(&self, what: &str, want: Option<usize>) -> Result<usize> {
        match (want, self.left) {
            (Some(want), None) => Ok(want),
            (Some(want), Some(left)) if want as u64 == left => Ok(want),
            (want, left) => bail!(
                "{what} needs {} bytes of data, the file has {}",
                want.map_or("too many".into(), |want| want.to_string()),
                left.map_or("fewer".into(), |left| left.to_string())
            ),
        }
    }

    /// Passes the rest of the file to `each`, in pieces of whole elements. It must have `want`
    /// bytes; if it has more, they are not read.
    pub(super) fn data(
        &mut self,
        what: &str,
        want: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut got = 0;
        while got < want {
            let asked = CHUNK.min(want - got);
            let chunk = self.up_to(asked)?;
            got += chunk.len();
            ensure!(
                chunk.len() == asked,
                "{what} needs {want} bytes of data, the file has {got}"
            );
            each(&chunk);
        }
        ensure!(
            self.up_to(1)?.is_empty(),
            "{what} needs {want} bytes of data, the file has more"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that does not know its length.
    fn piped<R: Read>(from: R) -> Source<R> {
        Source { from, left: None }
    }

    #[test]
    fn of_a_source_without_end_no_more_is_read_than_is_wanted() {
        let mut endless = piped(std::io::repeat(7));
        assert_eq!(endless.array::<3>().expect("as many as wanted"), [7; 3]);
        let mut sum = 0;
        let error = endless
            .data("it", 3 * CHUNK + 8, |chunk| sum += chunk.len())
            .expect_err("it goes on");
        assert_eq!(sum, 3 * CHUNK + 8);
        assert_eq!(
            error.to_string(),
            "it needs 196616 bytes of data, the file has more"
        );
    }

    #[test]
    fn a_pipe_that_ends_early_is_refused_with_what_it_had() {
        let mut short = piped(&[0; 12][..]);
        let error = short.data("it", 16, |_| {}).expect_err("12 are not 16");
        assert_eq!(
            error.to_string(),
            "it needs 16 bytes of data, the file has 12"
        );
        let mut right = piped(&[0; 16][..]);
        right.data("it", 16, |_| {}).expect("16 are 16");
    }
}
