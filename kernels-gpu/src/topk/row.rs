//! The elements of a row, or of a part of one, that a block has.

use core::marker::PhantomData;

use cuda_std::{mem, thread};

use super::key::{Pairing, Value};

/// The pairs that a block chooses from.
pub(super) trait Pairs {
    /// How many there are.
    fn len(&self) -> u32;
    /// Calls `f` with each of this thread's pairs.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn each(&self, f: impl FnMut(u64));
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

    /// The vector; zeros unless there is such a one.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    pub(super) unsafe fn vector(&self, vector: u32) -> [u32; 4] {
        let is_there = vector < self.vectors;
        // SAFETY: a whole vector of the row, aligned, where it is read.
        unsafe { mem::ld_global_v4_u32_if(self.at(self.index(vector)).cast(), is_there) }
    }

    /// Calls `f` with the bits and the index of this thread's elements that are in no vector: there
    /// are fewer than two vectors of them, and more threads.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    pub(super) unsafe fn edges(&self, mut f: impl FnMut(u32, u32)) {
        let thread = thread::thread_idx_x();
        if thread < self.len - self.vectors * T::LANES as u32 {
            let behind = match thread < self.head {
                true => 0,
                false => self.vectors * T::LANES as u32,
            };
            let index = self.begin + thread + behind;
            // SAFETY: an element of the part.
            f(unsafe { T::read(self.at(index)) }, index);
        }
    }

    /// Calls `f` with the bits and the index of each element of a vector.
    ///
    /// # Safety
    /// There is such a vector, and the row is readable.
    #[inline(always)]
    pub(super) unsafe fn of_vector(&self, vector: u32, mut f: impl FnMut(u32, u32)) {
        // SAFETY: passed on to the caller.
        let raw = unsafe { self.vector(vector) };
        let index = self.index(vector);
        for v in 0..T::LANES {
            f(T::of(raw, v), index + v as u32);
        }
    }
}

impl<T: Value> Pairs for Part<T> {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    unsafe fn each(&self, mut f: impl FnMut(u64)) {
        let mut vector = thread::thread_idx_x();
        // SAFETY: vectors and edges of the part.
        unsafe {
            while vector < self.vectors {
                self.of_vector(vector, |bits, index| f(self.pairing.pair::<T>(bits, index)));
                vector += thread::block_dim_x();
            }
            self.edges(|bits, index| f(self.pairing.pair::<T>(bits, index)));
        }
    }
}

/// Pairs in memory.
pub(super) struct Listed {
    pub(super) first: *const u64,
    pub(super) len: u32,
}

impl Pairs for Listed {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    unsafe fn each(&self, mut f: impl FnMut(u64)) {
        let mut i = thread::thread_idx_x();
        while i < self.len {
            // SAFETY: passed on to the caller.
            f(unsafe { self.first.add(i as usize).read() });
            i += thread::block_dim_x();
        }
    }
}
