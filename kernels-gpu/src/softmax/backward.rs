//! Gradients of softmax and log-softmax, computed from their results: `dx = y (dy - sum y dy)`, and
//! `dx = dy - exp(y) sum dy`.

use super::partial::Exp;
use crate::row::group::Group;
use crate::row::held::{self, row_of, row_of_mut};
use crate::row::loose::{CHUNK, Loose, staging};
use crate::row::packed::{Packed, Raw, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::{RowParams, flags};
use cuda_std::hint::opaque;
use cuda_std::math::fma;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

/// What one element adds to the row's sum.
#[inline(always)]
fn term(y: f32, dy: f32, is_log: bool) -> f32 {
    if is_log { dy } else { y * dy }
}

/// One element of the result.
#[inline(always)]
fn gradient(y: f32, dy: f32, sum: f32, is_log: bool) -> f32 {
    if is_log {
        fma(-Exp::of_distance(y), sum, dy)
    } else {
        y * (dy - sum)
    }
}

/// What a vector adds to the row's sum.
#[inline(always)]
fn terms<T: Packed, const V: usize>(y: &Raw, dy: &Raw, is_log: bool) -> f32 {
    let (y, dy) = (unpack::<T, V>(y), unpack::<T, V>(dy));
    let mut sum = 0.0;
    let mut i = 0;
    while i < V {
        sum = fma(if is_log { 1.0 } else { y[i] }, dy[i], sum);
        i += 1;
    }
    sum
}

/// A vector of the result. Callers have a branch for each kind: by a choice for each element, a
/// third of a kernel's instructions would be there for the other kind.
#[inline(always)]
fn gradients<T: Packed, const V: usize, const IS_LOG: bool>(y: &Raw, dy: &Raw, sum: f32) -> Raw {
    let (y, mut out) = (unpack::<T, V>(y), unpack::<T, V>(dy));
    let mut i = 0;
    while i < V {
        out[i] = gradient(y[i], out[i], sum, IS_LOG);
        i += 1;
    }
    pack::<T, V>(&out)
}

/// Computes the rows of this block, of which each thread holds `R` vectors; the grid covers all
/// rows.
///
/// # Safety
/// `y`, `dy` and `dx` are tensors of `params`, launched as `abi::rows` says, aligned unless rows may
/// begin at `ANY` address; the rows of `y` and `dy` lie alike then. `scratch` is shared memory for
/// exchanges.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, const V: usize, const R: usize, const ANY: bool>(
    [y, dy]: [*const T; 2],
    dx: *mut T,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let (mut group, row, fragment, ends) =
        unsafe { held::fragment_of::<T, ANY>(y, params, scratch) };
    let is_log = params.flags & flags::LOG != 0;
    // Else ptxas unpacks both vectors ahead, and spills.
    let settle = |vectors| {
        if vectors > 1 {
            // SAFETY: the warp is converged.
            unsafe { bar_warp_sync(FULL_MASK) };
        }
    };
    // SAFETY: a row of both, or nothing; all threads of a row reduce.
    let (mut y, dy, end, sum) = unsafe {
        let rows = (
            row_of(y, row, params.strides[0]),
            row_of(dy, row, params.strides[1]),
        );
        let mut y: [Raw; R] = held::load(ends.inner(rows.0), &fragment, params);
        let mut dy: [Raw; R] = held::load(ends.inner(rows.1), &fragment, params);
        let end = ends.load(rows.0, 0.0).zip(ends.load(rows.1, 0.0));
        let mut of_thread = terms::<T, V>(&y[0], &dy[0], is_log);
        let mut j = 1;
        while j < R {
            settle(R);
            of_thread = f32::from_bits(opaque(of_thread.to_bits()));
            of_thread += terms::<T, V>(&y[j], &dy[j], is_log);
            j += 1;
        }
        of_thread += end.map_or(0.0, |(y, dy)| term(y, dy, is_log));
        let sum = group.reduce_held(of_thread, 0.0, |a, b| a + b);
        held::forget(&mut y);
        held::forget(&mut dy);
        (y, dy, end, sum)
    };
    let to = row_of_mut(dx, row, params.strides[2]);
    let inner = ends.inner_mut(to);
    let mut write = |gradients: fn(&Raw, &Raw, f32) -> Raw| {
        let mut j = 0;
        while j < R {
            let out = gradients(&y[j], &dy[j], sum);
            if ANY {
                y[j] = out;
            } else {
                // SAFETY: a vector of this row of dx, or nothing.
                unsafe { held::store(inner, &fragment, j, out) };
            }
            settle(R);
            j += 1;
        }
    };
    if is_log {
        write(gradients::<T, V, true>);
    } else {
        write(gradients::<T, V, false>);
    }
    if let Some((end_y, end_dy)) = end {
        // SAFETY: this row of dx, or nothing; the warp is converged.
        unsafe {
            ends.store(to, gradient(end_y, end_dy, sum, is_log));
            held::store_all(inner, &fragment, &mut y);
        }
    }
}

