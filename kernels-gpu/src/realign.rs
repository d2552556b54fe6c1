//! Vectors at addresses that are not aligned to them.
//!
//! A vector is loaded as the two aligned vectors that hold it ([`joined`]). Neighbouring lanes store
//! theirs together: each lane takes the bytes that it lacks from the lane below
//! ([`store_apart`]).

use cuda_std::hint::{constant, rotate};
use cuda_std::mem;
use cuda_std::warp::{FULL_MASK, shfl_up};

/// A vector of 16 bytes as it is in memory.
pub(crate) type Raw = [u32; 4];

/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;

/// A vector turned up by so many bytes: its byte `i` becomes byte `i + shift`, modulo 16.
#[inline(always)]
pub(crate) fn turn<T>(raw: Raw, shift: u32) -> Raw {
    let mut raw = raw;
    if shift & 8 != 0 {
        raw = [raw[2], raw[3], raw[0], raw[1]];
    }
    if shift & 4 != 0 {
        raw = [raw[3], raw[0], raw[1], raw[2]];
    }
    if size_of::<T>() == 2 && shift & 2 != 0 {
        let half = |high: u32, low: u32| (high << 16) | (low >> 16);
        let [a, b, c, d] = raw;
        raw = [half(a, d), half(b, a), half(c, b), half(d, c)];
    }
    raw
}

/// The five words from the one on that has the byte `bytes` behind the beginning of the first of two
/// neighbours. It is in the first one.
#[inline(always)]
pub(crate) fn words(first: Raw, second: Raw, bytes: u32) -> [u32; 5] {
    let ([a, b, c, d], [e, f, g, h]) = (first, second);
    let (by_two, by_one) = (bytes & 8 != 0, bytes & 4 != 0);
    let two = |own: u32, from: u32| if by_two { from } else { own };
    let one = |own: u32, from: u32| if by_one { from } else { own };
    let (a, b, c, d, e, f) = (
        two(a, c),
        two(b, d),
        two(c, e),
        two(d, f),
        two(e, g),
        two(f, h),
    );
    [one(a, b), one(b, c), one(c, d), one(d, e), one(e, f)]
}

/// The vector that begins `bytes` behind the beginning of the first of two neighbours: less than a
/// vector, and whole elements.
#[inline(always)]
pub(crate) fn joined<T>(first: Raw, second: Raw, bytes: u32) -> Raw {
    let [a, b, c, d, e] = words(first, second, bytes);
    if size_of::<T>() >= 4 {
        return [a, b, c, d];
    }
    let half = |low: u32, high: u32| {
        let both = u64::from(high) << 32 | u64::from(low);
        (both >> (8 * (bytes % 4))) as u32
    };
    [half(a, b), half(b, c), half(c, d), half(d, e)]
}

/// Where a lane's vector is among those that a warp stores together. Lanes of a run have
/// neighbouring vectors.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) is_there: bool,
    /// The lane below has no vector of the run.
    pub(crate) is_first: bool,
    /// The lane above has none.
    pub(crate) is_last: bool,
}

/// Whether vectors that begin at `at` are aligned.
#[inline(always)]
pub(crate) fn is_whole<T>(at: *mut T) -> bool {
    (at.addr() as u32).is_multiple_of(VECTOR_BYTES)
}

/// Stores a vector of a run to any address: all bytes but the outermost in whole vectors.
///
/// # Safety
/// The warp calls it, converged. Where it is there, 16 bytes are writable at `at`, which is aligned
/// to elements, and the vectors of a run are neighbours.
#[inline(always)]
pub(crate) unsafe fn store_apart<T>(at: *mut T, raw: Raw, place: Place) {
    let shift = at.addr() as u32 % VECTOR_BYTES;
    let start = at.wrapping_byte_sub(shift as usize);
    // SAFETY: passed on to the caller.
    let below = raw.map(|word| unsafe { shfl_up(FULL_MASK, word, 1) });
    let first = if shift == 0 { raw } else { below };
    let whole = joined::<T>(first, raw, shift.wrapping_neg() % VECTOR_BYTES);
    // SAFETY: a vector of which both lanes' parts are writable.
    unsafe {
        mem::st_global_cs_v4_u32_if(start.cast(), whole, place.is_there && !place.is_first);
    }
    if place.is_there && (place.is_first || place.is_last) {
        // SAFETY: passed on to the caller: this lane's vector.
        unsafe { store_outermost(start.cast(), turn::<T>(raw, shift), shift, place) };
    }
}

/// Stores the parts of a turned vector that no other lane stores. The first lane of a run stores
/// its part of the aligned vector at `start`, and the last one its part of the next vector.
///
/// # Safety
/// These bytes are writable.
#[inline(always)]
unsafe fn store_outermost(start: *mut u32, turned: Raw, shift: u32, place: Place) {
    let (whole, rest) = (shift / 4, shift % 4);
    let (mut words, mut both) = (turned, turned[0]);
    let mut word = 0;
    // Once in PTX.
    while word < constant::<4>() {
        let is_next = (word as u32) < whole;
        let is_both = rest != 0 && word as u32 == whole;
        if is_both {
            both = words[0];
        }
        let is_own = if is_next {
            place.is_last
        } else {
            place.is_first
        };
        if is_own && !is_both {
            let to = word + if is_next { 4 } else { 0 };
            // SAFETY: a word of this lane's part.
            unsafe { start.wrapping_add(to).write(words[0]) };
        }
        rotate(&mut words);
        word += 1;
    }
    if rest != 0 {
        let low = start.wrapping_add(whole as usize).cast::<u16>();
        // SAFETY: halves of a word, of 16-bit elements.
        unsafe {
            if place.is_first {
                low.wrapping_add(1).write((both >> 16) as u16);
            }
            if place.is_last {
                low.wrapping_add(8).write(both as u16);
            }
        }
    }
}
