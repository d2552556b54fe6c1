//! Addresses of chunks and elements, and the holes for the accesses to them.

use abi::elementwise::{MAX_RANK, WalkParams};
use cuda_std::hint::opaque;
use cuda_std::{hole, mem, thread};

/// Bytes of a cache line.
const LINE_BYTES: u32 = 128;

/// How the elements of a launch's tensors are addressed: of the output, then of the inputs.
pub(super) trait Addresses {
    /// Addresses of chunk `index` in the output and the first `N` inputs.
    fn chunk<const N: usize>(&self, index: u32) -> [*mut u8; 5];
    /// Prefetches into L2 what a later block loads; a block has `own` chunks.
    fn ask_ahead<const N: usize>(&self, own: u32, chunks: u32);
    /// Addresses of element `index` of those behind the last of `chunks`.
    fn element<const N: usize>(&self, chunks: u32, index: u32) -> [*mut u8; 5];
}

/// Bytes of a chunk of each tensor, filled in by the host.
#[inline(always)]
fn chunk_bytes() -> [u32; 5] {
    let (y, a, b, c, d): (u32, u32, u32, u32, u32);
    hole!("bytes0", [y] <- []);
    hole!("bytes1", [a] <- []);
    hole!("bytes2", [b] <- []);
    hole!("bytes3", [c] <- []);
    hole!("bytes4", [d] <- []);
    [y, a, b, c, d]
}

/// Bytes of an element of each tensor.
#[inline(always)]
fn element_bytes() -> [u32; 5] {
    let (y, a, b, c, d): (u32, u32, u32, u32, u32);
    hole!("size0", [y] <- []);
    hole!("size1", [a] <- []);
    hole!("size2", [b] <- []);
    hole!("size3", [c] <- []);
    hole!("size4", [d] <- []);
    [y, a, b, c, d]
}

/// Elements of a chunk.
#[inline(always)]
fn chunk_elements() -> u32 {
    let elements: u32;
    hole!("elements", [elements] <- []);
    elements
}

/// Addresses of the output and the inputs.
#[inline(always)]
fn starts(y: *mut u8, [a, b, c, d]: [*const u8; 4]) -> [*mut u8; 5] {
    [y, a.cast_mut(), b.cast_mut(), c.cast_mut(), d.cast_mut()]
}

/// Contiguous tensors.
pub(super) struct Dense {
    tensors: [*mut u8; 5],
    /// As in [`abi::elementwise::DenseParams`].
    ahead: u32,
}

impl Dense {
    #[inline(always)]
    pub(super) fn new(y: *mut u8, inputs: [*const u8; 4], ahead: u32) -> Self {
        let tensors = starts(y, inputs);
        Self { tensors, ahead }
    }
}

impl Addresses for Dense {
    #[inline(always)]
    fn chunk<const N: usize>(&self, index: u32) -> [*mut u8; 5] {
        let bytes = chunk_bytes();
        let mut at = self.tensors;
        let mut t = 0;
        while t <= N {
            at[t] = at[t].wrapping_add(index as usize * bytes[t] as usize);
            t += 1;
        }
        at
    }

    /// A line for each thread at a time.
    #[inline(always)]
    fn ask_ahead<const N: usize>(&self, own: u32, chunks: u32) {
        let first = thread::block_idx_x() * own + self.ahead;
        if self.ahead == 0 || first + own > chunks {
            return;
        }
        let (at, bytes) = (self.chunk::<N>(first), chunk_bytes());
        let line = thread::thread_idx_x() * LINE_BYTES;
        let mut t = 1;
        while t <= N {
            // Chunks of an input are at most as long as those by which threads are counted, so
            // there are no more lines than threads.
            if line < own * bytes[t] {
                // SAFETY: a line with chunks that exist.
                unsafe { mem::prefetch_global_l2_once(at[t].wrapping_add(line as usize)) };
            }
            t += 1;
        }
    }

    #[inline(always)]
    fn element<const N: usize>(&self, chunks: u32, index: u32) -> [*mut u8; 5] {
        let (mut at, size) = (self.chunk::<N>(chunks), element_bytes());
        let mut t = 0;
        while t <= N {
            at[t] = at[t].wrapping_add(index as usize * size[t] as usize);
            t += 1;
        }
        at
    }
}

/// Tensors of any strides.
pub(super) struct Strided<'a> {
    tensors: [*mut u8; 5],
    walk: &'a WalkParams,
}

impl<'a> Strided<'a> {
    #[inline(always)]
    pub(super) fn new(y: *mut u8, inputs: [*const u8; 4], walk: &'a WalkParams) -> Self {
        Self {
            tensors: starts(y, inputs),
            walk,
        }
    }

