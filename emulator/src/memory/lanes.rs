//! Accesses by the 32 lanes of a warp to an array of words.

use super::words::{Bytes, Word, low_bits};
use crate::exec::row::{FULL_MASK, LANES, Lanes, Row};

/// Data of one access: plane `p` holds bytes `4p..4p+4` of each lane. Accesses of less than 4 bytes
/// use the low bits of plane 0.
pub(crate) type Planes = [Row<u32>; 8];

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
