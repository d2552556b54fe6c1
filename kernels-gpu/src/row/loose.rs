//! A row that threads go through element by element, in shared memory or where it is: rows that do
//! not begin on a vector, or that nothing has room for.

use super::group::Group;
use cuda_std::element::Element;
use cuda_std::hint::opaque;

/// Elements at a time: so many loads are on their way together.
pub(crate) const CHUNK: usize = 4;

/// A row, or a copy of it.
pub(crate) struct Loose<T> {
    start: *const T,
    n: u64,
    own: u64,
    threads: u64,
}

impl<T: Element> Loose<T> {
    /// The row at `row`, where it is; nothing where not `is_there`.
    #[inline(always)]
    pub(crate) fn new(group: &Group, row: *const T, n: u64, is_there: bool) -> Self {
        Self {
            start: row,
            n: if is_there { n } else { 0 },
            own: u64::from(group.own),
            threads: u64::from(group.threads),
        }
    }

    /// A copy of the row at `copy`. Each thread copies what it reads itself, so nobody waits.
    ///
    /// # Safety
    /// The row is readable, and `copy` is writable and for this alone.
    #[inline(always)]
    pub(crate) unsafe fn staged(self, copy: *mut T) -> Self {
        let mut i = self.own;
        while i < self.n {
            // SAFETY: passed on to the caller; every element has its place.
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

    /// Elements from `i` on, a step apart, and how many there are; `instead` where there is none.
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

    /// Calls `f` for all of the thread's elements, [`CHUNK`] at a time, the last ones of which may not
    /// be there: then they are `instead`. `f` gets how many are.
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

    /// Calls `f` for all of the thread's elements and those of another row at the same places; 0
    /// where there is none.
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

    /// Calls `f` with the place of each of the thread's elements.
    #[inline(always)]
    pub(crate) fn places(&self, mut f: impl FnMut(u64)) {
        let mut i = self.own;
        while i < self.n {
            f(i);
            i += self.threads * u64::from(opaque(1));
        }
    }
}

/// Where a group's rows lie in the launch's dynamic shared memory: that of number `input`, of
/// `n` elements.
#[inline(always)]
pub(crate) fn place<T>(group: &Group, n: u64, input: u32) -> *mut T {
    let row = u64::from(input * group.groups + group.index);
    cuda_std::shared::dynamic_base()
        .cast::<T>()
        .wrapping_add((row * n) as usize)
}
