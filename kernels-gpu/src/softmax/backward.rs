//! Gradients of softmax and log-softmax, of their results: `dx = y (dy - sum y dy)`, and
//! `dx = dy - exp(y) sum dy`.

use super::partial::Exp;
use crate::row::group::Group;
use crate::row::held::{self, Places, row_of, row_of_mut};
use crate::row::loose::{CHUNK, Loose, place};
use crate::row::packed::{Packed, Raw, pack, unpack};
use cuda_std::math::fma;
use spec::rows::{RowParams, flags};

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

/// The rows of this block or cluster, held in registers; the grid has all rows.
///
/// # Safety
/// `y`, `dy` and `dx` are aligned tensors of `params`, launched as `spec::rows` says; `scratch` is
/// shared memory for exchanges.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, const V: usize, const R: usize>(
    [y, dy]: [*const T; 2],
    dx: *mut T,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let mut group = unsafe { Group::of_cluster(params, scratch) };
    let is_log = params.flags & flags::LOG != 0;
    let row = group.row();
    let places = Places::new::<T>(&group, params.n, row < params.rows);
    // SAFETY: a row of each, or nothing; all threads come here once.
    let (mut y, mut dy): ([Raw; R], [Raw; R]) = unsafe {
        let y = held::load(row_of(y, row, params.strides[0]), &places);
        let dy = held::load(row_of(dy, row, params.strides[1]), &places);
        group.meet();
        (y, dy)
    };
    let mut sum = 0.0;
    let mut j = 0;
    while j < R {
        // Vectors that are not there are 0.
        let (y, dy) = (unpack::<T, V>(&y[j]), unpack::<T, V>(&dy[j]));
        let mut of_vector = 0.0;
        let mut i = 0;
        while i < V {
            of_vector = fma(if is_log { 1.0 } else { y[i] }, dy[i], of_vector);
            i += 1;
        }
        sum += of_vector;
        j += 1;
    }
    // SAFETY: all threads of the row come here.
    let sum = unsafe { group.reduce::<_, true>(sum, |a, b| a + b) };
    held::forget(&mut y);
    held::forget(&mut dy);
    let to = row_of_mut(dx, row, params.strides[2]);
    let mut j = 0;
    while j < R {
        let (y, mut out) = (unpack::<T, V>(&y[j]), unpack::<T, V>(&dy[j]));
        let mut i = 0;
        while i < V {
            out[i] = gradient(y[i], out[i], sum, is_log);
            i += 1;
        }
        // SAFETY: a vector of this row of dx, or nothing.
        unsafe { held::store(to, &places, j, pack::<T, V>(&out)) };
        j += 1;
    }
}

/// All rows of this block, element by element.
///
/// # Safety
/// `y`, `dy` and `dx` are tensors of `params`, launched as `spec::rows` says; `scratch` is shared
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
        // SAFETY: rows, and as much shared memory as the launch gave where they are staged.
        let sum = unsafe {
            if params.flags & flags::STAGED != 0 {
                y = y.staged(place(&group, params.n, 0));
                dy = dy.staged(place(&group, params.n, 1));
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
        y.places(|i| {
            // SAFETY: an element of all rows.
            unsafe {
                let value = gradient(y.get(i), dy.get(i), sum, is_log);
                T::store(to.wrapping_add(i as usize), value);
            }
        });
        base += step;
    }
}
