//! The two passes, for any operation and dtype.

use cuda_std::thread;
use spec::reduce::{ReduceParams, THREADS, WARP_MAX};

use super::ops::Reduction;
use crate::rows::Rows;
use cuda_std::element::Element;

/// Warps of a block.
pub(super) const WARPS: usize = (THREADS / thread::WARP_THREADS) as usize;

/// Where the result of an item goes: partials, or the output where there is one chunk.
pub(super) struct Sink<R: Reduction> {
    pub(super) partials: *mut R::Acc,
    pub(super) out: *mut R::Out,
}

impl<R: Reduction> Sink<R> {
    /// # Safety
    /// `item` is one of the launch, written by one thread.
    #[inline(always)]
    unsafe fn write(&self, item: u64, acc: R::Acc, params: &ReduceParams) {
        // SAFETY: the launch's arrays hold every item.
        unsafe {
            if params.chunks == 1 {
                let result = R::finish(acc, params.n);
                self.out.wrapping_add(item as usize).write(result);
            } else {
                self.partials.wrapping_add(item as usize).write(acc);
            }
        }
    }
}

/// Chunk `chunk` of the axis at outer index o and inner index i, of item `(o, chunk, i)`.
struct Chunk<T> {
    start: *const T,
    first: u64,
    len: u64,
}

impl<T: Element> Chunk<T> {
    #[inline(always)]
    fn new(x: *const T, item: u64, params: &ReduceParams) -> Self {
        let (rest, inner_idx) = (item / params.inner, item % params.inner);
        let (outer_idx, chunk) = (rest / params.chunks, rest % params.chunks);
        let first = chunk * params.chunk_len;
        let offset = (outer_idx as i64)
            .wrapping_mul(params.outer_stride)
            .wrapping_add((first as i64).wrapping_mul(params.axis_stride))
            .wrapping_add((inner_idx as i64).wrapping_mul(params.inner_stride));
        Self {
            start: x.wrapping_offset(offset as isize),
            first,
            len: params.chunk_len.min(params.n - first),
        }
    }

    /// The elements of thread `own` of `threads`.
    #[inline(always)]
    unsafe fn partial<R: Reduction>(&self, axis_stride: i64, own: u64, threads: u64) -> R::Acc {
        let is_vector = axis_stride == 1 && T::is_vector_aligned(self.start);
        let vector_len = if is_vector { self.len & !3 } else { 0 };
        let mut acc = [R::EMPTY; 4];
        let mut i = own * 4;
        while i < vector_len {
            // SAFETY: four elements of the chunk, aligned as just found.
            let x = unsafe { T::load4(self.start.wrapping_add(i as usize)) };
            for j in 0..4 {
                acc[j] = R::push(acc[j], x[j], self.first + i + j as u64);
            }
            i += threads * 4;
        }
        let mut rest = R::merge(R::merge(acc[0], acc[1]), R::merge(acc[2], acc[3]));
        let mut i = vector_len + own;
        while i < self.len {
            let at = self
                .start
                .wrapping_offset(i as isize * axis_stride as isize);
            // SAFETY: an element of the chunk.
            rest = R::push(rest, unsafe { T::load(at) }, self.first + i);
            i += threads;
        }
        rest
    }
}

/// The rows of a launch.
#[inline(always)]
fn by_rows(rows: u64, len: u64) -> Rows {
    Rows {
        rows,
        len,
        warp_max: WARP_MAX,
        threads: u64::from(THREADS),
    }
}

/// Pass 1, the threads of a warp or block share a chunk.
///
/// # Safety
/// The arrays are those of `params`; `scratch` is shared memory for an accumulator a warp.
#[inline(always)]
pub(super) unsafe fn rows<R: Reduction, T: Element>(
    x: *const T,
    sink: &Sink<R>,
    params: &ReduceParams,
    scratch: *mut R::Acc,
) {
    let items = params.outer * params.chunks * params.inner;
    // SAFETY: items of the launch; each is written once.
    unsafe {
        by_rows(items, params.chunk_len.min(params.n)).each(
            scratch,
            R::merge,
            |item, own, threads| {
                Chunk::new(x, item, params).partial::<R>(params.axis_stride, own, threads)
            },
            |item, own, _, total| {
                if own == 0 {
                    sink.write(item, total, params);
                }
            },
        );
    }
}

/// Pass 1, a thread has a chunk.
///
/// # Safety
/// The arrays are those of `params`.
#[inline(always)]
pub(super) unsafe fn columns<R: Reduction, T: Element>(
    x: *const T,
    sink: &Sink<R>,
    params: &ReduceParams,
) {
    for item in thread::grid_stride(params.outer * params.chunks * params.inner) {
        let chunk = Chunk::new(x, item, params);
        let mut acc = R::EMPTY;
        let mut at = chunk.start;
        for i in chunk.first..chunk.first + chunk.len {
            // SAFETY: an element of the chunk; the item is this thread's alone.
            acc = R::push(acc, unsafe { T::load(at) }, i);
            at = at.wrapping_offset(params.axis_stride as isize);
        }
        // SAFETY: as above.
        unsafe { sink.write(item, acc, params) };
    }
}

/// Pass 2: the partials of an output.
///
/// # Safety
/// The arrays are those of `params`; `scratch` is shared memory for an accumulator a warp.
#[inline(always)]
pub(super) unsafe fn partials<R: Reduction>(
    partials: *const R::Acc,
    out: *mut R::Out,
    params: &ReduceParams,
    scratch: *mut R::Acc,
) {
    let partial = |item: u64, own: u64, threads: u64| {
        let (outer_idx, inner_idx) = (item / params.inner, item % params.inner);
        let start = outer_idx * params.chunks * params.inner + inner_idx;
        let mut acc = R::EMPTY;
        let mut chunk = own;
        while chunk < params.chunks {
            let at = partials.wrapping_add((start + chunk * params.inner) as usize);
            // SAFETY: a partial that pass 1 wrote.
            acc = R::merge(acc, unsafe { at.read() });
            chunk += threads;
        }
        acc
    };
    let items = params.outer * params.inner;
    // SAFETY: the caller's arrays and scratch; an output is written once.
    unsafe {
        by_rows(items, params.chunks).each(scratch, R::merge, partial, |item, own, _, total| {
            if own == 0 {
                let result = R::finish(total, params.n);
                out.wrapping_add(item as usize).write(result);
            }
        });
    }
}
