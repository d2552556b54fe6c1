//! Transposes a batch of matrices: `y[j, i] = x[i, j]`, where x has stride 1 along j and y along i.
//!
//! **Roles**: all of the 256 or 512 threads do the same. They move a tile: 16 bytes along j from x
//! into shared memory, then 16 bytes along i out of it to y. A tile is `SUB` by `SUB` subtiles. A
//! subtile has 8·E rows of 128 bytes, where E is the number of elements of 16 bytes, so both sides
//! access whole lines of 128 bytes. Rows of x that are not aligned are loaded as the aligned vectors
//! that hold them, and those of y are stored so ([`crate::realign`]); elements of one byte are not.
//!
//! **Shared memory**: a subtile's row is eight chunks of 16 bytes; chunk c of row r is at c ^ (r /
//! E). The eight lanes that store a row take all eight chunks. The 32 lanes that read words of
//! eight row groups, and the four words of a column of chunks, take all 32 banks. So there are no
//! bank conflicts.
//!
//! **Order**: neighbouring blocks have neighbouring tiles along i. What a few hundred of them write
//! at the same time is a few whole rows of y, contiguous in memory. What they read is short pieces
//! of many rows of x, which costs less than writing such pieces.
//!
//! **Timeline**: all global loads, stores to shared memory, barrier, loads from it, global stores.

use crate::realign::{Place, joined, store_apart};
use abi::elementwise::{TransposeEntry, TransposeParams};
use cuda_std::param::ByValue;
use cuda_std::{kernel, mem, shared_array, thread};

/// Words of a subtile's row.
const ROW_WORDS: usize = 32;
/// Chunks (of 16 bytes) of a row.
const CHUNKS: u32 = 8;

/// A kernel's constants, for elements of `S` bytes and `SUB` subtiles along each side.
struct Shape<const S: usize, const SUB: u32>;

impl<const S: usize, const SUB: u32> Shape<S, SUB> {
    /// Number of elements of 16 bytes.
    const E: u32 = 16 / S as u32;
    /// Rows, and columns, of a subtile.
    const T: u32 = CHUNKS * Self::E;
    const ENTRY: TransposeEntry = match TransposeEntry::of(S) {
        Some(entry) => entry,
        None => panic!("the table has no elements of this size"),
    };
    /// Threads of a block.
    const THREADS: u32 = Self::ENTRY.threads();
    /// Loads a thread.
    const LOADS: usize = (SUB * Self::T * SUB * CHUNKS / Self::THREADS) as usize;
    /// Subtiles that the block's threads write at once; with 8-byte elements, a subtile takes half
    /// as many threads.
    const AT_ONCE: u32 = Self::THREADS / if S == 8 { 128 } else { 256 };
    const CHECKED: () = assert!(
        Self::ENTRY.tile() == SUB * Self::T && (SUB * SUB).is_multiple_of(Self::AT_ONCE),
        "abi's tile is the kernel's, and its threads finish whole subtiles"
    );
}

/// Loads up to one chunk of elements from `from`, of which `valid` exist.
#[inline(always)]
unsafe fn load<const S: usize>(from: *const u8, valid: u32, is_aligned: bool) -> [u32; 4] {
    let all = 16 / S as u32;
    // SAFETY: `valid` elements are readable, by one access if they are aligned.
    unsafe {
        if is_aligned && valid >= all {
            return mem::ld_global_once_v4_u32(from.cast());
        }
        let mut words = [0; 4];
        for e in 0..all {
            if e < valid {
                let at = from.wrapping_add(e as usize * S);
                let (word, shift) = ((e as usize * S) / 4, 8 * ((e * S as u32) % 4));
                match S {
                    1 => words[word] |= u32::from(at.read()) << shift,
                    2 => words[word] |= u32::from(at.cast::<u16>().read()) << shift,
                    4 => words[word] = at.cast::<u32>().read(),
                    _ => {
                        let [low, high] = mem::ld_global_v2_u32(at.cast());
                        (words[word], words[word + 1]) = (low, high);
                    }
                }
            }
        }
        words
    }
}

