//! A word of memory: shared between host threads, or used by one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// A 32-bit cell that is read and written through a shared reference.
pub(crate) trait Word {
    /// Current value.
    fn load(&self) -> u32;
    /// Replaces the value.
    fn store(&self, value: u32);
    /// Replaces the bits of `mask` by those of `value`; other bits may change concurrently.
    fn merge(&self, mask: u32, value: u32);
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn load(&self) -> u32 {
        AtomicU32::load(self, Ordering::Relaxed)
    }

    #[inline(always)]
    fn store(&self, value: u32) {
        AtomicU32::store(self, value, Ordering::Relaxed);
    }

    #[inline]
    fn merge(&self, mask: u32, value: u32) {
        if mask == u32::MAX {
            return AtomicU32::store(self, value, Ordering::Relaxed);
        }
        let mut old = AtomicU32::load(self, Ordering::Relaxed);
        loop {
            let new = old & !mask | value & mask;
            if new == old {
                return;
            }
            match self.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }
}

impl Word for Cell<u32> {
    #[inline(always)]
    fn load(&self) -> u32 {
        self.get()
    }

    #[inline(always)]
    fn store(&self, value: u32) {
        self.set(value);
    }

    #[inline(always)]
    fn merge(&self, mask: u32, value: u32) {
        self.set(self.get() & !mask | value & mask);
    }
}

/// Words of memory with their shadow: bit `b` of `init[w]` says whether byte `32 * w + b` was
/// written: it differs from that bit of `unwritten`. `init` covers all of `words`.
pub(crate) struct Bytes<'a, W> {
    pub(crate) words: &'a [W],
    pub(crate) init: &'a [W],
    /// A word of the shadow of unwritten bytes: 0, or all ones where untouched bytes are written.
    pub(crate) unwritten: u32,
}

impl<W> Clone for Bytes<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Bytes<'_, W> {}

impl<W: Word> Bytes<'_, W> {
    /// Shadow bits of `bytes` (1 to 32) naturally aligned bytes at `offset`, shifted down to bit 0.
    #[inline(always)]
    pub(crate) fn written(&self, offset: usize, bytes: usize) -> u32 {
        (self.init[offset / 32].load() ^ self.unwritten) >> (offset % 32) & low_bits(bytes)
    }

    /// Marks `bytes` (1 to 32) naturally aligned bytes at `offset` as written.
    #[inline(always)]
    pub(crate) fn mark(&self, offset: usize, bytes: usize) {
        let bits = low_bits(bytes) << (offset % 32);
        let shadow = &self.init[offset / 32];
        if (shadow.load() ^ self.unwritten) & bits != bits {
            shadow.merge(bits, !self.unwritten);
        }
    }

    /// Marks `bytes` (1 to 32) naturally aligned bytes at `offset` as not written.
    pub(crate) fn unmark(&self, offset: usize, bytes: usize) {
        self.init[offset / 32].merge(low_bits(bytes) << (offset % 32), self.unwritten);
    }

    /// Marks a range as not written.
    pub(crate) fn unmark_range(&self, mut offset: usize, bytes: usize) {
        let end = offset + bytes;
        while offset < end {
            let take = (32 - offset % 32).min(end - offset);
            self.unmark(offset, take);
            offset += take;
        }
    }

    /// Whether every byte of a range was written.
    pub(crate) fn range_written(&self, mut offset: usize, bytes: usize) -> bool {
        let end = offset + bytes;
        while offset < end {
            let take = (32 - offset % 32).min(end - offset);
            if self.written(offset, take) != low_bits(take) {
                return false;
            }
            offset += take;
        }
        true
    }

    /// Marks a range as written.
    pub(crate) fn mark_range(&self, mut offset: usize, bytes: usize) {
        let end = offset + bytes;
        while offset < end {
            let take = (32 - offset % 32).min(end - offset);
            self.mark(offset, take);
            offset += take;
        }
    }

    /// Copies a range out.
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) {
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let word = self.words[at / 4].load().to_le_bytes();
            let take = (4 - at % 4).min(rest.len());
            let (head, tail) = rest.split_at_mut(take);
            head.copy_from_slice(&word[at % 4..at % 4 + take]);
            rest = tail;
            at += take;
        }
    }

    /// Copies a range in and marks it as written.
    pub(crate) fn copy_in(&self, offset: usize, data: &[u8]) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let take = (4 - at % 4).min(rest.len());
            let mut bytes = [0; 4];
            bytes[at % 4..at % 4 + take].copy_from_slice(&rest[..take]);
            let mask = low_bits(8 * take) << (8 * (at % 4));
            self.words[at / 4].merge(mask, u32::from_le_bytes(bytes));
            rest = &rest[take..];
            at += take;
        }
        self.mark_range(offset, data.len());
    }
}

/// The low `n` bits set, for `n` from 0 to 32.
#[inline(always)]
pub(crate) fn low_bits(n: usize) -> u32 {
    if n >= 32 { u32::MAX } else { (1 << n) - 1 }
}
