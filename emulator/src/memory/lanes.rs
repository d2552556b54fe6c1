//! Accesses by the 32 lanes of a warp to an array of words.

use super::words::{Bytes, Word, low_bits};
use crate::exec::row::{FULL_MASK, LANES, Lanes, Row};

/// Data of one access: plane `p` holds bytes `4p..4p+4` of each lane. Accesses of less than 4 bytes
/// use the low bits of plane 0.
pub(crate) type Planes = [Row<u32>; 8];

/// An element of a store that is unwritten in some lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenPart {
    /// Its number in the access.
    pub(crate) number: usize,
    pub(crate) bytes: usize,
    pub(crate) lanes: u32,
}

impl OpenPart {
    /// Its offset in the access.
    pub(crate) fn at(self) -> usize {
        self.number * self.bytes
    }

    /// Sets all bits of the element in its lanes.
    pub(crate) fn fill(self, planes: &mut Planes) {
        let at = self.at();
        let bits = low_bits(8 * self.bytes.min(4)) << (8 * (at % 4));
        for plane in &mut planes[at / 4..(at + self.bytes).div_ceil(4)] {
            Lanes(self.lanes).for_each(|lane| plane.0[lane] |= bits);
        }
    }
}

/// How the addresses of the active lanes lie in a region of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// All 32 lanes access consecutive elements, the first at this offset.
    Contiguous(usize),
    /// All active lanes access this offset.
    Uniform(usize),
    /// All accesses are inside the region and aligned, in any order.
    Scattered,
    /// At least one active lane's access is outside or misaligned.
    Faulty,
}

/// Looks at accesses, `bytes` wide (a power of two), of the lanes of `mask` (not empty) in the region of `len` bytes
/// at `base`. Writes each lane's offset.
#[inline(always)]
pub(crate) fn classify(
    addresses: &Row<u64>,
    mask: u32,
    base: u64,
    len: u64,
    bytes: u64,
    offsets: &mut Row<u64>,
) -> Pattern {
    if len < bytes {
        return Pattern::Faulty;
    }
    let limit = len - bytes;
    let first = addresses.0[mask.trailing_zeros() as usize].wrapping_sub(base);
    if mask == FULL_MASK {
        for i in 0..LANES {
            offsets.0[i] = addresses.0[i].wrapping_sub(base);
        }
    } else {
        for i in 0..LANES {
            let own = addresses.0[i].wrapping_sub(base);
            offsets.0[i] = if mask >> i & 1 != 0 { own } else { first };
        }
    }
    let (mut outside, mut low, mut uneven, mut unequal) = (0u64, 0u64, 0u64, 0u64);
    let shift = bytes.trailing_zeros();
    for i in 0..LANES {
        let offset = offsets.0[i];
        outside |= u64::from(offset > limit);
        low |= offset;
        uneven |= offset ^ first.wrapping_add((i as u64).wrapping_shl(shift));
        unequal |= offset ^ first;
    }
    if outside != 0 || low & (bytes - 1) != 0 {
        Pattern::Faulty
    } else if unequal == 0 {
        Pattern::Uniform(first as usize)
    } else if uneven == 0 && mask == FULL_MASK {
        Pattern::Contiguous(first as usize)
    } else {
        Pattern::Scattered
    }
}

/// Loads `bytes` (a power of two up to 32) for each lane of `mask`.
///
/// # Errors
/// The first lane that reads a byte that was never written.
#[inline(always)]
pub(crate) fn load<W: Word>(
    memory: Bytes<'_, W>,
    pattern: Pattern,
    offsets: &Row<u64>,
    mask: u32,
    bytes: usize,
    out: &mut Planes,
) -> Result<(), u32> {
    match pattern {
        Pattern::Contiguous(at) if bytes >= 4 && memory.range_written(at, bytes * LANES) => {
            load_contiguous(memory, at, bytes / 4, out);
            Ok(())
        }
        Pattern::Uniform(at) => {
            if memory.written(at, bytes) != low_bits(bytes) {
                return Err(mask.trailing_zeros());
            }
            for (p, plane) in out.iter_mut().enumerate().take(bytes.div_ceil(4)) {
                let value = load_part(memory.words, at + 4 * p, bytes);
                plane.blend(&Row([value; LANES]), mask);
            }
            Ok(())
        }
        _ => load_scattered(memory, offsets, mask, bytes, out),
    }
}