/// Stores up to one chunk of elements to `to`, of which `valid` exist.
#[inline(always)]
unsafe fn store<const S: usize>(to: *mut u8, words: [u32; 4], valid: u32, is_aligned: bool) {
    let all = 16 / S as u32;
    // SAFETY: `valid` elements are writable, by one access if they are aligned.
    unsafe {
        if is_aligned && valid >= all {
            return mem::st_global_v4_u32(to.cast(), words);
        }
        for e in 0..all {
            if e < valid {
                let at = to.wrapping_add(e as usize * S);
                let (word, shift) = ((e as usize * S) / 4, 8 * ((e * S as u32) % 4));
                match S {
                    1 => at.write((words[word] >> shift) as u8),
                    2 => at.cast::<u16>().write((words[word] >> shift) as u16),
                    4 => at.cast::<u32>().write(words[word]),
                    _ => mem::st_global_v2_u32(at.cast(), [words[word], words[word + 1]]),
                }
            }
        }
    }
}

/// Whether rows that are not `aligned` go by vectors nevertheless.
const fn is_realigned<const S: usize>(is_aligned: bool) -> bool {
    !is_aligned && S > 1
}

/// An unaligned chunk of a row of x by aligned vectors.
struct Window {
    from: *const u8,
    /// Bytes from the aligned address below to the chunk.
    shift: u32,
    /// Whether all bytes of both aligned vectors that hold the chunk are the row's.
    is_inside: bool,
}

impl Window {
    /// Of the chunk at `from`, which is the row's first one or not, with `valid` elements of `S`
    /// bytes in the row from there on.
    #[inline(always)]
    fn new<const S: usize>(from: *const u8, is_first: bool, valid: u32) -> Self {
        let shift = from.addr() as u32 % 16;
        let needed = if shift == 0 { 16 } else { 32 - shift };
        let is_below = is_first && shift != 0;
        Self {
            from,
            shift,
            is_inside: !is_below && valid.saturating_mul(S as u32) >= needed,
        }
    }

    /// Both vectors; zeros unless they are inside. The second one is the first if the chunk is
    /// aligned.
    #[inline(always)]
    unsafe fn load(&self) -> [[u32; 4]; 2] {
        let low = self.from.wrapping_sub(self.shift as usize);
        let high = low.wrapping_add(if self.shift == 0 { 0 } else { 16 });
        // SAFETY: passed on to the caller: bytes of the row.
        unsafe { [low, high].map(|at| mem::ld_global_nc_v4_u32_or(at.cast(), self.is_inside, 0)) }
    }
}

/// Where a block's tile is.
struct TileCoord {
    /// First row and column of x.
    i: u32,
    j: u32,
    /// Offsets of the matrix in the batch, in elements.
    x: i64,
    y: i64,
}

#[inline(always)]
fn coord(params: &TransposeParams, tile: u32) -> TileCoord {
    let block = thread::block_idx_x();
    let (rest, i) = params.tiles[0].div_rem(block);
    let (mut rest, j) = params.tiles[1].div_rem(rest);
    let (mut x, mut y) = (0_i64, 0_i64);
    for axis in 0..params.batch_rank as usize {
        let (quotient, at) = params.batch[axis].div_rem(rest);
        x = x.wrapping_add(i64::from(at).wrapping_mul(params.x_batch[axis]));
        y = y.wrapping_add(i64::from(at).wrapping_mul(params.y_batch[axis]));
        rest = quotient;
    }
    TileCoord {
        i: i * tile,
        j: j * tile,
        x,
        y,
    }
}