    /// Addresses of element `index` of the walk.
    #[inline(always)]
    fn at<const N: usize>(&self, index: u32) -> [*mut u8; 5] {
        let (mut at, size) = (self.tensors, element_bytes());
        let mut offsets = [0_i64; 5];
        let (mut dimension, mut rest) = (0, index);
        while dimension < self.walk.rank {
            let axis = dimension as usize % MAX_RANK;
            let (quotient, i) = self.walk.extents[axis].div_rem(rest);
            let mut t = 0;
            while t <= N {
                let step = i64::from(i).wrapping_mul(self.walk.strides[t][axis]);
                offsets[t] = offsets[t].wrapping_add(step);
                t += 1;
            }
            rest = quotient;
            // Not unrolled eight times: there are few dimensions, and all threads have the same
            // number.
            dimension = opaque(dimension) + 1;
        }
        let mut t = 0;
        while t <= N {
            at[t] = at[t].wrapping_offset(offsets[t] as isize * size[t] as isize);
            t += 1;
        }
        at
    }
}

impl Addresses for Strided<'_> {
    #[inline(always)]
    fn chunk<const N: usize>(&self, index: u32) -> [*mut u8; 5] {
        self.at::<N>(index * chunk_elements())
    }

    /// Nothing: where a later block's chunks are takes as long to find as where its own are.
    #[inline(always)]
    fn ask_ahead<const N: usize>(&self, _: u32, _: u32) {}

    #[inline(always)]
    fn element<const N: usize>(&self, chunks: u32, index: u32) -> [*mut u8; 5] {
        self.at::<N>(chunks * chunk_elements() + index)
    }
}

macro_rules! loads {
    ($($(#[$doc:meta])* $function:ident: $len:literal, $a:literal, $b:literal, $c:literal, $d:literal, [$($word:ident),*];)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// They are there; the host fills the holes with accesses as long as they are.
        #[inline(always)]
        pub(super) unsafe fn $function<const N: usize>(at: [*mut u8; 5]) -> [[u32; $len]; 4] {
            let mut words = [[0; $len]; 4];
            let [_, a, b, c, d] = at;
            // SAFETY: passed on to the caller.
            unsafe {
                if N > 0 {
                    $(let $word: u32;)*
                    hole!(load $a, [$($word),*] <- a);
                    words[0] = [$($word),*];
                }
                if N > 1 {
                    $(let $word: u32;)*
                    hole!(load $b, [$($word),*] <- b);
                    words[1] = [$($word),*];
                }
                if N > 2 {
                    $(let $word: u32;)*
                    hole!(load $c, [$($word),*] <- c);
                    words[2] = [$($word),*];
                }
                if N > 3 {
                    $(let $word: u32;)*
                    hole!(load $d, [$($word),*] <- d);
                    words[3] = [$($word),*];
                }
            }
            words
        }
    )*};
}

loads! {
    /// The words of a chunk of the first `N` inputs.
    load: 4, "load1", "load2", "load3", "load4", [p, q, r, s];
    /// The words of an element of the first `N` inputs.
    take: 2, "take1", "take2", "take3", "take4", [p, q];
}

macro_rules! stores {
    ($($(#[$doc:meta])* $function:ident by $body:literal:
        $y:literal, $one:literal, $two:literal, $three:literal, $four:literal,
        [$($word:ident),*],
        [$($a:ident),*], [$($b:ident),*], [$($c:ident),*], [$($d:ident),*],
        [$($of_a:ident),*], [$($of_b:ident),*], [$($of_c:ident),*], [$($of_d:ident),*];)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// They are there; the host fills the holes with accesses as long as they are.
        #[inline(always)]
        pub(super) unsafe fn $function<const STORES: bool>(
            at: [*mut u8; 5],
            words: [[u32; [$(stringify!($word)),*].len()]; 4],
        ) {
            let [to, of_a, of_b, of_c, of_d] = at;
            let [[$($a),*], [$($b),*], [$($c),*], [$($d),*]] = words;
            $(let $word: u32;)*
            // SAFETY: passed on to the caller.
            unsafe {
                if STORES {
                    $(let ($of_a, $of_b, $of_c, $of_d): (u32, u32, u32, u32);)*
                    hole!($body, [$($word,)* $($of_a,)* $($of_b,)* $($of_c,)* $($of_d),*]
                        <- [$($a,)* $($b,)* $($c,)* $($d),*]);
                    hole!(store $one, of_a <- [$($of_a),*]);
                    hole!(store $two, of_b <- [$($of_b),*]);
                    hole!(store $three, of_c <- [$($of_c),*]);
                    hole!(store $four, of_d <- [$($of_d),*]);
                } else {
                    hole!($body, [$($word),*] <- [$($a,)* $($b,)* $($c,)* $($d),*]);
                }
                hole!(store $y, to <- [$($word),*]);
            }
        }
    )*};
}

stores! {
    /// Applies the function to a chunk of the inputs, and stores a chunk of what it writes.
    store by "chunk": "store", "store1", "store2", "store3", "store4",
        [p, q, r, s],
        [a0, a1, a2, a3], [b0, b1, b2, b3], [c0, c1, c2, c3], [d0, d1, d2, d3],
        [p1, q1, r1, s1], [p2, q2, r2, s2], [p3, q3, r3, s3], [p4, q4, r4, s4];
    /// Applies the function to an element of the inputs, and stores an element of what it writes.
    put by "element": "put", "put1", "put2", "put3", "put4",
        [p, q],
        [a0, a1], [b0, b1], [c0, c1], [d0, d1],
        [p1, q1], [p2, q2], [p3, q3], [p4, q4];
}
