//! Softmax and log-softmax of rows: in registers, in slices, and element by element.

use super::partial::{Exp, MaxSum};
use super::sums;
use crate::row::group::Group;
use crate::row::held::{self, RowFragment, row_of, row_of_mut};
use crate::row::loose::{Loose, staging};
use crate::row::packed::{Packed, Raw, pack, unpack};
use crate::row::slices::ThreadGroup;
use abi::rows::{RowParams, flags};
use cuda_std::math;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

/// Maximum and sum of exponentials, of the warp's part of a row and of the whole row. `keep` gets
/// the exponentials relative to the part's maximum, with the indices of their vector and in it.
/// `end` is the thread's element of the row's ends, or -inf; `None` if rows have no ends. The sum of the thread's elements of
/// vectors is added to `total`, if there is one.
///
/// # Safety
/// All threads of the row call it.
#[inline(always)]
pub(super) unsafe fn statistics<T: Packed, const V: usize, const R: usize>(
    group: &mut Group,
    fragment: &RowFragment,
    raw: &mut [Raw; R],
    end: Option<f32>,
    mut keep: impl FnMut(usize, usize, f32),
    mut total: Option<&mut f32>,
) -> (MaxSum, MaxSum) {
    // NaN is not a maximum.
    let mut max = end.map_or(f32::NEG_INFINITY, |end| end.max(f32::NEG_INFINITY));
    let mut j = 0;
    while j < R {
        if fragment.has(j) {
            let x = unpack::<T, V>(&raw[j]);
            let mut i = 0;
            while i < V {
                max = max.max(x[i]);
                if let Some(total) = &mut total {
                    **total += x[i];
                }
                i += 1;
            }
        }
        j += 1;
    }
    // SAFETY: passed on to the caller.
    let max = unsafe { group.in_warp(max, &f32::max) };
    // Unpacked elements would take registers from other warps.
    held::forget(raw);
    let exp = Exp::new(max);
    let mut sum = end.map_or(0.0, |end| exp.of(end));
    let mut j = 0;
    while j < R {
        if fragment.has(j) {
            let x = unpack::<T, V>(&raw[j]);
            let mut of_vector = 0.0;
            let mut i = 0;
            while i < V {
                let power = exp.of(x[i]);
                of_vector += power;
                keep(j, i, power);
                i += 1;
            }
            sum += of_vector;
        }
        j += 1;
    }
    // SAFETY: passed on to the caller.
    unsafe {
        let sum = group.in_warp(sum, &|a, b| a + b);
        let part = MaxSum { max, sum };
        let whole = group.across::<_, false>(part, Some(MaxSum::EMPTY), &MaxSum::merge);
        (part, whole)
    }
}

/// The factor and the addend that turn the values of `part` into results for `whole`.
#[inline(always)]
fn finish(part: MaxSum, whole: MaxSum, is_log: bool) -> (f32, f32) {
    if is_log {
        (
            1.0,
            Exp::new(part.max).base() - whole.max - math::log(whole.sum),
        )
    } else {
        (share(part, whole), 0.0)
    }
}

/// The factor that turns exponentials of `part` into probabilities of `whole`.
#[inline(always)]
pub(super) fn share(part: MaxSum, whole: MaxSum) -> f32 {
    Exp::new(whole.max).of(part.max) / whole.sum
}

/// Computes the rows of this block, held in registers; the grid covers all rows.
///
/// # Safety
/// `x` and `y` are tensors of `params`, launched as `abi::rows` says, aligned unless rows may begin
/// at `ANY` address; `scratch` is shared memory for exchanges.
#[inline(always)]
pub(super) unsafe fn held<T: Packed, const V: usize, const R: usize, const ANY: bool>(
    x: *const T,
    y: *mut T,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let (mut group, row, fragment, ends) =
        unsafe { held::fragment_of::<T, ANY>(x, params, scratch) };
    let is_log = params.flags & flags::LOG != 0;
    let from = row_of(x, row, params.strides[0]);
    // SAFETY: a row of x, or nothing.
    let (mut raw, end): ([Raw; R], _) = unsafe {
        let raw = held::load(ends.inner(from), &fragment, params);
        (raw, ends.load(from, f32::NEG_INFINITY))
    };
    // SAFETY: all threads of the row come here.
    let (part, whole) =
        unsafe { statistics::<T, V, R>(&mut group, &fragment, &mut raw, end, |_, _, _| {}, None) };
    held::forget(&mut raw);
    let (factor, addend) = finish(part, whole, is_log);
    let exp = Exp::new(part.max);
    let value = |x: f32| {
        // Computed again, which takes fewer registers, and so lets an SM have more rows.
        let distance = exp.distance(x);
        let value = match is_log {
            true => distance,
            false => Exp::of_distance(distance),
        };
        math::fma(value, factor, addend)
    };
    let to = row_of_mut(y, row, params.strides[1]);
    let inner = ends.inner_mut(to);
    let mut j = 0;
    while j < R {
        let out = pack::<T, V>(&unpack::<T, V>(&raw[j]).map(value));
        // SAFETY: a vector of this row of y, or nothing; the warp is converged.
        unsafe {
            if ANY {
                raw[j] = out;
            } else {
                held::store(inner, &fragment, j, out);
            }
            // Else ptxas unpacks several vectors ahead, and spills.
            bar_warp_sync(FULL_MASK);
        }
        j += 1;
    }
    if let Some(end) = end {
        // SAFETY: this row of y, or nothing; the warp is converged.
        unsafe {
            ends.store(to, value(end));
            held::store_all(inner, &fragment, &mut raw);
        }
    }
}