/// The same, whether the bytes were written or not. Sets the bits of those that were not in
/// `missing`.
#[cold]
pub(crate) fn load_anyway<W: Word>(
    memory: Bytes<'_, W>,
    offsets: &Row<u64>,
    mask: u32,
    bytes: usize,
    out: &mut Planes,
    missing: &mut Planes,
) {
    for lane in Lanes(mask) {
        let at = offsets.0[lane] as usize;
        for (p, plane) in out.iter_mut().enumerate().take(bytes.div_ceil(4)) {
            plane.0[lane] = load_part(memory.words, at + 4 * p, bytes);
        }
        let written = memory.written(at, bytes);
        for byte in (0..bytes).filter(|byte| written >> byte & 1 == 0) {
            missing[byte / 4].0[lane] |= 0xff << (8 * (byte % 4));
        }
    }
}

#[inline(always)]
fn load_contiguous<W: Word>(memory: Bytes<'_, W>, at: usize, words: usize, out: &mut Planes) {
    let source = &memory.words[at / 4..at / 4 + words * LANES];
    if words == 1 {
        for (to, from) in out[0].0.iter_mut().zip(source) {
            *to = from.load();
        }
        return;
    }
    for (lane, from) in source.chunks_exact(words).enumerate() {
        for (p, word) in from.iter().enumerate() {
            out[p].0[lane] = word.load();
        }
    }
}

/// The word at `at`, or the byte or halfword there, shifted down to bit 0.
#[inline(always)]
fn load_part<W: Word>(words: &[W], at: usize, bytes: usize) -> u32 {
    let word = words[at / 4].load();
    if bytes >= 4 {
        word
    } else {
        word >> (8 * (at % 4)) & low_bits(8 * bytes)
    }
}

#[inline(always)]
fn load_scattered<W: Word>(
    memory: Bytes<'_, W>,
    offsets: &Row<u64>,
    mask: u32,
    bytes: usize,
    out: &mut Planes,
) -> Result<(), u32> {
    for lane in Lanes(mask) {
        let at = offsets.0[lane] as usize;
        if memory.written(at, bytes) != low_bits(bytes) {
            return Err(lane as u32);
        }
        if bytes <= 4 {
            out[0].0[lane] = load_part(memory.words, at, bytes);
        } else {
            for (p, word) in memory.words[at / 4..][..bytes / 4].iter().enumerate() {
                out[p].0[lane] = word.load();
            }
        }
    }
    Ok(())
}

/// Stores `bytes` (a power of two up to 32) for each lane of `mask`. If lanes write the same bytes,
/// the highest lane wins.
#[inline(always)]
pub(crate) fn store<W: Word>(
    memory: Bytes<'_, W>,
    pattern: Pattern,
    offsets: &Row<u64>,
    mask: u32,
    bytes: usize,
    data: &Planes,
) {
    match pattern {
        Pattern::Contiguous(at) if bytes >= 4 => {
            store_contiguous(memory, at, bytes / 4, data);
            memory.mark_range(at, bytes * LANES);
        }
        Pattern::Contiguous(at) => {
            store_packed(memory, at, bytes, data);
            memory.mark_range(at, bytes * LANES);
        }
        _ => {
            for lane in Lanes(mask) {
                let at = offsets.0[lane] as usize;
                memory.mark(at, bytes);
                if bytes < 4 {
                    let shift = 8 * (at % 4);
                    let bits = low_bits(8 * bytes) << shift;
                    memory.words[at / 4].merge(bits, data[0].0[lane] << shift);
                } else {
                    for (p, word) in memory.words[at / 4..][..bytes / 4].iter().enumerate() {
                        word.store(data[p].0[lane]);
                    }
                }
            }
        }
    }
}

