//! Which pages are free, and how many sequences have each of the others.

use crate::{ArgumentError, Result};

/// The pages of a cache, by number.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Free ones; the last is taken first.
    free: Vec<u32>,
    /// Of each page, the number of sequences that have it.
    owners: Vec<u32>,
}

impl Pages {
    pub(super) fn new(count: u32) -> Self {
        Self {
            free: (0..count).rev().collect(),
            owners: vec![0; count as usize],
        }
    }

    /// Number of free pages.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Checks that so many are free.
    pub(super) fn check_free(&self, want: usize) -> Result<()> {
        match self.free() {
            free if free < want => Err(ArgumentError::OutOfPages { want, free }.into()),
            _ => Ok(()),
        }
    }

    /// A free page, for one sequence. Whoever takes several checks before.
    pub(super) fn take(&mut self) -> Result<u32> {
        self.check_free(1)?;
        let page = self.free.pop().unwrap_or_default();
        self.owners[page as usize] = 1;
        Ok(page)
    }

    /// Gives a page that is not free to one more sequence.
    pub(super) fn share(&mut self, page: u32) {
        self.owners[page as usize] += 1;
    }

    /// Takes a page from one of its sequences; it is free after the last one.
    pub(super) fn release(&mut self, page: u32) {
        let owners = &mut self.owners[page as usize];
        *owners -= 1;
        if *owners == 0 {
            self.free.push(page);
        }
    }

    /// Number of sequences that have a page.
    pub(super) fn owners(&self, page: u32) -> u32 {
        self.owners[page as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_page_is_free_after_its_last_sequence() -> Result<()> {
        let mut pages = Pages::new(2);
        let (a, b) = (pages.take()?, pages.take()?);
        assert_eq!((a, b, pages.free()), (0, 1, 0));
        let none = pages.take();
        let want = ArgumentError::OutOfPages { want: 1, free: 0 };
        assert_eq!(none, Err(Error::Argument(want)));
        pages.share(a);
        pages.release(a);
        assert_eq!((pages.owners(a), pages.free()), (1, 0));
        pages.release(a);
        assert_eq!((pages.owners(a), pages.free()), (0, 1));
        assert_eq!(pages.take()?, a);
        Ok(())
    }
}
