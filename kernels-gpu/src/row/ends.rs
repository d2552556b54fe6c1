//! Rows that begin anywhere: whole vectors, with fewer elements than a vector ahead of them and
//! behind them.
//!
//! ```text
//! row    | e e e | v0 | v1 | .. | vL-1 | e e |
//!          head    whole vectors         tail      <- both ends: one element a thread
//! ```
//!
//! The threads of a row have its whole vectors as they have those of an aligned row. Each of the
//! first threads has one element of the ends besides. No access leaves the row, so a neighbouring
//! row may be written meanwhile.
//!
//! The vectors of a row that is written may lie otherwise than those of the row that is read. Then
//! each lane takes the bytes that it lacks from the lane below
//! ([`store_apart`]).

use super::packed::{Packed, Raw, joined, turn};
use abi::rows::VECTOR_BYTES;
use cuda_std::hint::{constant, rotate};
use cuda_std::mem;
use cuda_std::thread::WARP_THREADS;
use cuda_std::warp::{FULL_MASK, shfl_up};

/// How a row is divided, and which element of its ends this thread has. Unless rows begin at `ANY`
/// address, they are whole vectors, and nothing of this is computed.
#[derive(Clone, Copy)]
pub(crate) struct Ends<const ANY: bool> {
    /// Elements ahead of the whole vectors.
    head: u32,
    /// Whole vectors of the row.
    pub(crate) vectors: u32,
    /// Elements of both ends together.
    elements: u32,
    /// Index in the row of this thread's element.
    at: u32,
    has: bool,
}

impl<const ANY: bool> Ends<ANY> {
    /// Of a row of `n` elements, for the thread with index `own` of the row; `None` is a thread
    /// that has no element of the ends, or no row.
    #[inline(always)]
    pub(crate) fn new<T: Packed>(row: *const T, n: u64, own: Option<u32>) -> Self {
        if !ANY {
            return Self {
                head: 0,
                vectors: (n / T::LANES as u64) as u32,
                elements: 0,
                at: 0,
                has: false,
            };
        }
        let (n, lanes) = (n as u32, T::LANES as u32);
        let ahead = (row.addr() as u32).wrapping_neg() % VECTOR_BYTES;
        let head = (ahead / (VECTOR_BYTES / lanes)).min(n);
        let vectors = (n - head) / lanes;
        let inner = vectors * lanes;
        let at = own.unwrap_or(0);
        Self {
            head,
            vectors,
            elements: if own.is_some() { n - inner } else { 0 },
            at: if at < head { at } else { at + inner },
            has: own.is_some_and(|own| own < n - inner),
        }
    }

    /// Elements ahead of the whole vectors.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Elements of both ends together, if the calling warp has them: the row's first one, given
    /// the thread's index.
    #[inline(always)]
    pub(crate) fn elements_of_warp(&self, own: u32) -> u32 {
        if own < WARP_THREADS { self.elements } else { 0 }
    }

    /// Index in the row of this thread's element.
    #[inline(always)]
    pub(crate) fn at(&self) -> usize {
        self.at as usize
    }

    /// Whether this thread has an element.
    #[inline(always)]
    pub(crate) fn has(&self) -> bool {
        ANY && self.has
    }

    /// Where the whole vectors of a row begin.
    #[inline(always)]
    pub(crate) fn inner<T>(&self, row: *const T) -> *const T {
        row.wrapping_add(self.head as usize)
    }

    /// The same, of a row that is written.
    #[inline(always)]
    pub(crate) fn inner_mut<T>(&self, row: *mut T) -> *mut T {
        row.wrapping_add(self.head as usize)
    }

    /// Whether this thread has element `element` of the row as one of the ends.
    #[inline(always)]
    pub(crate) fn is(&self, element: u64) -> bool {
        self.has() && u64::from(self.at) == element
    }

    /// This thread's element of a row, or `otherwise` if it has none; `None` if rows have no ends.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    pub(crate) unsafe fn load<T: Packed>(&self, row: *const T, otherwise: f32) -> Option<f32> {
        if !ANY {
            return None;
        }
        // SAFETY: an element of the row.
        let element = || unsafe { T::load(row.wrapping_add(self.at as usize)) };
        Some(if self.has { element() } else { otherwise })
    }

    /// A number for this thread's element, or 0 if it has none.
    #[inline(always)]
    pub(crate) fn or_zero(&self, value: f32) -> f32 {
        if self.has() { value } else { 0.0 }
    }

    /// Stores this thread's element of a row, if it has one.
    ///
    /// # Safety
    /// The row is writable.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Packed>(&self, row: *mut T, value: f32) {
        if self.has() {
            // SAFETY: an element of the row.
            unsafe { T::store(row.wrapping_add(self.at as usize), value) };
        }
    }
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
pub(crate) unsafe fn store_apart<T: Packed>(at: *mut T, raw: Raw, place: Place) {
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

/// Stores the parts of a turned vector that no other lane stores: by the first lane of a run what is
/// of the aligned vector at `start`, and by the last one what is of the next vector.
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