/// Marks parts of what the lanes of `mask` have stored as unwritten, where they are. Of lanes that
/// write the same bytes, the highest decides.
pub(crate) fn leave_open<W: Word>(
    memory: Bytes<'_, W>,
    offsets: &Row<u64>,
    mask: u32,
    parts: &[OpenPart],
) {
    for lane in Lanes(mask) {
        for part in parts {
            let at = offsets.0[lane] as usize + part.at();
            if part.lanes >> lane & 1 != 0 {
                memory.unmark(at, part.bytes);
            } else {
                memory.mark(at, part.bytes);
            }
        }
    }
}

#[inline(always)]
fn store_contiguous<W: Word>(memory: Bytes<'_, W>, at: usize, words: usize, data: &Planes) {
    let target = &memory.words[at / 4..at / 4 + words * LANES];
    if words == 1 {
        for (to, from) in target.iter().zip(&data[0].0) {
            to.store(*from);
        }
        return;
    }
    for (lane, to) in target.chunks_exact(words).enumerate() {
        for (p, word) in to.iter().enumerate() {
            word.store(data[p].0[lane]);
        }
    }
}

/// Stores consecutive bytes or halfwords of all lanes, assembled to whole words first.
#[inline(always)]
fn store_packed<W: Word>(memory: Bytes<'_, W>, at: usize, bytes: usize, data: &Planes) {
    let (mut word, mut value, mut bits) = (at / 4, 0, 0);
    for lane in 0..LANES {
        let to = at + lane * bytes;
        if to / 4 != word {
            memory.words[word].merge(bits, value);
            (word, value, bits) = (to / 4, 0, 0);
        }
        let mask = low_bits(8 * bytes);
        value |= (data[0].0[lane] & mask) << (8 * (to % 4));
        bits |= mask << (8 * (to % 4));
    }
    memory.words[word].merge(bits, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The bytes of `bytes` that are written after stores of two elements of `size` bytes, of which
    /// `lanes` have not written the second.
    fn written(offsets: &Row<u64>, mask: u32, size: usize, lanes: u32) -> Vec<bool> {
        let words: Vec<Cell<u32>> = vec![Cell::new(0); 128];
        let init: Vec<Cell<u32>> = vec![Cell::new(0); 16];
        let memory = Bytes {
            words: &words,
            init: &init,
            unwritten: 0,
        };
        let mut planes = Planes::default();
        let part = OpenPart {
            number: 1,
            bytes: size,
            lanes,
        };
        part.fill(&mut planes);
        let mut place = Row::default();
        let pattern = classify(offsets, mask, 0, 512, 2 * size as u64, &mut place);
        store(memory, pattern, &place, mask, 2 * size, &planes);
        leave_open(memory, offsets, mask, &[part]);
        for at in (0..512).filter(|at| memory.written(*at, 1) == 0) {
            let byte = words[at / 4].get() >> (8 * (at % 4)) & 0xff;
            let stored = Lanes(mask).any(|lane| {
                (0..2 * size as u64).contains(&(at as u64).wrapping_sub(offsets.0[lane]))
            });
            assert_eq!(byte, if stored { 0xff } else { 0 }, "byte {at}");
        }
        (0..512).map(|at| memory.written(at, 1) == 1).collect()
    }

    #[test]
    fn only_unwritten_elements_of_a_store_stay_open() {
        for size in [1, 2, 4, 8] {
            let offsets = Row(std::array::from_fn(|lane| (2 * size * lane) as u64));
            let (mask, lanes) = (0x00ff_ffff, 0x00f0_0f0f);
            let got = written(&offsets, mask, size, lanes);
            for (at, got) in got.into_iter().enumerate() {
                let (lane, second) = (at / (2 * size), at / size % 2 == 1);
                let bit = |lanes: u32| lane < LANES && lanes >> lane & 1 == 1;
                assert_eq!(
                    got,
                    bit(mask) && !(second && bit(lanes)),
                    "byte {at}, {size}"
                );
            }
        }
    }

    #[test]
    fn of_lanes_that_store_to_one_place_the_highest_decides() {
        for (lanes, open) in [(0x0000_ffff, false), (0x8000_0000, true)] {
            let got = written(&Row([16; LANES]), FULL_MASK, 4, lanes);
            assert!(got[16..20].iter().all(|written| *written));
            assert!(got[20..24].iter().all(|written| *written != open));
        }
    }
}