/// Computes this thread group's row, of which its blocks have slices.
///
/// # Safety
/// As for [`held`].
#[inline(always)]
pub(super) unsafe fn slices<T: Packed, const V: usize, const ANY: bool>(
    tensors: [*const T; 2],
    dx: *mut T,
    params: &RowParams,
) {
    // SAFETY: the launch's promise; a row of both; all threads come here.
    let thread_group = unsafe { ThreadGroup::<ANY>::fetch(params, 2, tensors) };
    let row = thread_group.row;
    // SAFETY: the rows.
    let end = unsafe {
        let load = |input: usize| {
            let row = row_of(tensors[input], row, params.strides[input]);
            thread_group.ends.load(row, 0.0)
        };
        load(0).zip(load(1))
    };
    thread_group.land();
    let is_log = params.flags & flags::LOG != 0;
    let (y, dy) = (thread_group.slice(0), thread_group.slice(1));
    let mut sum = end.map_or(0.0, |(y, dy)| term(y, dy, is_log));
    // SAFETY: vectors of the slices; all threads of the thread group come here, once.
    let sum = unsafe {
        thread_group.each(|v| sum += terms::<T, V>(&y.read(v), &dy.read(v), is_log));
        thread_group.reduce(sum, |a, b| a + b)
    };
    let to = row_of_mut(dx, row, params.strides[2]);
    // SAFETY: vectors of the slices, and this row of dx; the warp is converged.
    unsafe {
        if let Some((end_y, end_dy)) = end {
            thread_group
                .ends
                .store(to, gradient(end_y, end_dy, sum, is_log));
            // One loop for both, as it is long.
            thread_group.write(to, |v| {
                let (y, dy) = (y.read(v), dy.read(v));
                match is_log {
                    true => gradients::<T, V, true>(&y, &dy, sum),
                    false => gradients::<T, V, false>(&y, &dy, sum),
                }
            });
        } else if is_log {
            thread_group.write(to, |v| {
                gradients::<T, V, true>(&y.read(v), &dy.read(v), sum)
            });
        } else {
            thread_group.write(to, |v| {
                gradients::<T, V, false>(&y.read(v), &dy.read(v), sum)
            });
        }
    }
}

/// Computes all rows of this block, element by element.
///
/// # Safety
/// `y`, `dy` and `dx` are tensors of `params`, launched as `abi::rows` says; `scratch` is shared
/// memory for exchanges.
#[inline(always)]
pub(super) unsafe fn loose<T: Packed>(
    [y, dy]: [*const T; 2],
    dx: *mut T,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let mut group = unsafe { Group::of_block(params, scratch) };
    let is_log = params.flags & flags::LOG != 0;
    let (first, step) = group.rows();
    let mut base = first;
    while base < params.rows {
        let row = base + u64::from(group.index);
        let is_there = row < params.rows;
        let mut y = Loose::new(
            &group,
            row_of(y, row, params.strides[0]),
            params.n,
            is_there,
        );
        let mut dy = Loose::new(
            &group,
            row_of(dy, row, params.strides[1]),
            params.n,
            is_there,
        );
        // SAFETY: rows, and shared memory of the launch, which has room if they are staged.
        let sum = unsafe {
            if params.flags & flags::STAGED != 0 {
                y = y.staged(staging(&group, params.n, 0));
                dy = dy.staged(staging(&group, params.n, 1));
            }
            let add = |sum: f32, y: [f32; CHUNK], dy: [f32; CHUNK]| {
                let mut sum = sum;
                let mut i = 0;
                while i < CHUNK {
                    sum += term(y[i], dy[i], is_log);
                    i += 1;
                }
                sum
            };
            let sum = y.chunks_with(&dy, 0.0, add);
            group.reduce::<_, false>(sum, |a, b| a + b)
        };
        let to = row_of_mut(dx, row, params.strides[2]);
        y.for_each(|i| {
            // SAFETY: an element of all rows.
            unsafe {
                let value = gradient(y.get(i), dy.get(i), sum, is_log);
                T::store(to.wrapping_add(i as usize), value);
            }
        });
        base += step;
    }
}
