//! Skeletons of elementwise kernels: `y = f(a, b, c, d)` for every element, where the host composes
//! f.
//!
//! **Roles**: all threads do the same. A thread has one chunk, of 16 bytes of the widest tensor, or
//! two. Chunks of strided tensors may be single elements, of which a thread with one input has up
//! to four.
//!
//! **Timeline**: load all inputs of all chunks; ask for those of a later block to be in L2 by then;
//! then, for each chunk, the function and the store. Skeletons with stores write the tensors of inputs
//! too, each element after all of it was loaded.
//! Blocks that do not have all of their chunks take them one by one. The first threads also take
//! the elements behind the last chunk.
//!
//! **Holes** ([`abi::elementwise::FusedEntry`]) stand for all that depends on dtypes and
//! functions: how wide accesses are, and what is computed from their words.
//!
//! **Before you change this**: `cargo test -p warpsmith-tests elementwise::`, and the
//! instructions an element in docs/elementwise.md.

mod access;

use abi::elementwise::{DenseParams, StridedParams, THREADS};
use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::{kernel, thread};

use access::{Addresses, Dense, Strided, load, put, store, take};

/// The work of all entries.
///
/// # Safety
/// `at` gives addresses inside the launch's tensors for all chunks and elements that exist.
#[inline(always)]
unsafe fn run<const N: usize, const CHUNKS: usize, const STORES: bool>(
    at: impl Addresses,
    chunks: u32,
    rest: u32,
) {
    let (block, thread) = (thread::block_idx_x(), thread::thread_idx_x());
    let start = block * (THREADS * CHUNKS as u32);
    if CHUNKS > 1 && start + THREADS * CHUNKS as u32 <= chunks {
        let mut addresses = [[core::ptr::null_mut(); 5]; CHUNKS];
        let mut words = [[[0; 4]; 4]; CHUNKS];
        let mut k = 0;
        while k < CHUNKS {
            addresses[k] = at.chunk::<N>(start + k as u32 * THREADS + thread);
            // SAFETY: a chunk that exists.
            words[k] = unsafe { load::<N>(addresses[k]) };
            k += 1;
        }
        at.ask_ahead::<N>(THREADS * CHUNKS as u32, chunks);
        k = 0;
        while k < CHUNKS {
            // SAFETY: as above.
            unsafe { store::<STORES>(addresses[k], words[k]) };
            k += 1;
        }
    } else {
        let mut index = start + thread;
        let mut left = if CHUNKS > 1 { opaque(CHUNKS as u32) } else { 1 };
        while left > 0 && index < chunks {
            let addresses = at.chunk::<N>(index);
            // SAFETY: as above.
            let words = unsafe { load::<N>(addresses) };
            // SAFETY: as above.
            unsafe { store::<STORES>(addresses, words) };
            index += THREADS;
            left -= 1;
        }
    }
    let index = block * THREADS + thread;
    if index < rest {
        let addresses = at.element::<N>(chunks, index);
        // SAFETY: an element that exists.
        unsafe { put::<STORES>(addresses, take::<N>(addresses)) };
    }
}

macro_rules! dense {
    ($($name:ident($inputs:literal, $chunks:literal, $stores:literal);)*) => {$(
        /// A function of tensors without gaps.
        ///
        /// # Safety
        /// Launched as `abi::elementwise` says, with tensors of these lengths and all holes filled.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            y: *mut u8,
            a: *const u8,
            b: *const u8,
            c: *const u8,
            d: *const u8,
            params: ByValue<DenseParams, 272>,
        ) {
            // SAFETY: the launch's promise.
            unsafe {
                let at = Dense::new(y, [a, b, c, d], params.ahead);
                run::<$inputs, $chunks, $stores>(at, params.chunks, params.rest)
            }
        }
    )*};
}

macro_rules! strided {
    ($($name:ident($inputs:literal, $chunks:literal, $stores:literal);)*) => {$(
        /// A function of tensors of any strides.
        ///
        /// # Safety
        /// Launched as `abi::elementwise` says, with tensors of these extents and strides and all
        /// holes filled.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            y: *mut u8,
            a: *const u8,
            b: *const u8,
            c: *const u8,
            d: *const u8,
            params: ByValue<StridedParams, 696>,
        ) {
            let at = Strided::new(y, [a, b, c, d], &params.walk);
            // SAFETY: the launch's promise.
            unsafe { run::<$inputs, $chunks, $stores>(at, params.chunks, params.rest) }
        }
    )*};
}

abi::fused_dense!(dense);
abi::fused_strided!(strided);
