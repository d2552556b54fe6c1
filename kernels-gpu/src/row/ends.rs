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
//! [`store_apart`](crate::realign::store_apart) stores them.

use super::packed::Packed;
use abi::rows::VECTOR_BYTES;
use cuda_std::thread::WARP_THREADS;

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
        let element = || unsafe { T::load_alike(row.wrapping_add(self.at as usize)) };
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
