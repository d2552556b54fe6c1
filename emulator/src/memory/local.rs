//! Local memory of the threads of a warp: stack frames, with the parameters of device functions.
//!
//! Row `w` holds word `w` of all lanes, interleaved as on hardware. Lanes nearly always use the
//! same offset, and so touch one row.

use super::host::{Starved, has_room};
use super::lanes::{OpenPart, Planes};
use super::words::low_bits;
use crate::exec::row::{LANES, Lanes, Row};

/// Most local memory that a thread can have in bytes.
pub(crate) const LOCAL_LIMIT: u64 = 512 << 10;

/// Rows of words, and for each word of each lane a bit per byte that says whether it was written.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct LocalMemory {
    words: Vec<Row<u32>>,
    init: Vec<Row<u8>>,
}

impl LocalMemory {
    /// Makes room for `bytes` per thread; false if the host has no memory for it, which starves the
    /// launch.
    #[must_use]
    pub(crate) fn reserve(&mut self, bytes: u64, starved: &Starved) -> bool {
        let rows = bytes.div_ceil(4) as usize;
        let more = rows.saturating_sub(self.words.len());
        if more == 0 {
            return true;
        }
        let what = "local memory";
        let has_room = has_room(&mut self.words, more, starved, what)
            && has_room(&mut self.init, more, starved, what);
        if has_room {
            self.words.resize(rows, Row::default());
            self.init.resize(rows, Row::default());
        }
        has_room
    }

    /// Marks a range as not written, for the lanes of `mask`.
    pub(crate) fn forget(&mut self, start: u64, end: u64, mask: u32) {
        for row in &mut self.init[start as usize / 4..end.div_ceil(4) as usize] {
            row.blend(&Row::default(), mask);
        }
    }

    /// Loads `bytes` for each lane of `mask`, at offsets that are in bounds and aligned.
    ///
    /// # Errors
    /// The first lane that reads a byte that was never written.
    pub(crate) fn load(
        &self,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
        out: &mut Planes,
    ) -> Result<(), u32> {
        if bytes >= 4
            && let Some(first) = uniform(offsets, mask)
        {
            return self.load_rows(first / 4, mask, bytes / 4, out);
        }
        for lane in Lanes(mask) {
            let at = offsets.0[lane] as usize;
            for (p, plane) in out.iter_mut().enumerate().take(bytes.div_ceil(4)) {
                let row = at / 4 + p;
                let shift = at % 4;
                let want = (low_bits(bytes.min(4)) as u8) << shift;
                if self.init[row].0[lane] & want != want {
                    return Err(lane as u32);
                }
                plane.0[lane] = self.words[row].0[lane] >> (8 * shift) & low_bits(8 * bytes.min(4));
            }
        }
        Ok(())
    }

    /// The same, whether the bytes were written or not. Sets the bits of those that were not in
    /// `missing`.
    #[cold]
    pub(crate) fn load_anyway(
        &self,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
        out: &mut Planes,
        missing: &mut Planes,
    ) {
        for lane in Lanes(mask) {
            for byte in 0..bytes {
                let at = offsets.0[lane] as usize + byte;
                let (row, from, to) = (at / 4, 8 * (at % 4), 8 * (byte % 4));
                let value = self.words[row].0[lane] >> from & 0xff;
                let cell = &mut out[byte / 4].0[lane];
                *cell = if byte % 4 == 0 {
                    value
                } else {
                    *cell | value << to
                };
                if self.init[row].0[lane] >> (at % 4) & 1 == 0 {
                    missing[byte / 4].0[lane] |= 0xff << to;
                }
            }
        }
    }

    fn load_rows(&self, row: usize, mask: u32, words: usize, out: &mut Planes) -> Result<(), u32> {
        for (p, plane) in out.iter_mut().enumerate().take(words) {
            let written = &self.init[row + p].0;
            let mut missing = 0u32;
            for (i, bits) in written.iter().enumerate() {
                missing |= u32::from(*bits != 0xf) << i;
            }
            if missing & mask != 0 {
                return Err((missing & mask).trailing_zeros());
            }
            plane.blend(&self.words[row + p], mask);
        }
        Ok(())
    }

    /// Stores `bytes` for each lane of `mask`, at offsets that are in bounds and aligned.
    pub(crate) fn store(&mut self, offsets: &Row<u64>, mask: u32, bytes: usize, data: &Planes) {
        if bytes >= 4
            && let Some(first) = uniform(offsets, mask)
        {
            for (p, plane) in data.iter().enumerate().take(bytes / 4) {
                self.words[first / 4 + p].blend(plane, mask);
                self.init[first / 4 + p].blend(&Row([0xf; LANES]), mask);
            }
            return;
        }
        for lane in Lanes(mask) {
            let at = offsets.0[lane] as usize;
            for (p, plane) in data.iter().enumerate().take(bytes.div_ceil(4)) {
                let (row, shift) = (at / 4 + p, at % 4);
                let keep = low_bits(8 * bytes.min(4)) << (8 * shift);
                let word = &mut self.words[row].0[lane];
                *word = *word & !keep | plane.0[lane] << (8 * shift) & keep;
                self.init[row].0[lane] |= (low_bits(bytes.min(4)) as u8) << shift;
            }
        }
    }

    /// Marks parts of what the lanes of `mask` have stored as unwritten, where they are.
    pub(crate) fn leave_open(&mut self, offsets: &Row<u64>, mask: u32, parts: &[OpenPart]) {
        for part in parts {
            for lane in Lanes(mask & part.lanes) {
                let at = offsets.0[lane] as usize + part.at();
                let bits = (low_bits(part.bytes.min(4)) as u8) << (at % 4);
                for row in &mut self.init[at / 4..(at + part.bytes).div_ceil(4)] {
                    row.0[lane] &= !bits;
                }
            }
        }
    }

    /// Copies `bytes` from offset `from` to offset `to` for the lanes of `mask`, with their shadow
    /// bits. Both offsets are multiples of 4.
    pub(crate) fn copy(&mut self, from: u64, to: u64, bytes: u64, mask: u32) {
        for word in 0..bytes.div_ceil(4) as usize {
            let (source, target) = (from as usize / 4 + word, to as usize / 4 + word);
            let (value, init) = (self.words[source], self.init[source]);
            self.words[target].blend(&value, mask);
            self.init[target].blend(&init, mask);
        }
    }
}

/// The offset, if it is the same for all lanes of `mask`.
#[inline]
fn uniform(offsets: &Row<u64>, mask: u32) -> Option<usize> {
    let first = offsets.0[mask.trailing_zeros() as usize];
    let mut differ = 0;
    for i in 0..LANES {
        differ |= (offsets.0[i] ^ first) & (u64::from(mask >> i & 1)).wrapping_neg();
    }
    (differ == 0).then_some(first as usize)
}