/// The kernel for elements of `S` bytes.
///
/// # Safety
/// The launch's tensors; `smem` has room for the tile.
#[inline(always)]
unsafe fn transpose<const S: usize, const SUB: u32>(
    x: *const u8,
    y: *mut u8,
    params: &TransposeParams,
    smem: *mut u32,
) {
    const { Shape::<S, SUB>::CHECKED };
    let (e, t) = (Shape::<S, SUB>::E, Shape::<S, SUB>::T);
    let threads = Shape::<S, SUB>::THREADS;
    let coord = coord(params, SUB * t);
    let thread = thread::thread_idx_x();
    let mut loaded = [[0; 4]; 16];
    let (mut k, columns) = (0, CHUNKS * SUB);
    let is_aligned = params.aligned & 1 != 0;
    // The k-th chunk of the thread: its address, its column, and the elements of the row from there.
    let chunk = |k: usize| {
        let item = k as u32 * threads + thread;
        let (i, j) = (coord.i + item / columns, coord.j + item % columns * e);
        let at = coord.x + i64::from(i) * params.x_stride + i64::from(j);
        let left = params.columns.saturating_sub(j);
        let valid = if i < params.rows { left } else { 0 };
        (x.wrapping_offset(at as isize * S as isize), j, valid)
    };
    let is_realigned = is_realigned::<S>(is_aligned);
    if is_realigned {
        let mut vectors = [[[0; 4]; 2]; 16];
        while k < Shape::<S, SUB>::LOADS {
            let (from, j, valid) = chunk(k);
            // SAFETY: elements of row i from column j on, or nothing.
            vectors[k] = unsafe { Window::new::<S>(from, j == 0, valid).load() };
            k += 1;
        }
        k = 0;
        while k < Shape::<S, SUB>::LOADS {
            let ([low, high], shift) = (vectors[k], chunk(k).0.addr() as u32 % 16);
            loaded[k] = match S {
                2 => joined::<u16>(low, high, shift),
                _ => joined::<u32>(low, high, shift),
            };
            k += 1;
        }
        k = 0;
    }
    while k < Shape::<S, SUB>::LOADS {
        let (from, j, valid) = chunk(k);
        let is_loaded = is_realigned && Window::new::<S>(from, j == 0, valid).is_inside;
        if valid > 0 && !is_loaded {
            // SAFETY: elements of row i from column j on.
            loaded[k] = unsafe { load::<S>(from, valid, is_aligned) };
        }
        k += 1;
    }
    k = 0;
    while k < Shape::<S, SUB>::LOADS {
        let item = k as u32 * threads + thread;
        let (row, column) = (item / columns, item % columns);
        let subtile = row / t * SUB + column / CHUNKS;
        let (row, chunk) = (row % t, column % CHUNKS);
        let word = (subtile * t + row) * 32 + (chunk ^ (row / e)) * 4;
        // SAFETY: inside the tile, aligned to 16 bytes.
        unsafe { mem::st_v4_u32(smem.wrapping_add(word as usize), loaded[k]) };
        k += 1;
    }
    thread::sync_threads();
    let (at_once, mut pass) = (Shape::<S, SUB>::AT_ONCE, 0);
    let each = threads / at_once;
    while pass < SUB * SUB / at_once {
        let subtile = pass * at_once + thread / each;
        // SAFETY: the tile is written; places beyond the matrix are not written to y.
        unsafe { finish::<S, SUB>(y, params, smem, &coord, subtile, thread % each) };
        pass += 1;
    }
}

