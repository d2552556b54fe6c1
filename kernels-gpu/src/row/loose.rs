//! A row that threads go through element by element, in shared memory or in global memory: rows
//! that no other way takes, or for which there is no room elsewhere.

use super::group::Group;
use cuda_std::element::Element;
use cuda_std::hint::opaque;

/// Elements at a time, whose loads are in flight together.
pub(crate) const CHUNK: usize = 4;

/// A row in global memory, or its copy in shared memory.
pub(crate) struct Loose<T> {
    start: *const T,
    n: u64,
    own: u64,
    threads: u64,
}

impl<T: Element> Loose<T> {
    /// The row at `row` in global memory; empty unless it `is_there`.
    #[inline(always)]
    pub(crate) fn new(group: &Group, row: *const T, n: u64, is_there: bool) -> Self {
        Self {
            start: row,
            n: if is_there { n } else { 0 },
            own: u64::from(group.own),
            threads: u64::from(group.threads),
        }
    }

    /// Copies the row to `copy`. Each thread copies the elements that it will read, so no barrier
    /// is needed.
    ///
    /// # Safety
    /// The row is readable; `copy` is writable, and nobody else uses it.
    #[inline(always)]
    pub(crate) unsafe fn staged(self, copy: *mut T) -> Self {
        let mut i = self.own;
        while i < self.n {
            // SAFETY: passed on to the caller; every element has a place of its own.
            unsafe {
                let (values, _) = self.chunk(i, 0.0);
                let mut j = 0;
                while j < CHUNK {
                    let to = i + j as u64 * self.threads;
                    if to < self.n {
                        T::store(copy.wrapping_add(to as usize), values[j]);
                    }
                    j += 1;
                }
            }
            i += self.threads * u64::from(opaque(CHUNK as u32));
        }
        Self {
            start: copy.cast_const(),
            ..self
        }
    }

    /// The thread's elements from `i` on, and how many of them the row has; the others are
    /// `instead`.
    #[inline(always)]
    unsafe fn chunk(&self, i: u64, instead: f32) -> ([f32; CHUNK], u32) {
        let mut values = [instead; CHUNK];
        let mut count = 0;
        let mut j = 0;
        while j < CHUNK {
            let at = i + j as u64 * self.threads;
            if at < self.n {
                // SAFETY: an element of the row.
                values[j] = unsafe { self.get(at) };
                count += 1;
            }
            j += 1;
        }
        (values, count)
    }

    #[inline(always)]
    fn at(&self, i: u64) -> *const T {
        self.start.wrapping_add(i as usize)
    }

    /// Element `i`.
    ///
    /// # Safety
    /// It is one of this thread's.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, i: u64) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe { T::load(self.at(i)) }
    }

    /// Calls `f` with all of the thread's elements, [`CHUNK`] at a time, and with how many of these
    /// the row has; the others are `instead`.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    pub(crate) unsafe fn chunks<S>(
        &self,
        state: S,
        instead: f32,
        f: impl Fn(S, [f32; CHUNK], u32) -> S,
    ) -> S {
        let mut state = state;
        let mut i = self.own;
        while i < self.n {
            // SAFETY: passed on to the caller.
            let (values, count) = unsafe { self.chunk(i, instead) };
            state = f(state, values, count);
            i += self.threads * u64::from(opaque(CHUNK as u32));
        }
        state
    }

    /// Calls `f` with all of the thread's elements and those of another row at the same indices; 0
    /// beyond the end.
    ///
    /// # Safety
    /// Both rows are readable and of one length.
    #[inline(always)]
    pub(crate) unsafe fn chunks_with<S>(
        &self,
        other: &Self,
        state: S,
        f: impl Fn(S, [f32; CHUNK], [f32; CHUNK]) -> S,
    ) -> S {
        let mut state = state;
        let mut i = self.own;
        while i < self.n {
            // SAFETY: passed on to the caller.
            unsafe {
                let (values, _) = self.chunk(i, 0.0);
                let (others, _) = other.chunk(i, 0.0);
                state = f(state, values, others);
            }
            i += self.threads * u64::from(opaque(CHUNK as u32));
        }
        state
    }

    /// Calls `f` with the index of each of the thread's elements.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut f: impl FnMut(u64)) {
        let mut i = self.own;
        while i < self.n {
            f(i);
            i += self.threads * u64::from(opaque(1));
        }
    }
}

/// Where a group's rows are staged in the launch's dynamic shared memory: that of input `input`, of
/// `n` elements.
#[inline(always)]
pub(crate) fn staging<T>(group: &Group, n: u64, input: u32) -> *mut T {
    let row = u64::from(input * group.groups + group.index);
    cuda_std::shared::dynamic_base()
        .cast::<T>()
        .wrapping_add((row * n) as usize)
}