/// Computes this thread group's row, of which its blocks have slices.
///
/// # Safety
/// As for [`held`].
#[inline(always)]
pub(super) unsafe fn slices<T: Packed, const V: usize, const ANY: bool>(
    x: *const T,
    y: *mut T,
    params: &RowParams,
) {
    // SAFETY: the launch's promise; a row of x; all threads come here.
    let (thread_group, end) = unsafe { ThreadGroup::<ANY>::fetch_parts(params, x) };
    let slice = thread_group.slice(0);
    // SAFETY: all threads of the thread group come here, once.
    let whole = unsafe { sums::statistics::<T, V, ANY>(&thread_group, slice, end, params, false) };
    let to = row_of_mut(y, thread_group.row, params.strides[1]);
    let is_log = params.flags & flags::LOG != 0;
    if let Some(end) = end {
        // One loop for both, as it is long.
        let (log_sum, share) = (math::log(whole.sum_about_max()), 1.0 / whole.sum);
        let of = |x: f32| x - whole.max - log_sum;
        let powers = |x: f32| whole.powers.of(x) * share;
        // SAFETY: the slice has landed; the row is the thread group's; the warp is converged.
        unsafe {
            thread_group
                .ends
                .store(to, if is_log { of(end) } else { powers(end) });
            thread_group.write(to, |v| {
                let x = unpack::<T, V>(&slice.read(v));
                pack::<T, V>(&if is_log { x.map(of) } else { x.map(powers) })
            });
        }
        return;
    }
    if is_log {
        let log_sum = math::log(whole.sum_about_max());
        // SAFETY: the slice has landed; the row is the thread group's.
        unsafe { write::<T, V, ANY>(&thread_group, to, |x| x - whole.max - log_sum) };
    } else {
        let share = 1.0 / whole.sum;
        // SAFETY: the slice has landed; the row is the thread group's.
        unsafe { write::<T, V, ANY>(&thread_group, to, |x| whole.powers.of(x) * share) };
    }
}

/// Writes a function of this thread group's row, of which its blocks have slices.
///
/// # Safety
/// The slices have landed; the row at `to` is writable; the warp is converged.
#[inline(always)]
unsafe fn write<T: Packed, const V: usize, const ANY: bool>(
    thread_group: &ThreadGroup<ANY>,
    to: *mut T,
    f: impl Fn(f32) -> f32,
) {
    let slice = thread_group.slice(0);
    // SAFETY: vectors of the slice, and the row.
    unsafe {
        thread_group.write(to, |v| {
            let x = unpack::<T, V>(&slice.read(v));
            pack::<T, V>(&x.map(&f))
        });
    }
}

/// Computes all rows of this block, element by element.
///
/// # Safety
/// `x` and `y` are tensors of `params`, launched as `abi::rows` says; `scratch` is shared memory
/// for exchanges.
#[inline(always)]
pub(super) unsafe fn loose<T: Packed>(
    x: *const T,
    y: *mut T,
    params: &RowParams,
    scratch: *mut u32,
) {
    // SAFETY: the launch's promise.
    let mut group = unsafe { Group::of_block(params, scratch) };
    let (first, step) = group.rows();
    let mut base = first;
    while base < params.rows {
        let row = base + u64::from(group.index);
        let from = row_of(x, row, params.strides[0]);
        let mut from = Loose::new(&group, from, params.n, row < params.rows);
        // SAFETY: the row, and shared memory of the launch, which has room for it if it is staged.
        let whole = unsafe {
            if params.flags & flags::STAGED != 0 {
                from = from.staged(staging(&group, params.n, 0));
            }
            let push = |state: MaxSum, values, _| state.push(values);
            let part = from.chunks(MaxSum::EMPTY, f32::NEG_INFINITY, push);
            group.reduce::<_, false>(part, MaxSum::merge)
        };
        let to = row_of_mut(y, row, params.strides[1]);
        let exp = Exp::new(whole.max);
        let (log_sum, share) = (math::log(whole.sum), 1.0 / whole.sum);
        let is_log = params.flags & flags::LOG != 0;
        from.for_each(|i| {
            // SAFETY: an element of both rows.
            unsafe {
                let x = from.get(i);
                let value = match is_log {
                    true => x - whole.max - log_sum,
                    false => exp.of(x) * share,
                };
                T::store(to.wrapping_add(i as usize), value);
            }
        });
        base += step;
    }
}