/// Stores a thread's part of a subtile: E rows of x, by the columns of a word (or of one 8-byte
/// element).
#[inline(always)]
unsafe fn finish<const S: usize, const SUB: u32>(
    y: *mut u8,
    params: &TransposeParams,
    smem: *const u32,
    coord: &TileCoord,
    subtile: u32,
    thread: u32,
) {
    let (e, t) = (Shape::<S, SUB>::E, Shape::<S, SUB>::T);
    let group = thread % 8;
    let (part, chunk) = match S {
        8 => ((thread >> 3) % 2 * 2, thread >> 4),
        _ => ((thread >> 3) % 4, thread >> 5),
    };
    let i = coord.i + subtile / SUB * t + group * e;
    let j = coord.j + subtile % SUB * t + (chunk * 16 + part * 4) / S as u32;
    let first = (subtile * t + group * e) as usize * ROW_WORDS;
    let from = smem.wrapping_add(first + ((chunk ^ group) * 4 + part) as usize);
    let row = |r: usize| from.wrapping_add(r * ROW_WORDS);
    let is_aligned = params.aligned & 2 != 0;
    let put = |column: u32, words: [u32; 4]| {
        let j = j + column;
        let at = coord.y + i64::from(j) * params.y_stride + i64::from(i);
        let to = y.wrapping_offset(at as isize * S as isize);
        let left = params.rows.saturating_sub(i);
        let valid = if j < params.columns { left } else { 0 };
        let mut is_stored = valid == 0;
        if is_realigned::<S>(is_aligned) {
            let place = Place {
                is_there: valid >= e,
                is_first: group == 0,
                is_last: group == 7 || valid < 2 * e,
            };
            // SAFETY: a chunk of row j of y, or nothing; eight neighbouring lanes have neighbouring
            // chunks. All threads come here.
            unsafe {
                match S {
                    2 => store_apart::<u16>(to.cast(), words, place),
                    _ => store_apart::<u32>(to.cast(), words, place),
                }
            }
            is_stored |= place.is_there;
        }
        if !is_stored {
            // SAFETY: elements of row j of y from column i on.
            unsafe { store::<S>(to, words, valid, is_aligned) };
        }
    };
    // SAFETY: words of the subtile.
    unsafe {
        match S {
            8 => {
                let [a, b] = mem::ld_v2_u32(row(0));
                let [c, d] = mem::ld_v2_u32(row(1));
                put(0, [a, b, c, d]);
            }
            4 => put(
                0,
                [row(0).read(), row(1).read(), row(2).read(), row(3).read()],
            ),
            2 => {
                let low = |r: usize| (row(2 * r).read(), row(2 * r + 1).read());
                let pairs = [low(0), low(1), low(2), low(3)];
                put(0, pairs.map(|(a, b)| a & 0xffff | b << 16));
                put(1, pairs.map(|(a, b)| a >> 16 | b & 0xffff_0000));
            }
            _ => {
                let quad = |r: usize| {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|k| row(4 * r + k).read());
                    transposed_bytes(a, b, c, d)
                };
                let [p, q, r, s] = [quad(0), quad(1), quad(2), quad(3)];
                put(0, [p.0, q.0, r.0, s.0]);
                put(1, [p.1, q.1, r.1, s.1]);
                put(2, [p.2, q.2, r.2, s.2]);
                put(3, [p.3, q.3, r.3, s.3]);
            }
        }
    }
}

/// Word k of the result is byte k of each word.
#[inline(always)]
fn transposed_bytes(a: u32, b: u32, c: u32, d: u32) -> (u32, u32, u32, u32) {
    let byte = |k: u32| {
        let of = |x: u32| (x >> (8 * k)) & 0xff;
        of(a) | of(b) << 8 | of(c) << 16 | of(d) << 24
    };
    (byte(0), byte(1), byte(2), byte(3))
}

macro_rules! transposes {
    ($($name:ident($size:literal, $sub:literal, $words:literal);)*) => {$(
        #[doc = concat!("Transposes matrices of elements of ", stringify!($size), " bytes.")]
        ///
        /// # Safety
        /// Launched as `abi::elementwise` says, with tensors of these extents and strides.
        #[kernel(max_threads = TransposeEntry::read(stringify!($name)).threads())]
        pub unsafe fn $name(x: *const u8, y: *mut u8, params: ByValue<TransposeParams, 224>) {
            // SAFETY: the launch's promise.
            unsafe { transpose::<$size, $sub>(x, y, &params, shared_array![u32; $words]) }
        }
    )*};
}

abi::transpose_tiles!(transposes);
