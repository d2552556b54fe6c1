//! The elements of a row, or of a part of one, that a block has.

use core::marker::PhantomData;

use cuda_std::{mem, thread};

use super::key::{Narrow, Pair, Pairing, Value};

/// The pairs that a block chooses from.
pub(super) trait Pairs {
    /// The type of one.
    type Pair: Pair;
    /// How many there are.
    fn len(&self) -> u32;
    /// Calls `f` with each of this thread's pairs.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn each(&self, f: impl FnMut(Self::Pair));
}

/// A part of a row of elements.
pub(super) struct Part<T> {
    /// The row's element 0.
    row: *const u8,
    /// Index of the part's first element.
    begin: u32,
    /// Elements before the first vector.
    head: u32,
    /// Whole vectors.
    pub(super) vectors: u32,
    len: u32,
    pub(super) pairing: Pairing,
    of: PhantomData<T>,
}

impl<T: Value> Part<T> {
    /// Elements `begin..begin + len` of the row.
    #[inline(always)]
    pub(super) fn new(row: *const u8, begin: u32, len: u32, pairing: Pairing) -> Self {
        let first = row.wrapping_add(begin as usize * T::SIZE as usize);
        let head = (first.addr() as u32).wrapping_neg() % 16 / T::SIZE;
        let head = if head < len { head } else { len };
        Self {
            row,
            begin,
            head,
            vectors: (len - head) / T::LANES as u32,
            len,
            pairing,
            of: PhantomData,
        }
    }

    #[inline(always)]
    fn at(&self, index: u32) -> *const u8 {
        self.row.wrapping_add(index as usize * T::SIZE as usize)
    }

    /// Index of the first element of a vector.
    #[inline(always)]
    pub(super) fn index(&self, vector: u32) -> u32 {
        self.begin + self.head + vector * T::LANES as u32
    }

    /// The element of this index.
    ///
    /// # Safety
    /// The row has such an element, and is readable.
    #[inline(always)]
    pub(super) unsafe fn element(&self, index: u32) -> T::Bits {
        // SAFETY: passed on to the caller.
        unsafe { T::read(self.at(index)) }
    }

    /// The index of this thread's element that is in no vector, if it has one: there are fewer than
    /// two vectors of them, and more threads.
    #[inline(always)]
    pub(super) fn edge(&self) -> Option<u32> {
        let thread = thread::thread_idx_x();
        let in_vectors = self.vectors * T::LANES as u32;
        let behind = if thread < self.head { 0 } else { in_vectors };
        match thread < self.len - in_vectors {
            true => Some(self.begin + thread + behind),
            false => None,
        }
    }
}

impl<T: Narrow> Part<T> {
    /// The vector; elements that come last unless there is such a one.
    ///
    /// # Safety
    /// The row is readable, and nothing writes it while the kernel runs.
    #[inline(always)]
    pub(super) unsafe fn vector(&self, vector: u32) -> [u32; 4] {
        let is_there = vector < self.vectors;
        let turns = self.pairing.turn | self.pairing.turn >> 16;
        let otherwise = T::LEAST_WORD ^ turns & T::SIGNS;
        let at = self.at(self.index(vector)).cast();
        // SAFETY: a whole vector of the row, aligned, where it is read.
        unsafe { mem::ld_global_nc_v4_u32_or(at, is_there, otherwise) }
    }
}

impl<T: Value> Pairs for Part<T> {
    type Pair = T::Pair;

    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    unsafe fn each(&self, mut f: impl FnMut(T::Pair)) {
        let mut i = thread::thread_idx_x();
        while i < self.vectors {
            let first = self.index(i);
            // SAFETY: a vector of the part.
            let raw = unsafe { mem::ld_global_nc_v4_u32_or(self.at(first).cast(), true, 0) };
            for v in 0..T::LANES {
                f(T::pair(T::of(raw, v), first + v as u32, &self.pairing));
            }
            i += thread::block_dim_x();
        }
        if let Some(index) = self.edge() {
            // SAFETY: an element of the part.
            let bits = unsafe { self.element(index) };
            f(T::pair(bits, index, &self.pairing));
        }
    }
}

/// Pairs in memory.
pub(super) struct Listed<P> {
    pub(super) first: *const P,
    pub(super) len: u32,
}

impl<P: Pair> Pairs for Listed<P> {
    type Pair = P;

    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    unsafe fn each(&self, mut f: impl FnMut(P)) {
        let mut i = thread::thread_idx_x();
        while i < self.len {
            // SAFETY: passed on to the caller.
            f(unsafe { self.first.add(i as usize).read() });
            i += thread::block_dim_x();
        }
    }
}
