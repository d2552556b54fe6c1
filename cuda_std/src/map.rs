//! Elementwise kernels from a function of your own: `y = f(x0, x1, ..)` for every element, with
//! broadcasting and strides.
//!
//! The kernel is a few lines. The host's `Map` launches it over tensors of any strides:
//!
//! ```
//! use cuda_std::map::map;
//! use cuda_std::param::ByValue;
//! use abi::elementwise::{THREADS, WalkParams};
//!
//! /// y = x² + a.
//! #[cuda_std::kernel(max_threads = THREADS)]
//! pub unsafe fn square_plus(
//!     x: *const f32,
//!     a: *const f32,
//!     y: *mut f32,
//!     walk: ByValue<WalkParams, 432>,
//! ) {
//!     unsafe { map([x, a], y, &walk, |[x, a]| x * x + a) }
//! }
//! ```

use crate::element::Element;
use crate::{thread, walk};
use abi::elementwise::{GROUP, THREADS, WalkParams};

/// Elements of a chunk: one vector access per tensor.
const CHUNK: usize = 4;

/// Computes `y = f(x)` for every element. `f` gets the inputs' elements as f32; its result is
/// rounded to the type of `y`.
///
/// A thread processes [`GROUP`] elements: two chunks of four consecutive ones where the layout
/// allows vector accesses, else single elements.
///
/// *Scope*: all threads of a launch with [`THREADS`] threads per block.
///
/// # Safety
/// `params` describes these tensors: the output `y` first, then the inputs `x` in order.
#[inline(always)]
pub unsafe fn map<X: Element, Y: Element, const N: usize>(
    x: [*const X; N],
    y: *mut Y,
    params: &WalkParams,
    f: impl Fn([f32; N]) -> f32,
) {
    let start = thread::block_idx_x() * (THREADS * GROUP);
    let is_full = start + THREADS * GROUP <= params.len;
    if params.chunk == CHUNK as u32 && is_full {
        let first = start + thread::thread_idx_x() * CHUNK as u32;
        let second = first + THREADS * CHUNK as u32;
        // SAFETY: the block is full, so both chunks are in bounds; `params.chunk` says that they
        // are contiguous and aligned in every tensor, or one repeated element.
        unsafe {
            let near = load_chunks(x, params, first);
            let far = load_chunks(x, params, second);
            store_chunk(y, params, first, near, &f);
            store_chunk(y, params, second, far, &f);
        }
        return;
    }
    let mut index = start + thread::thread_idx_x();
    let mut left = crate::hint::opaque(GROUP);
    while left > 0 && index < params.len {
        let mut values = [0.0; N];
        let mut input = 0;
        while input < N {
            let at = walk::offset(params, input + 1, index);
            // SAFETY: `index` is below the length, so this is an element of the input.
            values[input] = unsafe { X::load(x[input].wrapping_offset(at)) };
            input += 1;
        }
        // SAFETY: likewise, an element of the output.
        unsafe { Y::store(y.wrapping_offset(walk::offset(params, 0, index)), f(values)) };
        index += THREADS;
        left -= 1;
    }
}

/// Loads the chunk that starts at `index` of every input. An input whose `splat` bit is set has the
/// same value in the whole chunk.
#[inline(always)]
unsafe fn load_chunks<X: Element, const N: usize>(
    x: [*const X; N],
    params: &WalkParams,
    index: u32,
) -> [[f32; CHUNK]; N] {
    let mut chunks = [[0.0; CHUNK]; N];
    let mut input = 0;
    while input < N {
        let from = x[input].wrapping_offset(walk::offset(params, input + 1, index));
        let is_splat = (params.splat >> (input + 1)) & 1 == 1;
        // SAFETY: passed on to the caller.
        chunks[input] = unsafe {
            if is_splat {
                [X::load(from); CHUNK]
            } else {
                X::load4(from)
            }
        };
        input += 1;
    }
    chunks
}

/// Applies `f` to a chunk of every input and stores the results from `index` on.
#[inline(always)]
unsafe fn store_chunk<Y: Element, const N: usize>(
    y: *mut Y,
    params: &WalkParams,
    index: u32,
    chunks: [[f32; CHUNK]; N],
    f: &impl Fn([f32; N]) -> f32,
) {
    let of = |j: usize| {
        let mut values = [0.0; N];
        let mut input = 0;
        while input < N {
            values[input] = chunks[input][j];
            input += 1;
        }
        f(values)
    };
    let to = y.wrapping_offset(walk::offset(params, 0, index));
    // SAFETY: passed on to the caller.
    unsafe { Y::store4(to, [of(0), of(1), of(2), of(3)]) }
}
