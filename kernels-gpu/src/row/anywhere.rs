//! Runs of elements that begin at any element, through shared memory.
//!
//! A bulk copy brings the whole aligned vectors of a run. A run lies to vectors in shared memory as it
//! does in global memory. Of its first and last vector, which may hold elements of others, lanes load
//! the run's elements themselves, ahead of time, and put them beside those that have landed. So no
//! access leaves the run, and what is beside it may be written meanwhile.
//!
//! ```text
//! run    | e e e | v0 | v1 | .. | vL-1 | e e |
//!          lanes   one bulk copy         lanes
//! ```

use abi::rows::{ANY_ELEMENTS, VECTOR_BYTES};
use cuda_std::shared::SharedAddr;
use cuda_std::thread::WARP_THREADS;

/// Lanes that put elements behind the bulk copy. The end of a run moves by less than a vector, so that
/// these are all that may hold something else, and more.
const BEHIND: u32 = 16;

/// Most elements of a run.
const PART: u32 = WARP_THREADS * ANY_ELEMENTS as u32;

/// What a lane loads of a run's ends: an element as it is in memory, and its index in the run; [`PART`] or more for none. For elements of 16 bits, both are in the first word, so that they
/// take one register.
#[derive(Clone, Copy)]
pub(crate) struct End([u32; 2]);

impl End {
    /// Of an input that does not exist.
    pub(crate) const NONE: Self = Self([PART << 16, PART]);

    #[inline(always)]
    fn new<T>(word: u32, at: u32) -> Self {
        match size_of::<T>() {
            2 => Self([word | at << 16, PART]),
            _ => Self([word, at]),
        }
    }

    #[inline(always)]
    fn at<T>(self) -> u32 {
        match size_of::<T>() {
            2 => self.0[0] >> 16,
            _ => self.0[1],
        }
    }
}

/// What a bulk copy brings, in bytes from the aligned address `shift` bytes before the run.
struct Landing {
    shift: u32,
    start: u32,
    end: u32,
}

/// A run, but for its address.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    /// Whether what is ahead of it must not be read.
    pub(crate) is_first: bool,
    /// Elements of the run.
    pub(crate) elements: u32,
    /// Bytes from its beginning to where reads must end; all that are more than two vectors behind the
    /// run's end are alike.
    pub(crate) rest_bytes: u32,
}

impl Span {
    #[inline(always)]
    fn landing<T>(self, from: *const T) -> Landing {
        let shift = shift_of(from);
        let start = match self.is_first && shift > 0 {
            true => VECTOR_BYTES,
            false => 0,
        };
        let end = (shift + self.elements * size_of::<T>() as u32).next_multiple_of(VECTOR_BYTES);
        let rest_end = (shift + self.rest_bytes) & !(VECTOR_BYTES - 1);
        Landing {
            shift,
            start,
            end: end.min(rest_end).max(start),
        }
    }

    /// The bulk copy of the run at `from` to its place at `to`: where it reads and writes, and its
    /// bytes.
    #[inline(always)]
    pub(crate) fn whole_vectors<T>(
        self,
        from: *const T,
        to: SharedAddr,
    ) -> (*const T, SharedAddr, u32) {
        let Landing { shift, start, end } = self.landing(from);
        let from = from.wrapping_byte_sub(shift as usize);
        let from = from.wrapping_byte_add(start as usize);
        (from, to.add_bytes(start), end - start)
    }

    /// Loads a lane's element of the ends of the run at `from`.
    ///
    /// # Safety
    /// The run is readable.
    #[inline(always)]
    pub(crate) unsafe fn end_of<T>(self, lane: u32, from: *const T) -> End {
        let Landing { shift, start, end } = self.landing(from);
        let elements = |bytes: u32| bytes.saturating_sub(shift) / size_of::<T>() as u32;
        let (ahead, landed) = (elements(start), elements(end));
        let (at, has) = match lane < BEHIND {
            true => (landed + lane, true),
            false => (lane - BEHIND, lane - BEHIND < ahead),
        };
        let mut word = 0;
        if has && at < self.elements {
            // SAFETY: passed on to the caller: an element of the run.
            word = unsafe { word_of(from.wrapping_add(at as usize)) };
        }
        let at = if has { at } else { PART };
        End::new::<T>(word, at)
    }
}

/// Puts an element of the ends of a run into the run at `run`. Behind the run's end it puts zeros.
///
/// # Safety
/// What the bulk copy brings has landed, and there is room for [`PART`] elements. Lanes meet before they
/// read the run. Before the next bulk copy to this place they execute a fence for it.
#[inline(always)]
pub(crate) unsafe fn put_end<T>(run: *mut T, end: End) {
    if end.at::<T>() >= PART {
        return;
    }
    let at = run.wrapping_add(end.at::<T>() as usize);
    // SAFETY: the lane's own element of the run.
    unsafe {
        match size_of::<T>() {
            2 => at.cast::<u16>().write(end.0[0] as u16),
            _ => at.cast::<u32>().write(end.0[0]),
        }
    }
}

/// Bytes from a multiple of a vector to an address.
#[inline(always)]
pub(crate) fn shift_of<T>(at: *const T) -> u32 {
    at.addr() as u32 % VECTOR_BYTES
}

/// An element as it is in memory.
///
/// # Safety
/// It is readable.
#[inline(always)]
unsafe fn word_of<T>(at: *const T) -> u32 {
    // SAFETY: passed on to the caller.
    unsafe {
        match size_of::<T>() {
            2 => u32::from(at.cast::<u16>().read()),
            _ => at.cast::<u32>().read(),
        }
    }
}
